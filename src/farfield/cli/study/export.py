"""`farfield study export`."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated, Any

import typer

from farfield.cli.common import Json, file_path
from farfield.cli.study.status import Folder
from farfield.errors import FarfieldError

ENDINGS = {".csv": "csv", ".parquet": "parquet", ".nc": "netcdf"}


def export(
    folder: Folder,
    output: Annotated[Path, typer.Option("--output", "-o", help="File to write.", parser=file_path)],
    format: Annotated[
        str | None, typer.Option(help="csv, parquet or netcdf; by the file's ending (.csv, .parquet, .nc) if left out.")
    ] = None,
    table: Annotated[str, typer.Option(help="Rows of csv and parquet: measurements or cells.")] = "measurements",
    force: Annotated[bool, typer.Option("--force", help="Write over a file that is there.")] = False,
    as_json: Json = False,
) -> None:
    """Write a store as one file for other programs, whole or not at all.

    CSV and Parquet hold one row a measurement, beside the settings of its cell; the CSV leaves out the long columns
    config and versions, which --table cells has. NetCDF holds one array value, by cell, length and
    probe, and needs `pip install 'farfield[netcdf]'`.

    Examples:

        farfield study export runs -o runs.csv

        farfield study export runs --table cells -o cells.csv

        farfield study export runs --format netcdf -o runs.nc --force
    """
    from farfield.store.export import export as write

    chosen: Any = format or ENDINGS.get(output.suffix.lower())
    if chosen is None:
        raise FarfieldError(f"{output} does not end in .csv, .parquet or .nc: add --format csv, parquet or netcdf")
    if table not in ("measurements", "cells"):
        raise FarfieldError(f"--table {table!r} is neither measurements nor cells")
    rows = write(folder, output, format=chosen, table=table, force=force)  # pyright: ignore[reportArgumentType]
    kind = "cells" if chosen == "netcdf" or table == "cells" else "measurements"
    print(json.dumps({"file": str(output), kind: rows}) if as_json else f"wrote {rows} {kind} to {output}")
