"""How the target's attention weight falls with length, and the bound its margin gives.

Source: arXiv 2607.18759, Corollary 2.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from jaxtyping import Float, Int
from scipy import stats

from farfield.errors import FarfieldError
from farfield.intervals import LEVEL
from farfield.lengths import Lengths

# R² from which a fit is called a law: lengths explain at least half of what varies.
LEAST_R2 = 0.5


class Dilution(NamedTuple):
    """The decay law a(L) = 1 / (alpha + c (L - 1)), fitted. A fit need not be a law: :attr:`holds` says which is.

    Attributes:
        alpha, c: intercept and slope of 1/a on L - 1.
        r2: share of the variance of 1/a explained.
        alpha_interval, c_interval: 95% intervals of the regression over lengths.
    """

    alpha: float
    c: float
    r2: float
    alpha_interval: tuple[float, float]
    c_interval: tuple[float, float]

    @property
    def holds(self) -> bool:
        """Whether peaks fall as the law says: the slope is positive, and R² at least :data:`LEAST_R2`, 0.5."""
        return self.c > 0 and self.r2 >= LEAST_R2


def fit(heights: Float[np.ndarray, " length"], lengths: Lengths) -> Dilution:
    """Ordinary least squares of 1/height on L - 1.

    NaN where it cannot be fitted: fewer than three lengths, or a height of zero.
    """
    heights = np.asarray(heights, float)
    if len(heights) < 3 or len(set(map(int, lengths))) < 2 or not (heights > 0).all():
        nothing = (float("nan"), float("nan"))
        return Dilution(float("nan"), float("nan"), float("nan"), nothing, nothing)
    line: Any = stats.linregress(np.asarray(lengths, float) - 1, 1 / heights)
    t = float(stats.t.ppf(0.5 + LEVEL / 2, len(heights) - 2))

    def interval(center: float, error: float) -> tuple[float, float]:
        return center - t * error, center + t * error

    return Dilution(
        alpha=float(line.intercept),
        c=float(line.slope),
        r2=float(line.rvalue) ** 2,
        alpha_interval=interval(float(line.intercept), float(line.intercept_stderr)),
        c_interval=interval(float(line.slope), float(line.stderr)),
    )


def margin(profile: Float[np.ndarray, " offset"], offsets: Int[np.ndarray, " offset"], target: int) -> float:
    """mu = min over other offsets of phi(target) - phi(offset), in the profile's units.

    Give the profile in *logit* units (as it enters the softmax, after 1/sqrt(d) and the temperature): the
    bound of Corollary 2 holds in no others. Negative when another offset scores higher.

    Raises:
        FarfieldError: for a target that is not among the offsets, or is the only one.
    """
    others = np.asarray(offsets) != target
    _require_target(offsets, target)
    if not others.any():
        raise FarfieldError(f"target {target} is the only offset of the profile: a margin needs another one")
    return float(profile[~others][0] - profile[others].max())


def target_bound(margin: float | Float[np.ndarray, " length"], lengths: Lengths) -> Float[np.ndarray, " length"]:
    """Least weight 1/(1 + (L - 1) e^-mu) that a margin mu leaves the target (Corollary 2).

    Raises:
        FarfieldError: for a length below 1.
    """
    if (np.asarray(lengths) < 1).any():
        raise FarfieldError(f"length {np.min(lengths)} holds no target: lengths are whole numbers from 1 up")
    return 1 / (1 + (np.asarray(lengths) - 1) * np.exp(-margin))


def target_weight(
    profile: Float[np.ndarray, " offset"], offsets: Int[np.ndarray, " offset"], target: int, length: int
) -> float:
    """Exact weight of the target when logits equal the profile, at one length (Corollary 2, exact form).

    0 where the target is outside of the context, whose offsets are -(length - 1) .. 0.

    Raises:
        FarfieldError: for a target in the context that is not among the offsets.
    """
    offsets = np.asarray(offsets)
    if not -length < target <= 0:
        return 0.0
    _require_target(offsets, target)
    present = (offsets > -length) & (offsets <= 0)
    shifted = np.exp(profile[present] - profile[offsets == target])
    return float(1 / shifted.sum())


def _require_target(offsets: Int[np.ndarray, " offset"], target: int) -> None:
    if target not in np.asarray(offsets):
        ends = f": they go from {min(offsets)} to {max(offsets)}" if len(offsets) else ""
        raise FarfieldError(f"target {target} is not among the offsets of the profile{ends}")
