"""Looking through every file of a store: what is damaged, foreign, double or left over, and what to do about it."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

from farfield._checks import checked_folder
from farfield.identity import DATA_VERSION, data_version_of
from farfield.store import checkpoints, index, manifest
from farfield.store.files import TEMPORARY, abandoned, writer_of
from farfield.store.index import Listing
from farfield.store.shards import TENSORS, Shard, read_shards, tensors_name
from farfield.store.status import UNREADABLE, failure

RERUN = "run the study again: its cell is run again and the file replaced"
REMOVE = "nothing reads it: remove it, unless it is yours to keep"


class Finding(NamedTuple):
    """One file that is not as it should be, or that deserves a word.

    Attributes:
        file: its name in the store's folder.
        kind: ``damaged``, ``foreign``, ``duplicate``, ``orphan``, ``unknown``, ``leftover``, ``writing``, ``older`` or
            ``index``.
        wrong: whether something is wrong; else it is said for completeness.
        what: what it is.
        mend: what to do.
    """

    file: str
    kind: str
    wrong: bool
    what: str
    mend: str


@dataclass(frozen=True)
class Verified:
    """What looking through a store found.

    Attributes:
        folder: of the store.
        cells: finished cells whose files are whole, of the current data version.
        older: the same of older data versions.
        files: files looked at.
        findings: everything worth a word, what is wrong first.
    """

    folder: Path
    cells: int
    older: int
    files: int
    findings: list[Finding]

    @property
    def sound(self) -> bool:
        """Whether nothing is wrong."""
        return not any(finding.wrong for finding in self.findings)

    def to_json(self) -> dict[str, Any]:
        """As a JSON-able object."""
        plain = {"folder": str(self.folder), "sound": self.sound, "cells": self.cells, "older": self.older}
        return plain | {"files": self.files, "findings": [finding._asdict() for finding in self.findings]}


def verify(folder: Path | str) -> Verified:
    """Read every file of a store whole and compare it with what its name and its sibling say.

    One changed byte of a shard or of tensors is found; of early shards, only if it changes what they say. Records of
    failures and of the study hold no checksum. Nothing is changed. A cell that is finished while this looks may be
    missed, but is not called wrong.

    Raises:
        FarfieldError: if there is no such folder, it cannot be read, or it holds other files and none of a store.
    """
    folder = checked_folder("folder", folder)
    found = index.listing(folder)
    index.require_store(folder, found)
    shards: dict[str, Shard] = {}
    findings: list[Finding] = []
    for path, shard in read_shards([folder / f"{identity}.parquet" for identity in sorted(found.shards)]):
        if isinstance(shard, Shard):
            shards[shard.identity] = shard
        elif path.exists():
            mend = RERUN if shard.kind == "damaged" else "it was renamed or copied from elsewhere: remove it"
            findings.append(Finding(path.name, shard.kind, True, shard.what, mend))
    incomplete = [*_siblings(folder, found, shards)]
    findings += incomplete
    findings += _tensors(folder, found, shards, {finding.file for finding in incomplete})
    findings += _failures(folder, found, shards)
    findings += _record(folder)
    findings += _others(folder, found)
    findings += _indexes(folder)
    findings += _checkpoints(folder)
    lost = {finding.file.partition("-")[0] for finding in incomplete}
    versions = {
        identity: data_version_of(shard.config, identity) for identity, shard in shards.items() if identity not in lost
    }
    findings += [
        Finding(f"{identity}.parquet", "older", False, f"made under data version {version}, now {DATA_VERSION}",
                "no study reads it any more: keep it as a record or remove it with its tensors")
        for identity, version in versions.items() if version != DATA_VERSION
    ]  # fmt: skip
    current = sum(version == DATA_VERSION for version in versions.values())
    files = sum(map(len, found[:-1])) + len(index.indexes(folder)) + len(checkpoints.leftovers(folder))
    findings.sort(key=lambda finding: (not finding.wrong, finding.kind, finding.file))
    return Verified(folder, current, len(versions) - current, files, findings)


def _siblings(folder: Path, found: Listing, shards: dict[str, Shard]) -> Iterator[Finding]:
    """Tensors that a shard names: missing or changed."""
    for shard in shards.values():
        name = tensors_name(shard.identity, shard.tensors_sha256)
        size = found.tensors.get(name)
        if size is None and not (folder / name).exists():
            yield Finding(name, "damaged", True, f"is missing, though {shard.identity}.parquet names it", RERUN)
        elif shard.tensors_bytes is not None and size is not None and size < shard.tensors_bytes:
            what = f"is cut off: {size} of {shard.tensors_bytes} bytes"
            yield Finding(name, "damaged", True, what, RERUN)
        elif _checksum(folder / name) != shard.tensors_sha256:
            yield Finding(name, "damaged", True, "holds other bytes than were written", RERUN)


def _tensors(folder: Path, found: Listing, shards: dict[str, Shard], known: set[str]) -> Iterator[Finding]:
    """Tensors that no shard names."""
    named = {tensors_name(shard.identity, shard.tensors_sha256) for shard in shards.values()}
    for name in sorted(found.tensors.keys() - named - known):
        match = TENSORS.fullmatch(name)
        assert match is not None
        identity, checksum = match.groups()
        if (folder / f"{identity}.parquet").exists() and identity not in found.shards:
            continue  # finished just now
        content = _checksum(folder / name)
        if content is None:
            continue  # replaced just now
        if not content.startswith(checksum):
            what = "tensors that no shard names and whose bytes are not those of its name: cut off, or a renamed copy"
            yield Finding(name, "foreign", True, what, REMOVE)
        elif identity in shards:
            what = f"a second set of tensors of a finished cell: {identity}.parquet names another"
            yield Finding(name, "duplicate", False, what, "two processes ran the cell at once: it may be removed")
        else:
            what = f"whole tensors, but no readable {identity}.parquet: lost, or its writer was stopped in between"
            yield Finding(
                name,
                "orphan",
                False,
                what,
                "run the study again: it finishes the cell, or leaves the file to be removed",
            )


def _failures(folder: Path, found: Listing, shards: dict[str, Shard]) -> Iterator[Finding]:
    for identity in sorted(found.failures):
        name = f"{identity}.failed.json"
        if failure(folder / name) == UNREADABLE:
            if not (folder / name).exists():
                continue  # finished just now
            yield Finding(name, "damaged", True, "a record of a failure that cannot be read", REMOVE)
        elif identity in shards:
            yield Finding(name, "leftover", False, "the cell has been finished since", "it may be removed")


def _record(folder: Path) -> Iterator[Finding]:
    if manifest.owner(folder) == "":
        yield Finding(index.RECORD, "damaged", True, "names no study that asked for the cells", manifest.ANEW)


def _others(folder: Path, found: Listing) -> Iterator[Finding]:
    for name in sorted(found.writing):
        yield from _half_written(folder, name)
    for name in sorted(found.other):
        yield Finding(name, "unknown", True, _unknown(folder / name), REMOVE)


def _unknown(path: Path) -> str:
    """What a name is that no store gives."""
    if path.is_symlink() and not path.exists():
        return "a link that leads nowhere"
    return "a folder that no store makes" if path.is_dir() else "a file that no store writes"


def _half_written(folder: Path, name: str) -> Iterator[Finding]:
    path = folder / name
    if not path.exists():
        return
    writer = writer_of(path)
    if writer is None:
        yield Finding(name, "unknown", True, "half-written, but named as no store names it", REMOVE)
    elif abandoned(path):
        what = f"half-written by process {writer[1]}, which is gone"
        yield Finding(name, "leftover", False, what, "the next run removes it")
    else:
        what = f"being written by process {writer[1]} on {writer[0]}"
        yield Finding(name, "writing", False, what, "if that no longer runs, remove it")


def _indexes(folder: Path) -> Iterator[Finding]:
    for path in index.indexes(folder):
        name = f"{index.FOLDER}/{path.name}"
        try:
            sound = index.whole(path)
        except OSError:
            continue
        if not sound:
            what = "a part of the index whose bytes are not those of its name; nothing reads it"
            yield Finding(name, "damaged", True, what, "remove it: it is derived from the other files")


def _checkpoints(folder: Path) -> Iterator[Finding]:
    for path in checkpoints.leftovers(folder):
        name = f"{checkpoints.FOLDER}/{path.name}"
        if path.name.endswith(TEMPORARY):
            yield from _half_written(folder, name)
            continue
        try:
            sound = checkpoints.whole(path)
        except OSError:
            if path.is_dir():
                yield Finding(name, "unknown", True, "a folder that no store makes", REMOVE)
            continue
        if not sound:
            what = "training under way whose bytes are not those of its name; nothing reads it"
            yield Finding(name, "damaged", True, what, "remove it: that training begins anew")


def _checksum(path: Path) -> str | None:
    """SHA-256 of a file; None if it is gone or unreadable."""
    try:
        with path.open("rb") as file:
            return hashlib.file_digest(file, "sha256").hexdigest()
    except OSError:
        return None
