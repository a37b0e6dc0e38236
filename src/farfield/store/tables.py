"""The tables ``cells`` and ``measurements`` in DuckDB: their columns, and how they are filled."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import duckdb
import numpy as np

from farfield.identity import every_seed, setting_of
from farfield.store.cell_file import NO_LENGTH, StoredCell

TEXT, WHOLE, REAL, TRUTH, WHOLES = "VARCHAR", "BIGINT", "DOUBLE", "BOOLEAN", "BIGINT[]"

# The columns of both tables, with DuckDB's types.
SETTINGS = {
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
    left_out = ", ".join(("number", *ORIGIN, *FILES, *LISTS))
    connection.execute(
        f"""
        CREATE VIEW cells AS SELECT * EXCLUDE (number) FROM all_cells;
        CREATE VIEW measurements AS
          SELECT all_cells.* EXCLUDE ({left_out}), probe, length, value, {", ".join(ORIGIN)}
          FROM numbers JOIN all_cells USING (number)
        """
    )
    return connection


def _insert_cells(connection: duckdb.DuckDBPyConnection, cells: Sequence[StoredCell]) -> None:
    columns = SETTINGS | ORIGIN | FILES
    rows = [_row(cell) for cell in cells]
    # DuckDB converts texts, because an array of whole numbers has no missing ones. The last row, which is left out
    # again, keeps a column without texts from being taken for numbers.
    texts: dict[str, np.ndarray] = {
        name: np.array([*(_as_text(row.get(name)) for row in rows), ""], object) for name in columns
    }
    connection.register("rows", texts | {"number": np.arange(1, len(rows) + 2)})
    converted = ", ".join(f"TRY_CAST({name} AS {kind}) AS {name}" for name, kind in columns.items())
    connection.execute(f"CREATE TABLE all_cells AS SELECT number, {converted} FROM rows WHERE number <= {len(rows)}")
    connection.unregister("rows")


def _row(cell: StoredCell) -> dict[str, Any]:
    """Return the columns of a cell, with its parts as a user writes them."""
    return {
        **cell.config,
        **cell.parts,
        **every_seed(cell.config),
        "identity": cell.identity,
        "setting": setting_of(cell.config),
        "data_version": cell.data_version,
        "diverged": cell.diverged,
        "platform": cell.versions.get("platform"),
        "config": json.dumps(cell.config),
        "versions": json.dumps(cell.versions),
        "tensors_sha256": cell.tensors.sha256,
        "tensors_bytes": cell.tensors.bytes,
    }


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
