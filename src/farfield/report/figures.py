"""Figures, drawn without a display: every function returns a matplotlib Figure, :func:`save` writes it.

Series differ in colour, dash and marker at once, so that they survive print and colour blindness. The colours
are Okabe and Ito's.
"""

from __future__ import annotations

import io
import os
import textwrap
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import matplotlib as mpl
import numpy as np
from matplotlib.axes import Axes
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure
from matplotlib.patches import Patch
from matplotlib.ticker import MaxNLocator

from farfield.errors import FarfieldError
from farfield.probes.attention import relative_profiles
from farfield.probes.encoding_profile import EncodingProfile
from farfield.statistics import over_seeds
from farfield.studies.results import CellResult

COLOURS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#000000")
DASHES = ("-", "--", "-.", ":", (0, (5, 1, 1, 1, 1, 1)), (0, (3, 1)), (0, (1, 1)))
MARKERS = ("o", "s", "^", "D", "v", "P", "X")
STYLE: dict[Any, Any] = {
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


def against_length(results: Mapping[str, Sequence[CellResult]]) -> Figure:
    """Accuracy, peak height and selected offset against length; one curve a series, bands over seeds."""
    with mpl.rc_context(STYLE):
        figure, (left, middle, right) = _panels(3)
        first = next(iter(results.values()))[0]
        for index, (name, cells) in enumerate(results.items()):
            lengths = cells[0].lengths
            rows = {
                left: ([[right.value for right in cell.accuracy] for cell in cells], (0.0, 1.0)),
                middle: ([cell.peak_height for cell in cells], (0.0, 1.0)),
                right: ([cell.selected_offset for cell in cells], None),
            }
            for axes, (values, bounds) in rows.items():
                _curve(axes, index, name, lengths, np.array(values, float), bounds)
        for axes, title, label in (
            (left, "Accuracy", "share of sequences"),
            (middle, "Peak height", "largest mean attention"),
            (right, "Selected offset", "key - query"),
        ):
            axes.set(title=title, xlabel="length L", ylabel=label)
            _mark_training(axes, first.cell.longest)
        chances = [right.chance for right in first.accuracy]
        left.plot(first.lengths, chances, color="0.35", dashes=(4, 3), linewidth=1)
        _note(left, "chance", (first.lengths[-1], chances[-1]), shift=(-2, -9))
        left.set_ylim(-0.08, 1.04)
        middle.set_ylim(0, 1.04)
        right.yaxis.set_major_locator(MaxNLocator(integer=True))
        targets = first.target_offsets
        # One line for all curves, or none where their targets differ.
        every = {
            tuple(cells[0].target_offsets if cells[0].target_offsets is not None else ()) for cells in results.values()
        }
        if targets is not None and len(every) == 1:
            right.plot(first.lengths, targets, color="0.35", dashes=(4, 3), linewidth=1)
            _note(right, "target", (first.lengths[-1], targets[-1]), shift=(-2, -9))
        _legend(figure, [left], results)
        return figure


def profiles(results: Mapping[str, Sequence[CellResult]]) -> Figure:
    """Mean attention of each series by offset (left) and by absolute position (right), one curve a length."""
    with mpl.rc_context(STYLE):
        figure, axes = _panels(2, rows=len(results), height=2.5)
        axes = np.reshape(axes, (len(results), 2))
        for row, (name, cells) in zip(axes, results.items(), strict=True):
            _profile_row(row, name, cells)
        _legend(figure, axes[0], results)
        return figure


def _profile_row(row: np.ndarray, name: str, cells: Sequence[CellResult]) -> None:
    relative, absolute = row
    cell, lengths = cells[0].cell, cells[0].lengths
    attention = np.stack([result.mean_attention for result in cells])  # [seed, length, position]
    aligned = np.stack([relative_profiles(seed, lengths) for seed in attention])
    for index, length in enumerate(lengths):
        _curve(relative, index, f"L = {length}", np.arange(1 - min(lengths), 1), aligned[:, index], (0, 1))
        every = max(1, length // 12)
        _curve(absolute, index, "", np.arange(length), attention[:, index, :length], (0, 1), every)
    relative.set(title=f"{name}: by offset", xlabel="offset (key - query)", ylabel="mean attention", ylim=(0, 1.04))
    absolute.set(title=f"{name}: by position", xlabel="key position", ylabel="mean attention", ylim=(0, 1.04))
    target = cells[0].target_offset
    if target is not None:
        relative.axvline(target, color="0.35", dashes=(4, 3), linewidth=1)
        _note(relative, "target", (target, 1.0), shift=(-4, -4))
    _mark_training(absolute, cell.longest - 1, "last trained position")


def carrier_and_decay(cells: Sequence[CellResult]) -> Figure:
    """Carrier-only profile by offset, and peak height with the fitted decay law."""
    with mpl.rc_context(STYLE):
        figure, (left, right) = _panels(2, height=3.0)
        first = cells[0]
        rows = np.array([cell.carrier_logits for cell in cells])
        shown = first.offsets >= -20
        _curve(left, 0, "carrier-only profile", first.offsets[shown], rows[:, shown], None)
        if first.target_offset is not None:
            left.axvline(first.target_offset, color="0.35", dashes=(4, 3), linewidth=1)
            _note(left, f"target {first.target_offset}", (first.target_offset, left.get_ylim()[0]), shift=(-4, 4))
        left.set(title="Carrier-only profile", xlabel="offset (key - query)", ylabel="logit")
        heights = np.array([cell.peak_height for cell in cells])
        _curve(right, 0, "measured", first.lengths, heights, (0.0, 1.0))
        fits = [cell.dilution for cell in cells]
        alpha, c, r2 = (float(np.mean([getattr(fit, name) for fit in fits])) for name in ("alpha", "c", "r2"))
        grid = np.linspace(first.lengths.min(), first.lengths.max(), 100)
        label = f"1/({alpha:.2f} + {c:.4f} (L - 1)), R² = {r2:.3f}"
        right.plot(grid, 1 / (alpha + c * (grid - 1)), color=COLOURS[1], linestyle="--", label=label)
        right.set(title="Peak height and decay law", xlabel="length L", ylabel="largest mean attention", ylim=(0, 1.04))
        _mark_training(right, first.cell.longest)
        _legend(figure, [right], {"": cells})
        return figure


def interpolation(
    scores: Mapping[str, np.ndarray], results: Mapping[str, Sequence[CellResult]], offsets: np.ndarray, target: int
) -> Figure:
    """Score profiles by offset, one row a seed, symmetric-logarithmic beyond ±1; and accuracy by length."""
    with mpl.rc_context(STYLE):
        figure, (left, right) = _panels(2, height=3.2)
        for index, (name, rows) in enumerate(scores.items()):
            _curve(left, index, name, offsets, rows, None, every=4)
        first = next(iter(results.values()))[0]
        left.set_yscale("symlog", linthresh=1)
        left.axvline(target, color="0.35", dashes=(4, 3), linewidth=1)
        _note(left, "target", (target, left.get_ylim()[0]), shift=(-4, 4))
        left.axvline(1 - first.cell.longest, color="0.35", linestyle=":", linewidth=1.4)
        left.set(title="Scores by offset", xlabel="offset (key - query)", ylabel="score / score of the target")
        for index, (name, cells) in enumerate(results.items(), start=len(scores)):
            values = np.array([[correct.value for correct in cell.accuracy] for cell in cells])
            _curve(right, index, f"{name}: accuracy", cells[0].lengths, values, (0.0, 1.0))
        right.set(title="Accuracy", xlabel="length L", ylabel="share of sequences", ylim=(0, 1.04))
        _mark_training(right, first.cell.longest)
        _legend(figure, [left, right], results)
        return figure


def encoding_response(title: str, profile: EncodingProfile) -> Figure:
    """An encoding's kernel, bias and added vectors by offset, one panel for each that there is."""
    parts = {
        "rotation": "Rotation: q·k of equal vectors / d",
        "bias": "Bias, in logit units",
        "added": "Added vectors: p·p' / d",
    }
    shown = [name for name in parts if getattr(profile, name) is not None] or ["rotation"]
    with mpl.rc_context(STYLE):
        figure = _figure(4.2 * len(shown) + 0.6, 3.2)
        figure.suptitle(textwrap.fill(title, 55 * len(shown)), fontsize=9)
        panels = np.atleast_1d(figure.subplots(1, len(shown)))
        for axes, name in zip(panels, shown, strict=True):
            values = getattr(profile, name)
            values = np.zeros(len(profile.offsets)) if values is None else values
            axes.plot(profile.offsets, values, color=COLOURS[0])
            axes.axhline(0, color="0.35", linewidth=0.8)
            axes.set(title=parts[name], xlabel="offset (key - query)")
        return figure


def verdict_strip(counts: Mapping[str, Mapping[Any, int]]) -> Figure:
    """How many published numbers were reproduced, differ or cannot be compared, one bar an item."""
    looks = {
        "reproduced": ("#009E73", "", "white"),
        "differs": ("#D55E00", "//", "white"),
        "not-comparable": ("#BBBBBB", "..", "black"),
    }
    with mpl.rc_context({**STYLE, "axes.grid": False}):
        figure = _figure(7.6, 0.55 + 0.3 * len(counts))
        axes = figure.add_subplot()
        for row, (_, outcomes) in enumerate(counts.items()):
            left = 0
            for outcome, (colour, hatch, ink) in looks.items():
                number = outcomes.get(outcome, 0)
                if number:
                    axes.barh(row, number, left=left, color=colour, hatch=hatch, edgecolor="white", height=0.72)
                    axes.text(left + number / 2, row, str(number), ha="center", va="center", color=ink, fontsize=8)
                left += number
        axes.set_yticks(range(len(counts)), list(counts))
        axes.invert_yaxis()
        axes.set_xlabel("published numbers and claims")
        axes.spines["left"].set_visible(False)
        axes.tick_params(axis="y", length=0)
        handles = [Patch(facecolor=colour, hatch=hatch, edgecolor="white", label=name)
                   for name, (colour, hatch, _) in looks.items()]  # fmt: skip
        figure.legend(handles=handles, loc="outside right upper")
        return figure


FORMATS = (".png", ".svg", ".pdf")


def check_path(path: Path) -> None:
    """Refuse a path that no figure could be written to, before the work that the figure shows (FarfieldError)."""
    if not path.name:
        raise FarfieldError("the figure needs a name: for example --plot curves.png")
    if path.suffix not in FORMATS:
        raise FarfieldError(f"cannot write the figure {path}: end its name in {', '.join(FORMATS)}")
    if not path.parent.is_dir():
        raise FarfieldError(f"cannot write the figure {path}: there is no folder {path.parent}")
    if not os.access(path.parent, os.W_OK):
        raise FarfieldError(f"cannot write the figure {path}: {path.parent} cannot be written to")


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


def _figure(width: float, height: float) -> Figure:
    figure = Figure(figsize=(width, height), layout="constrained")
    FigureCanvasAgg(figure)
    return figure


def _panels(columns: int, rows: int = 1, height: float = 2.8) -> tuple[Figure, np.ndarray]:
    figure = _figure(3.1 * columns + (1.4 if columns < 3 else 0), height * rows + 0.5)
    return figure, figure.subplots(rows, columns)


def _style(index: int) -> dict[str, Any]:
    # A second round through the colours meets other dashes and markers: 49 curves all differ (seaborn issue 680).
    turn = index // len(COLOURS)
    return {
        "color": COLOURS[index % len(COLOURS)],
        "linestyle": DASHES[(index + turn) % len(DASHES)],
        "marker": MARKERS[(index + 2 * turn) % len(MARKERS)],
    }


def _curve(
    axes: Axes,
    index: int,
    name: str,
    x: np.ndarray,
    rows: np.ndarray,
    bounds: tuple[float, float] | None,
    every: int = 1,
) -> None:
    """Mean over rows with its 95% interval as a band, a marker at every so many points; one row draws no band."""
    estimates = [over_seeds(column, bounds=bounds) for column in rows.T]
    style = _style(index)
    means = [estimate.mean for estimate in estimates]
    marked = sorted({*range(0, len(means), every), int(np.argmax(means))})  # the peak always
    axes.plot(x, means, label=name or None, markevery=marked, **style)
    if len(rows) > 1:
        low, high = ([getattr(estimate, end) for estimate in estimates] for end in ("low", "high"))
        axes.fill_between(x, low, high, color=style["color"], alpha=0.18, linewidth=0)


def _mark_training(axes: Axes, longest: float, label: str = "longest trained length") -> None:
    axes.axvline(longest, color="0.35", linestyle=":", linewidth=1.4, label=label)


def _note(axes: Axes, text: str, at: tuple[float, float], shift: tuple[float, float]) -> None:
    """Small grey words beside a reference line, right-aligned; the shift is in points."""
    axes.annotate(text, at, shift, textcoords="offset points", ha="right", color="0.35", fontsize=7.5)


def _legend(figure: Figure, panels: Sequence[Axes], results: Mapping[str, Sequence[CellResult]]) -> None:
    """One legend outside the panels, under a line that says what curves and bands are."""
    entries = {
        label: handle for axes in panels for handle, label in zip(*axes.get_legend_handles_labels(), strict=True)
    }
    n = "/".join(str(count) for count in sorted({len(cells) for cells in results.values()}))
    note = "one seed" if n == "1" else f"mean over n = {n} seeds; bands: its 95% interval (Student t)"
    figure.legend(entries.values(), entries, loc="outside lower center", ncols=min(len(entries), 4), title=note,
                  title_fontsize=7.5)  # fmt: skip
