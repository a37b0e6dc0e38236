"""The files in a store's folder: their names, and the finished cells among them."""

from __future__ import annotations

import os
import re
import stat
from pathlib import Path
from typing import NamedTuple

from farfield._checks import absolute
from farfield.errors import FarfieldError
from farfield.store import checkpoints
from farfield.store.cell_file import CELL, TENSORS, Fault, StoredCell, read
from farfield.store.files import TEMPORARY

# Names that a study and its report give by themselves.
RECORD, PAGE, FIGURES = "study.json", "report.html", "report"
FAILURE = re.compile(r"([0-9a-f]{16})\.failed\.json")


class Listing(NamedTuple):
    """The names in a store's folder.

    Attributes:
        cells: names of JSON files, by identity: one, or several that computed different digits.
        tensors: size of every file of tensors, by name.
        failures: identities of cells that failed.
        writing: files that are being written, or were left half-written.
        other: names that no store gives, links that lead nowhere, and what is not a file.
        size: bytes of all files.
    """

    cells: dict[str, list[str]]
    tensors: dict[str, int]
    failures: list[str]
    writing: list[str]
    other: list[str]
    size: int

    @property
    def files(self) -> int:
        """How many files there are."""
        names = (*self.cells.values(), self.tensors, self.failures, self.writing, self.other)
        return sum(map(len, names))


class Contents(NamedTuple):
    """The finished cells of a store.

    Attributes:
        cells: one of each identity, in their order.
        duplicates: further files of the same identities, which nothing reads.
        faults: files of cells that are left out, with the reason, by path.
        incomplete: files of tensors that are missing or of another size than was written, with the reason, by name.
    """

    cells: list[StoredCell]
    duplicates: list[StoredCell]
    faults: dict[Path, Fault]
    incomplete: dict[str, str]


def listing(folder: Path) -> Listing:
    """List a store's folder (FarfieldError if it does not exist, cannot be read or has no name in UTF-8)."""
    found = Listing({}, {}, [], [], [], 0)
    size = 0
    try:
        with os.scandir(absolute(folder)) as entries:
            for entry in entries:
                try:
                    status = entry.stat()
                except OSError as reason:  # a link that leads nowhere, or a file replaced in this instant
                    if entry.is_symlink() or not isinstance(reason, FileNotFoundError):
                        found.other.append(entry.name)
                    continue
                if stat.S_ISREG(status.st_mode):
                    size += status.st_size
                    _sort(found, entry.name, status.st_size)
                elif not entry.is_dir() or entry.name not in (FIGURES, checkpoints.FOLDER):
                    found.other.append(entry.name)
    except FileNotFoundError:
        raise FarfieldError(
            f"there is no folder {folder}: name one that a study or `farfield train --out` wrote"
        ) from None
    except NotADirectoryError:
        raise FarfieldError(
            f"{folder} is a file: name the folder that a study or `farfield train --out` wrote"
        ) from None
    except OSError as reason:
        raise FarfieldError(f"cannot read {folder}: {reason.strerror}") from None
    return found._replace(size=size + sum(map(_size, checkpoints.leftovers(folder))))


def _sort(found: Listing, name: str, size: int) -> None:
    if match := CELL.fullmatch(name):
        found.cells.setdefault(match[1], []).append(name)
    elif TENSORS.fullmatch(name):
        found.tensors[name] = size
    elif match := FAILURE.fullmatch(name):
        found.failures.append(match[1])
    elif name.endswith(TEMPORARY):
        found.writing.append(name)
    elif name not in (RECORD, PAGE, FIGURES):
        found.other.append(name)


def _size(path: Path) -> int:
    try:
        return path.stat().st_size
    except OSError:  # gone, or a link that leads nowhere
        return 0


def require_store(folder: Path, found: Listing) -> None:
    """Refuse a folder that holds other files and none of a store (FarfieldError)."""
    if found.other and not (found.cells or found.tensors or found.failures or (folder / RECORD).exists()):
        raise FarfieldError(f"{folder} holds no cells: name a folder that a study or `farfield train --out` wrote")


def read_cells(folder: Path, found: Listing) -> Contents:
    """Read every cell's JSON file.

    Of several files of one identity, all readers take the same one: the first by name, those first whose tensors are
    there.
    """
    contents = Contents([], [], {}, {})
    for identity in sorted(found.cells):
        whole = []
        for name in sorted(found.cells[identity]):
            cell = read(path := folder / name)
            if isinstance(cell, StoredCell):
                whole.append(cell)
            elif path.exists():  # else it was replaced in this instant
                contents.faults[path] = cell
        whole.sort(key=lambda cell: _missing(cell, found) is not None)
        contents.cells.extend(whole[:1])
        contents.duplicates.extend(whole[1:])
        for cell in whole[:1]:
            if reason := _missing(cell, found):
                contents.incomplete[cell.tensors.file] = reason
    return contents


def _missing(cell: StoredCell, found: Listing) -> str | None:
    """Return what is wrong with the size of a cell's tensors; None if nothing is."""
    size, wanted = found.tensors.get(cell.tensors.file), cell.tensors.bytes
    if size == wanted:
        return None
    return "is missing" if size is None else f"has {size} of {wanted} bytes"
