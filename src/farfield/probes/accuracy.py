"""How often the head answers right, beside what guessing gives."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from jaxtyping import Float, Int

from farfield.errors import FarfieldError
from farfield.statistics import wilson


class Accuracy(NamedTuple):
    """Accuracy of one head at one length.

    Attributes:
        value: share of supervised rows answered correctly, over all sequences.
        low, high: Wilson 95% interval over sequences, as rows of one sequence are not independent.
        chance: accuracy of guessing.
    """

    value: float
    low: float
    high: float
    chance: float


def accuracy(correct: int, tested: int, sequences: int, chance: float) -> Accuracy:
    """Accuracy with its interval, from counts of rows in so many sequences (FarfieldError if nothing was tested)."""
    if tested < 1 or sequences < 1:
        raise FarfieldError(f"{tested} rows of {sequences} sequences were tested, of which no share can be correct")
    value = int(correct) / int(tested)
    return Accuracy(value, *wilson(round(value * sequences), sequences), chance)


class RangeMeans(NamedTuple):
    """Accuracy averaged over test lengths, each counting once; NaN for a side without lengths.

    An average over lengths says nothing without them (neural_networks_chomsky_hierarchy issue 9): the same falling
    curve averages .63 to length 100 and .26 to length 500.

    Attributes:
        trained: over lengths up to the longest training length.
        longer: over lengths beyond it.
    """

    trained: float
    longer: float


def range_means(values: Float[np.ndarray, " length"], lengths: Int[np.ndarray, " length"], longest: int) -> RangeMeans:
    """Means over test lengths up to ``longest`` and beyond it."""
    inside = np.asarray(lengths) <= longest

    def mean(part: np.ndarray) -> float:
        return float(part.mean()) if part.size else float("nan")

    return RangeMeans(mean(np.asarray(values)[inside]), mean(np.asarray(values)[~inside]))
