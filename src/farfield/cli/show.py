"""`farfield show`."""

from __future__ import annotations

from typing import Annotated

import typer

from farfield.cli.common import Json, Plot, answer
from farfield.errors import FarfieldError


def show(
    context: typer.Context,
    encoding: Annotated[str, typer.Argument(help="Encoding, with settings after a colon or as options.")],
    dim: Annotated[int, typer.Option(help="Dimension of the head (or model) that it acts on.")] = 64,
    length: Annotated[int, typer.Option(help="Places; the query is the last.", min=1, max=2**16)] = 64,
    trained: Annotated[int, typer.Option(help="Training length that original_length=0 stands for.", min=1)] = 16,
    head: Annotated[str, typer.Option(help="Which head of how many, INDEX/HEADS, where heads differ.")] = "0/1",
    seed: Annotated[int, typer.Option(help="Of trainable parameters, shown as training starts from them.")] = 0,
    plot: Plot = None,
    as_json: Json = False,
) -> None:
    """Print and draw an encoding's kernel and bias over offsets, before any training.

    Every setting of the encoding is an option of its name; `farfield list encodings` names them.

    Examples:

        farfield show rope --base 500000 --dim 128

        farfield show yarn:factor=4,original_length=2048 --dim 64 --length 4096 --plot yarn.png

        farfield show alibi --head 2/8 --json
    """
    from farfield.analysis.show import show as profile_of
    from farfield.cli.render.train import profile_table
    from farfield.plotting.figures import encoding_response
    from farfield.plotting.style import check_path, save

    if plot is not None:
        check_path(plot)
    shown = profile_of(encoding, _settings(context.args), dim=dim, length=length, trained=trained,
                       head=_pair("--head", head, "/"), seed=seed)  # fmt: skip
    draw = None if plot is None else lambda: save(encoding_response(shown.title, shown.profile), plot)
    answer(shown, profile_table, as_json, draw)


def _settings(arguments: list[str]) -> dict[str, str]:
    """Options that the command itself does not know, as settings: ``--base 500000`` or ``--base=500000``."""
    settings: dict[str, str] = {}
    left = list(arguments)
    while left:
        name, equals, value = left.pop(0).partition("=")
        if not name.startswith("--") or not (equals or left):
            raise FarfieldError(
                f"{name!r} is not understood: the encoding comes first, then its settings, as in rope --base 500000"
            )
        key = name.removeprefix("--").replace("-", "_")
        if key in settings:
            raise FarfieldError(f"--{key} is given twice")
        settings[key] = value if equals else left.pop(0)
    return settings


def _pair(option: str, text: str, sign: str) -> tuple[int, int]:
    first, _, second = text.partition(sign)
    try:
        return int(first), int(second)
    except ValueError:
        raise FarfieldError(f"{option} {text!r}: write two whole numbers, for example 0{sign}1") from None
