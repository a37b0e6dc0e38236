"""`farfield reproduce`."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated

import typer

from farfield.cli.common import Json, Workers, folder_path, screen


def reproduce(
    paper: Annotated[str, typer.Argument(help="Paper, see `farfield list papers`.")],
    only: Annotated[
        list[str] | None, typer.Option(help="Items to run, for example table1; may be repeated or comma-separated.")
    ] = None,
    budget: Annotated[
        str, typer.Option(help="standard (long items shortened), full, quick (fewer seeds) or smoke (no verdicts).")
    ] = "standard",
    out: Annotated[
        Path | None,
        typer.Option(
            help="Folder for the results; farfield-results/PAPER if left out, another name for a part of it.",
            parser=folder_path,
        ),
    ] = None,
    workers: Workers = None,
    every: Annotated[bool, typer.Option("--all", help="Print every number, not only those that differ.")] = False,
    as_json: Json = False,
) -> None:
    """Regenerate a paper's tables and figures, and hold each published number against the measured one.

    It prints a line an item and in full what differs; the page and verdicts.json have every number.

    Examples:

        farfield reproduce implicit-bias

        farfield reproduce realizability --only separation

        farfield reproduce implicit-bias --only table1 --only figure1 --budget quick

        farfield reproduce implicit-bias --budget smoke --out /tmp/smoke --json
    """
    from farfield.cli.progress import reporter
    from farfield.cli.render.paper import reproduction_tables
    from farfield.papers.named import reproduce as run_named

    found = run_named(paper, only=only, budget=budget, out=out, workers=workers, progress=reporter())
    if as_json:
        print(json.dumps(found.to_json() | {"page": str(found.page)}, indent=1))
        return
    console = screen()
    for part in reproduction_tables(found, every):
        console.print(part)
    console.print(f"Page:     {found.page.resolve()}", soft_wrap=True, markup=False)
    console.print(f"Verdicts: {(found.folder / 'verdicts.json').resolve()}", soft_wrap=True, markup=False)
