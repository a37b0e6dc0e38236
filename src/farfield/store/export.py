"""A store as one file for other programs: CSV, Parquet or NetCDF."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Literal

import duckdb
import numpy as np

from farfield._checks import checked_folder, checked_path
from farfield.errors import FarfieldError, unknown
from farfield.store.files import check_output, in_words, write_atomically
from farfield.store.folder import listing, read_cells
from farfield.store.tables import LISTS, open_tables, quoted

if TYPE_CHECKING:
    import pandas

OPTIONS = {"csv": "FORMAT csv, HEADER", "parquet": "FORMAT parquet"}
FORMATS = (*OPTIONS, "netcdf")
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
    """Write a store as one file, whole or not at all; return the number of rows (of cells, for NetCDF).

    CSV and Parquet hold one row a measurement (or a cell). The CSV of measurements leaves out the columns ``config``
    and ``versions``, which the table of cells has. NetCDF, which needs xarray, holds one array ``value[cell, length,
    probe]``, NaN where nothing was measured, one ``value_of_cell[cell, probe_of_cell]`` for measurements of a cell as
    a whole, and every column of the cells along ``cell``.

    Args:
        folder: of the store.
        output: file to write.
        format: ``csv``, ``parquet`` or ``netcdf``.
        table: ``measurements`` or ``cells``.
        force: replace an existing file.

    Raises:
        FarfieldError: for a file that exists, lies in a store or cannot be written, a store without cells, an unknown
            format, or NetCDF without xarray.
    """
    if format not in FORMATS:
        raise unknown("format", str(format), FORMATS)
    if table not in TABLES:
        raise unknown("table", str(table), TABLES)
    if format == "netcdf" and table != "measurements":
        raise FarfieldError("a NetCDF file holds cells and measurements in one: leave out the table")
    folder, output = checked_folder("folder", folder), checked_path("output", output)
    file = check_output(output, force=force)
    cells = read_cells(folder, listing(folder)).cells
    if not cells:
        raise FarfieldError(f"{folder} holds no finished cells: there is nothing to export")
    if file.is_relative_to(folder.resolve()) or listing(file.parent).cells:
        raise FarfieldError(f"{output} lies in a store, which holds cells and nothing else: name a file elsewhere")
    with open_tables(cells) as connection:
        (count,) = connection.execute(f"SELECT COUNT(*) FROM {table}").fetchone() or (0,)
        try:
            if format == "netcdf":
                _write_netcdf(connection, file)
                return len(cells)
            left_out = f"EXCLUDE ({LONG})" if (format, table) == ("csv", "measurements") else ""
            rows = f"SELECT * {left_out} FROM {table} ORDER BY ALL"
            write_atomically(
                file, lambda path: connection.execute(f"COPY ({rows}) TO {quoted(path)} ({OPTIONS[format]})")
            )
        except (OSError, duckdb.Error) as reason:
            raise FarfieldError(f"cannot write {output}: {in_words(reason)}; nothing was left there") from None
        return int(count)


def _write_netcdf(connection: duckdb.DuckDBPyConnection, file: Path) -> None:
    try:
        import xarray  # pyright: ignore[reportMissingImports]
    except ImportError:
        raise FarfieldError("NetCDF needs xarray, which is not installed: pip install 'farfield[netcdf]'") from None
    as_text = ", ".join(f"CAST({name} AS VARCHAR) AS {name}" for name in LISTS)
    cells = connection.execute(f"SELECT * REPLACE ({as_text}) FROM all_cells ORDER BY number").df().set_index("number")
    numbers = connection.execute("FROM numbers").df()
    alone = numbers.length.isna()
    size = len(cells) * numbers.length.nunique() * numbers.probe[~alone].nunique()
    if size > MOST_NUMBERS:
        raise FarfieldError(f"a NetCDF file would hold {size:,} numbers, most of them NaN: export CSV or Parquet")
    by_length = numbers[~alone].astype({"length": np.int32}).set_index(["number", "length", "probe"])["value"]
    single = numbers[alone].set_index(["number", "probe"])["value"]
    arrays = xarray.Dataset(
        {"value": by_length.to_xarray(), "value_of_cell": single.to_xarray().rename(probe="probe_of_cell")}
    )
    arrays = arrays.reindex(number=cells.index).drop_vars("number").rename(number="cell")
    about = {str(name): ("cell", _column(column)) for name, column in cells.items()}
    dataset = arrays.assign_coords(about).assign_attrs(title="farfield measurements")
    dataset.length.attrs["long_name"] = "test length in tokens"
    dataset.value.attrs["long_name"] = "measurement at a test length; NaN where there is none"
    dataset.value_of_cell.attrs["long_name"] = "measurement of a cell as a whole; NaN where there is none"
    write_atomically(file, lambda path: dataset.to_netcdf(path, engine="scipy"))


def _column(values: pandas.Series) -> np.ndarray:
    """Return a column as NetCDF 3 can hold it: truth, whole numbers of 32 bits, doubles, or text."""
    if values.dtype.kind in "iuf":
        return values.to_numpy(np.float64 if values.abs().max() >= 2**31 else None)
    if values.dtype.kind == "b":
        return values.to_numpy()
    return values.fillna("").to_numpy(str)
