"""`farfield predict`."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated

import typer

from farfield.cli.common import Json, Plot, answer, file_path, screen
from farfield.errors import FarfieldError


def predict(
    encoding: Annotated[str | None, typer.Option(help="Encoding, with settings as in rope:base=500000.")] = None,
    task: Annotated[str | None, typer.Option(help="Task whose target its position decides, as in offset:3.")] = None,
    trained: Annotated[int, typer.Option(help="Longest training length L0.")] = 16,
    tested: Annotated[int, typer.Option(help="Longest test length L.")] = 64,
    shortest: Annotated[int, typer.Option(help="Shortest training length.")] = 1,
    width: Annotated[int, typer.Option(help="Dimension of the head.")] = 64,
    positions: Annotated[str, typer.Option(help="Which integers tokens are given, as in random-subset:128.")] = "fixed",
    logit_scale: Annotated[
        float | None, typer.Option(help="Logits for a margin of 1; by default nine tenths of the mass when trained.")
    ] = None,
    everything: Annotated[bool, typer.Option("--all", help="The atlas: every encoding on nine tasks.")] = False,
    table: Annotated[
        Path | None, typer.Option("--csv", help="With --all, write the atlas here as CSV.", parser=file_path)
    ] = None,
    plot: Plot = None,
    as_json: Json = False,
) -> None:
    """Predict, without training, whether an encoding carries a task's rule beyond the trained lengths, and why.

    It finds the kernel that the trained rows select (of least norm with unit margin) and applies it to longer rows;
    alpha is the share of them that it gets right. docs/realizability.md has the definitions and their limits.

    Examples:

        farfield predict --encoding rope --task offset:3

        farfield predict --encoding t5 --task offset:2 --trained 16 --tested 128 --plot t5.png

        farfield predict --encoding learned --task position:0 --json

        farfield predict --all --csv atlas.csv --plot atlas.png
    """
    from farfield.plotting.predictions import atlas_figure, atlas_table, prediction_figure, prediction_tables
    from farfield.plotting.style import check_path, save
    from farfield.prediction import atlas, carrying_over
    from farfield.prediction import predict as run_prediction
    from farfield.prediction.atlas import to_csv
    from farfield.store.files import check_output

    if plot is not None:
        check_path(plot)
    if table is not None:
        check_output(table, force=True)
    settings = {"trained": trained, "tested": tested, "shortest": shortest, "width": width, "positions": positions}
    if everything:
        if encoding is not None or task is not None:
            raise FarfieldError("--all is every encoding on every task: leave out --encoding and --task")
        rows = atlas(logit_scale=logit_scale, **settings)
        if table is not None:
            _write(table, to_csv(rows))
        if plot is not None:
            save(atlas_figure(rows), plot)
        if as_json:
            print(json.dumps([cell.to_json() for row in rows for cell in row], indent=1))
        else:
            screen().print(atlas_table(rows))
            screen().print(
                "alpha: share of longer rows won; x: not realizable on the trained ones; ?: left open by them; "
                "*: in part never trained, so that the start decides."
            )
        return
    if table is not None:
        raise FarfieldError("--csv writes the atlas: add --all, or use --json for one prediction")
    if encoding is None or task is None:
        raise FarfieldError(
            "predict needs --encoding and --task, for example --encoding rope --task offset:3, or --all"
        )
    found = run_prediction(encoding, task, logit_scale=logit_scale, **settings)
    draw = None if plot is None else lambda: save(prediction_figure(found), plot)
    answer(found, lambda one: prediction_tables(one, carrying_over(one)), as_json, draw)


def _write(path: Path, text: str) -> None:
    from farfield.store.files import write_text

    try:
        write_text(path, text)
    except OSError as reason:
        raise FarfieldError(f"cannot write {path}: {reason.strerror}; name a file in a folder that exists") from None
