"""How figures are drawn, without a display: the style, panels, curves with bands, one legend, and writing files.

Series differ in colour, dash and marker at once, so that they survive print and colour blindness. The colours
are Okabe and Ito's.
"""

from __future__ import annotations

import io
import tempfile
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any, Literal

import matplotlib as mpl
import numpy as np
from matplotlib.axes import Axes
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure
from matplotlib.ticker import LogLocator, MaxNLocator, NullLocator

from farfield.errors import FarfieldError
from farfield.intervals import over_seeds

COLOURS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#000000")
DASHES = ("-", "--", "-.", ":", (0, (5, 1, 1, 1, 1, 1)), (0, (3, 1)), (0, (1, 1)))
MARKERS = ("o", "s", "^", "D", "v", "P", "X")
# Of the program around a figure, not of the figure; a matplotlibrc may keep these.
NOT_OF_FIGURES = {"backend", "backend_fallback", "interactive", "toolbar", "timezone", "datapath"}
# All settings that figures depend on, those that farfield leaves at matplotlib's own defaults too: a user's
# matplotlibrc or style changes none of them (`text.usetex` in one fails without LaTeX).
STYLE: dict[Any, Any] = {
    **{name: value for name, value in mpl.rcParamsDefault.items() if name not in NOT_OF_FIGURES},
    "font.size": 9,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.titlesize": 10,
    "axes.grid": True,
    "grid.alpha": 0.25,
    "grid.linewidth": 0.6,
    "lines.linewidth": 1.6,
    "lines.markersize": 4.5,
    "legend.frameon": False,
    "legend.fontsize": 8,
    "figure.facecolor": "white",
    "svg.hashsalt": "farfield",
}
FORMATS = (".png", ".svg", ".pdf")


def check_path(path: Path) -> None:
    """Refuse a path that no figure could be written to, before the work that the figure shows (FarfieldError)."""
    if not path.name:
        raise FarfieldError("the figure needs a name: for example --plot curves.png")
    if path.suffix not in FORMATS:
        raise FarfieldError(f"cannot write the figure {path}: end its name in {', '.join(FORMATS)}")
    # Permission bits do not tell: a superuser passes them all, and /proc takes no file from anyone.
    try:
        if not path.parent.is_dir():
            raise FarfieldError(f"cannot write the figure {path}: there is no folder {path.parent}")
        with path.open("ab") if path.exists() else tempfile.TemporaryFile(dir=path.parent):
            pass
    except OSError as reason:
        raise FarfieldError(
            f"cannot write the figure {path}: {reason.strerror}; choose another place or name for it"
        ) from None


def save(figure: Figure, path: Path) -> None:
    """Write a figure in the format of the path's suffix.

    Raises:
        FarfieldError: for an unknown suffix or an unwritable place.
    """
    check_path(path)
    try:
        with mpl.rc_context(STYLE):
            figure.savefig(path, dpi=160, metadata={"Date": None} if path.suffix == ".svg" else None)
    except OSError as reason:
        raise FarfieldError(f"cannot write the figure {path}: {reason.strerror}") from None


def to_svg(figure: Figure) -> str:
    """A figure as SVG text."""
    buffer = io.StringIO()
    with mpl.rc_context(STYLE):
        figure.savefig(buffer, format="svg", metadata={"Date": None})
    return buffer.getvalue()


def new_figure(width: float, height: float) -> Figure:
    """An empty figure of a size in inches, without a display."""
    figure = Figure(figsize=(width, height), layout="constrained")
    FigureCanvasAgg(figure)
    return figure


def panels(columns: int, rows: int = 1, height: float = 2.8) -> tuple[Figure, np.ndarray]:
    """A figure and its panels, side by side at the common size; ``height`` is that of a row in inches."""
    figure = new_figure(3.1 * columns + (1.4 if columns < 3 else 0), height * rows + 0.5)
    return figure, figure.subplots(rows, columns)


def style_of(index: int) -> dict[str, Any]:
    """Colour, dash and marker of the curve numbered ``index``.

    A second round through the colours meets other dashes and markers: 49 curves all differ (seaborn issue 680).
    """
    turn = index // len(COLOURS)
    return {
        "color": COLOURS[index % len(COLOURS)],
        "linestyle": DASHES[(index + turn) % len(DASHES)],
        "marker": MARKERS[(index + 2 * turn) % len(MARKERS)],
    }


def curve(
    axes: Axes,
    index: int,
    name: str,
    x: np.ndarray,
    rows: np.ndarray,
    bounds: tuple[float | np.ndarray, float | np.ndarray] | None,
    every: int = 1,
) -> None:
    """Mean over rows with its 95% interval as a band, a marker at every so many points; one row draws no band.

    A number that is missing is left out of its mean, and a point of which all are missing leaves a gap.

    Args:
        rows: one a seed, NaN where a number is missing.
        bounds: of what is possible, for all points or one a point; bands end there.
    """
    bounds = (-np.inf, np.inf) if bounds is None else bounds
    ends = np.broadcast_arrays(*bounds, rows[0])[:2]
    columns = [column[np.isfinite(column)] for column in rows.T]
    estimates = [
        over_seeds(column, bounds=(least, most)) if column.size else None
        for column, least, most in zip(columns, *ends, strict=True)
    ]
    style = style_of(index)
    means, low, high = (
        np.array([getattr(estimate, name, None) for estimate in estimates], float) for name in ("mean", "low", "high")
    )
    peak = {int(np.nanargmax(means))} if np.isfinite(means).any() else set()
    axes.plot(x, means, label=name or None, markevery=sorted({*range(0, len(means), every), *peak}), **style)
    if np.isfinite(low).any():
        axes.fill_between(x, low, high, color=style["color"], alpha=0.18, linewidth=0)


def seeds(axes: Axes, index: int, x: np.ndarray, rows: Sequence[np.ndarray]) -> None:
    """One marker a seed and point, of the colour and kind of the curve numbered ``index``; darker where seeds agree."""
    style: dict[str, Any] = style_of(index) | {"linestyle": "none"}
    for row in rows:
        axes.plot(x, row, alpha=0.4, markersize=4, markeredgewidth=0, **style)


def whole_numbers(axes: Axes, which: Literal["x", "y"], least: float = -np.inf, most: float = np.inf) -> None:
    """Ticks at whole numbers alone, for an axis of lengths, offsets, positions or counts; to be called after drawing.

    The axis is made two units long at least, so that a constant has its own tick and one beside it, and ends half a
    unit past what is possible. A logarithmic one, of numbers from 1 on, has ticks at
    all, at 1, 2, 5 or at powers of ten.
    """
    axis, limit = (axes.xaxis, axes.set_xlim) if which == "x" else (axes.yaxis, axes.set_ylim)
    low, high = sorted(map(float, axis.get_view_interval()))
    if axis.get_scale() == "log":
        low = max(low, 0.8)
        limit(low, high)
        axis.set_major_locator(
            LogLocator(subs=range(1, 10) if high < 10 * low else (1, 2, 5) if high < 100 * low else (1,))
        )
        axis.set_minor_locator(NullLocator())
        axis.set_major_formatter("{x:.0f}")
        return
    short = max(0.0, 2 - (high - low)) / 2
    limit(max(low - short, least - 0.5), min(high + short, most + 0.5))
    axis.set_major_locator(MaxNLocator("auto", steps=[1, 2, 5, 10], integer=True, min_n_ticks=1))


def mark_training(
    axes: Axes, longest: float, label: str = "longest trained length", *, shortest: float | None = None
) -> None:
    """A dotted line at the end of what training saw; with its beginning too, both ends and grey between them."""
    if shortest is None:
        axes.axvline(longest, color="0.35", linestyle=":", linewidth=1.4, label=label)
        return
    for end in (shortest, longest):
        axes.axvline(end, color="0.35", linestyle=":", linewidth=1.4)
    axes.axvspan(shortest, longest, color="0.5", alpha=0.14, linewidth=0, label="trained lengths")


def note(axes: Axes, text: str, at: tuple[float, float], shift: tuple[float, float]) -> None:
    """Small grey words beside a reference line, right-aligned; the shift is in points."""
    axes.annotate(text, at, shift, textcoords="offset points", ha="right", color="0.35", fontsize=7.5)


def legend(figure: Figure, panels: Sequence[Axes], seeds: Iterable[int], more: str = "", columns: int = 4) -> None:
    """One legend outside the panels, under a line that says what curves and bands are.

    Args:
        seeds: how many each curve shows.
        more: to be said of several seeds after that.
        columns: of entries, at most.
    """
    entries = {
        label: handle for axes in panels for handle, label in zip(*axes.get_legend_handles_labels(), strict=True)
    }
    n = "/".join(str(count) for count in sorted({*seeds}))
    title = "one seed" if n == "1" else f"mean over n = {n} seeds; bands: its 95% interval (Student t){more}"
    figure.legend(entries.values(), entries, loc="outside lower center", ncols=min(len(entries), columns), title=title,
                  title_fontsize=7.5)  # fmt: skip
