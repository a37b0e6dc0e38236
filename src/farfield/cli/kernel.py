"""`farfield kernel`."""

from __future__ import annotations

from typing import Annotated

import typer

from farfield.analysis.defaults import LOGIT_SCALE, TRAINED
from farfield.cli.common import Json, Plot, answer, whole_numbers
from farfield.errors import FarfieldError


def kernel(
    encoding: Annotated[
        str, typer.Option(help="Rotary encodings, as in rope,yarn:factor=8,original_length=4096,llama3.")
    ] = "rope",
    base: Annotated[
        str | None, typer.Option(help="Bases (rope_theta), each for every encoding; an encoding's own if left out.")
    ] = None,
    dim: Annotated[int, typer.Option(help="Dimension of the head.")] = 128,
    length: Annotated[int, typer.Option(help="Context length; offsets go to one less.")] = 131072,
    trained: Annotated[
        int, typer.Option(help="Training length: original_length=0 stands for it, and offsets past it are new.")
    ] = TRAINED,
    logit_scale: Annotated[
        float, typer.Option(help="Logit at the target. Heads trained on fixed offsets have about 8.")
    ] = LOGIT_SCALE,
    offset: Annotated[
        str | None, typer.Option(help="Targets, places before the query, for margin and dilution; 1,64 if left out.")
    ] = None,
    plot: Plot = None,
    as_json: Json = False,
) -> None:
    """Compare rotary kernels, to choose a base or a scaling: breadth, far re-alignment, margin and dilution.

    The kernel g(s) is the mean of cos(s theta) over all pairs of coordinates: how much a key s places from the
    target gets of the target's logit. A trained head weights the pairs, which makes its peak sharper and its far
    re-alignment higher; `weights` of `farfield.kernel` in Python takes its weights.

    Examples:

        farfield kernel --dim 128 --base 500000 --length 131072

        farfield kernel --base 10000,500000 --plot kernels.png

        farfield kernel --encoding rope,position-interpolation:factor=8,ntk:factor=8,yarn:factor=8,llama3 --base 500000

        farfield kernel --dim 64 --base 1000,10000 --logit-scale 12 --offset 0,2,512 --json
    """
    from farfield.analysis.kernels import kernel as kernels_of
    from farfield.cli.render.kernel import kernel_tables
    from farfield.plotting.figures import kernels
    from farfield.plotting.style import check_path, save

    if plot is not None:
        check_path(plot)
    compared = kernels_of(
        encoding,
        base=None if base is None else _numbers("--base", base),
        dim=dim,
        length=length,
        trained=trained,
        logit_scale=logit_scale,
        offsets=None if offset is None else whole_numbers("--offset", offset),
    )
    answer(compared, kernel_tables, as_json, None if plot is None else lambda: save(kernels(compared), plot))


def _numbers(option: str, text: str) -> list[float]:
    try:
        return [float(part) for part in text.split(",")]
    except ValueError:
        raise FarfieldError(f"{option} {text!r}: write numbers separated by commas, for example 10000,5e5") from None
