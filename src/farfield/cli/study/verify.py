"""`farfield study verify`."""

from __future__ import annotations

import typer

from farfield.cli.common import Json, answer
from farfield.cli.study.status import Folder


def verify(folder: Folder, as_json: Json = False) -> None:
    """Read every file of a store and name each that is cut off, changed, foreign, double or left over.

    The names of a cell's files hold the hash of their bytes, so one changed byte is found. Nothing is changed or
    removed. The exit code is 1 if anything is wrong, else 0.

    Examples:

        farfield study verify runs

        farfield study verify runs --json
    """
    from farfield.cli.render.store import verified_tables
    from farfield.store.verify import verify as look_through

    found = look_through(folder)
    answer(found, verified_tables, as_json)
    if not found.sound:
        raise typer.Exit(1)
