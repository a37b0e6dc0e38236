"""The shape of the rotary kernel g(s) = sum_i p_i cos(s theta_i) (Lemma 2, arXiv 2607.18759)."""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np
from jaxtyping import Float

from farfield.errors import FarfieldError

# Values of g/g(0) in float64 that lie closer than this are one number: sums of thousands of cosines are no finer.
ROUNDING = 1e-14


class KernelShape(NamedTuple):
    """How sharp a rotary kernel is.

    Attributes:
        breadth: g(1)/g(0), local breadth.
        beyond_four: max over s >= 4 of g(s)/g(0). It is attained at s = 4 itself for common bases, so it
            measures local breadth too; the true far re-alignment is the next pair.
        realignment: largest g(s)/g(0) past the kernel's first valley, where a far offset competes.
        realignment_at: the s where it sits; 0 if g has no valley within reach.
    """

    breadth: float
    beyond_four: float
    realignment: float
    realignment_at: int


def kernel(
    theta: Float[np.ndarray, " half"], reach: int, weights: Float[np.ndarray, "*heads half"] | None = None
) -> Float[np.ndarray, "offset *heads"]:
    """g(s)/g(0) for s = 0 .. reach.

    Args:
        theta: rotary frequencies, radians per position.
        reach: largest offset.
        weights: share p_i of each pair, of one head or several; equal if None.
    """
    weights = np.ones(len(theta)) if weights is None else np.asarray(weights)
    shares = weights / weights.sum(axis=-1, keepdims=True)
    return np.cos(np.arange(reach + 1)[:, None] * theta) @ shares.T


def kernel_by_blocks(
    theta: Float[np.ndarray, " half"], reach: int, weights: Float[np.ndarray, " half"] | None = None
) -> Float[np.ndarray, " offset"]:
    """:func:`kernel` for offsets in the millions: the same to :data:`ROUNDING`, at a thousandth of the cosines.

    By cos((a + b) theta) = cos(a theta) cos(b theta) - sin(a theta) sin(b theta), with a the multiples of about
    sqrt(reach) and b what lies between, it is a product of two small matrices. Phases are in float64, off by
    1e-10 radians at s = 10**6.

    Args:
        theta: rotary frequencies in float64, radians per position.
        reach: largest offset.
        weights: share of each pair; equal if None.
    """
    theta = np.asarray(theta, np.float64)
    weights = np.ones(len(theta)) if weights is None else np.asarray(weights, np.float64)
    block = math.isqrt(reach) + 1
    coarse = np.arange(0, reach + 1, block)[:, None] * theta
    fine = np.arange(block)[:, None] * theta
    shares = weights / weights.sum()
    g = (np.cos(coarse) * shares) @ np.cos(fine).T
    g -= (np.sin(coarse) * shares) @ np.sin(fine).T
    return g.reshape(-1)[: reach + 1]


def first_valley(g: Float[np.ndarray, " offset"], rounding: float = 0.0) -> int | None:
    """The s after which a kernel given from s = 0 on first rises, by more than ``rounding``; None if it never does."""
    rising = np.diff(g) > rounding
    valley = int(rising.argmax()) if rising.size else 0
    return valley if rising.size and rising[valley] else None


def kernel_shape(g: Float[np.ndarray, " offset"]) -> KernelShape:
    """Breadth and re-alignment of a kernel given at s = 0 .. reach, reach >= 4 (FarfieldError if it is shorter)."""
    if len(g) < 5:
        raise FarfieldError(f"a kernel at {len(g)} offsets has no shape: give it at s = 0 to 4 at least")
    g = np.asarray(g) / g[0]
    valley = first_valley(g)
    at = 0
    realignment = float("nan")
    if valley is not None:
        at = valley + int(g[valley:].argmax())
        realignment = float(g[at])
    return KernelShape(float(g[1]), float(g[4:].max()), realignment, at)
