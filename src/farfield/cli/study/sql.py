"""`farfield study sql`."""

from __future__ import annotations

import csv
import json
import sys
from typing import Annotated

import typer

from farfield.cli.common import Json, screen
from farfield.cli.study.status import Folder
from farfield.errors import FarfieldError


def sql(
    folder: Folder,
    query: Annotated[str, typer.Argument(help="SELECT … FROM measurements or cells, in DuckDB's SQL.")],
    as_csv: Annotated[bool, typer.Option("--csv", help="Print comma-separated values.")] = False,
    as_json: Json = False,
) -> None:
    """Ask a store a question in SQL; it may read the tables measurements and cells, and nothing else.

    A row of measurements is one number: probe, length and value, beside the settings of its cell as they are written
    on the command line (encoding, task, model, normalizer, positions, …) and `setting`, which is equal for cells that
    differ in their seeds alone. `DESCRIBE measurements` lists the columns.

    Examples:

        farfield study sql runs "SELECT encoding, value FROM measurements WHERE probe = 'accuracy'"

        farfield study sql runs "SELECT encoding, seed FROM cells WHERE diverged" --csv

        farfield study sql runs "DESCRIBE measurements" --json
    """
    from farfield.cli.render.store import query_table, to_plain
    from farfield.store.reader import Store

    if as_csv and as_json:
        raise FarfieldError("--csv and --json are two ways to print the same: choose one")
    found = Store(folder).rows(query)
    if as_json:
        rows = [dict(zip(found.columns, map(to_plain, row), strict=True)) for row in found.rows]
        print(json.dumps({"columns": found.columns, "rows": rows}, indent=1))
    elif as_csv:
        writer = csv.writer(sys.stdout, lineterminator="\n")
        writer.writerow(found.columns)
        writer.writerows(found.rows)
    else:
        for part in query_table(found):
            screen().print(part)
