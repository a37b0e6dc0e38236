"""The store: one immutable pair of files a finished cell, under its content hash.

``<identity>-<checksum>.safetensors`` holds the trained weights and what was counted; ``<identity>.parquet``
holds the configuration, the versions, every measurement in long form, and the checksum of its sibling. Each is
written under a temporary name, flushed to disk and renamed, the Parquet file last: a cell exists once that name
does, so a process killed at any moment leaves either a whole cell or none. Many processes may write at once:
the checksum in its name keeps a pair consistent even if two of them computed last digits that differ.
"""

from __future__ import annotations

import hashlib
import json
import threading
import warnings
from pathlib import Path

import duckdb
from safetensors import SafetensorError
from safetensors.numpy import load

from farfield._checks import absolute, checked_folder
from farfield.cell import Cell
from farfield.errors import FarfieldError
from farfield.results.result import CellResult, from_arrays, to_bytes
from farfield.store import checkpoints, files, index, shards
from farfield.store.files import TEMPORARY, State
from farfield.store.plain_names import plainly_named
from farfield.store.shards import Fault, Shard, versions

__all__ = ["TEMPORARY", "DamagedShard", "Store", "versions"]

# Cells that a writer leaves one file of the index for.
INDEXED_TOGETHER = 256


class DamagedShard(UserWarning):
    """A file of the store is left out: it cannot be read whole, or is another cell's."""


def unusable(folder: Path, reason: OSError) -> FarfieldError:
    """The error for a folder that no store can be in."""
    return FarfieldError(f"cannot write to {folder}: {reason.strerror}; choose another folder with --out")


class Store:
    """Finished cells in a folder, for those who run cells; :func:`farfield.open` is for those who read them.

    Args:
        folder: made if it is missing.
        reading: leave everything as it is; nothing is to be written then.

    Raises:
        FarfieldError: if the folder cannot be made or written to.
    """

    def __init__(self, folder: Path | str, *, reading: bool = False) -> None:
        self.folder = absolute(checked_folder("folder", folder))
        self._reading = reading
        self._written: list[tuple[Shard, State]] = []
        self._lock = threading.Lock()
        self._told: set[Path] = set()
        if not reading:
            self._prepare()

    def _prepare(self) -> None:
        """Make the folder, see that it can be written to, and remove what dead processes left."""
        try:
            self.folder.mkdir(parents=True, exist_ok=True)
            # As long as the longest name of a finished cell, which a folder far down may have no room for.
            files.check_writable(self.folder / shards.tensors_name("0" * 16, "0" * 12))
            with plainly_named(self.folder):
                pass
        except OSError as reason:
            raise unusable(self.folder, reason) from None
        self._remove_leftovers()

    def write(self, result: CellResult, made_by: dict[str, str] | None = None) -> None:
        """Keep a finished cell.

        Args:
            made_by: versions of what made it, those of this process by default.

        Raises:
            FarfieldError: if the disk is full or the folder has become unwritable.
        """
        content = to_bytes(result)
        cell = result.cell
        shard = shards.make_shard(cell.identity, cell.config(), list(result.measurements()), content, made_by)
        try:
            tensors = self._tensors(cell, shard.tensors_sha256)
            files.write_atomically(tensors, lambda path: path.write_bytes(content))
            state = files.write_atomically(self._shard(cell), lambda path: shards.write_shard(path, shard))
            self._failure(cell).unlink(missing_ok=True)
        except (OSError, duckdb.Error) as reason:
            raise files.cannot_write(self.folder, reason) from None
        with self._lock:
            self._written.append((shard, state))
            full = len(self._written) >= INDEXED_TOGETHER
        if full:
            self.settle()

    def settle(self) -> None:
        """Leave an index of what was written, so that whoever opens a large store need not wait."""
        with self._lock:
            fresh, self._written = self._written, []
        # A few are read as fast one by one.
        if len(fresh) >= index.FEWEST:
            index.add(self.folder, fresh)

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
        return self._shard(cell).exists()

    def read(self, cell: Cell) -> CellResult | None:
        """A finished cell, or None if it is not there or its files are damaged (one warning a store names the file)."""
        path = self._shard(cell)
        if not path.exists():
            return None
        ((_, shard),) = shards.read_shards([path])
        if not isinstance(shard, Shard):
            return self._damaged(path)
        tensors = self._tensors(cell, shard.tensors_sha256)
        try:
            content = tensors.read_bytes()
            if hashlib.sha256(content).hexdigest() != shard.tensors_sha256:
                return self._damaged(tensors)
            return from_arrays(cell, load(content))
        except (OSError, KeyError, SafetensorError):
            return self._damaged(tensors)

    def finished(self) -> frozenset[str]:
        """Identities of the cells that are there, fast for thousands; one warning names each damaged file.

        Shards are read whole once; of tensors, the size is compared. :meth:`read` compares their content as well.
        """
        with (loaded := index.load(self.folder, keep=not self._reading)).connection as connection:
            cells = connection.execute(index.TENSORS_OF_CELLS).fetchall()
        for path, fault in loaded.faults.items():
            self._damaged(path) if fault.kind == "damaged" else self._foreign(path, fault)
        damaged = index.incomplete(cells, loaded.listing)
        for name in damaged:
            self._damaged(self.folder / name)
        return frozenset(identity for identity, *_ in cells) - {name[:16] for name in damaged}

    def _shard(self, cell: Cell) -> Path:
        return self.folder / f"{cell.identity}.parquet"

    def _tensors(self, cell: Cell, checksum: str) -> Path:
        return self.folder / shards.tensors_name(cell.identity, checksum)

    def _failure(self, cell: Cell) -> Path:
        return self.folder / f"{cell.identity}.failed.json"

    def _damaged(self, path: Path) -> None:
        mend = "left out" if self._reading else "its cell is run again if it is wanted"
        self._warn(path, f"is damaged or incomplete: {mend}")

    def _foreign(self, path: Path, fault: Fault) -> None:
        self._warn(path, f"{fault.what}: it is left out; remove it unless this run replaces it")

    def _warn(self, path: Path, what: str) -> None:
        if path not in self._told:
            self._told.add(path)
            warnings.warn(f"{path} {what}", DamagedShard, stacklevel=4)

    def _remove_leftovers(self) -> None:
        """Remove temporary files of processes of this machine that are gone."""
        for folder in (self.folder, self.folder / index.FOLDER, self.folder / checkpoints.FOLDER):
            for leftover in folder.glob(f"*{TEMPORARY}"):
                if files.abandoned(leftover):
                    leftover.unlink(missing_ok=True)
