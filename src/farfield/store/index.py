"""Every cell of a store in one database in memory, fast through an index that nothing depends on.

Ten thousand shards take seconds to open one by one. So a writer leaves a file for every few hundred cells in the
folder ``index``, a reader one for all that it had to open, and who reads next opens only shards that are in none: of
another name, size or time of change. The index is derived: its files are never changed, each is named by the hash of
its content, two that say the same of a cell do no harm, and deleting the folder loses nothing.
"""

from __future__ import annotations

import contextlib
import hashlib
import os
import re
import stat
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import NamedTuple

import duckdb
import numpy as np

from farfield.errors import FarfieldError
from farfield.store import checkpoints
from farfield.store.columns import COLUMNS, describe
from farfield.store.files import TEMPORARY, State, state_of, temporary_name
from farfield.store.plain_names import plainly_named
from farfield.store.shards import (
    NUMBER,
    SHARD,
    TENSORS,
    Fault,
    Shard,
    connect,
    insert_rows,
    quoted,
    read_shards,
    tensors_name,
)

FOLDER = "index"
# What a study and its report leave beside the cells, under the names they choose by themselves.
RECORD, PAGE, FIGURES = "study.json", "report.html", "report"
BESIDE = {RECORD, PAGE, FIGURES}
# Raise it when what an index holds changes; an index of another number is not read.
FORMAT = 2
INDEX = re.compile(r"([0-9]+)-([0-9a-f]{16})\.parquet")
# A new index is written for at least this many new shards, and this share of all: else it costs more than it saves.
FEWEST, SHARE = 64, 0.05
# More files than this are put together in one.
MOST_FILES = 64


class Listing(NamedTuple):
    """Names in a store's folder.

    Attributes:
        shards: state of every shard, by identity.
        tensors: size of every file of tensors, by name.
        failures: identities of cells that failed.
        writing: files in the middle of being written, or left so.
        other: names that no store gives, links that lead nowhere, and what is no file.
        size: bytes of all files.
    """

    shards: dict[str, State]
    tensors: dict[str, int]
    failures: list[str]
    writing: list[str]
    other: list[str]
    size: int


FAILURE = re.compile(r"([0-9a-f]{16})\.failed\.json")


def listing(folder: Path) -> Listing:
    """What is in a store's folder (FarfieldError if there is no such folder)."""
    found = Listing({}, {}, [], [], [], 0)
    size = 0
    try:
        with os.scandir(folder) as entries:
            for entry in entries:
                try:
                    status = entry.stat()
                except OSError as reason:  # a link that leads nowhere, or a file replaced in this instant
                    if entry.is_symlink() or not isinstance(reason, FileNotFoundError):
                        found.other.append(entry.name)
                    continue
                if stat.S_ISREG(status.st_mode):
                    state = state_of(status)
                    size += state.size
                    _sort(found, entry.name, state)
                elif not entry.is_dir() or entry.name not in (FOLDER, FIGURES, checkpoints.FOLDER):
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
    return found._replace(size=size + sum(map(_size, [*indexes(folder), *checkpoints.leftovers(folder)])))


def require_store(folder: Path, found: Listing) -> None:
    """Refuse a folder that holds other files and none of a store (FarfieldError)."""
    if found.other and not (found.shards or found.tensors or found.failures or (folder / RECORD).exists()):
        raise FarfieldError(f"{folder} holds no cells: name a folder that a study or `farfield train --out` wrote")


def _sort(found: Listing, name: str, state: State) -> None:
    if match := SHARD.fullmatch(name):
        found.shards[match[1]] = state
    elif TENSORS.fullmatch(name):
        found.tensors[name] = state.size
    elif match := FAILURE.fullmatch(name):
        found.failures.append(match[1])
    elif name.endswith(TEMPORARY):
        found.writing.append(name)
    elif name not in BESIDE:
        found.other.append(name)


def indexes(folder: Path) -> list[Path]:
    """Files of a store's index."""
    return sorted((folder / FOLDER).glob("*.parquet"))


def _size(path: Path) -> int:
    try:
        return path.stat().st_size
    except OSError:  # gone, or a link that leads nowhere
        return 0


def whole(index: Path) -> bool:
    """Whether an index holds what it held when it was written; OSError if it is gone."""
    match = INDEX.fullmatch(index.name)
    return match is not None and _hash(index) == match[2]


class Loaded(NamedTuple):
    """A store in memory.

    Attributes:
        connection: with the views ``cells`` and ``measurements``.
        listing: what was in the folder.
        faults: what is wrong with shards that are left out, by path.
    """

    connection: duckdb.DuckDBPyConnection
    listing: Listing
    faults: dict[Path, Fault]


def load(folder: Path, *, keep: bool = True) -> Loaded:
    """Read a store.

    Args:
        keep: leave an index of what had to be opened, where that is worth it.

    Raises:
        FarfieldError: if there is no such folder, or it cannot be read.
    """
    found = listing(folder)
    connection = connect()
    read = _load_indexed(connection, folder, found)
    known = {row[0] for row in connection.execute("SELECT identity FROM indexed").fetchall()}
    missing = [folder / f"{identity}.parquet" for identity in sorted(found.shards.keys() - known)]
    faults: dict[Path, Fault] = {}
    fresh: list[Shard] = []
    for path, shard in read_shards(missing):
        if isinstance(shard, Shard):
            fresh.append(shard)
        elif path.exists():
            faults[path] = shard
    _insert(connection, fresh, found)
    _views(connection)
    if keep and (len(fresh) >= max(FEWEST, SHARE * len(found.shards)) or len(read) > MOST_FILES):
        _write(connection, folder, read)
    return Loaded(connection, found, faults)


# What :func:`incomplete` is to be told of every cell.
TENSORS_OF_CELLS = "SELECT identity, tensors_sha256, tensors_bytes FROM cells"


def incomplete(cells: Iterable[tuple[str, str, int | None]], found: Listing) -> dict[str, str]:
    """Files of tensors that are missing or of another size than was written, by name, with the reason.

    Args:
        cells: rows of :data:`TENSORS_OF_CELLS`.
    """
    faults: dict[str, str] = {}
    for identity, checksum, size in cells:
        name = tensors_name(identity, checksum)
        there = found.tensors.get(name)
        if there is None:
            faults[name] = "is missing"
        elif size is not None and there != size:
            faults[name] = f"has {there} of {size} bytes"
    return faults


def add(folder: Path, fresh: Sequence[tuple[Shard, State]]) -> None:
    """Leave an index file of shards just written."""
    shards = [shard for shard, _ in fresh]
    found = Listing({shard.identity: state for shard, state in fresh}, {}, [], [], [], 0)
    with connect() as connection:
        connection.execute("SET threads = 1")
        connection.execute(_INDEXED.format(source="", states=""))
        _insert(connection, shards, found)
        _write(connection, folder, ())


def _load_indexed(connection: duckdb.DuckDBPyConnection, folder: Path, found: Listing) -> list[Path]:
    """Make the table ``indexed`` of what indexes say of shards that are as they were; returns the files read."""
    states = {
        "identity": np.array([*found.shards, ""], object),
        "shard_bytes": np.array([*(state.size for state in found.shards.values()), 0], np.int64),
        "shard_changed": np.array([*(state.changed for state in found.shards.values()), 0], np.int64),
    }
    connection.register("states", states)
    present: list[Path] = []
    for attempt in range(3):
        present = [path for path in indexes(folder) if path.name.startswith(f"{FORMAT}-")] if attempt < 2 else []
        try:
            with plainly_named(folder / FOLDER) as place:
                paths = ", ".join(quoted(place / path.name) for path in present if whole(path))
                options = "union_by_name = true, hive_partitioning = false"
                source = f"UNION ALL BY NAME FROM read_parquet([{paths}], {options})" if paths else ""
                connection.execute(_INDEXED.format(source=source, states=_STATES))
            break
        except (OSError, duckdb.Error):  # another reader has just replaced one
            continue
    connection.unregister("states")
    return present


_EMPTY = ", ".join(f'NULL::{kind} AS "{name}"' for name, kind in COLUMNS.items())
_INDEXED = f"""
    CREATE TABLE indexed AS FROM (
      SELECT {_EMPTY}, NULL::BOOLEAN AS diverged, NULL::VARCHAR AS tensors_sha256, NULL::BIGINT AS tensors_bytes,
        NULL::BIGINT AS shard_bytes, NULL::BIGINT AS shard_changed,
        NULL::STRUCT(probe VARCHAR, "length" INTEGER, "value" DOUBLE)[] AS measured WHERE false {{source}}
    ) {{states}}
    QUALIFY ROW_NUMBER() OVER (PARTITION BY identity) = 1
"""
_STATES = "SEMI JOIN states USING (identity, shard_bytes, shard_changed)"


def _insert(connection: duckdb.DuckDBPyConnection, fresh: Sequence[Shard], found: Listing) -> None:
    """Make the tables ``all_cells`` and ``numbers`` of what was indexed and what was read."""
    rows = [
        describe(shard.identity, shard.config, shard.versions, shard.parts)
        | {"diverged": shard.diverged, "tensors_sha256": shard.tensors_sha256, "tensors_bytes": shard.tensors_bytes}
        | dict(zip(("shard_bytes", "shard_changed"), found.shards[shard.identity], strict=True))
        for shard in fresh
    ]
    insert_rows(connection, "fresh", rows)
    sizes = [len(shard.values) for shard in fresh]
    read = {
        "identity": np.repeat(np.array([*(shard.identity for shard in fresh), ""], object), [*sizes, 1]),
        "probe": np.array([*(probe for shard in fresh for probe in shard.probes), ""], object),
        "length": np.concatenate([*(shard.lengths for shard in fresh), np.array([-1], np.int32)]),
        "value": np.concatenate([*(shard.values for shard in fresh), np.zeros(1)]),
    }
    connection.register("read", read)
    connection.execute(
        f"""
        CREATE TABLE all_cells AS SELECT ROW_NUMBER() OVER (ORDER BY identity) AS number, * FROM (
          SELECT * EXCLUDE (measured) FROM indexed UNION ALL BY NAME SELECT * FROM fresh
        ) ORDER BY identity;
        CREATE TABLE numbers AS SELECT number, probe, NULLIF(length, -1) AS length, value FROM (
          SELECT identity, UNNEST(measured, recursive := true) FROM indexed
          UNION ALL SELECT identity, probe, length, {NUMBER} FROM read
        ) JOIN all_cells USING (identity);
        DROP TABLE indexed; DROP TABLE fresh
        """
    )
    connection.unregister("read")


# What belongs to the files of a cell rather than to what it measured.
OF_FILES = "tensors_sha256, tensors_bytes"
# Lists, of little use beside each measurement.
OF_CELLS = "lengths, snapshots"


def _views(connection: duckdb.DuckDBPyConnection) -> None:
    hidden = "number, shard_bytes, shard_changed"
    last = "diverged, platform, config, versions"
    connection.execute(
        f"""
        CREATE VIEW cells AS SELECT * EXCLUDE ({hidden}, {last}, {OF_FILES}), {last}, {OF_FILES} FROM all_cells;
        CREATE VIEW measurements AS
          SELECT all_cells.* EXCLUDE ({hidden}, {last}, {OF_CELLS}, {OF_FILES}), probe, length, value, {last}
          FROM numbers JOIN all_cells USING (number)
        """
    )


def _write(connection: duckdb.DuckDBPyConnection, folder: Path, superseded: Sequence[Path]) -> None:
    """Leave an index of everything that was read, and remove those it replaces; nothing if that cannot be."""
    query = """
        SELECT * EXCLUDE (number) FROM all_cells JOIN (
          SELECT number, LIST({'probe': probe, 'length': COALESCE(length, -1), 'value': value}) AS measured
          FROM numbers GROUP BY number
        ) USING (number)
    """
    temporary = temporary_name(folder / FOLDER / str(FORMAT))
    # A full disk, or a folder that may only be read: the next reader takes longer.
    with contextlib.suppress(OSError, duckdb.Error):
        try:
            temporary.parent.mkdir(exist_ok=True)
            with plainly_named(temporary.parent) as place:
                connection.execute(f"COPY ({query}) TO {quoted(place / temporary.name)} (FORMAT parquet)")
            index = temporary.with_name(f"{FORMAT}-{_hash(temporary)}.parquet")
            temporary.replace(index)
            for path in superseded:
                if path != index:
                    path.unlink(missing_ok=True)
        finally:
            temporary.unlink(missing_ok=True)


def _hash(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()[:16]
