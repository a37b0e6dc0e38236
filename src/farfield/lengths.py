"""Where a test length stands to the lengths of training."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal

import numpy as np
from jaxtyping import Int

# Of test sequences, one entry each.
Lengths = Int[np.ndarray, " length"] | Sequence[int]

# Only a trained length was met in training: of one that is shorter, training says as little as of one that is longer.
Range = Literal["shorter", "trained", "longer"]


def range_of(length: int, shortest: int, longest: int) -> Range:
    """Whether a test length is shorter than all training lengths, among them, or longer than all.

    >>> [range_of(length, 12, 16) for length in (4, 12, 16, 24)]
    ['shorter', 'trained', 'trained', 'longer']
    """
    if length < shortest:
        return "shorter"
    return "trained" if length <= longest else "longer"
