"""Stacked bars of what becomes of test sequences by tested length: right, or lost in one of three ways."""

from __future__ import annotations

import math
import textwrap
from collections.abc import Mapping, Sequence
from typing import NamedTuple

import matplotlib as mpl
import numpy as np
from jaxtyping import Float
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from farfield.plotting.style import STYLE, new_figure
from farfield.printing import short
from farfield.results.result import CellResult

# From the bottom up: name, label, colour and hatch, which tell them apart without colour too.
LAYERS = (
    ("right", "right", "#009E73", ""),
    ("diluted", "diluted: the target is largest, and has too little", "#56B4E9", "//"),
    ("outcompeted", "outcompeted: in this sequence another key is larger", "#E69F00", ".."),
    ("rule_moved", "rule moved: mean attention is largest elsewhere", "#D55E00", "xx"),
)
COLUMNS = 3
# What a panel has room for: figures in a row of labels, gaps among them, and letters in a line of its title.
MOST_FIGURES, LETTERS = 40, 38


class WaysPanel(NamedTuple):
    """One setting.

    Attributes:
        title: its name.
        lengths: test lengths, ascending.
        shares: of sequences, by the names of :data:`LAYERS`, at each length; together one.
        trained: shortest and longest training length.
        learned: whether the task is learned within the trained lengths. Where it is not, no rule is there to move.
    """

    title: str
    lengths: Sequence[int]
    shares: Mapping[str, Float[np.ndarray, " length"]]
    trained: tuple[int, int]
    learned: bool = True


def panel_of(title: str, results: Sequence[CellResult]) -> WaysPanel:
    """Means over seeds that did not diverge, of which there is one, of a task with positional targets."""
    found = [result.ways for result in results if not result.diverged and result.ways is not None]
    shares = {name: np.mean([getattr(one, name) for one in found], axis=0) for name, *_ in LAYERS}
    cell = results[0].cell
    return WaysPanel(title, cell.lengths, shares, (cell.shortest, cell.longest))


def ways_figure(panels: Sequence[WaysPanel]) -> Figure:
    """One panel a setting."""
    columns = min(COLUMNS, len(panels))
    rows = -(-len(panels) // columns)
    with mpl.rc_context({**STYLE, "hatch.linewidth": 0.5}):
        figure = new_figure(3.0 * columns + 0.4, 2.2 * rows + 0.9)
        grid = np.ravel(figure.subplots(rows, columns, sharey=True, squeeze=False))
        for axes, panel in zip(grid, panels, strict=False):
            stack(axes, panel)
        for axes in grid[len(panels) :]:
            axes.set_visible(False)
        for axes in grid[::columns]:
            axes.set_ylabel("share of sequences")
        handles, labels = grid[0].get_legend_handles_labels()
        figure.legend(handles[::-1], labels[::-1], loc="outside lower center", ncols=min(2, columns))
        return figure


def stack(axes: Axes, panel: WaysPanel) -> None:
    """One bar a tested length, at equal distances: nothing is said of lengths between them."""
    axes.grid(False)
    places = np.arange(len(panel.lengths))
    below = np.zeros(len(places))
    for name, label, colour, hatch in LAYERS:
        share = panel.shares[name]
        axes.bar(places, share, 0.82, below, label=label, color=colour, edgecolor="white", hatch=hatch, linewidth=0)
        below = below + share
    _mark_training(axes, panel)
    every = math.ceil(len(places) * (len(str(panel.lengths[-1])) + 1) / MOST_FIGURES)
    shown = places[::-1][::every][::-1]
    axes.set_xticks(shown, [str(panel.lengths[place]) for place in shown])
    axes.tick_params(axis="x", length=0, labelsize=7.5)
    axes.set(xlim=(-0.6, len(places) - 0.4), ylim=(0, 1), xlabel="tested length L")
    title = short(panel.title).replace("$", r"\$") + ("" if panel.learned else ": not learned")
    axes.set_title(textwrap.fill(title, LETTERS), pad=14)


def _mark_training(axes: Axes, panel: WaysPanel) -> None:
    """Where training ends, between bars; where it begins too if a test is shorter."""
    lengths, (shortest, longest) = panel.lengths, panel.trained
    end = _edge(lengths, longest)
    begins = [_edge(lengths, shortest - 1)] if lengths[0] < shortest else []
    for place in (*begins, end):
        axes.axvline(place, color="black", linestyle=":", linewidth=1.2)
    middle = (begins[0] + end) / 2 if begins else end
    share = (middle + 0.5) / len(lengths)
    side = "left" if share < 0.2 else "right" if share > 0.8 else "center"  # within the panel
    axes.text(middle, 1.02, "trained" if begins else "trained to here", fontsize=6.5, color="0.3", ha=side)


def _edge(lengths: Sequence[int], length: int) -> float:
    """The place between bars that parts lengths up to ``length`` from longer ones."""
    return sum(tested <= length for tested in lengths) - 0.5
