"""What every part of the item needs: a kind of line, and float64."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Sequence

import jax
import numpy as np

from farfield.papers.implicit_bias.setup import TWO_DIGITS
from farfield.papers.verdicts import Comparison

# Cases drawn for a statement about all weights.
CASES = 64


def measured(name: str, values: Sequence[float] | np.ndarray, why: str) -> Comparison:
    """A number that the paper does not print."""
    return Comparison(name, None, TWO_DIGITS, [float(value) for value in values], 0, incomparable=why)


@contextlib.contextmanager
def double_precision() -> Iterator[None]:
    """float64 in this thread alone, until the block ends."""
    with jax.enable_x64(True):
        yield
