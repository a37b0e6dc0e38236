"""The tables ``cells`` and ``measurements`` in DuckDB: their columns, and how they are filled."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

import duckdb
import numpy as np

from farfield.identity import DATA_VERSION, every_seed, setting_of
from farfield.spec import spec, written
from farfield.store.cell_file import NO_LENGTH, StoredCell

TEXT, WHOLE, REAL, TRUTH, WHOLES = "VARCHAR", "BIGINT", "DOUBLE", "BOOLEAN", "BIGINT[]"

# The columns of every table of cells, in this order, with DuckDB's types; a configuration may add more.
COLUMNS = {
    "identity": TEXT,
    "setting": TEXT,
    "data_version": WHOLE,
    "encoding": TEXT,
    "task": TEXT,
    "model": TEXT,
    "normalizer": TEXT,
    "positions": TEXT,
    "test_positions": TEXT,
    "seed": WHOLE,
    "data_seed": WHOLE,
    "evaluation_seed": WHOLE,
    "vocabulary": WHOLE,
    "shortest": WHOLE,
    "longest": WHOLE,
    "steps": WHOLE,
    "batch": WHOLE,
    "learning_rate": REAL,
    "weight_decay": REAL,
    "path": TEXT,
    "lengths": WHOLES,
    "sequences": WHOLE,
    "snapshots": WHOLES,
}
# Where a cell comes from: the last columns of both tables.
ORIGIN = {"diverged": TRUTH, "platform": TEXT, "config": TEXT, "versions": TEXT}
# What belongs to the files of a cell rather than to what it measured: columns of ``cells`` alone.
FILES = {"tensors_sha256": TEXT, "tensors_bytes": WHOLE}
# Lists, of little use beside each measurement.
LISTS = ("lengths", "snapshots")


def describe(
    identity: str,
    config: Mapping[str, Any],
    versions: Mapping[str, str],
    parts: Mapping[str, str] | None = None,
    data_version: int = DATA_VERSION,
) -> dict[str, Any]:
    """Return the columns of one cell.

    Args:
        identity: of the cell.
        config: its resolved configuration, as stored.
        versions: of what made it, as stored.
        parts: :func:`farfield.spec.written` of the configuration, where that is known: to compute it imports JAX.
        data_version: under which it was made.
    """
    texts = written(config) if parts is None else parts
    settings = {name: texts[name] if name in texts else _plain(value) for name, value in config.items()}
    about = {
        "identity": identity,
        "setting": setting_of(config),
        "data_version": data_version,
        "platform": versions.get("platform"),
        "config": json.dumps(config),
        "versions": json.dumps(versions),
    }
    return dict.fromkeys(COLUMNS) | settings | every_seed(config) | about


def _plain(value: Any) -> Any:
    """Return a setting as one value of a column."""
    if isinstance(value, dict):
        return spec(value) if "name" in value else json.dumps(value)
    if isinstance(value, list) and not all(isinstance(entry, int) for entry in value):
        return json.dumps(value)
    return value


def _types_of(rows: Iterable[Mapping[str, Any]]) -> dict[str, str]:
    """Return DuckDB's types of the columns of rows, in the order of the tables."""
    known = COLUMNS | ORIGIN | FILES
    more: dict[str, str] = {}
    for row in rows:
        for name in row.keys() - known.keys():
            if row[name] is not None:
                more[name] = _wider(more.get(name), row[name])
    return COLUMNS | dict(sorted(more.items())) | ORIGIN | FILES


def _wider(known: str | None, value: Any) -> str:
    kinds = {bool: TRUTH, int: WHOLE, float: REAL, list: WHOLES}
    found = kinds.get(type(value), TEXT)
    if known in (None, found):
        return found
    return REAL if {known, found} == {WHOLE, REAL} else TEXT


def connect() -> duckdb.DuckDBPyConnection:
    """Open a database in memory that sees nothing of the process around it and spills into no folder."""
    return duckdb.connect(config={"python_enable_replacements": "false", "temp_directory": ""})


def quoted(text: Path | str) -> str:
    """Return a text as a string of SQL."""
    return "'" + str(text).replace("'", "''") + "'"


def open_tables(cells: Sequence[StoredCell]) -> duckdb.DuckDBPyConnection:
    """Open a database with the views ``cells`` and ``measurements`` of some cells.

    They are made of two tables, ``all_cells`` and ``numbers``, whose column ``number`` counts the cells from 1.
    """
    connection = connect()
    _insert_cells(connection, cells)
    _insert_numbers(connection, cells)
    beside = ", ".join(("number", *ORIGIN, *FILES, *LISTS))
    connection.execute(
        f"""
        CREATE VIEW cells AS SELECT * EXCLUDE (number) FROM all_cells;
        CREATE VIEW measurements AS
          SELECT all_cells.* EXCLUDE ({beside}), probe, length, value, {", ".join(ORIGIN)}
          FROM numbers JOIN all_cells USING (number)
        """
    )
    return connection


def _insert_cells(connection: duckdb.DuckDBPyConnection, cells: Sequence[StoredCell]) -> None:
    rows = [
        describe(cell.identity, cell.config, cell.versions, cell.parts, cell.data_version)
        | {"diverged": cell.diverged, "tensors_sha256": cell.tensors.sha256, "tensors_bytes": cell.tensors.bytes}
        for cell in cells
    ]
    types = _types_of(rows)
    # As text, which DuckDB converts, because arrays have no missing whole numbers. One more row is left out again: it
    # keeps a column without texts from being taken for numbers.
    texts = {f"_{index}": [*(_as_text(row.get(name)) for row in rows), ""] for index, name in enumerate(types)}
    columns = {name: np.array(column, object) for name, column in texts.items()}
    connection.register("rows", columns | {"number": np.arange(1, len(rows) + 2)})
    converted = ", ".join(
        f"TRY_CAST(_{index} AS {kind}) AS {_identifier(name)}" for index, (name, kind) in enumerate(types.items())
    )
    connection.execute(f"CREATE TABLE all_cells AS SELECT number, {converted} FROM rows WHERE number <= {len(rows)}")
    connection.unregister("rows")


def _identifier(name: str) -> str:
    return '"' + name.replace('"', '""') + '"'


def _as_text(value: Any) -> str | None:
    return value if value is None or isinstance(value, str) else str(value)


def _insert_numbers(connection: duckdb.DuckDBPyConnection, cells: Sequence[StoredCell]) -> None:
    names = [*dict.fromkeys(probe for cell in cells for probe in cell.probes)]
    codes = {probe: code for code, probe in enumerate(names)}
    code = np.array([codes[probe] for cell in cells for probe in cell.probes], np.int64)
    # One more row keeps the types of arrays where there is nothing else; its code is not a probe's.
    rows = {
        "number": np.repeat(np.arange(1, len(cells) + 2), [*(sum(cell.counts) for cell in cells), 1]),
        "code": np.append(np.repeat(code, [count for cell in cells for count in cell.counts]), -1),
        "length": np.concatenate([*(cell.lengths for cell in cells), np.array([NO_LENGTH], np.int32)]),
        "value": np.concatenate([*(cell.values for cell in cells), np.zeros(1)]),
    }
    connection.register("rows", rows)
    connection.register("probes", {"code": np.arange(len(names) + 1), "probe": np.array([*names, ""], object)})
    # An array's NaN enters a query as NULL, which averages would leave out in silence.
    connection.execute(
        f"""
        CREATE TABLE numbers AS
          SELECT number, probe, NULLIF(length, {NO_LENGTH}) AS length, COALESCE(value, 'nan') AS value
          FROM rows JOIN probes USING (code)
        """
    )
    connection.unregister("rows")
    connection.unregister("probes")
