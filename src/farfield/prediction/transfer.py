"""The transfer operator's share alpha_L, and what is proven of it: Theorem 1, Theorem 2 and Proposition 4.

The names of the theorems are those of the abstract of "A Positional Realizability Theory of Length Generalization in
Single-Head Attention"; their statements here are this project's own.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import NamedTuple

import numpy as np
from jaxtyping import Bool, Float, Int

from farfield.errors import FarfieldError
from farfield.prediction.features import FeatureMap, OneHot, OneNumber, Position


class TransferCurve(NamedTuple):
    """A share of deep rows, by how far the grid reaches.

    Attributes:
        lengths: L of each value, rising.
        values: share of the rows trained <= n < L, as far as they have a target.
    """

    lengths: Int[np.ndarray, " length"]
    values: Float[np.ndarray, " length"]

    def at(self, length: int) -> float:
        """The share at a length; NaN where no deep row is that short."""
        index = int(np.searchsorted(self.lengths, length, side="right")) - 1
        return float(self.values[index]) if index >= 0 else float("nan")


def curve(won: Bool[np.ndarray, " row"], rows: Int[np.ndarray, " row"]) -> TransferCurve:
    """alpha_L at each L at which a row is added.

    Args:
        won: whether the row's unique maximizer is its target.
        rows: n of each, rising; several draws of a row count alike.
    """
    lengths, last = np.unique(rows[::-1], return_index=True)
    count = len(rows) - last
    return TransferCurve(lengths + 1, np.cumsum(won)[count - 1] / count)


def deep_row_count(
    profile: Float[np.ndarray, " offset"], targets: Int[np.ndarray, " row"], trained: int, tolerance: float = 0.0
) -> float:
    """alpha_L of a relative kernel, by counting (Theorem 2).

    A profile with a strict unique maximum at d, among the offsets that a row n >= d sees, selects n - d there. So the
    selected offset changes only where the profile sets a strict record, and a row wins where its target's offset is
    the record that stands; a value that equals the record undoes it. No score of any grid is computed.

    Args:
        profile: scores by offset n - j, from 0 up.
        targets: t_n of the rows n = 0, 1, ..; -1 where a row is not asked.
        trained: L0.
        tolerance: values this near to each other are equal.
    """
    wanted = np.arange(len(targets)) - targets
    asked = (targets >= 0) & (np.arange(len(targets)) >= trained)
    record, at, alone, right = -np.inf, -1, False, 0
    for offset, value in enumerate(np.asarray(profile, float)[: len(targets)]):
        if value > record + tolerance:
            record, at, alone = value, offset, True
        elif value >= record - tolerance:
            alone = False
            record = max(record, value)
        right += int(asked[offset] and alone and at == wanted[offset])
    return right / int(asked.sum())


@dataclass(frozen=True)
class Reflected:
    """Features of one number, reflected: of the key where they were of the offset (Proposition 4)."""

    of: OneHot

    def cell(self, query: Position, key: Position) -> Int[np.ndarray, "..."]:
        """The cell of the pair (n, n - j)."""
        return self.of.cell(query, query - key)


def dual(features: FeatureMap) -> FeatureMap:
    """The map with j -> n - j: relative kernels become key-only ones, and the other way round.

    With targets reflected by :func:`dual_targets`, every score keeps its row and changes its place, so the selected
    kernel, its norm, alpha_L and every mass stay what they were. Positions must start at 0.

    Raises:
        FarfieldError: for a map that reads the query and the key.
    """
    if features.reads == "pair":
        raise FarfieldError("only features of the offset alone or of the key alone have a mirror image")
    reads = "key" if features.reads == "offset" else "offset"
    if isinstance(features, OneHot):
        return replace(features, cell=Reflected(features).cell, reads=reads)
    assert isinstance(features, OneNumber)
    return replace(features, reads=reads)


def dual_targets(targets: Int[np.ndarray, " row"]) -> Int[np.ndarray, " row"]:
    """n - t_n: fixed offsets become fixed positions; -1 stays."""
    return np.where(targets >= 0, np.arange(len(targets)) - targets, -1)


def sufficient_mass(
    margin: Float[np.ndarray, "..."] | float, lengths: Int[np.ndarray, "..."] | int, logit_scale: float
) -> Float[np.ndarray, "..."]:
    """Least mass 1 / (1 + (L - 1) e**(-beta gamma)) on a target that leads every other key by gamma (Theorem 1).

    Above 1/2 the target outweighs all other keys together, so a head whose values tell tokens apart answers right.

    Args:
        margin: gamma, in score units, the smallest over the rows meant.
        lengths: L, the keys a row sees.
        logit_scale: beta, logits per score unit.
    """
    return 1 / (1 + (np.asarray(lengths) - 1) * np.exp(np.minimum(-logit_scale * np.asarray(margin), 700.0)))
