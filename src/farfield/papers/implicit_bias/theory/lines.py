"""What every part of the item needs: its two kinds of line, and float64."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Sequence

import jax
import numpy as np

from farfield.papers.implicit_bias.setup import EXACT, TWO_DIGITS
from farfield.papers.verdicts import Comparison

# Cases drawn for a statement about all weights.
CASES = 64


def statement(name: str, holds: Sequence[bool] | np.ndarray, *, share: float = 1.0, note: str = "") -> Comparison:
    """A theorem's line: the share of cases in which it holds, which has to be ``share``."""
    return Comparison(name, share, EXACT, [float(np.mean(holds))], 0, note=note)


def measured(name: str, values: Sequence[float] | np.ndarray, why: str) -> Comparison:
    """A number that the paper does not print."""
    return Comparison(name, None, TWO_DIGITS, [float(value) for value in values], 0, incomparable=why)


@contextlib.contextmanager
def double_precision() -> Iterator[None]:
    """float64 in this thread alone, until the block ends."""
    with jax.enable_x64(True):
        yield
