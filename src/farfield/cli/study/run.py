"""`farfield study run`."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated

import typer

from farfield.cli.common import Json, folder_path, screen
from farfield.cli.study.plan import BudgetOption, StudyFile
from farfield.printing import command, short


def run(
    file: StudyFile,
    budget: BudgetOption = None,
    out: Annotated[
        Path | None,
        typer.Option(
            help="Folder of results; farfield-results/NAME if left out, NAME-BUDGET for a budget.", parser=folder_path
        ),
    ] = None,
    engine: Annotated[str, typer.Option(help="local (threads of this machine) or dask (a cluster).")] = "local",
    address: Annotated[str | None, typer.Option(help="Scheduler of the Dask cluster, as in tcp://host:8786.")] = None,
    workers: Annotated[
        int | None,
        typer.Option(
            help="Threads, one a core by default; for dask, chunks at once, two a thread of the cluster.",
            min=1,
        ),
    ] = None,
    as_json: Json = False,
) -> None:
    """Train and test every cell of a study that its folder lacks; stop and start at will.

    A cell that fails does not stop the others: it is told of at the end, and the exit code is 1.

    Examples:

        farfield study run study.toml

        farfield study run study.toml --budget quick --out results/quick --workers 1

        farfield study run study.toml --engine dask --address tcp://127.0.0.1:8786
    """
    from farfield.cli.progress import reporter
    from farfield.study.file import load_study
    from farfield.study.run import run as run_study

    study = load_study(file)
    found = run_study(
        study,
        out,
        budget=budget,
        engine=engine,
        workers=workers,
        address=address,
        progress=reporter(),
        command=command("farfield", "study", "run", file, *_given("--budget", budget), *_given("--out", out)),
    )
    if as_json:
        print(json.dumps(found.to_json(), indent=1))
    else:
        console = screen()
        for failure in found.outcome.failures[:10]:
            console.print(short(f"failed: {failure.cell.identity}: {failure.reason}"), soft_wrap=True, markup=False)
        console.print(found.summary())
        console.print(f"Results: {found.folder.resolve()}", soft_wrap=True, markup=False)
        console.print(f"Next: {command('farfield', 'report', found.folder)}", soft_wrap=True, markup=False)
    if found.outcome.failures:
        raise typer.Exit(1)


def _given(option: str, value: str | Path | None) -> list[str | Path]:
    return [] if value is None else [option, value]
