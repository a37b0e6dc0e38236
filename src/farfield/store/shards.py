"""Shards: a finished cell as a Parquet file, read with everything checked that it says of itself.

A **shard** ``<identity>.parquet`` holds the measurements of one cell in long form, its configuration, the versions
that made it and two checksums: of its own bytes, and of the tensors in its sibling. Early ones hold a checksum of
what they say in place of that of their bytes, the earliest none.
"""

from __future__ import annotations

import contextlib
import functools
import hashlib
import json
import os
import platform
import re
from collections.abc import Iterator, Sequence
from importlib import metadata
from pathlib import Path
from typing import Any, Literal, NamedTuple

import duckdb
import numpy as np

from farfield.cell_text import parts_text
from farfield.identity import data_version_of
from farfield.store import sealing
from farfield.store.columns import types_of
from farfield.store.files import first_line
from farfield.store.plain_names import plainly_named

SHARD = re.compile(r"([0-9a-f]{16})\.parquet")
TENSORS = re.compile(r"([0-9a-f]{16})-([0-9a-f]{12})\.safetensors")
# An array's NaN enters a query as NULL, which averages would pass over in silence.
NUMBER = "COALESCE(value, 'nan') AS value"
# Shards that one query reads. What fails is read again by halves, down to the damaged file.
BATCH = 256


class Fault(NamedTuple):
    """Why a file is not what its name says.

    Attributes:
        kind: ``damaged`` if it cannot be read whole, ``foreign`` if it holds another cell than its name says.
        what: the reason, in words.
    """

    kind: Literal["damaged", "foreign"]
    what: str


class Shard(NamedTuple):
    """What one shard holds.

    Attributes:
        identity: of its cell.
        encoding, task, seed: as a user writes them; for readers of the file alone, as the configuration has them too.
        parts: all of :func:`farfield.cell_text.parts_text`; None where an early version wrote it.
        config, versions: as stored.
        tensors_sha256: of its sibling.
        tensors_bytes: size of its sibling; None where an early version wrote it.
        probes, lengths, values: of every measurement; length -1 where it belongs to no single length.
    """

    identity: str
    encoding: str
    task: str
    seed: int | None
    parts: dict[str, str] | None
    config: dict[str, Any]
    versions: dict[str, str]
    tensors_sha256: str
    tensors_bytes: int | None
    probes: list[str]
    lengths: np.ndarray
    values: np.ndarray

    @property
    def diverged(self) -> bool:
        """Whether training ended in a loss that is not a number."""
        losses = [value for probe, value in zip(self.probes, self.values, strict=True) if probe == "final_loss"]
        return not all(map(np.isfinite, losses))


def versions() -> dict[str, str]:
    """Versions of what a number depends on, stored with it."""
    return dict(_versions())


@functools.cache
def _versions() -> dict[str, str]:
    packages = {name: metadata.version(name) for name in ("farfield", "jax", "jaxlib", "numpy", "optax")}
    return packages | {"python": platform.python_version(), "platform": platform.platform()}


def connect() -> duckdb.DuckDBPyConnection:
    """A database in memory that sees nothing of the process around it and spills into no folder."""
    return duckdb.connect(config={"python_enable_replacements": "false", "temp_directory": ""})


@functools.lru_cache(maxsize=1)
def _writer(process: int) -> duckdb.DuckDBPyConnection:
    """One database of this process that writes files, since opening one takes longer than writing."""
    del process  # one that a fork inherited would not work
    connection = connect()
    connection.execute("SET threads = 1")
    return connection


def quoted(path: Path | str) -> str:
    """A path as a string of SQL."""
    return "'" + str(path).replace("'", "''") + "'"


def tensors_name(identity: str, checksum: str) -> str:
    """Name of a file of tensors, by the SHA-256 of its content."""
    return f"{identity}-{checksum[:12]}.safetensors"


def write_shard(path: Path, shard: Shard) -> None:
    """Write a shard, not yet atomically."""
    with plainly_named(path.parent) as folder, _writer(os.getpid()).cursor() as connection:
        rows = {"probe": np.array(shard.probes, object), "length": shard.lengths, "value": shard.values}
        connection.register("rows", rows)
        connection.execute(
            "COPY (SELECT $identity AS identity, $encoding AS encoding, $task AS task, CAST($seed AS BIGINT) AS seed, "
            f"probe, NULLIF(length, -1) AS length, {NUMBER}, $config AS config, $versions AS versions, "
            "$tensors_sha256 AS tensors_sha256, CAST($tensors_bytes AS BIGINT) AS tensors_bytes, $parts AS parts "
            f"FROM rows) TO {quoted(folder / path.name)} (FORMAT parquet, {sealing.OPTION})",
            {name: getattr(shard, name) for name in Shard._fields[:4]}
            | {name: json.dumps(getattr(shard, name)) for name in ("parts", "config", "versions")}
            | {"tensors_sha256": shard.tensors_sha256, "tensors_bytes": shard.tensors_bytes},
        )
    sealing.seal(path)


def make_shard(
    identity: str,
    config: dict[str, Any],
    found: Sequence[tuple[str, int | None, float]],
    tensors: bytes,
    made_by: dict[str, str] | None = None,
) -> Shard:
    """The shard of a finished cell.

    Args:
        found: probe, length and value of every measurement.
        tensors: content of its sibling.
        made_by: versions to store with it, those of this process by default.
    """
    parts = parts_text(config)
    return Shard(
        identity,
        parts["encoding"],
        parts["task"],
        config.get("seed"),
        parts,
        config,
        versions() if made_by is None else made_by,
        hashlib.sha256(tensors).hexdigest(),
        len(tensors),
        [probe for probe, _, _ in found],
        np.array([-1 if length is None else length for _, length, _ in found], np.int32),
        np.array([value for _, _, value in found], np.float64),
    )


def insert_rows(connection: duckdb.DuckDBPyConnection, table: str, rows: Sequence[dict[str, Any]]) -> list[str]:
    """Make a table of rows of :func:`farfield.store.columns.describe`; returns its columns."""
    types = types_of(rows)
    structure = json.dumps({name: ["BIGINT"] if kind.endswith("[]") else kind for name, kind in types.items()})
    connection.register("rows_as_text", {"row": np.array([*map(json.dumps, rows), ""], object)})
    connection.execute(
        f'CREATE TABLE {table} AS SELECT UNNEST(from_json_strict("row", ?)) FROM rows_as_text WHERE "row" <> \'\'',
        [structure],
    )
    connection.unregister("rows_as_text")
    return list(types)


def read_shards(paths: Sequence[Path]) -> Iterator[tuple[Path, Shard | Fault]]:
    """Every shard, or what is wrong with it."""
    for start in range(0, len(paths), BATCH):
        batch = paths[start : start + BATCH]
        sealed = {path: _sealed(path) for path in batch}
        for path, seal in sealed.items():
            if isinstance(seal, Fault):
                yield path, seal
        yield from _read([(path, seal) for path, seal in sealed.items() if not isinstance(seal, Fault)])


def _sealed(path: Path) -> bool | Fault:
    """Whether a shard holds the hash of its bytes, and those are its bytes: only then are they sure to be whole."""
    try:
        found = sealing.whole(path)
    except OSError as reason:
        return Fault("damaged", f"cannot be read: {reason.strerror}")
    return Fault("damaged", "holds other bytes than were written") if found is False else found is True


def _read(paths: list[tuple[Path, bool]]) -> Iterator[tuple[Path, Shard | Fault]]:
    try:
        rows = _rows([path for path, _ in paths])
    except duckdb.OutOfMemoryException:  # which says nothing of the files
        raise
    except (duckdb.Error, UnicodeDecodeError) as reason:
        if len(paths) > 1:
            half = len(paths) // 2
            yield from _read(paths[:half])
            yield from _read(paths[half:])
        else:
            yield paths[0][0], Fault("damaged", f"cannot be read: {first_line(reason)}")
        return
    for path, seal in paths:
        row = rows.get(path)
        yield path, Fault("damaged", "holds no rows") if row is None else _checked(path, seal, *row)


# `list` keeps the order of a file's rows where that is asked for. Early shards lack three of the columns.
QUERY = """
    SELECT filename, COUNT(DISTINCT (identity, encoding, task, seed, config, versions, tensors_sha256)),
      ANY_VALUE(content_sha256), ANY_VALUE(identity), ANY_VALUE(encoding), ANY_VALUE(task), ANY_VALUE(seed),
      ANY_VALUE(parts), ANY_VALUE(config), ANY_VALUE(versions), ANY_VALUE(tensors_sha256), ANY_VALUE(tensors_bytes),
      LIST(probe ORDER BY file_row_number), LIST(COALESCE(length, -1) ORDER BY file_row_number),
      LIST(value ORDER BY file_row_number)
    FROM (
      SELECT NULL::BIGINT AS tensors_bytes, NULL::VARCHAR AS content_sha256, NULL::VARCHAR AS parts
      WHERE false UNION ALL BY NAME FROM read_parquet(
        ?, filename = true, file_row_number = true, union_by_name = true, hive_partitioning = false
      )
    ) GROUP BY filename
"""


def _rows(paths: list[Path]) -> dict[Path, tuple[Any, ...]]:
    if not paths:
        return {}
    with contextlib.ExitStack() as stack, connect() as connection:  # anew: a damaged file may leave one unusable
        folders = {folder: stack.enter_context(plainly_named(folder)) for folder in {path.parent for path in paths}}
        named = {str(folders[path.parent] / path.name): path for path in paths}
        return {named[row[0]]: row[1:] for row in connection.execute(QUERY, [[*named]]).fetchall()}


def _checked(path: Path, sealed: bool, different: int, checksum: str | None, *columns: Any) -> Shard | Fault:
    if different != 1:
        return Fault("foreign", "holds rows of several cells")
    try:
        stored = Shard(*columns)
        shard = stored._replace(
            parts=None if stored.parts is None else json.loads(columns[4]),
            config=json.loads(columns[5]),
            versions=json.loads(columns[6]),
            lengths=np.array(stored.lengths, np.int32),
            values=np.array(stored.values, np.float64),
        )
        identity = shard.identity
        known = data_version_of(shard.config, identity)
        content = _checksum(shard)
    except (TypeError, ValueError, AttributeError, RecursionError):
        return Fault("damaged", "holds no cell that can be read")
    if path.name != f"{identity}.parquet":
        return Fault("foreign", f"holds the cell {identity}, which is not what its name says")
    if known is None:
        return Fault("foreign", "holds a configuration whose hash is not its name")
    # One that names its parts was written with a checksum.
    if not sealed and checksum != (content if checksum is not None or shard.parts is not None else None):
        return Fault("damaged", "holds other numbers than were written")
    if len({*zip(shard.probes, shard.lengths.tolist(), strict=True)}) < len(shard.probes):
        return Fault("damaged", "holds a measurement twice")
    return shard


def _checksum(shard: Shard) -> str:
    """Checksum of everything a shard says, which early ones hold; TypeError if a text is none."""
    content = json.dumps(shard[:-2], sort_keys=True).encode()
    # NaN has many bit patterns, and a file need not keep which.
    values = np.where(np.isnan(shard.values), np.nan, shard.values)
    return hashlib.sha256(content + shard.lengths.astype("<i4").tobytes() + values.astype("<f8").tobytes()).hexdigest()
