"""Figures of results: every function returns a matplotlib Figure."""

from __future__ import annotations

import textwrap
from collections.abc import Mapping, Sequence
from typing import Any

import matplotlib as mpl
import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.patches import Patch

from farfield.analysis.kernels import KernelComparison
from farfield.plotting.style import (
    COLOURS,
    STYLE,
    curve,
    legend,
    mark_training,
    new_figure,
    note,
    panels,
    seeds,
    style_of,
    whole_numbers,
)
from farfield.plotting.ways import WaysPanel, stack
from farfield.probes.attention import relative_profiles
from farfield.probes.encoding_profile import EncodingProfile
from farfield.results.measures import SHARE_OF, counted_by
from farfield.results.result import CellResult


def against_length(results: Mapping[str, Sequence[CellResult]], ways: WaysPanel | None = None) -> Figure:
    """Accuracy, peak height and selected offset against length; one curve a series, bands over seeds.

    Of offsets there is one marker a seed: their mean would be an offset that none may have selected.

    Args:
        ways: of a single series, what becomes of its sequences, in a panel of its own.
    """
    with mpl.rc_context(STYLE):
        figure, (left, middle, right, *others) = panels(3 if ways is None else 4)
        if ways is not None:
            stack(others[0], ways)
            others[0].set_ylabel("share of sequences")
        first = next(iter(results.values()))[0]
        for index, (name, cells) in enumerate(results.items()):
            lengths = cells[0].lengths
            rows = {
                left: ([[right.value for right in cell.accuracy] for cell in cells], (0.0, 1.0)),
                middle: ([cell.peak_height for cell in cells], (0.0, 1.0)),
            }
            for axes, (values, bounds) in rows.items():
                curve(axes, index, name, lengths, np.array(values, float), bounds)
            seeds(right, index, lengths, [cell.selected_offset for cell in cells])
        for axes, title, label in (
            (left, "Accuracy", _share_of(results)),
            (middle, "Peak height", "largest mean attention"),
            (right, "Selected offset", _selection(results)),
        ):
            axes.set(title=title, xlabel="length L", ylabel=label)
            _mark_training(axes, first)
        for axes in (left, middle, right):
            whole_numbers(axes, "x")
        _reference(left, "chance", first.lengths, [right.chance for right in first.accuracy])
        left.set_ylim(-0.08, 1.04)
        middle.set_ylim(0, 1.04)
        targets = first.target_offsets
        # One line for all curves, or none where their targets differ.
        every = {
            tuple(cells[0].target_offsets if cells[0].target_offsets is not None else ()) for cells in results.values()
        }
        if targets is not None and len(every) == 1:
            _reference(right, "target", first.lengths, targets)
        whole_numbers(right, "y", 1 - max(cells[0].lengths.max() for cells in results.values()), 0)
        right.set_xlim(left.get_xlim())
        if not _selects(results).any():
            above = {"facecolor": "white", "edgecolor": "none", "pad": 2}  # of a target that varies with length
            right.text(0.5, 0.8, "no selection", transform=right.transAxes, ha="center", color="0.35", bbox=above)
        said = "; selected offsets: one marker a seed"
        legend(figure, [left, *others], map(len, results.values()), said, columns=3 if others else 4)
        return figure


def _reference(axes: Axes, name: str, lengths: np.ndarray, values: Sequence[float] | np.ndarray) -> None:
    """A dashed line at what curves are held against, across the panel where it is the same at every length.

    Its name stands beside the panel, where nothing is drawn over it.
    """
    if len({*values}) == 1:
        axes.axhline(values[0], color="0.35", dashes=(4, 3), linewidth=1)
    else:
        axes.plot(lengths, values, color="0.35", dashes=(4, 3), linewidth=1)
    axes.annotate(name, (1, values[-1]), (3, 0), axes.get_yaxis_transform(), "offset points", va="center",
                  color="0.35", fontsize=7.5, annotation_clip=False)  # fmt: skip


def _mark_training(axes: Axes, result: CellResult) -> None:
    """The end of training, and its beginning where a test is shorter."""
    cell = result.cell
    shorter = any(cell.range_of(length) == "shorter" for length in cell.lengths)
    mark_training(axes, cell.longest, shortest=cell.shortest if shorter else None)


def _share_of(results: Mapping[str, Sequence[CellResult]]) -> str:
    """What the accuracies of these count."""
    return textwrap.fill(SHARE_OF[counted_by(cells[0].cell.task.rows for cells in results.values())], 34)


def _selects(results: Mapping[str, Sequence[CellResult]]) -> np.ndarray:
    """Whether an offset is selected, of every seed at every length."""
    return np.concatenate([np.isfinite(cell.selected_offset) for cells in results.values() for cell in cells])


def _selection(results: Mapping[str, Sequence[CellResult]]) -> str:
    """What the axis of selected offsets shows."""
    return "key - query" if _selects(results).all() else "key - query,\nof seeds that select one"


def profiles(results: Mapping[str, Sequence[CellResult]]) -> Figure:
    """Mean attention of each series by offset (left) and by absolute position (right), one curve a length."""
    with mpl.rc_context(STYLE):
        figure, axes = panels(2, rows=len(results), height=2.5)
        axes = np.reshape(axes, (len(results), 2))
        for row, (name, cells) in zip(axes, results.items(), strict=True):
            _profile_row(row, name, cells)
        legend(figure, axes[0], map(len, results.values()))
        return figure


def _profile_row(row: np.ndarray, name: str, cells: Sequence[CellResult]) -> None:
    relative, absolute = row
    cell, lengths = cells[0].cell, cells[0].lengths
    attention = np.stack([result.mean_attention for result in cells])  # [seed, length, position]
    aligned = np.stack([relative_profiles(seed, lengths) for seed in attention])
    for index, length in enumerate(lengths):
        curve(relative, index, f"L = {length}", np.arange(1 - min(lengths), 1), aligned[:, index], (0, 1))
        every = max(1, length // 12)
        curve(absolute, index, "", np.arange(length), attention[:, index, :length], (0, 1), every)
    relative.set(title=f"{name}: by offset", xlabel="offset (key - query)", ylabel="mean attention", ylim=(0, 1.04))
    absolute.set(title=f"{name}: by position", xlabel="key position", ylabel="mean attention", ylim=(0, 1.04))
    target = cells[0].target_offset
    if target is not None:
        relative.axvline(target, color="0.35", dashes=(4, 3), linewidth=1)
        note(relative, "target", (target, 1.0), shift=(-4, -4))
    mark_training(absolute, cell.longest - 1, "last trained position")
    for axes in row:
        whole_numbers(axes, "x")


def carrier_and_decay(cells: Sequence[CellResult]) -> Figure:
    """Carrier-only profile by offset, and peak height with the fitted decay law."""
    with mpl.rc_context(STYLE):
        figure, (left, right) = panels(2, height=3.0)
        first = cells[0]
        rows = np.array([cell.carrier_logits for cell in cells])
        shown = first.offsets >= -20
        curve(left, 0, "carrier-only profile", first.offsets[shown], rows[:, shown], None)
        if first.target_offset is not None:
            left.axvline(first.target_offset, color="0.35", dashes=(4, 3), linewidth=1)
            note(left, f"target {first.target_offset}", (first.target_offset, left.get_ylim()[0]), shift=(-4, 4))
        left.set(title="Carrier-only profile", xlabel="offset (key - query)", ylabel="logit")
        heights = np.array([cell.peak_height for cell in cells])
        curve(right, 0, "measured", first.lengths, heights, (0.0, 1.0))
        fits = [cell.dilution for cell in cells]
        alpha, c, r2 = (float(np.mean([getattr(fit, name) for fit in fits])) for name in ("alpha", "c", "r2"))
        grid = np.linspace(first.lengths.min(), first.lengths.max(), 100)
        label = f"1/({alpha:.2f} {'-' if c < 0 else '+'} {abs(c):.4f} (L - 1)), R² = {r2:.3f}"
        right.plot(grid, 1 / (alpha + c * (grid - 1)), color=COLOURS[1], linestyle="--", label=label)
        right.set(title="Peak height and decay law", xlabel="length L", ylabel="largest mean attention", ylim=(0, 1.04))
        _mark_training(right, first)
        for axes in (left, right):
            whole_numbers(axes, "x")
        legend(figure, [right], [len(cells)])
        return figure


def interpolation(
    scores: Mapping[str, np.ndarray], results: Mapping[str, Sequence[CellResult]], offsets: np.ndarray, target: int
) -> Figure:
    """Score profiles by offset, one row a seed, symmetric-logarithmic beyond ±1; and accuracy by length."""
    with mpl.rc_context(STYLE):
        figure, (left, right) = panels(2, height=3.2)
        for index, (name, rows) in enumerate(scores.items()):
            curve(left, index, name, offsets, rows, None, every=4)
        first = next(iter(results.values()))[0]
        left.set_yscale("symlog", linthresh=1)
        left.axvline(target, color="0.35", dashes=(4, 3), linewidth=1)
        note(left, "target", (target, left.get_ylim()[0]), shift=(-4, 4))
        left.axvline(1 - first.cell.longest, color="0.35", linestyle=":", linewidth=1.4)
        left.set(title="Scores by offset", xlabel="offset (key - query)", ylabel="score / score of the target")
        for index, (name, cells) in enumerate(results.items(), start=len(scores)):
            values = np.array([[correct.value for correct in cell.accuracy] for cell in cells])
            curve(right, index, f"{name}: accuracy", cells[0].lengths, values, (0.0, 1.0))
        right.set(title="Accuracy", xlabel="length L", ylabel=_share_of(results), ylim=(0, 1.04))
        _mark_training(right, first)
        for axes in (left, right):
            whole_numbers(axes, "x")
        legend(figure, [left, right], map(len, results.values()))
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
        figure = new_figure(4.2 * len(shown) + 0.6, 3.2)
        figure.suptitle(textwrap.fill(title, 55 * len(shown)), fontsize=9)
        panels = np.atleast_1d(figure.subplots(1, len(shown)))
        for axes, name in zip(panels, shown, strict=True):
            values = getattr(profile, name)
            values = np.zeros(len(profile.offsets)) if values is None else values
            axes.plot(profile.offsets, values, color=COLOURS[0])
            axes.axhline(0, color="0.35", linewidth=0.8)
            axes.set(title=parts[name], xlabel="offset (key - query)")
            whole_numbers(axes, "x")
        return figure


def verdict_strip(counts: Mapping[str, Mapping[Any, int]]) -> Figure:
    """How many published numbers were reproduced, differ or cannot be compared, one bar an item."""
    looks = {
        "reproduced": ("#009E73", "", "white"),
        "differs": ("#D55E00", "//", "white"),
        "not-comparable": ("#BBBBBB", "..", "black"),
    }
    with mpl.rc_context({**STYLE, "axes.grid": False}):
        figure = new_figure(6.2, 0.8 + 0.27 * len(counts))
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
        whole_numbers(axes, "x", 0)
        axes.spines["left"].set_visible(False)
        axes.tick_params(axis="y", length=0)
        handles = [Patch(facecolor=colour, hatch=hatch, edgecolor="white", label=name)
                   for name, (colour, hatch, _) in looks.items()]  # fmt: skip
        figure.legend(handles=handles, loc="outside upper left", ncols=len(handles))
        return figure


def kernels(compared: KernelComparison) -> Figure:
    """Largest g(s)/g(0) near each distance from the target (left), and the target's weight by length (right)."""
    with mpl.rc_context(STYLE):
        figure = new_figure(9.2, 3.6 + 0.16 * len(compared.entries))
        left, right = figure.subplots(1, 2)
        for index, entry in enumerate(compared.entries):
            curves = entry.curves
            label = f"{entry.title}, base {entry.encoding.base:g}" + (" (left panel only)" if entry.changes else "")
            for axes, x, y in ((left, curves.offsets, curves.highest), (right, curves.lengths, curves.masses)):
                every = max(1, len(x) // 8)
                axes.plot(x, y, label=label, markevery=(index % every, every), **style_of(index))
        left.set(xscale="log", title="Kernel: largest g(s)/g(0) near s", xlabel="distance s from the target")
        left.set_ylabel("share of the target's logit")
        shown = f"target {compared.offsets[-1]} before the query, logit {compared.logit_scale:g}"
        right.set(xscale="log", yscale="log", title=f"Weight of a {shown}", xlabel="context length L")
        right.set_ylabel("attention on the target")
        for axes in (left, right):
            whole_numbers(axes, "x")
            if compared.trained < compared.length:
                mark_training(axes, compared.trained, "" if axes is right else "training length")
        figure.legend(*left.get_legend_handles_labels(), loc="outside lower center", ncols=2)
        return figure
