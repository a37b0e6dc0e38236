"""How often the head answers right, beside what guessing gives."""

from __future__ import annotations

from typing import NamedTuple

from farfield.statistics import wilson


class Accuracy(NamedTuple):
    """Accuracy of one head at one length.

    Attributes:
        value: share of sequences answered correctly.
        low, high: Wilson 95% interval over sequences.
        chance: accuracy of guessing.
    """

    value: float
    low: float
    high: float
    chance: float


def accuracy(correct: int, tested: int, chance: float) -> Accuracy:
    """Accuracy with its interval, from counts."""
    return Accuracy(int(correct) / int(tested), *wilson(int(correct), int(tested)), chance)
