"""`farfield study status`."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from farfield.cli.common import Json, answer, folder_path

Folder = Annotated[
    Path, typer.Argument(help="Folder that a study, or `farfield train --out`, wrote.", parser=folder_path)
]


def status(folder: Folder, as_json: Json = False) -> None:
    """Say how many cells a store holds, of what, which diverged, failed or are damaged, and what made them.

    It does not read the weights; `farfield study verify` reads every file whole.

    Examples:

        farfield study status runs

        farfield study status runs --json
    """
    from farfield.cli.render.store import standing_tables
    from farfield.store.status import status

    answer(status(folder), standing_tables, as_json)
