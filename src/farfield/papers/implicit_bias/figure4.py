"""Figure 4: the margin's bound, the carrier's and the spectrum's growth in training, and the pin (K = 2).

``farfield reproduce implicit-bias --only figure4``: 16 rotary heads that keep their weights at chosen steps, and the
learned absolute heads of table 6; about 20 s on two cores.
"""

from typing import Any

import matplotlib as mpl
import numpy as np
from matplotlib.figure import Figure

from farfield.papers.base import Item, Results, Series
from farfield.papers.implicit_bias import table6
from farfield.papers.implicit_bias.setup import PUBLISHED, SNAPSHOTS, SWEEP, TWO_DIGITS, at_length, rope
from farfield.papers.verdicts import Comparison
from farfield.plotting.style import STYLE, curve, legend, mark_training, note, panels
from farfield.probes.dilution import target_bound
from farfield.results.result import CellResult

OFFSET = 2
DYNAMICS = PUBLISHED["training_dynamics"]
MEASURES = {
    "key_fraction": ("key carrier fraction", lambda result: result.carrier.key),
    "top1_singular_energy": ("top-1 energy of W", lambda result: float(result.top_energy[0])),
}
# What the print calls init, step200 and plateau; the plateau is read at the end of training.
MOMENTS = {"init": 0, "step200": 200, "plateau": None}


def series() -> Series:
    decays = [table6.label(row["weight_decay"]) for row in table6.ROWS]
    return {"rope": rope(OFFSET)} | {name: table6.series()[name] for name in decays}


def compare(results: Results) -> list[Comparison]:
    return [
        Comparison(f"{name}, {moment}", DYNAMICS[key][moment], TWO_DIGITS, _at(results["rope"], measure, step), SWEEP)
        for key, (name, measure) in MEASURES.items()
        for moment, step in MOMENTS.items()
    ]


def _at(cells: list[CellResult], measure: Any, step: int | None) -> list[float]:
    """A measure after a step, or at the end of training, of each seed."""
    return [measure(cell if step is None else cell.at(step)) for cell in cells if step in (None, *cell.cell.snapshots)]


def draw(results: Results) -> Figure:
    """Bound and peak height by length; carrier and spectrum by step; pin and accuracy by weight decay."""
    with mpl.rc_context(STYLE):
        figure, (left, middle, right) = panels(3, height=3.0)
        cells = results["rope"]
        _bound(left, cells)
        _dynamics(middle, cells)
        _pins(right, results)
        legend(figure, [left, middle, right], map(len, results.values()))
        return figure


def _bound(axes: Any, cells: list[CellResult]) -> None:
    lengths = cells[0].lengths
    curve(axes, 0, "peak height", lengths, np.array([cell.peak_height for cell in cells]), (0, 1))
    bounds = [target_bound(cell.margin, lengths) for cell in cells if cell.margin is not None]
    curve(axes, 1, "bound of the margin", lengths, np.array(bounds), (0, 1))
    mark_training(axes, cells[0].cell.longest)
    axes.set(title="Attention on the target", xlabel="length L", ylabel="weight", ylim=(0, 1.04))


def _dynamics(axes: Any, cells: list[CellResult]) -> None:
    steps = [step for step in SNAPSHOTS if step in cells[0].cell.snapshots] + [cells[0].cell.steps]
    for index, (name, measure) in enumerate(MEASURES.values(), start=2):
        rows = np.array([_at(cells, measure, step if step in cells[0].cell.snapshots else None) for step in steps]).T
        curve(axes, index, name, np.array(steps), rows, (0, 1))
    axes.set_xscale("symlog", linthresh=25)
    ticks = [step for step in (0, 25, 100, 500, 4000) if step <= steps[-1]]
    axes.set_xticks(ticks, list(map(str, ticks)))
    axes.minorticks_off()
    axes.set(title="Training", xlabel="step", ylabel="share of energy", ylim=(0, 1.04))


def _pins(axes: Any, results: Results) -> None:
    """Every seed's pin, and the accuracy beside it on an axis of its own."""
    decays = [row["weight_decay"] for row in table6.ROWS]
    places = np.arange(len(decays))
    rows = np.array([[table6.pinned(cell) for cell in results[table6.label(decay)]] for decay in decays], float).T
    for row, shift in zip(rows, np.linspace(-0.12, 0.12, len(rows)), strict=True):
        axes.scatter(places + shift, row, s=9, color="0.6", zorder=1)
    for place, decay in zip(places, decays, strict=True):
        accuracy = float(np.mean(at_length(results[table6.label(decay)], table6.AT)))
        axes.annotate(f"accuracy {accuracy:.2f}", (place, 0.4), ha="center", fontsize=7.5, color="0.35")
    curve(axes, 4, "learned: pin (dots: seeds)", places, rows, (0, table6.AT - 1))
    target = PUBLISHED["setup"]["train"]["lengths"][1] - 1 - OFFSET
    axes.axhline(target, color="0.35", dashes=(4, 3), linewidth=1)
    note(axes, f"last trained target, {target}", (places[-1], target), shift=(0, 4))
    axes.set_xticks(places, [f"{decay:g}" for decay in decays])
    axes.set(title="Learned positions: pin at L = 48", xlabel="weight decay", ylabel="key position")
    axes.set(xlim=(-0.5, len(decays) - 0.5), ylim=(-0.5, 15.5))


ITEM = Item(
    "figure4",
    "Bound and peak height, training dynamics, and the learned absolute pin, K = 2",
    __doc__,
    series,
    compare,
    draw,
    "Left: the weight that the margin guarantees, and the weight that the target has. Middle: keys align with one "
    "direction and W concentrates within 200 of 4,000 steps. Right: the position that learned absolute heads pin to "
    "at L = 48, every seed a dot; weight decay draws it to 13, the place of the target in a longest training sequence.",
)
