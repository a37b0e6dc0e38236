"""A store as one file for other programs: CSV, Parquet or NetCDF."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any, Literal

import duckdb
import numpy as np
from scipy.io import netcdf_file

from farfield._checks import checked_folder, checked_path
from farfield.errors import FarfieldError, unknown
from farfield.store import index
from farfield.store.files import in_words, write_atomically
from farfield.store.outputs import check_output
from farfield.store.plain_names import plainly_named
from farfield.store.shards import quoted

FORMATS = ("csv", "parquet", "netcdf")
TABLES = ("measurements", "cells")
# Texts of a kilobyte, which a CSV file would repeat for each measurement.
LONG = "config, versions"
# Most numbers of one variable of a NetCDF file, which is full where a store is sparse: 4 GB.
MOST_NUMBERS = 2**29


def export(
    folder: Path | str,
    output: Path | str,
    *,
    format: Literal["csv", "parquet", "netcdf"],
    table: Literal["measurements", "cells"] = "measurements",
    force: bool = False,
) -> int:
    """Write a store as one file, whole or not at all; returns the number of rows (of cells, for NetCDF).

    CSV and Parquet hold one row a measurement (or a cell). The CSV of measurements leaves out the columns ``config``
    and ``versions``, which the table of cells has. NetCDF holds one array ``value[cell, length, probe]``, NaN where
    nothing was measured, one ``value_of_cell[cell, probe_of_cell]`` for what belongs to no length, and every column
    of the cells along ``cell``.

    Args:
        folder: of the store.
        output: file to write.
        format: ``csv``, ``parquet`` or ``netcdf``.
        table: ``measurements`` or ``cells``.
        force: write over a file that is there.

    Raises:
        FarfieldError: for a file that is there, lies in a store or cannot be written, a store without cells, or an
            unknown format.
    """
    if format not in FORMATS:
        raise unknown("format", str(format), FORMATS)
    if table not in TABLES:
        raise unknown("table", str(table), TABLES)
    if format == "netcdf" and table != "measurements":
        raise FarfieldError("a NetCDF file holds cells and measurements in one: leave out the table")
    folder, output = checked_folder("folder", folder), checked_path("output", output)
    file = check_output(output, force=force)
    with (loaded := index.load(folder)).connection as connection:
        (count,) = connection.execute(f"SELECT COUNT(*) FROM {table}").fetchone() or (0,)
        if not count:
            raise FarfieldError(f"{folder} holds no finished cells: there is nothing to export")
        _check_outside(output, file, folder)
        rows = f"SELECT * {_left_out(format, table)} FROM {table} ORDER BY ALL"
        try:
            if format == "netcdf":
                content = _netcdf(connection)
                write_atomically(file, content)
                return len(loaded.listing.shards) - len(loaded.faults)
            options = "FORMAT csv, HEADER" if format == "csv" else "FORMAT parquet"

            def write(path: Path) -> None:
                with plainly_named(path.parent) as place:
                    connection.execute(f"COPY ({rows}) TO {quoted(place / path.name)} ({options})")

            write_atomically(file, write)
        except (OSError, duckdb.Error) as reason:
            raise FarfieldError(f"cannot write {output}: {in_words(reason)}; nothing was left there") from None
        return int(count)


def _check_outside(output: Path, file: Path, folder: Path) -> None:
    """Refuse a file in the store itself, or beside the cells of another (FarfieldError)."""
    if file.is_relative_to(folder.resolve()) or index.listing(file.parent).shards:
        raise FarfieldError(f"{output} lies in a store, which holds cells and nothing else: name a file elsewhere")


def _left_out(format: str, table: str) -> str:
    return f"EXCLUDE ({LONG})" if format == "csv" and table == "measurements" else ""


def _netcdf(connection: duckdb.DuckDBPyConnection) -> Any:
    """What writes the file, once everything that goes into it fits."""
    cells = connection.execute("SELECT * EXCLUDE (number, shard_bytes, shard_changed) FROM all_cells ORDER BY number")
    names, rows = [column[0] for column in cells.description or []], cells.fetchall()
    found: dict[str, Any] = connection.execute("SELECT number, probe, length, value FROM numbers").fetchnumpy()
    absent = np.ma.getmaskarray(found["length"])
    cell, length = found["number"] - 1, np.ma.filled(found["length"], -1)
    lengths = np.unique(length[~absent])
    probe, value = np.asarray(found["probe"], str), np.asarray(np.ma.filled(found["value"], np.nan))
    probes, singles = np.unique(probe[~absent]), np.unique(probe[absent])
    if len(rows) * len(lengths) * len(probes) > MOST_NUMBERS:
        raise FarfieldError(
            f"{len(rows)} cells at {len(lengths)} lengths are too many for one full array: export parquet instead"
        )
    full = np.full((len(rows), len(lengths), len(probes)), np.nan)
    inside = ~absent
    full[cell[inside], np.searchsorted(lengths, length[inside]), np.searchsorted(probes, probe[inside])] = value[inside]
    flat = np.full((len(rows), len(singles)), np.nan)
    flat[cell[absent], np.searchsorted(singles, probe[absent])] = value[absent]

    def fill(path: Path) -> None:
        with netcdf_file(str(path), "w", version=2) as file:
            file.title = b"farfield measurements"  # pyright: ignore[reportAttributeAccessIssue]
            for name, size in (("cell", len(rows)), ("length", len(lengths)), ("probe", len(probes)),
                               ("probe_of_cell", len(singles))):  # fmt: skip
                file.createDimension(name, size)
            _variable(file, "length", ("length",), lengths.astype(np.int32), long_name="test length in tokens")
            _variable(file, "probe", ("probe",), probes)
            _variable(file, "probe_of_cell", ("probe_of_cell",), singles)
            about = " ".join(map(_apart, names))  # readers attach these to the cells
            _variable(file, "value", ("cell", "length", "probe"), full, coordinates=about,
                      long_name="measurement at a test length; NaN where there is none")  # fmt: skip
            _variable(file, "value_of_cell", ("cell", "probe_of_cell"), flat, coordinates=about,
                      long_name="measurement of a cell as a whole; NaN where there is none")  # fmt: skip
            for index_of, name in enumerate(names):
                _variable(file, _apart(name), ("cell",), _column([row[index_of] for row in rows]))

    return fill


def _apart(name: str) -> str:
    """A column's name that no dimension has."""
    return "test_lengths" if name == "lengths" else name


def _column(values: list[Any]) -> np.ndarray:
    """A column as NetCDF 3 can hold it: truth as 0 and 1, whole numbers of 32 bits, doubles, or text."""
    if all(isinstance(value, bool) for value in values):
        return np.array(values, np.int8)
    if all(isinstance(value, int) and abs(value) < 2**31 for value in values):
        return np.array(values, np.int32)
    if all(value is None or isinstance(value, int | float) for value in values):
        return np.array([np.nan if value is None else value for value in values], np.float64)
    texts = ["" if value is None else value if isinstance(value, str) else json.dumps(value) for value in values]
    return np.array(texts, str)


def _variable(file: Any, name: str, dimensions: tuple[str, ...], values: np.ndarray, **attributes: str) -> None:
    if values.dtype.kind == "U":  # characters on an axis of their own, by the format's custom
        encoded = np.char.encode(values, "utf-8")
        width = max(1, encoded.dtype.itemsize)
        values = encoded.astype(f"S{width}").view("S1").reshape(*values.shape, width)
        dimensions = (*dimensions, f"characters_of_{name}")
        file.createDimension(dimensions[-1], width)
    variable = file.createVariable(
        name, values.dtype.newbyteorder(">") if values.dtype.kind != "S" else "c", dimensions
    )
    variable[:] = values
    for attribute, text in attributes.items():
        setattr(variable, attribute, text.encode())
    if values.dtype.kind == "S":
        variable._Encoding = b"utf-8"  # by which readers make text of the characters
