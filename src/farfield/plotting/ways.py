"""Stacked charts of what becomes of test sequences by length: right, or lost in one of three ways."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple

import matplotlib as mpl
import numpy as np
from jaxtyping import Float
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import FixedLocator, NullFormatter, NullLocator

from farfield.plotting.style import STYLE, new_figure
from farfield.results.result import CellResult

# From the bottom up: name, label, colour and hatch, which tell them apart without colour too.
LAYERS = (
    ("right", "right", "#009E73", ""),
    ("diluted", "diluted: the target is largest, and has too little", "#56B4E9", "//"),
    ("outcompeted", "outcompeted: in this sequence another key is larger", "#E69F00", ".."),
    ("rule_moved", "rule moved: mean attention is largest elsewhere", "#D55E00", "xx"),
)
COLUMNS = 3


class WaysPanel(NamedTuple):
    """One setting.

    Attributes:
        title: its name.
        lengths: test lengths, ascending.
        shares: of sequences, by the names of :data:`LAYERS`, at each length; together one.
        trained: shortest and longest training length.
    """

    title: str
    lengths: Sequence[int]
    shares: Mapping[str, Float[np.ndarray, " length"]]
    trained: tuple[int, int]


def panel_of(title: str, results: Sequence[CellResult]) -> WaysPanel:
    """Means over seeds that did not diverge, of a task with positional targets."""
    found = [result.ways for result in results if not result.diverged and result.ways is not None]
    shares = {name: np.mean([getattr(one, name) for one in found], axis=0) for name, *_ in LAYERS}
    cell = results[0].cell
    return WaysPanel(title, cell.lengths, shares, (cell.shortest, cell.longest))


def ways_figure(panels: Sequence[WaysPanel]) -> Figure:
    """One stacked chart a setting."""
    columns = min(COLUMNS, len(panels))
    rows = -(-len(panels) // columns)
    with mpl.rc_context({**STYLE, "axes.grid": False, "hatch.linewidth": 0.5}):
        figure = new_figure(3.0 * columns + 0.4, 2.2 * rows + 0.9)
        grid = np.ravel(figure.subplots(rows, columns, sharey=True, squeeze=False))
        for axes, panel in zip(grid, panels, strict=False):
            _stack(axes, panel)
        for axes in grid[len(panels) :]:
            axes.set_visible(False)
        for axes in grid[::columns]:
            axes.set_ylabel("share of sequences")
        handles, labels = grid[0].get_legend_handles_labels()
        figure.legend(handles[::-1], labels[::-1], loc="outside lower center", ncols=2)
        return figure


def _stack(axes: Axes, panel: WaysPanel) -> None:
    lengths = np.asarray(panel.lengths, float)
    if len(lengths) == 1:  # a bar, since a point has no area
        lengths = np.array([lengths[0] * 0.9, lengths[0] * 1.1])
    below = np.zeros(len(lengths))
    for name, label, colour, hatch in LAYERS:
        above = below + np.resize(panel.shares[name], len(lengths))
        axes.fill_between(lengths, below, above, label=label, facecolor=colour, edgecolor="white", hatch=hatch, lw=0)
        below = above
    shortest, longest = panel.trained
    ends = ((longest, "trained to here", "center"),)
    if panel.lengths[0] < shortest:
        ends = ((shortest, "trained from ", "right"), (longest, "to here", "left"))
    for length, text, side in ends:
        axes.axvline(length, color="black", linestyle=":", linewidth=1.2)
        axes.text(length, 1.02, text, fontsize=6.5, color="0.3", ha=side)
    axes.set_xscale("log", base=2)
    axes.xaxis.set_major_locator(FixedLocator(_few(panel.lengths)))
    axes.xaxis.set_minor_locator(NullLocator())
    axes.xaxis.set_major_formatter("{x:.0f}")
    axes.xaxis.set_minor_formatter(NullFormatter())
    axes.set(xlim=(lengths[0], lengths[-1]), ylim=(0, 1), xlabel="length L")
    axes.set_title(panel.title.replace("$", r"\$"), pad=14)


def _few(lengths: Sequence[int]) -> list[int]:
    """Lengths to label: the last, and before it those a factor of 1.4 or more apart."""
    shown = [lengths[-1]]
    for length in reversed(lengths[:-1]):
        if shown[-1] / length >= 1.4:
            shown.append(length)
    return shown[::-1]
