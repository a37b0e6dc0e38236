"""The store: an immutable pair of files for each finished cell, :mod:`farfield.store.cell_file`, in one folder.

Each file is written under a temporary name, flushed to disk and renamed, the JSON file last: a process that is killed
at any moment leaves either a whole cell or none. Many processes may write at once. Equal content has an equal name;
where two of them computed different digits, both pairs are whole, and every reader takes the same one.
"""

from __future__ import annotations

import contextlib
import json
import math
import time
import warnings
from pathlib import Path

from safetensors import SafetensorError
from safetensors.numpy import load

from farfield._checks import absolute, checked_folder
from farfield.cell import Cell
from farfield.errors import FarfieldError
from farfield.results.result import CellResult, from_arrays, to_bytes
from farfield.store import cell_file, checkpoints, files
from farfield.store.cell_file import CELL, Fault, StoredCell
from farfield.store.folder import listing, read_cells
from farfield.store.versions import versions

# The names in the folder are read again, to find cells that another process may have written, after this many times the
# time that reading them took: at most a twentieth of a run.
LISTED_AGAIN = 20


class DamagedFile(UserWarning):
    """A file of the store is left out: it is not whole, or it belongs to another cell."""


def unusable(folder: Path, reason: OSError) -> FarfieldError:
    """Return the error for a folder that cannot hold a store."""
    return FarfieldError(f"cannot write to {folder}: {reason.strerror}; choose another folder with --out")


class StoreWriter:
    """Finished cells in a folder, for those who run cells; :func:`farfield.open_store` is for those who read them.

    Args:
        folder: made if it does not exist.
        reading: change nothing in the folder; such a store cannot be written to.

    Raises:
        FarfieldError: if the folder cannot be made or written to.
    """

    def __init__(self, folder: Path | str, *, reading: bool = False) -> None:
        self.folder = absolute(checked_folder("folder", folder))
        self._reading = reading
        self._names: dict[str, set[str]] = {}
        self._list_again = -math.inf
        self._warned: set[Path] = set()
        self._damaged: dict[str, set[Path]] = {}
        if not reading:
            self._prepare()

    def _prepare(self) -> None:
        """Make the folder, see that it can be written to, and remove what ended processes left."""
        try:
            self.folder.mkdir(parents=True, exist_ok=True)
            # As long as the longest name of a finished cell, which a folder far down may have no room for.
            files.check_writable(self.folder / cell_file.file_name("0" * 16, "0" * 64, "safetensors"))
        except OSError as reason:
            raise unusable(self.folder, reason) from None
        for folder in (self.folder, self.folder / checkpoints.FOLDER):
            files.remove_leftovers(folder)

    def write(self, result: CellResult, made_by: dict[str, str] | None = None) -> None:
        """Keep a finished cell, in place of damaged files of the same cell that this store has met.

        Args:
            result: the cell with everything that it measured.
            made_by: versions of what made it, those of this process by default.

        Raises:
            FarfieldError: if the disk is full or the folder has become unwritable.
        """
        content, identity = to_bytes(result), result.cell.identity
        tensors = cell_file.tensors_of(identity, content)
        text = cell_file.encode(result.cell.config(), result.measurements(), made_by or versions(), tensors)
        cell = self.folder / cell_file.file_name(identity, cell_file.hash_of(text), "json")
        try:
            files.write_atomically(self.folder / tensors.file, lambda path: path.write_bytes(content))
            files.write_atomically(cell, lambda path: path.write_bytes(text))
            for damaged in self._damaged.pop(identity, set()) - {cell, self.folder / tensors.file}:
                damaged.unlink(missing_ok=True)
            self._failure(result.cell).unlink(missing_ok=True)
        except OSError as reason:
            raise files.cannot_write(self.folder, reason) from None
        self._names.setdefault(identity, set()).add(cell.name)

    def write_failure(self, cell: Cell, reason: str) -> None:
        """Keep why a cell could not be finished, until it is.

        Raises:
            FarfieldError: if the disk is full or the folder has become unwritable.
        """
        record = {"identity": cell.identity, "reason": reason, "config": cell.config(), "versions": versions()}
        text = json.dumps(record, indent=1)
        try:
            files.write_atomically(self._failure(cell), lambda path: path.write_text(text, encoding="utf-8"))
        except OSError as error:
            raise files.cannot_write(self.folder, error) from None

    def holds(self, cell: Cell) -> bool:
        """Whether a finished cell is there by name; :meth:`read` looks inside."""
        return bool(self._files(cell.identity))

    def read(self, cell: Cell) -> CellResult | None:
        """Return a finished cell; None if it is not there or damaged, with one warning for each damaged file."""
        for path in self._files(cell.identity):
            found = cell_file.read(path)
            if not isinstance(found, StoredCell):
                self._leave_out(path, found)
                continue
            content = cell_file.read_tensors(self.folder, found.tensors)
            with contextlib.suppress(KeyError, SafetensorError):
                if content is not None:
                    return from_arrays(cell, load(content))
            self._leave_out_tensors(path, self.folder / found.tensors.file)
        return None

    def finished(self) -> frozenset[str]:
        """Return the identities of the cells that are there, with one warning for each damaged file.

        JSON files are read whole; of tensors, the size is compared. :meth:`read` compares their content as well.
        """
        found = listing(self.folder)
        contents = read_cells(self.folder, found)
        for path, fault in contents.faults.items():
            self._leave_out(path, fault)
        for cell in contents.cells:
            if cell.tensors.file in contents.incomplete:
                self._leave_out_tensors(self.folder / cell.file, self.folder / cell.tensors.file)
        return frozenset(cell.identity for cell in contents.cells if cell.tensors.file not in contents.incomplete)

    def _files(self, identity: str) -> list[Path]:
        """Return the JSON files of a cell in the order in which they are read."""
        found = self._known(identity)
        if not found and time.monotonic() >= self._list_again:
            self._list()
            found = self._known(identity)
        return found

    def _known(self, identity: str) -> list[Path]:
        return [path for name in sorted(self._names.get(identity, ())) if (path := self.folder / name).is_file()]

    def _list(self) -> None:
        """Read the names in the folder, because a cell's name alone does not tell the hash of its content."""
        started, names = time.monotonic(), {}
        with contextlib.suppress(FileNotFoundError):
            for path in self.folder.glob("*.json"):
                if match := CELL.fullmatch(path.name):
                    names.setdefault(match[1], set()).add(path.name)
        now = time.monotonic()
        self._names, self._list_again = names, now + LISTED_AGAIN * (now - started)

    def _failure(self, cell: Cell) -> Path:
        return self.folder / f"{cell.identity}.failed.json"

    def _leave_out(self, path: Path, fault: Fault) -> None:
        if not path.exists():  # replaced in this instant
            return
        if fault.kind == "foreign":
            self._warn(path, f"{fault.what}: it is left out; remove it")
        else:
            self._leave_out_damaged(path)

    def _leave_out_tensors(self, cell: Path, tensors: Path) -> None:
        self._damaged.setdefault(cell.name[:16], set()).add(cell)  # it is of no use without them
        self._leave_out_damaged(tensors)

    def _leave_out_damaged(self, path: Path) -> None:
        self._damaged.setdefault(path.name[:16], set()).add(path)
        mend = "left out" if self._reading else "its cell is run again if it is wanted"
        self._warn(path, f"is damaged or incomplete: {mend}")

    def _warn(self, path: Path, what: str) -> None:
        if path not in self._warned:
            self._warned.add(path)
            warnings.warn(f"{path} {what}", DamagedFile, stacklevel=4)
