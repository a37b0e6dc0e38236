"""`farfield list`."""

from __future__ import annotations

import json
from typing import Annotated

import typer

from farfield.cli.common import Json


def list_names(
    kind: Annotated[
        str | None,
        typer.Argument(help="encodings, positions, normalizers, tasks, models, papers or items; all if left out."),
    ] = None,
    as_json: Json = False,
) -> None:
    """Name the encodings, position regimes, normalizers, tasks, models, papers and items there are.

    Examples:

        farfield list

        farfield list encodings --json
    """
    from farfield.catalogue import catalogue

    entries = catalogue(kind)
    if as_json:
        print(json.dumps(entries, indent=1))
        return
    for heading, names in entries.items():
        print(heading)
        for entry in names:
            written = entry.get("written", entry["name"])
            # A name with many settings has a line of its own.
            print(
                f"  {written:<34} {entry['summary']}"
                if len(written) <= 34
                else f"  {written}\n{'':<37}{entry['summary']}"
            )
