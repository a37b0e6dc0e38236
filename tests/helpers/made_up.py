"""Cells that nobody trained, for tests of what reads a store."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np

from farfield.cell import Cell
from farfield.identity import identity_of
from farfield.store import cell_file, files
from farfield.store.versions import versions

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


def put(folder: Path, cell: Cell, *, tensors: bytes | None = None, config=None, made_by=None, **more) -> str:
    """Write a cell's two files without training it; returns its identity."""
    folder.mkdir(exist_ok=True)
    config = config or json.loads(json.dumps(cell.config()))
    identity, content = identity_of(config), tensors or f"{cell.seed} {cell.encoding}".encode()
    named = cell_file.tensors_of(identity, content)
    files.write_atomically(folder / named.file, lambda path: path.write_bytes(content))
    text = cell_file.encode(config, measured(cell.seed, **more), made_by or versions(), named)
    files.write_atomically(folder / json_name(identity, text), lambda path: path.write_bytes(text))
    return identity


def json_name(identity: str, text: bytes) -> str:
    """Name of a cell's JSON file by its content."""
    return cell_file.file_name(identity, cell_file.hash_of(text), "json")


def json_of(folder: Path, identity: str) -> Path:
    """The one JSON file of a cell."""
    (path,) = folder.glob(f"{identity}-*.json")
    return path


def tensors_of(folder: Path, identity: str) -> Path:
    """The one file of tensors of a cell."""
    (path,) = folder.glob(f"{identity}-*.safetensors")
    return path


def rewritten(path: Path, **changes: Any) -> Path:
    """Replace a cell's JSON file by one with other entries, under the name that its content has."""
    text = json.dumps(json.loads(path.read_text()) | changes).encode()
    path.unlink()
    path = path.with_name(json_name(path.name[:16], text))
    path.write_bytes(text)
    return path
