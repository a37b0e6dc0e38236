"""Beyond the abstract: every encoding on every positional task of the atlas, 10 seeds a cell.

``farfield reproduce realizability --only atlas``. The regime of the separation, with every encoding that has a feature
map (at its default settings) on nine tasks. Predictions of KERPLE and FIRE hold their functions' shape or knots where
they start, and training may move them; what parts from its prediction is listed cell by cell.
"""

from __future__ import annotations

import numpy as np

from farfield.papers.base import Item, Results, Series
from farfield.papers.realizability.picture import grid_figure
from farfield.papers.realizability.separation import CAPTION, exceptions, gaps, shares
from farfield.papers.realizability.setup import number, scores_of, series_of
from farfield.papers.verdicts import Comparison
from farfield.prediction.atlas import ATLAS_TASKS, atlas_encodings

SEEDS = 10


def series() -> Series:
    return series_of(atlas_encodings(), ATLAS_TASKS, SEEDS)


def compare(results: Results) -> list[Comparison]:
    scores = scores_of(results)
    heads = sum(map(len, results.values()))
    return [
        number("cells: encodings x tasks", [len(scores)], f"{heads} trained heads."),
        number(
            "share of cells whose heads all do what alpha says",
            [float(np.mean([score.exceptions == 0 for score in scores]))],
            "alpha = 1: every longer length selected; otherwise: some length lost.",
        ),
        *gaps(scores),
        *shares(scores),
        *exceptions(scores),
    ]


ITEM = Item(
    "atlas",
    "Every encoding on every positional task",
    __doc__,
    series,
    compare,
    lambda results: grid_figure(scores_of(results)),
    CAPTION,
    long=True,
)
