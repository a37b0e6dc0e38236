"""How often the head answers right, beside what guessing gives."""

from __future__ import annotations

from typing import NamedTuple

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
    """Accuracy with its interval, from counts of rows in so many sequences."""
    value = int(correct) / int(tested)
    return Accuracy(value, *wilson(round(value * sequences), sequences), chance)
