"""How often the head answers right, beside what guessing gives."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from jaxtyping import Float, Real

from farfield.errors import FarfieldError
from farfield.intervals import clustered
from farfield.lengths import Lengths, range_of


class Accuracy(NamedTuple):
    """Accuracy of one head at one length.

    Attributes:
        value: share of supervised rows answered correctly, over all sequences; NaN where some row has no answer,
            because its class scores are not numbers.
        low, high: 95% interval over the independent draws behind it, :func:`farfield.intervals.clustered`.
        chance: accuracy of guessing.
    """

    value: float
    low: float
    high: float
    chance: float


def accuracy(
    correct: int | np.integer,
    tested: int | np.integer,
    chance: float,
    *,
    clusters: int | np.integer,
    wrong_moments: Real[np.ndarray, " 3"],
    unanswered: int | np.integer = 0,
) -> Accuracy:
    """Accuracy with its interval.

    Args:
        correct, tested, unanswered: counts of rows.
        clusters: independent draws that the rows come from: sequences, or draws of positions that sequences share.
        wrong_moments: sums over clusters of y y, y m and m m, for m rows of which y are wrong.

    Raises:
        FarfieldError: if nothing was tested.
    """
    if tested < 1 or clusters < 1:
        raise FarfieldError(f"{tested} rows of {clusters} draws were tested, of which no share can be correct")
    if unanswered:
        return Accuracy(float("nan"), float("nan"), float("nan"), chance)
    low, high = clustered(int(tested) - int(correct), int(tested), int(clusters), wrong_moments)
    return Accuracy(int(correct) / int(tested), 1 - high, 1 - low, chance)


class RangeMeans(NamedTuple):
    """Accuracy averaged over test lengths, each counting once; NaN for a side without lengths.

    An average over lengths says nothing without them (neural_networks_chomsky_hierarchy issue 9): the same falling
    curve averages .63 to length 100 and .26 to length 500.

    Attributes:
        shorter: over lengths below the shortest training length.
        trained: over lengths from the shortest to the longest training length.
        longer: over lengths above the longest.
    """

    shorter: float
    trained: float
    longer: float


def range_means(values: Float[np.ndarray, " length"], lengths: Lengths, shortest: int, longest: int) -> RangeMeans:
    """Means over test lengths that are shorter than training, trained, and longer."""
    ranges = np.array([range_of(length, shortest, longest) for length in lengths])

    def mean(part: np.ndarray) -> float:
        return float(part.mean()) if part.size else float("nan")

    return RangeMeans(*(mean(np.asarray(values)[ranges == name]) for name in RangeMeans._fields))
