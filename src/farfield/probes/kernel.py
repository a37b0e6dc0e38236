"""The shape of the rotary kernel g(s) = sum_i p_i cos(s theta_i) (Lemma 2, arXiv 2607.18759)."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from jaxtyping import Float


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


def kernel_shape(g: Float[np.ndarray, " offset"]) -> KernelShape:
    """Breadth and re-alignment of a kernel given at s = 0 .. reach, reach >= 4."""
    g = np.asarray(g) / g[0]
    rising = np.flatnonzero(np.diff(g) > 0)
    at = 0
    realignment = float("nan")
    if rising.size:
        valley = int(rising[0])
        at = valley + int(g[valley:].argmax())
        realignment = float(g[at])
    return KernelShape(float(g[1]), float(g[4:].max()), realignment, at)
