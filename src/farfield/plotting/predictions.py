"""Predictions for the terminal, and their figures."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import matplotlib as mpl
import numpy as np
from matplotlib.figure import Figure
from rich import box
from rich.table import Table

from farfield.plotting.style import COLOURS, STYLE, mark_training, new_figure, panels, whole_numbers
from farfield.prediction.predict import Prediction

BAR = 40
SHOWN_OFFSETS = 24
MEANING = {
    "carries over": "the kernel of least norm that is right on every trained row is right on every longer one.",
    "exists but is not selected": "some kernel is right on the long grid too, but not the one that short rows select.",
    "not realizable": "no kernel of this encoding is right on all rows.",
    "underdetermined": "training says nothing of longer rows: kernels as good on short ones win or lose them all.",
}


def prediction_tables(found: Prediction, nearest: Sequence[str]) -> Iterable[Table | str]:
    """The verdict with its reasons, the witness by offset, and what else would carry the task over."""
    grid = f"trained to {found.trained}, tested to {found.tested}, d = {found.width}"
    yield f"{found.encoding_name} on {found.task_name}, {grid}"
    yield f"[bold]{found.verdict.capitalize()}[/]: {MEANING[found.verdict]}"
    yield _numbers(found)
    if found.reason or found.static.reason:
        yield f"Why: {found.reason or found.static.reason}."
    if found.note:
        yield f"Note: {found.note}."
    if found.witness is not None:
        yield "Scores of the selected kernel in the longest row, nearest offsets:"
        yield _witness(found)
    if nearest:
        yield f"Other encodings that carry this task over at their defaults: {', '.join(nearest)}."
    elif found.verdict == "carries over":
        yield "No other encoding carries this task over at its defaults."
    else:
        yield "No encoding carries this task over by positions alone; content or depth may (docs/realizability.md)."


def _numbers(found: Prediction) -> Table:
    table = Table(box=box.SIMPLE_HEAD, pad_edge=False, show_header=False)
    table.add_column("name")
    table.add_column("value")
    yes = {True: "yes", False: "no", None: "undecided"}
    table.add_row(f"realizable to {found.trained}", yes[found.realizable_at_trained])
    table.add_row(f"realizable to {found.tested} (static bound)", yes[found.realizable_at_tested])
    if found.alpha is not None:
        first, last = found.trained, found.tested - 1
        rows = f"row {first}" if first == last else f"rows {first} to {last}"
        table.add_row(f"alpha, share of {rows} won", f"{found.alpha:.3f}")
    if found.tied:
        table.add_row("rows that tie, counted as lost; training may win them", f"{found.tied:.3f}")
    if found.interval is not None and found.open is not None:
        low, high = found.interval
        others = f"alpha of any other such kernel, of up to {found.open.budget:g} times its norm"
        table.add_row(others, f"{low:.3f} to {high:.3f}")
    if found.initial is not None:
        table.add_row("alpha under initialization", f"{found.initial.mean:.3f}, sd {found.initial.deviation:.3f}")
    if found.margin is not None:
        table.add_row("margin / norm of the kernel", f"{found.margin:.4g}")
    if found.mass is not None and found.curve is not None:
        ends = sorted({found.trained + 1, found.tested})
        masses = ", ".join(f"{found.mass_at(length):.3f} at {length}" for length in ends)
        table.add_row(f"mass on the target, logit scale {found.logit_scale:.2f}", masses)
    return table


def _witness(found: Prediction) -> Table:
    assert found.witness is not None
    table = Table(box=box.SIMPLE_HEAD, pad_edge=False)
    table.add_column("offset", justify="right")
    table.add_column("score", justify="right")
    table.add_column("")
    scores = found.witness[:SHOWN_OFFSETS]
    low, span = float(scores.min()), float(np.ptp(scores)) or 1.0
    for offset, score in enumerate(scores):
        table.add_row(str(-offset), f"{score:.3f}", "█" * round(BAR * (score - low) / span))
    return table


def prediction_figure(found: Prediction) -> Figure:
    """Scores by offset, and alpha and mass by length."""
    with mpl.rc_context(STYLE):
        figure, (left, right) = panels(2, height=3.0)
        if found.witness is not None:
            left.plot(-np.arange(len(found.witness)), found.witness, color=COLOURS[0])
        left.set(title="Selected kernel, last row", xlabel="offset (key - query)", ylabel="score")
        if found.curve is not None:
            lengths = found.curve.lengths
            right.plot(lengths, found.curve.values, color=COLOURS[1], label="alpha")
            mass = [found.mass_at(int(length)) for length in lengths]
            right.plot(lengths, mass, color=COLOURS[2], linestyle="--", label="mass on the target")
        mark_training(right, found.trained)
        right.set(title="Beyond the trained grid", xlabel="length L", ylim=(-0.04, 1.04))
        for axes in (left, right):
            whole_numbers(axes, "x")
        figure.legend(loc="outside lower center", ncols=3)
        figure.suptitle(f"{found.encoding_name} on {found.task_name}: {found.verdict}", fontsize=10)
        return figure


def atlas_table(rows: Sequence[Sequence[Prediction]]) -> Table:
    """alpha of each encoding on each task."""
    table = Table(box=box.SIMPLE_HEAD, pad_edge=False)
    table.add_column("encoding")
    for cell in rows[0]:
        table.add_column(cell.task_name, justify="right")
    for row in rows:
        table.add_row(row[0].encoding_name, *map(in_short, row))
    return table


def in_short(cell: Prediction) -> str:
    """alpha, with what stands in its place where there is none: x not realizable on the trained grid."""
    if cell.alpha is None:
        return "x"
    mark = "?" if cell.verdict == "underdetermined" else "*" if cell.start_decides else ""
    return f"{cell.alpha:.2f}{mark}"


def atlas_figure(rows: Sequence[Sequence[Prediction]]) -> Figure:
    """The atlas as a heat map: alpha from 0 to 1, x where the trained grid itself is not realizable."""
    values = np.array([[np.nan if cell.alpha is None else cell.alpha for cell in row] for row in rows])
    with mpl.rc_context({**STYLE, "axes.grid": False}):
        figure = new_figure(2.6 + 0.72 * len(rows[0]), 1.4 + 0.26 * len(rows))
        axes = figure.add_subplot()
        colours = mpl.colormaps["cividis"].with_extremes(bad="#eeeeee")
        image = axes.imshow(np.ma.masked_invalid(values), cmap=colours, vmin=0, vmax=1, aspect="auto")
        for (row, column), value in np.ndenumerate(values):
            dark = np.isfinite(value) and value < 0.5
            axes.text(column, row, in_short(rows[row][column]), ha="center", va="center", fontsize=7,
                      color="white" if dark else "black")  # fmt: skip
        axes.set_xticks(range(len(rows[0])), [cell.task_name for cell in rows[0]], rotation=35, ha="right")
        axes.set_yticks(range(len(rows)), [row[0].encoding_name for row in rows])
        first = rows[0][0]
        axes.set_title(
            f"alpha, trained to {first.trained}, tested to {first.tested}: share of longer rows won\n"
            "x: no kernel is right on short rows   ?: left open by them   *: right from a start at zero"
        )
        figure.colorbar(image, ax=axes, shrink=0.6)
        return figure
