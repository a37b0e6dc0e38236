"""Where a store stands: how many cells, of what, which diverged or failed, and what it takes on disk."""

from __future__ import annotations

import json
from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

from farfield._checks import checked_folder
from farfield.cell_text import parts_text
from farfield.identity import DATA_VERSION, identity_of, model_of, setting_of
from farfield.store import manifest
from farfield.store.cell_file import StoredCell
from farfield.store.folder import Contents, Listing, listing, read_cells, require_store


class StatusGroup(NamedTuple):
    """Cells of one encoding and task.

    Attributes:
        encoding, task: as a user writes them.
        settings: how many configurations without seeds.
        cells: how many finished.
        diverged: how many of them ended in a loss that is not a number.
        failed: how many more could not be finished.
    """

    encoding: str
    task: str
    settings: int
    cells: int
    diverged: int
    failed: int


class Identical(NamedTuple):
    """Cells of one setting whose weights and counts agree bit for bit, which different seeds never do."""

    encoding: str
    task: str
    cells: list[str]


class Asked(NamedTuple):
    """What the study that was run last in a folder asks for.

    Attributes:
        name: of the study.
        budget: of that run; None for the study's own settings.
        wanted: cells.
        finished: of them, with whole files.
        others: whole cells of the folder that are none of them.
    """

    name: str
    budget: str | None
    wanted: int
    finished: int
    others: int


@dataclass(frozen=True)
class StoreStatus:
    """Where a store stands.

    Attributes:
        folder: of the store.
        groups: by encoding and task.
        older: finished cells of older data versions, which no study reads; counted in the groups.
        damaged: files of cells that a run which wants them runs again, with the reason.
        foreign: files that hold another cell than their name says, with the reason; nothing reads them.
        asked: of the study that was run here last; None where nothing says so.
        failures: why cells could not be finished, by identity.
        identical: seeds that are no different seeds.
        made_by: cells by version of farfield, jax and platform.
        writing: files being written, or left half-written.
        bytes: of all files.
    """

    folder: Path
    groups: list[StatusGroup]
    older: int
    damaged: dict[str, str]
    foreign: dict[str, str]
    asked: Asked | None
    failures: dict[str, str]
    identical: list[Identical]
    made_by: dict[str, int]
    writing: int
    bytes: int

    @property
    def cells(self) -> int:
        """Finished cells."""
        return sum(group.cells for group in self.groups)

    @property
    def diverged(self) -> int:
        """Those of them that ended in a loss that is not a number."""
        return sum(group.diverged for group in self.groups)

    def to_json(self) -> dict[str, Any]:
        """As a JSON-able object."""
        numbers = {"cells": self.cells, "diverged": self.diverged, "failed": len(self.failures), "older": self.older}
        return {
            "folder": str(self.folder),
            **numbers,
            "study": self.asked and self.asked._asdict(),
            "damaged": self.damaged,
            "foreign": self.foreign,
            "failures": self.failures,
            "identical": [group._asdict() for group in self.identical],
            "groups": [group._asdict() for group in self.groups],
            "made_by": self.made_by,
            "writing": self.writing,
            "bytes": self.bytes,
        }


def status(folder: Path | str, read: tuple[Listing, Contents] | None = None) -> StoreStatus:
    """Return where a store stands. Tensors are not read: :func:`farfield.store.verify.verify` reads everything.

    Args:
        folder: of the store.
        read: names and contents of its files, where they have been read already.

    Raises:
        FarfieldError: if the folder does not exist or cannot be read.
    """
    folder = checked_folder("folder", folder)
    found = listing(folder) if read is None else read[0]
    require_store(folder, found)
    contents = read_cells(folder, found) if read is None else read[1]
    cells = contents.cells
    there = {cell.identity for cell in cells}
    failures = {
        identity: failure(folder / f"{identity}.failed.json")
        for identity in found.failures if identity not in there
    }  # fmt: skip
    faults = {
        kind: {path.name: fault.what for path, fault in contents.faults.items() if fault.kind == kind}
        for kind in ("damaged", "foreign")
    }
    settings = {cell.identity: setting_of(cell.config) for cell in cells}
    return StoreStatus(
        folder=folder,
        groups=_groups(cells, settings, Counter(_names(parts_text(config)) for _, config in failures.values())),
        older=sum(cell.data_version != DATA_VERSION for cell in cells),
        damaged=faults["damaged"] | contents.incomplete,
        foreign=faults["foreign"],
        asked=_asked(folder, there - {name[:16] for name in contents.incomplete}),
        failures={identity: reason for identity, (reason, _) in failures.items()},
        identical=_identical(cells, settings),
        made_by=dict(Counter(_made_by(cell.versions) for cell in cells).most_common()),
        writing=len(found.writing),
        bytes=found.size,
    )


def _asked(folder: Path, whole: set[str]) -> Asked | None:
    wanted = manifest.wanted(folder)
    if wanted is None:
        return None
    cells = {*wanted.cells}
    return Asked(wanted.name, wanted.budget, len(cells), len(cells & whole), len(whole - cells))


def _made_by(versions: Mapping[str, str]) -> str:
    farfield, jax, platform = (versions.get(name, "?") for name in ("farfield", "jax", "platform"))
    return f"farfield {farfield}, jax {jax}, {platform}"


def _identical(cells: Sequence[StoredCell], settings: Mapping[str, str]) -> list[Identical]:
    groups: dict[tuple[str, str], list[StoredCell]] = defaultdict(list)
    for cell in sorted(cells, key=lambda cell: cell.config.get("seed", 0)):
        groups[settings[cell.identity], cell.tensors.sha256].append(cell)
    return sorted(
        Identical(*_names(group[0].parts), [cell.identity for cell in group])
        for group in groups.values()
        # Tests of one model by several seeds may well agree.
        if len({model_of(cell.config) for cell in group}) > 1
    )


def _names(parts: Mapping[str, str]) -> tuple[str, str]:
    return parts.get("encoding", "?"), parts.get("task", "?")


def _groups(
    cells: Sequence[StoredCell], settings: Mapping[str, str], failed: Counter[tuple[str, str]]
) -> list[StatusGroup]:
    groups: dict[tuple[str, str], list[StoredCell]] = {names: [] for names in failed}
    for cell in cells:
        groups.setdefault(_names(cell.parts), []).append(cell)
    return [
        StatusGroup(
            *names,
            settings=len({settings[cell.identity] for cell in group}),
            cells=len(group),
            diverged=sum(cell.diverged for cell in group),
            failed=failed[names],
        )
        for names, group in sorted(groups.items())
    ]


# Stands for a record of a failure that cannot be read.
UNREADABLE = "a record that cannot be read", {"encoding": "?", "task": "?"}


def failure(path: Path) -> tuple[str, dict[str, Any]]:
    """Why a cell failed, and its configuration; :data:`UNREADABLE` where its record is not one of the cell it names."""
    try:
        told = json.loads(path.read_text(encoding="utf-8"))
        reason, config, identity = told["reason"], dict(told["config"]), path.name.partition(".")[0]
        named = all(isinstance(config[part]["name"], str) for part in ("encoding", "task"))
        known = told["identity"] == identity and identity_of(config) == identity
    except (OSError, ValueError, KeyError, TypeError, RecursionError):
        return UNREADABLE
    return (reason, config) if known and named and isinstance(reason, str) else UNREADABLE
