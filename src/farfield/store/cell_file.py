"""A finished cell on disk: one JSON file and one safetensors file, each with the hash of its bytes in its name.

``<identity>-<hash>.json`` holds the configuration, the measurements and the versions of one cell, and the name and the
hash of ``<identity>-<hash>.safetensors``, which holds weights and counts. The JSON file is written last: a cell exists
once that file does. The hash in a name is the first 12 hexadecimal digits of the SHA-256 of the file's bytes, so that
every changed byte is found, and equal content has an equal name.
"""

from __future__ import annotations

import functools
import hashlib
import itertools
import json
import math
import re
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any, Literal, NamedTuple

import numpy as np
from jaxtyping import Float, Int
from pydantic_core import from_json

from farfield.cell_text import parts_text
from farfield.identity import DATA_VERSION, identity_of

CELL = re.compile(r"([0-9a-f]{16})-([0-9a-f]{12})\.json")
TENSORS = re.compile(r"([0-9a-f]{16})-([0-9a-f]{12})\.safetensors")
# Hexadecimal digits of a hash that a name holds.
DIGITS = 12
# Stands for the length of a measurement of a cell as a whole.
NO_LENGTH = -1
# Letters of a line up to which a record of one level stays on it, and the level below which every record does.
LINE, TABLE = 120, 3
OTHER_BYTES = "holds other bytes than were written"


class Fault(NamedTuple):
    """A reason why a file is not what its name says.

    Attributes:
        kind: ``damaged`` if the file is not whole, ``foreign`` if it holds another cell than its name says.
        what: the reason, in words.
    """

    kind: Literal["damaged", "foreign"]
    what: str


class Tensors(NamedTuple):
    """A file of weights and counts.

    Attributes:
        file: its name.
        sha256: hash of its bytes.
        bytes: its size.
    """

    file: str
    sha256: str
    bytes: int


class StoredCell(NamedTuple):
    """The content of one JSON file.

    Attributes:
        file: its name.
        identity: of the cell.
        data_version: under which the cell was made.
        config: resolved configuration.
        parts: its parts as a user writes them, :func:`farfield.cell_text.parts_text`.
        diverged: whether training ended in a loss that is not a number.
        probes, counts: names of probes, and how many measurements of each follow one another.
        lengths, values: of every measurement; the length is :data:`NO_LENGTH` for a cell as a whole.
        versions: of what made the cell.
        tensors: file of its weights and counts.
    """

    file: str
    identity: str
    data_version: int
    config: dict[str, Any]
    parts: dict[str, str]
    diverged: bool
    probes: list[str]
    counts: list[int]
    lengths: Int[np.ndarray, " measurement"]
    values: Float[np.ndarray, " measurement"]
    versions: dict[str, str]
    tensors: Tensors


def hash_of(content: bytes) -> str:
    """Return the SHA-256 of some bytes in hexadecimal digits."""
    return hashlib.sha256(content).hexdigest()


def file_name(name: str, sha256: str, ending: str) -> str:
    """Return the name of a file by what it is of and by the hash of its bytes."""
    return f"{name}-{sha256[:DIGITS]}.{ending}"


def tensors_of(identity: str, content: bytes) -> Tensors:
    """Describe the file of tensors that holds some bytes."""
    sha256 = hash_of(content)
    return Tensors(file_name(identity, sha256, "safetensors"), sha256, len(content))


def encode(
    config: Mapping[str, Any],
    measurements: Iterable[tuple[str, int | None, float]],
    versions: Mapping[str, str],
    tensors: Tensors,
) -> bytes:
    """Return the content of a cell's JSON file.

    NaN is written as null and an infinity as text, because JSON has no such numbers.

    Args:
        config: resolved configuration.
        measurements: probe, length (None for a cell as a whole) and value of each.
        versions: of what made the cell.
        tensors: file of its weights and counts.
    """
    by_length: dict[str, dict[str, Any]] = {}
    single: dict[str, Any] = {}
    diverged = False
    for probe, length, value in measurements:
        diverged |= probe == "final_loss" and not math.isfinite(value)
        if length is None:
            single[probe] = _plain(value)
        else:
            by_length.setdefault(probe, {})[str(length)] = _plain(value)
    record = {
        "identity": identity_of(config),
        "data_version": DATA_VERSION,
        "config": config,
        "parts": parts_text(config),
        "diverged": diverged,
        "measurements": {"by_length": by_length, "single": single},
        "versions": versions,
        "tensors": tensors._asdict(),
    }
    return f"{_text(record)}\n".encode()


def _plain(value: float) -> float | str | None:
    """Return a number as every JSON parser reads it."""
    if math.isnan(value):
        return None
    return float(value) if math.isfinite(value) else "Infinity" if value > 0 else "-Infinity"


def _text(value: Any, level: int = 0) -> str:
    """Return a value as JSON: a line for each entry of a record, one line for a record of the lowest level."""
    line = json.dumps(value, allow_nan=False)
    nested = isinstance(value, dict) and any(isinstance(entry, dict) for entry in value.values())
    if not isinstance(value, dict) or not (nested or (len(line) > LINE and level < TABLE)):
        return line
    margin = " " * (level + 1)
    entries = [f"{margin}{json.dumps(name)}: {_text(entry, level + 1)}" for name, entry in value.items()]
    return "{\n" + ",\n".join(entries) + "\n" + " " * level + "}"


def read(path: Path) -> StoredCell | Fault:
    """Read a cell's JSON file and compare it with its name."""
    name = CELL.fullmatch(path.name)
    assert name is not None
    identity, digits = name.groups()
    try:
        content = path.read_bytes()
    except OSError as reason:
        return Fault("damaged", f"cannot be read: {reason.strerror}")
    if not hash_of(content).startswith(digits):
        return Fault("damaged", OTHER_BYTES)
    try:
        cell = _decoded(path.name, from_json(content))
        known = identity_of(cell.config, cell.data_version)
    except (TypeError, ValueError, KeyError, AttributeError, OverflowError, RecursionError):
        return Fault("damaged", "does not hold a cell that can be read")
    if cell.identity != identity:
        return Fault("foreign", f"holds the cell {cell.identity}, which is not what its name says")
    return cell if known == identity else Fault("foreign", "holds a configuration whose hash is not its name")


def _decoded(file: str, record: dict[str, Any]) -> StoredCell:
    """Return the cell of a JSON object; any of several errors if it does not describe one."""
    by_length, single = record["measurements"]["by_length"], record["measurements"]["single"]
    lengths = _lengths(tuple(map(tuple, by_length.values())), len(single))
    numbers = [*itertools.chain.from_iterable(found.values() for found in by_length.values()), *single.values()]
    values = np.array(numbers, np.float64)  # null becomes NaN
    if values.shape != lengths.shape:
        raise ValueError("a value is not a number")
    tensors = Tensors(**record["tensors"])
    if tensors.file != file_name(record["identity"], tensors.sha256, "safetensors"):
        raise ValueError("the name of the tensors does not hold their hash")
    return StoredCell(
        file=file,
        identity=record["identity"],
        data_version=int(record["data_version"]),
        config={**record["config"]},
        parts={**record["parts"]},
        diverged=bool(record["diverged"]),
        probes=[*by_length, *single],
        counts=[*map(len, by_length.values()), *[1] * len(single)],
        lengths=lengths,
        values=values,
        versions={**record["versions"]},
        tensors=tensors,
    )


@functools.lru_cache(maxsize=64)
def _lengths(by_probe: tuple[tuple[str, ...], ...], single: int) -> Int[np.ndarray, " measurement"]:
    """Return the lengths of measurements as one array, which the cells of a study share."""
    lengths = np.array([*map(int, itertools.chain.from_iterable(by_probe)), *[NO_LENGTH] * single], np.int32)
    lengths.flags.writeable = False
    return lengths


def read_tensors(folder: Path, tensors: Tensors) -> bytes | None:
    """Return the content of a file of tensors; None if it cannot be read or holds other bytes than were written."""
    try:
        content = (folder / tensors.file).read_bytes()
    except OSError:
        return None
    return content if hash_of(content) == tensors.sha256 else None
