"""Where a store stands: how many cells, of what, which diverged or failed, and what it takes on disk."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

from farfield._checks import checked_folder
from farfield.identity import DATA_VERSION, identity_of
from farfield.store import manifest
from farfield.store.folder import require_store
from farfield.store.reader import OpenStore


class Group(NamedTuple):
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
class Standing:
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
    groups: list[Group]
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


def standing(folder: Path | str, store: OpenStore | None = None) -> Standing:
    """Where a store stands. Tensors are not read: :func:`farfield.store.verify.verify` reads everything.

    Args:
        store: of that folder, where it is open already.

    Raises:
        FarfieldError: if there is no such folder, or it cannot be read.
    """
    folder = checked_folder("folder", folder)
    store = OpenStore(folder) if store is None else store
    require_store(folder, store.listing)
    damaged = {path.name: fault.what for path, fault in store.faults.items() if fault.kind == "damaged"}
    foreign = {path.name: fault.what for path, fault in store.faults.items() if fault.kind == "foreign"}
    damaged |= store.incomplete
    there = {identity for (identity,) in store.rows("SELECT identity FROM cells").rows}
    failures = {
        identity: told for identity in store.listing.failures if identity not in there
        for told in [failure(folder / f"{identity}.failed.json")]
    }  # fmt: skip
    return Standing(
        folder=folder,
        groups=_groups(store, [config for _, config in failures.values()]),
        older=store.rows(f"SELECT COUNT(*) FROM cells WHERE data_version <> {DATA_VERSION}").rows[0][0],
        damaged=damaged,
        foreign=foreign,
        asked=_asked(folder, there - {name[:16] for name in store.incomplete}),
        failures={identity: reason for identity, (reason, _) in failures.items()},
        identical=[Identical(*row) for row in store.rows(_IDENTICAL).rows],
        made_by=dict(store.rows(_MADE_BY).rows),
        writing=len(store.listing.writing),
        bytes=store.listing.size,
    )


def _asked(folder: Path, whole: set[str]) -> Asked | None:
    wanted = manifest.wanted(folder)
    if wanted is None:
        return None
    cells = {*wanted.cells}
    return Asked(wanted.name, wanted.budget, len(cells), len(cells & whole), len(whole - cells))


# Tests of one model by several seeds may well agree.
_IDENTICAL = """
    SELECT ANY_VALUE(encoding), ANY_VALUE(task), LIST(identity ORDER BY seed) FROM cells
    GROUP BY setting, tensors_sha256 HAVING COUNT(DISTINCT (seed, data_seed)) > 1 ORDER BY ALL
"""
_MADE_BY = """
    SELECT concat('farfield ', json_extract_string(versions, 'farfield'), ', jax ',
      json_extract_string(versions, 'jax'), ', ', platform), COUNT(*) FROM cells GROUP BY 1 ORDER BY 2 DESC
"""


def _groups(store: OpenStore, failed: list[dict[str, Any]]) -> list[Group]:
    query = (
        "SELECT encoding, task, COUNT(DISTINCT setting), COUNT(*), CAST(SUM(diverged::INT) AS INT) FROM cells "
        "GROUP BY encoding, task"
    )
    groups = {(row[0], row[1]): Group(*row, failed=0) for row in store.rows(query).rows}
    if failed:
        from farfield.store.tables import describe

        for config in failed:
            about = describe("", config, {})
            key = about["encoding"], about["task"]
            group = groups.get(key, Group(*key, settings=0, cells=0, diverged=0, failed=0))
            groups[key] = group._replace(failed=group.failed + 1)
    return [groups[key] for key in sorted(groups)]


# Stands for what an unreadable record does not say.
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
