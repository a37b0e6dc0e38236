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
import os
import platform
import socket
import uuid
import warnings
from collections.abc import Callable
from importlib import metadata
from pathlib import Path
from typing import Any

import duckdb
import numpy as np
from safetensors import SafetensorError
from safetensors.numpy import load, save

from farfield.errors import FarfieldError
from farfield.studies.cells import Cell
from farfield.studies.results import CellResult, from_arrays, to_arrays

TEMPORARY = ".writing"


def versions() -> dict[str, str]:
    """Versions of what a number depends on, stored with it."""
    packages = {name: metadata.version(name) for name in ("farfield", "jax", "jaxlib", "numpy", "optax")}
    return packages | {"python": platform.python_version(), "platform": platform.platform()}


class DamagedShard(UserWarning):
    """A file of the store cannot be read; its cell will be run again."""


class Store:
    """Finished cells in a folder.

    Args:
        folder: made if it is missing.

    Raises:
        FarfieldError: if the folder cannot be made or written to.
    """

    def __init__(self, folder: Path | str) -> None:
        self.folder = Path(folder)
        try:
            self.folder.mkdir(parents=True, exist_ok=True)
            self._write(self.folder / "probe", lambda path: path.write_bytes(b""))
            (self.folder / "probe").unlink(missing_ok=True)
        except OSError as reason:
            raise FarfieldError(
                f"cannot write to {self.folder}: {reason.strerror}; choose another folder with --out"
            ) from None
        self._remove_leftovers()

    def write(self, result: CellResult) -> None:
        """Keep a finished cell.

        Raises:
            FarfieldError: if the disk is full or the folder has become unwritable.
        """
        content = save({name: np.ascontiguousarray(array) for name, array in to_arrays(result).items()})
        checksum = hashlib.sha256(content).hexdigest()
        parquet = self._parquet(result.cell)
        try:
            self._write(self._tensors(result.cell, checksum), lambda path: path.write_bytes(content))
            self._write(parquet, lambda path: _write_parquet(path, result, checksum))
        except (OSError, duckdb.Error) as reason:
            raise FarfieldError(
                f"cannot write to {self.folder}: {reason}; what is finished is kept: once this is mended, run the same "
                "command again"
            ) from None

    def read(self, cell: Cell) -> CellResult | None:
        """A finished cell, or None if it is not there or its files are damaged (one warning names the file)."""
        parquet = self._parquet(cell)
        if not parquet.exists():
            return None
        try:
            checksum = _read_checksum(parquet)
        except duckdb.Error:
            return self._damaged(parquet)
        tensors = self._tensors(cell, checksum)
        try:
            content = tensors.read_bytes()
            if hashlib.sha256(content).hexdigest() != checksum:
                return self._damaged(tensors)
            return from_arrays(cell, load(content))
        except (OSError, KeyError, SafetensorError):
            return self._damaged(tensors)

    def measurements(self) -> list[dict[str, Any]]:
        """Every measurement of every readable shard, as rows: identity, encoding, task, seed, probe, length, value."""
        rows: list[dict[str, Any]] = []
        with duckdb.connect() as connection:
            for shard in sorted(self.folder.glob("*.parquet")):
                try:
                    found = connection.execute(
                        "SELECT identity, encoding, task, seed, probe, length, value FROM read_parquet(?)", [str(shard)]
                    )
                    names = [column[0] for column in found.description or []]
                    rows += [dict(zip(names, row, strict=True)) for row in found.fetchall()]
                except duckdb.Error:
                    self._damaged(shard)
        return rows

    def _parquet(self, cell: Cell) -> Path:
        return self.folder / f"{cell.identity}.parquet"

    def _tensors(self, cell: Cell, checksum: str) -> Path:
        return self.folder / f"{cell.identity}-{checksum[:12]}.safetensors"

    def _damaged(self, path: Path) -> None:
        warnings.warn(f"{path} is damaged or incomplete: running its cell again", DamagedShard, stacklevel=3)

    def _write(self, path: Path, fill: Callable[[Path], Any]) -> None:
        """Write under a temporary name, flush to disk, rename, flush the folder."""
        writer = f"{os.getpid()}-{uuid.uuid4().hex[:8]}"  # several threads may write the same cell
        temporary = path.with_name(f"{path.name}.{socket.gethostname()}.{writer}{TEMPORARY}")
        try:
            fill(temporary)
            _flush(temporary)
            temporary.replace(path)
        finally:
            temporary.unlink(missing_ok=True)
        _flush(self.folder)

    def _remove_leftovers(self) -> None:
        """Remove temporary files of processes of this machine that are gone."""
        for leftover in self.folder.glob(f"*.{socket.gethostname()}.*{TEMPORARY}"):
            process = leftover.name.removesuffix(TEMPORARY).rpartition(".")[2].partition("-")[0]
            if process.isdigit() and not _alive(int(process)):
                leftover.unlink(missing_ok=True)


def _flush(path: Path) -> None:
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def _alive(process: int) -> bool:
    try:
        os.kill(process, 0)
    except ProcessLookupError:
        return False
    except PermissionError:
        return True
    return True


def _write_parquet(path: Path, result: CellResult, checksum: str) -> None:
    config = result.cell.config()
    found = list(result.measurements())
    columns = {
        "probe": np.array([row.probe for row in found], object),
        "length": np.array([-1 if row.length is None else row.length for row in found], np.int32),
        "value": np.array([row.value for row in found], np.float64),
    }
    with duckdb.connect() as connection:
        connection.register("found", columns)
        connection.execute(
            "CREATE TABLE shard AS SELECT ? AS identity, ? AS encoding, ? AS task, CAST(? AS BIGINT) AS seed, probe, "
            "NULLIF(length, -1) AS length, value, ? AS config, ? AS versions, ? AS tensors_sha256 FROM found",
            [
                result.cell.identity,
                config["encoding"]["name"],
                config["task"]["name"],
                result.cell.seed,
                json.dumps(config),
                json.dumps(versions()),
                checksum,
            ],
        )
        connection.execute(f"COPY shard TO '{str(path).replace(chr(39), chr(39) * 2)}' (FORMAT parquet)")


def _read_checksum(parquet: Path) -> str:
    with duckdb.connect() as connection:
        row = connection.execute("SELECT any_value(tensors_sha256) FROM read_parquet(?)", [str(parquet)]).fetchone()
    return str(row[0]) if row else ""
