"""`farfield train`."""

from __future__ import annotations

import inspect
from collections.abc import Iterator
from pathlib import Path
from typing import Annotated, Any

import typer

from farfield.cell_settings import SETTINGS, CellSetting
from farfield.cli.common import Json, Plot, Workers, answer, folder_path, whole_numbers
from farfield.errors import FarfieldError


def train(
    *, seeds: int, dense: bool, out: Path | None, plot: Path | None, workers: int | None, as_json: bool, **settings: Any
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
    settings |= {
        "lengths": _range(settings["lengths"]),
        "test": whole_numbers("--test", settings["test"]),
        "snapshots": () if settings["snapshots"] is None else whole_numbers("--snapshots", settings["snapshots"]),
    }
    path = "dense" if dense else "auto"
    result = run_training(**settings, seeds=seeds, path=path, out=out, workers=workers, progress=reporter())
    answer(result, train_tables, as_json, None if plot is None else lambda: result.plot(plot))


SeedsOption = Annotated[int, typer.Option(help="Number of seeds, 0 .. N-1.")]
DenseOption = Annotated[bool, typer.Option("--dense", help="Use the slow dense reference instead of lookup.")]
OutOption = Annotated[
    Path | None, typer.Option(help="Keep finished models in this folder and reuse those there.", parser=folder_path)
]


def _parameters() -> Iterator[inspect.Parameter]:
    """The options, those of :data:`SETTINGS` among them; the path of logits has its own flag, ``--dense``."""
    others = {"seeds": (SeedsOption, 8), "dense": (DenseOption, False), "out": (OutOption, None), "plot": (Plot, None)}
    others |= {"workers": (Workers, None), "as_json": (Json, False)}
    settings = {name: _option(setting) for name, setting in SETTINGS.items() if name != "path"}
    for name, (annotation, default) in (settings | others).items():
        yield inspect.Parameter(name, inspect.Parameter.KEYWORD_ONLY, default=default, annotation=annotation)


def _option(setting: CellSetting) -> tuple[Any, Any]:
    """Type, with help, and default of the option of a setting."""
    kinds: dict[str, Any] = {"whole": int, "real": float, "part": str | None if setting.default is None else str}
    kind: Any = kinds.get(setting.kind, str)
    default: Any = setting.default
    if setting.kind == "lengths":
        default = ":".join(map(str, default))
    if setting.kind == "whole numbers":
        kind, default = (str, ",".join(map(str, default))) if default else (str | None, None)
    more = setting.more or (f"Separated by commas, as in {setting.example}." if setting.example else "")
    return Annotated[kind, typer.Option(help=f"{setting.help} {more}".strip())], default


# Typer reads the options from here.
train.__signature__ = inspect.Signature([*_parameters()])  # pyright: ignore[reportFunctionMemberAccess]


def _range(text: str) -> tuple[int, int]:
    shortest, _, longest = text.partition(":")
    try:
        return int(shortest), int(longest or shortest)
    except ValueError:
        raise FarfieldError(f"--lengths {text!r}: write SHORTEST:LONGEST, for example 8:16") from None
