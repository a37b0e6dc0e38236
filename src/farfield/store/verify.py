"""Reading every file of a store: what is damaged, foreign, double or left over, and what to do about it."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

from farfield._checks import checked_folder
from farfield.identity import DATA_VERSION
from farfield.store import checkpoints, manifest
from farfield.store.cell_file import OTHER_BYTES, TENSORS, StoredCell
from farfield.store.files import TEMPORARY, abandoned, writer_of
from farfield.store.folder import RECORD, Contents, Listing, listing, read_cells, require_store
from farfield.store.status import UNREADABLE, failure

RERUN = "run the study again: its cell is run again and the file replaced"
REMOVE = "nothing reads it: remove it, unless it is yours to keep"


class Finding(NamedTuple):
    """One file that is damaged, unexpected or worth mentioning.

    Attributes:
        file: its name in the store's folder.
        kind: ``damaged``, ``foreign``, ``duplicate``, ``orphan``, ``unknown``, ``leftover``, ``writing`` or ``older``.
        wrong: whether something is wrong; else it is mentioned for completeness.
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
    """What reading every file of a store found.

    Attributes:
        folder: of the store.
        cells: finished cells whose files are whole, of the current data version.
        older: the same of older data versions.
        files: files read.
        findings: everything worth mentioning, what is wrong first.
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
        """Return a JSON-able object."""
        plain = {"folder": str(self.folder), "sound": self.sound, "cells": self.cells, "older": self.older}
        return plain | {"files": self.files, "findings": [finding._asdict() for finding in self.findings]}


def verify(folder: Path | str) -> Verified:
    """Read every file of a store whole and compare it with its name and with the file that names it.

    One changed byte of a cell's files is found. Records of failures and of the study hold no hash. Nothing is changed.
    A cell that is finished while this reads may be missed, but is not called wrong.

    Raises:
        FarfieldError: if the folder does not exist, cannot be read, or holds other files and none of a store.
    """
    folder = checked_folder("folder", folder)
    found = listing(folder)
    require_store(folder, found)
    contents = read_cells(folder, found)
    bad = {
        cell.tensors.file: finding
        for cell in (*contents.cells, *contents.duplicates) for finding in _tensors_of(folder, found, cell)
    }  # fmt: skip
    whole = [cell for cell in contents.cells if cell.tensors.file not in bad]
    identities = {cell.identity for cell in contents.cells}
    findings = [
        *bad.values(),
        *_cells(contents, identities),
        *_older(whole),
        *_unnamed_tensors(folder, found, contents, identities),
        *_failures(folder, found, identities),
        *_others(folder, found),
        *_checkpoints(folder),
    ]
    findings.sort(key=lambda finding: (not finding.wrong, finding.kind, finding.file))
    older = sum(cell.data_version != DATA_VERSION for cell in whole)
    files = found.files + len(checkpoints.leftovers(folder))
    return Verified(folder, len(whole) - older, older, files, findings)


def _tensors_of(folder: Path, found: Listing, cell: StoredCell) -> Iterator[Finding]:
    """Find the tensors of a cell missing or changed."""
    name, _, wanted = cell.tensors
    size = found.tensors.get(name)
    if size is None and not (folder / name).exists():
        what = f"is missing, though {cell.file} names it"
    elif size is not None and size < wanted:
        what = f"is cut off: {size} of {wanted} bytes"
    elif _hash_of_file(folder / name) != cell.tensors.sha256:
        what = OTHER_BYTES
    else:
        return
    yield Finding(name, "damaged", True, what, RERUN)


def _cells(contents: Contents, identities: set[str]) -> Iterator[Finding]:
    """Find JSON files that are left out, and those of cells that have another one."""
    for path, fault in contents.faults.items():
        if fault.kind == "foreign":
            mend = "it was renamed or copied from elsewhere: remove it"
        else:
            mend = "another file holds the cell: remove it" if path.name[:16] in identities else RERUN
        yield Finding(path.name, fault.kind, True, fault.what, mend)
    files = {cell.identity: cell.file for cell in contents.cells}
    for cell in contents.duplicates:
        what = f"a second result of a finished cell, of which {files[cell.identity]} is read"
        yield Finding(cell.file, "duplicate", False, what, "two processes ran the cell: it may be removed")


def _older(cells: list[StoredCell]) -> Iterator[Finding]:
    for cell in cells:
        if cell.data_version != DATA_VERSION:
            what = f"made under data version {cell.data_version}, now {DATA_VERSION}"
            mend = "no study reads it any more: keep it as a record or remove it with its tensors"
            yield Finding(cell.file, "older", False, what, mend)


def _unnamed_tensors(folder: Path, found: Listing, contents: Contents, identities: set[str]) -> Iterator[Finding]:
    """Find tensors that no JSON file names."""
    named = {cell.tensors.file for cell in (*contents.cells, *contents.duplicates)}
    for name in sorted(found.tensors.keys() - named):
        match = TENSORS.fullmatch(name)
        assert match is not None
        identity, digits = match.groups()
        if identity not in found.cells and any(folder.glob(f"{identity}-*.json")):
            continue  # finished just now
        sha256 = _hash_of_file(folder / name)
        if sha256 is None:
            continue  # replaced just now
        if not sha256.startswith(digits):
            what = "tensors that no cell names and whose bytes are not those of its name: cut off, or a renamed copy"
            yield Finding(name, "foreign", True, what, REMOVE)
        elif identity in identities:
            what = "whole tensors that no cell names, of a cell that is finished with others"
            yield Finding(name, "orphan", False, what, "it may be removed")
        else:
            what = f"whole tensors, but no readable {identity}-….json: lost, or its writer was stopped in between"
            mend = "run the study again: it finishes the cell, or leaves the file to be removed"
            yield Finding(name, "orphan", False, what, mend)


def _failures(folder: Path, found: Listing, identities: set[str]) -> Iterator[Finding]:
    for identity in sorted(found.failures):
        name = f"{identity}.failed.json"
        if failure(folder / name) == UNREADABLE:
            if not (folder / name).exists():
                continue  # finished just now
            yield Finding(name, "damaged", True, "a record of a failure that cannot be read", REMOVE)
        elif identity in identities:
            yield Finding(name, "leftover", False, "the cell has been finished since", "it may be removed")


def _others(folder: Path, found: Listing) -> Iterator[Finding]:
    if manifest.owner(folder) == "":
        yield Finding(RECORD, "damaged", True, "names no study that asked for the cells", manifest.ANEW)
    for name in sorted(found.writing):
        yield from _half_written(folder, name)
    for name in sorted(found.other):
        yield Finding(name, "unknown", True, _unknown(folder / name), REMOVE)


def _unknown(path: Path) -> str:
    """Return what a name is that no store gives."""
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


def _hash_of_file(path: Path) -> str | None:
    """Return the SHA-256 of a file; None if it is gone or unreadable."""
    try:
        with path.open("rb") as file:
            return hashlib.file_digest(file, "sha256").hexdigest()
    except OSError:
        return None
