"""`farfield study plan`."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from farfield.cli.common import Json, Workers, answer, file_path, folder_path

BudgetOption = Annotated[
    str | None, typer.Option(help="One of the file's budgets, as in quick; its own settings if none.")
]
StudyFile = Annotated[
    Path, typer.Argument(help="Study file; `farfield study new` writes an example.", parser=file_path)
]


def plan(
    file: StudyFile,
    budget: BudgetOption = None,
    out: Annotated[
        Path | None, typer.Option(help="Folder of results: count what it holds already.", parser=folder_path)
    ] = None,
    workers: Workers = None,
    seconds: Annotated[
        float, typer.Option(help="Measure programs until so many seconds are spent; 0 for no estimate.", min=0)
    ] = 8.0,
    as_json: Json = False,
) -> None:
    """Check a study file and show its cells, what is compiled, and how long it takes, before anything runs.

    The estimate comes from compiling and running a few steps of the programs that matter most on this machine.

    Examples:

        farfield study plan study.toml

        farfield study plan study.toml --budget quick --out results/offset-carry --json
    """
    from farfield.cli.render.plan import plan_tables
    from farfield.study.file import load_study
    from farfield.study.plan import plan as of_study

    found = of_study(load_study(file), budget, out=out, workers=workers, seconds=seconds)
    answer(found, plan_tables, as_json)
