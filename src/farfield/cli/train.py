"""`farfield train`."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from farfield.cli.common import Json, Plot, Workers, answer, folder_path, whole_numbers
from farfield.errors import FarfieldError


def train(
    encoding: Annotated[
        str, typer.Option(help="Encoding with settings: rope, rope:base=500000, learned, learned:rows=64.")
    ] = "rope",
    task: Annotated[str, typer.Option(help="Task with settings: offset:K copies the token K before the query.")] = (
        "offset:1"
    ),
    model: Annotated[
        str, typer.Option(help="Model with settings: head:heads=4, positional, transformer:layers=2,heads=4,width=192.")
    ] = "head",
    normalizer: Annotated[
        str, typer.Option(help="What turns logits into weights: softmax:temperature=0.5, ssmax, entmax, linear.")
    ] = "softmax",
    positions: Annotated[
        str, typer.Option(help="Integers that tokens are given: fixed, random-start:2048, random-subset:2048, coupled.")
    ] = "fixed",
    test_positions: Annotated[
        str | None,
        typer.Option(
            help="The same in tests, also interpolate, clamp or rescale for tables (as in training if left out)."
        ),
    ] = None,
    seeds: Annotated[int, typer.Option(help="Number of seeds, 0 .. N-1.")] = 8,
    lengths: Annotated[str, typer.Option(help="Shortest and longest training length, SHORTEST:LONGEST.")] = "8:16",
    test: Annotated[str, typer.Option(help="Test lengths, separated by commas.")] = "12,16,20,24,32,40,48",
    vocabulary: Annotated[int, typer.Option(help="Number of tokens.")] = 20,
    steps: Annotated[int, typer.Option(help="Optimizer steps.")] = 4000,
    batch: Annotated[int, typer.Option(help="Sequences a step.")] = 256,
    learning_rate: Annotated[float, typer.Option(help="Of Adam.")] = 1e-3,
    weight_decay: Annotated[float, typer.Option(help="Coupled L2 on the encoding's own parameters.")] = 0.0,
    sequences: Annotated[int, typer.Option(help="Test sequences a length.")] = 4096,
    snapshots: Annotated[
        str | None, typer.Option(help="Also show carrier and spectrum after these steps, as in 0,200,1000.")
    ] = None,
    dense: Annotated[bool, typer.Option("--dense", help="Use the slow dense reference instead of lookup.")] = False,
    out: Annotated[
        Path | None, typer.Option(help="Keep finished models in this folder and reuse those there.", parser=folder_path)
    ] = None,
    plot: Plot = None,
    workers: Workers = None,
    as_json: Json = False,
) -> None:
    """Train models on short sequences, test them on long ones, say what they selected.

    `farfield list` names every encoding, task, model, normalizer and position regime. They combine freely; what makes
    no sense is refused with the reason. Settings follow a colon: NAME:VALUE for the first, NAME:SETTING=VALUE,... for
    any; rows of numbers are written 1;2;3, and 0 for a length or factor often means "as the training needs".

    Examples:

        farfield train --encoding rope --task offset:2 --seeds 8

        farfield train --encoding learned --task offset:1 --lengths 8:16 --test 16,17,32 --json

        farfield train --encoding rope:base=500000 --test 16,1024,65536 --sequences 256 --plot curves.png

        farfield train --encoding yarn:factor=4 --positions random-subset:2048 --normalizer ssmax --task induction
        --model transformer:layers=2,heads=4,width=192 --steps 500 --seeds 1
    """
    from farfield.api import train as run_training
    from farfield.cli.progress import reporter
    from farfield.cli.render.train import train_tables
    from farfield.plotting.style import check_path

    if plot is not None:
        check_path(plot)
    result = run_training(
        encoding,
        task,
        model=model,
        normalizer=normalizer,
        positions=positions,
        test_positions=test_positions,
        seeds=seeds,
        lengths=_range(lengths),
        test=whole_numbers("--test", test),
        out=out,
        workers=workers,
        progress=reporter(),
        vocabulary=vocabulary,
        steps=steps,
        batch=batch,
        learning_rate=learning_rate,
        weight_decay=weight_decay,
        sequences=sequences,
        snapshots=() if snapshots is None else whole_numbers("--snapshots", snapshots),
        path="dense" if dense else "auto",
    )
    answer(result, train_tables, as_json, None if plot is None else lambda: result.plot(plot))


def _range(text: str) -> tuple[int, int]:
    shortest, _, longest = text.partition(":")
    try:
        return int(shortest), int(longest or shortest)
    except ValueError:
        raise FarfieldError(f"--lengths {text!r}: write SHORTEST:LONGEST, for example 8:16") from None
