"""The picture of a grid: predicted and trained side by side, and every trained head as a point."""

from __future__ import annotations

import matplotlib as mpl
import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from farfield.papers.realizability.setup import Score
from farfield.plotting.style import COLOURS, MARKERS, STYLE, new_figure

SPREAD = 0.32


def grid_figure(scores: list[Score]) -> Figure:
    """Heat maps of alpha, selection and accuracy, and a strip of heads by class."""
    encodings = list(dict.fromkeys(score.name.partition(" on ")[0] for score in scores))
    tasks = list(dict.fromkeys(score.name.partition(" on ")[2] for score in scores))
    by_name = {score.name: score for score in scores}

    def table(value) -> np.ndarray:
        return np.array([[value(by_name[f"{encoding} on {task}"]) for task in tasks] for encoding in encodings])

    maps = (
        ("predicted: alpha, without training", table(lambda score: score.alpha)),
        ("trained: lengths selected", table(lambda score: score.selected.mean())),
        ("trained: accuracy (share of sequences)", table(lambda score: score.accuracy.mean())),
    )
    with mpl.rc_context({**STYLE, "axes.grid": False}):
        height = 0.9 + 0.27 * len(encodings)
        figure = new_figure(3.4 + 1.35 * len(tasks), height + 2.3)
        above, below = figure.subfigures(2, 1, height_ratios=(height, 2.3))  # pyright: ignore[reportGeneralTypeIssues]
        panels = above.subplots(1, 3, sharey=True)
        for axes, (title, values) in zip(panels, maps, strict=True):
            _heat_map(axes, values)
            axes.set_title(title)
            axes.set_xticks(range(len(tasks)), tasks, rotation=40, ha="right", rotation_mode="anchor")
            axes.set_yticks(range(len(encodings)), encodings)
        above.colorbar(panels[0].images[0], ax=panels, shrink=0.8, pad=0.01)
        _strips(below.subplots(1, 2, sharey=True), scores)
        return figure


def _heat_map(axes: Axes, values: np.ndarray) -> None:
    for (row, column), value in np.ndenumerate(values):
        axes.text(column, row, f"{value:.2f}".removeprefix("0") if 0 < value < 1 else f"{value:.0f}", ha="center",
                  va="center", fontsize=6.5, color="white" if value < 0.5 else "black")  # fmt: skip
    axes.imshow(values, cmap="cividis", vmin=0, vmax=1, aspect="auto")


def _strips(panels: np.ndarray, scores: list[Score]) -> None:
    """Every head as a point, by the class of its cell; the spread across a class has no meaning."""
    kinds = (("selection", "share of longer lengths selected", "selected"),
             ("accuracy", "share of longer sequences", "accuracy"))  # fmt: skip
    for axes, (title, label, field) in zip(panels, kinds, strict=True):
        for place, (side, name) in enumerate(((False, "alpha < 1"), (True, "alpha = 1"))):
            values = np.concatenate(
                [getattr(score, field).mean(axis=1) for score in scores if score.carries_over is side] or [np.zeros(0)]
            )
            across = np.linspace(-SPREAD, SPREAD, len(values)) if len(values) > 1 else np.zeros(len(values))
            axes.plot(place + across, values, MARKERS[place], color=COLOURS[place], markersize=3.5, alpha=0.6,
                      label=f"{name}, {len(values)} heads")  # fmt: skip
        axes.set_xticks((0, 1), ("alpha < 1", "alpha = 1"))
        axes.set(title=title, ylabel=label, ylim=(-0.04, 1.04), xlim=(-0.6, 1.6))
        axes.grid(visible=True, axis="y")
        axes.legend(loc="center right" if title == "selection" else "lower right")
