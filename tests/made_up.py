"""Cells that nobody trained, for tests of what reads a store."""

from __future__ import annotations

import hashlib
import json
from pathlib import Path

import duckdb
import numpy as np

from farfield.cell import Cell
from farfield.identity import identity_of
from farfield.store import files, shards

LENGTHS = (12, 16, 24, 48)


def measured(seed: int, lengths=LENGTHS, final_loss: float = 0.5):
    """What a cell might measure."""
    random = np.random.default_rng(seed)
    found = [
        (probe, length, float(value))
        for probe in ("accuracy", "sequence_accuracy", "peak_height")
        for length, value in zip(lengths, random.uniform(size=len(lengths)), strict=True)
    ]
    found += [("chance", length, 0.05) for length in lengths]
    return [*found, ("final_loss", None, final_loss), ("margin", None, float(random.normal()))]


def put(folder: Path, cell: Cell, *, tensors: bytes | None = None, config=None, **more) -> str:
    """Write a cell's two files without training it; returns its identity."""
    folder.mkdir(exist_ok=True)
    config = config or json.loads(json.dumps(cell.config()))
    identity, content = identity_of(config), tensors or f"{cell.seed} {cell.encoding}".encode()
    name = shards.tensors_name(identity, hashlib.sha256(content).hexdigest())
    files.write_atomically(folder / name, lambda path: path.write_bytes(content))
    found = measured(cell.seed, **more)
    files.write_atomically(
        folder / f"{identity}.parquet",
        lambda path: shards.write_shard(path, shards.make_shard(identity, config, found, content)),
    )
    return identity


def rewritten(path: Path, query: str) -> None:
    """Replace a shard by what a query makes of it."""
    with duckdb.connect() as connection:
        connection.execute(f"CREATE TABLE shard AS FROM read_parquet('{path}')")
        connection.execute(f"COPY ({query}) TO '{path}' (FORMAT parquet)")
