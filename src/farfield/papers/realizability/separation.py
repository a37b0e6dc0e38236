"""Separation: does alpha_L, read off before training, tell the cells that generalize from those that do not?

``farfield reproduce realizability --only separation``. The abstract's controlled regime: positional-only single heads,
7 encodings x 5 tasks x 5 seeds x 15 test lengths = 2,625 measurements of trained models. The abstract does not say
which; here they are rope, t5 and shaw (relative), key-only, learned and sinusoidal (absolute) and none (absent), on
offset:1 and offset:3 (fixed offsets), position:3 (a fixed position), fraction:2 and root (growing offsets n - n // 2
and isqrt(n)), trained on lengths 4 to 16 and tested at 8 to 64. ``separation-64`` has 64 tokens and d = 128.

* A head *generalizes* if the target has the largest attention, alone, at every one of the twelve lengths beyond 16.
* The prediction is that it does exactly where alpha_64 = 1. alpha is 0 where no kernel is right on the trained rows.
* *Gap*: the smallest share of lengths selected, averaged over seeds, among cells with alpha = 1, less the largest among
  the others. Above 0, one threshold separates the two classes.
* Accuracy is scored apart: a head that selects the right key at each length may still lose the answer, where its share
  of attention has thinned out (t5). Answers right by chance count too. The shares of sequences that are lost because
  the rule moves, another key is larger, or the target is diluted are told apart on either side of the prediction.
"""

from __future__ import annotations

import numpy as np

from farfield.papers.base import Item, Results
from farfield.papers.realizability.picture import grid_figure
from farfield.papers.realizability.setup import (
    ENCODINGS,
    SEEDS,
    TASKS,
    Score,
    by_seed,
    number,
    scores_of,
    series_of,
)
from farfield.papers.verdicts import Comparison
from farfield.probes.failure import WAYS

MEASUREMENTS = 2625
CAPTION = (
    "One square an encoding and task. Left: alpha, computed without training. Middle: how often trained heads put the "
    "right key first beyond the trained lengths. The two pictures agree where the theory holds. Right: accuracy, which "
    "also falls where attention thins out. Below: the same as points, one a trained head."
)


def compare(results: Results) -> list[Comparison]:
    scores = scores_of(results)
    measurements = sum(len(head.cell.lengths) for heads in results.values() for head in heads)
    return [
        number(
            "measurements: encodings x tasks x seeds x lengths",
            [measurements],
            f"The abstract counts {MEASUREMENTS}; the grid was made as large, so that this cannot fail.",
        ),
        claim(scores),
        *gaps(scores),
        *shares(scores),
        *exceptions(scores),
    ]


def claim(scores: list[Score]) -> Comparison:
    """The abstract's: alpha separates exactly. Here in every seed by itself, and with no head on the wrong side."""
    seeds = range(min(len(score.fitted) for score in scores))
    exact = [
        all(score.generalizes[seed] == score.carries_over for score in scores)
        and gap([(score.carries_over, score.selected[seed].mean()) for score in scores]) > 0
        for seed in seeds
    ]
    parting = [f"{score.name} (alpha {score.alpha:.2f})" for score in scores if score.exceptions]
    return by_seed(
        "alpha = 1 separates generalizing from other cells exactly, seed by seed",
        exact,
        note="Each head with alpha = 1 selects its target at every longer length, and no other head does.",
        explanation=f"Cells with a head that parts from its prediction: {', '.join(parting)}." if parting else "",
    )


def gaps(scores: list[Score]) -> list[Comparison]:
    """By how much the classes part."""
    both = [(score.carries_over, score.selected.mean()) for score in scores]
    answered = [(score.carries_over, score.accuracy.mean()) for score in scores]
    return [
        number("gap in selection between the classes, mean over seeds", [gap(both)], "1 is the largest possible."),
        number("gap in accuracy between the classes, mean over seeds", [gap(answered)], "Selection and dilution."),
    ]


def gap(cells: list[tuple[bool, float]]) -> float:
    """The least share among predicted cells less the largest among the others; NaN where a class is empty."""
    yes, no = ([float(share) for predicted, share in cells if predicted is side] for side in (True, False))
    return min(yes) - max(no) if yes and no else float("nan")


def shares(scores: list[Score]) -> list[Comparison]:
    """The confusion matrix over heads, and the same by length."""
    lines = []
    for predicted, wanted in ((True, "alpha = 1"), (False, "alpha < 1")):
        heads = np.concatenate([s.generalizes for s in scores if s.carries_over is predicted] or [np.zeros(0)])
        note = f"{int(heads.sum())} of {len(heads)} heads select their target at every longer length."
        share = heads.mean() if len(heads) else np.nan
        lines.append(number(f"{wanted}: share of heads that generalize", [share], note))
        lines += [
            number(
                f"{wanted}: share of longer sequences lost, {way.replace('_', ' ')}",
                [float(np.mean([s.lost[way].mean() for s in scores if s.carries_over is predicted] or [np.nan]))],
                "Right and the three ways add up to one." if way == WAYS[0] else "",
            )
            for way in WAYS
        ]
    agree = np.concatenate([(score.selected == score.predicted).ravel() for score in scores])
    fitted = [score for score in scores if score.prediction.won is not None]
    return [
        *lines,
        number(
            "share of (head, longer length) pairs on which prediction and head agree",
            [agree.mean()],
            f"{int(agree.sum())} of {len(agree)}.",
        ),
        number(
            "share of training lengths selected where a kernel realizes them",
            [np.concatenate([score.fitted for score in fitted]).mean() if fitted else np.nan],
            "Whether training has found what exists.",
        ),
    ]


def exceptions(scores: list[Score]) -> list[Comparison]:
    """One line a cell in which some head parts from the prediction, whatever the side."""
    return [
        number(
            f"exception: {score.name}, share of heads that generalize",
            [score.generalizes.mean()],
            f"alpha = {score.alpha:.2f}; {_nearest(score)}",
        )
        for score in scores
        if score.exceptions
    ]


def _nearest(score: Score) -> str:
    """How far the selected kernel's worst deep row is from a tie, in words."""
    lead = score.prediction.lead
    return "no kernel." if lead is None else f"its worst lead on a longer row is {lead.min():+.2f} of the trained one."


ITEM = Item(
    "separation",
    "alpha against 175 trained heads",
    __doc__,
    lambda: series_of(ENCODINGS, TASKS, SEEDS),
    compare,
    lambda results: grid_figure(scores_of(results)),
    CAPTION,
)
LARGER = Item(
    "separation-64",
    "The same with 64 tokens and d = 128",
    __doc__,
    lambda: series_of(ENCODINGS, TASKS, SEEDS, width=128, vocabulary=64),
    compare,
    lambda results: grid_figure(scores_of(results)),
    CAPTION,
)
