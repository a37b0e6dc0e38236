"""What a rotary kernel alone says of dilution: the target's weight when logits are a multiple of the kernel.

Source: arXiv 2607.18759, Lemma 2 (phi(delta) = beta g(delta + K)/g(0) for a target at offset -K) and Corollary 2
in its exact form. The kernel is even, so keys on both sides of the target compete: K before it is reached from
the query, L - 1 - K behind.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from jaxtyping import Float

from farfield.errors import FarfieldError
from farfield.lengths import Lengths


class TargetDilution(NamedTuple):
    """A target K places before the query, in contexts up to L.

    Attributes:
        offset: K.
        margin: 1 - max g(s)/g(0) over the other offsets in context, s = 1 .. max(K, L - 1 - K); times the logit
            scale it is Corollary 2's mu.
        rival_at: the s where that maximum sits: the strongest rival is so many places from the target.
        trained_mass: the target's weight at the training length, or at K + 1 if that is longer. None where L is
            shorter, or the kernel changes with the length.
        mass: its weight at length L.
        half_length: shortest context in which its weight is under 1/2; K + 1, the first that holds the target, where
            it never is more. None if that is not within L, or if the kernel changes with the length.
        dilution_length: shortest context in which its weight is under half of ``trained_mass``; None as above.
    """

    offset: int
    margin: float
    rival_at: int
    trained_mass: float | None
    mass: float
    half_length: int | None
    dilution_length: int | None


def rival_sums(g: Float[np.ndarray, " offset"], logit_scale: float) -> Float[np.ndarray, " offset"]:
    """Sums over s = 1 .. n of exp(beta (g(s)/g(0) - 1)), for n = 0 .. len(g) - 1: one side's rivals, target = 1."""
    terms = np.exp(logit_scale * (g - 1))
    terms[0] = 0
    return np.cumsum(terms, out=terms)


def target_masses(rivals: Float[np.ndarray, " offset"], offset: int, lengths: Lengths) -> Float[np.ndarray, " length"]:
    """The target's weight at each length, 0 at those too short to hold it, with ``rivals`` from :func:`rival_sums`.

    Raises:
        FarfieldError: for an offset or a length beyond those that the rivals are of.
    """
    behind = np.asarray(lengths) - 1 - offset
    if not 0 <= offset < len(rivals) or behind.max(initial=0) >= len(rivals):
        raise FarfieldError(
            f"target {offset} at lengths up to {max(lengths, default=0)} needs more than {len(rivals)} "
            "offsets of the kernel"
        )
    return np.where(behind >= 0, 1 / (1 + rivals[offset] + rivals[np.maximum(behind, 0)]), 0.0)


def target_dilution(
    g: Float[np.ndarray, " offset"],
    rivals: Float[np.ndarray, " offset"],
    offset: int,
    trained: int,
    *,
    changes: bool = False,
) -> TargetDilution:
    """Margin and dilution of one target; L = len(g) is at least 2 and larger than the offset (FarfieldError if not).

    Args:
        g: kernel over g(0), from s = 0 to L - 1.
        rivals: its :func:`rival_sums`.
        trained: training length.
        changes: whether shorter contexts have another kernel than this one; then only length L is judged.
    """
    if not 0 <= offset < len(g) or len(g) < 2:
        raise FarfieldError(f"target {offset} is not in a context of {len(g)}: it lies 0 to {len(g) - 1} places before")
    behind = len(g) - 1 - offset
    rival_at = 1 + int(g[1 : max(offset, behind) + 1].argmax())
    before = max(trained - 1 - offset, 0)
    known = not changes and before <= behind
    trained_mass = float(1 / (1 + rivals[offset] + rivals[before])) if known else None

    def falls_under(mass: float | None) -> int | None:
        if changes or mass is None:
            return None
        needed = int(np.searchsorted(rivals[: behind + 1], 1 / mass - 1 - rivals[offset], side="right"))
        return None if needed > behind else offset + 1 + needed

    return TargetDilution(
        offset=offset,
        margin=float(1 - g[rival_at]),
        rival_at=rival_at,
        trained_mass=trained_mass,
        mass=float(1 / (1 + rivals[offset] + rivals[behind])),
        half_length=falls_under(0.5),
        dilution_length=falls_under(trained_mass and trained_mass / 2),
    )
