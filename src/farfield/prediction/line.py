"""Relative and key-only maps on consecutive positions, where row n sees a line of features up to its n-th.

The i-th entry of the line is the offset i, or the key at place i. Every row sees a longer part of the same line, so
what takes the square of the length for pairs takes the length alone here.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from jaxtyping import Float, Int

from farfield.prediction.features import FeatureMap
from farfield.prediction.grid import Grid


@dataclass(frozen=True)
class Line:
    """A grid seen by a map that reads one number.

    Attributes:
        features: the map.
        grid: at consecutive positions.
    """

    features: FeatureMap
    grid: Grid

    def index(self, rows: Int[np.ndarray, "..."], places: Int[np.ndarray, "..."]) -> Int[np.ndarray, "..."]:
        """Entries of the line for places in rows n; the same turns entries into places."""
        return places if self.features.reads == "key" else np.asarray(rows - places)

    @property
    def targets(self) -> Int[np.ndarray, " row"]:
        """Each row's target on the line."""
        return self.index(self.grid.rows, self.grid.targets)

    def ends(self) -> tuple[np.ndarray, np.ndarray]:
        """The last query and its keys, in the line's order."""
        length = self.grid.length
        keys = self.grid.keys[:length]
        return keys[-1:], keys if self.features.reads == "key" else keys[::-1]

    def profile(self, kernel: Float[np.ndarray, " feature"]) -> Float[np.ndarray, " entry"]:
        """Score of each entry."""
        return self.features.scores(kernel, *self.ends())[0]

    def cells(self) -> Int[np.ndarray, " entry"]:
        """Number of each entry's cell."""
        query, keys = self.ends()
        cells = self.features.cells(query, keys)
        assert cells is not None
        return cells

    def vectors(self) -> Float[np.ndarray, "entry feature"]:
        """Phi of each entry."""
        query, keys = self.ends()
        return self.features.features(np.broadcast_to(query, keys.shape), keys)


def line_of(features: FeatureMap, grid: Grid) -> Line | None:
    """The grid as a line, where it is one."""
    whole = np.issubdtype(grid.keys.dtype, np.integer)
    return Line(features, grid) if features.reads != "pair" and grid.keys.ndim == 1 and whole else None


class LineRows(NamedTuple):
    """Rows on a line.

    Attributes:
        margin: score of the target less that of the best other entry that the row sees; infinite without one.
        rival: that entry.
        mass: softmax weight of the target.
    """

    margin: Float[np.ndarray, " row"]
    rival: Int[np.ndarray, " row"]
    mass: Float[np.ndarray, " row"]


def standing(
    profile: Float[np.ndarray, " entry"],
    rows: Int[np.ndarray, " row"],
    targets: Int[np.ndarray, " row"],
    logit_scale: float,
) -> LineRows:
    """How the targets of rows n stand among entries 0 .. n, for all rows by running maxima and sums.

    Args:
        targets: entries of the line.
    """
    first, second = _two_best(profile)
    leads = first[rows] == targets
    rival = np.where(leads, second[rows], first[rows])
    margin = np.where(rival >= 0, profile[targets] - profile[rival], np.inf)
    logits = logit_scale * profile
    mass = np.exp(np.minimum(logits[targets] - np.logaddexp.accumulate(logits)[rows], 0.0))
    return LineRows(margin, np.maximum(rival, 0), mass)


def _two_best(profile: Float[np.ndarray, " entry"]) -> tuple[np.ndarray, np.ndarray]:
    """Entries of the largest and the second largest value among the first n + 1, for each n; -1 where there is none."""
    values = profile.tolist()
    first, second = np.zeros(len(values), np.int64), np.full(len(values), -1)
    best, next_best = 0, -1
    for entry in range(1, len(values)):
        if values[entry] > values[best]:
            best, next_best = entry, best
        elif next_best < 0 or values[entry] > values[next_best]:
            next_best = entry
        first[entry], second[entry] = best, next_best
    return first, second


def in_order(
    cells: Int[np.ndarray, " entry"], rows: Int[np.ndarray, " row"], targets: Int[np.ndarray, " row"]
) -> tuple[bool, bool]:
    """Whether each target is alone in its cell in each of its rows, and whether rows agree on the order of cells.

    Cell a is asked to beat cell b where b appears on the line up to the last row N(a) that asks for a. Of two cells
    that are asked for, each must beat the other if and only if the intervals [first appearance, N] meet. A longer
    cycle holds such a pair: of its cells let a be the one with the largest N, and p the one that must beat it; then a
    must beat p, which appears at N(p) <= N(a) at the latest. So the order is free of cycles where the intervals of all
    cells asked for are disjoint.

    Args:
        targets: entries of the line.
    """
    names, cell = np.unique(cells, return_inverse=True)
    asked = cell[targets]
    first, again = np.full(len(names), len(cells)), np.full(len(names), len(cells))
    np.minimum.at(first, cell, np.arange(len(cells)))
    later = np.arange(len(cells)) > first[cell]
    np.minimum.at(again, cell[later], np.flatnonzero(later))
    last = np.full(len(names), -1)
    np.maximum.at(last, asked, rows)
    alone = bool((again > last)[last >= 0].all())
    wanted = np.flatnonzero(last >= 0)
    wanted = wanted[np.argsort(first[wanted], kind="stable")]
    return alone, bool((first[wanted][1:] > last[wanted][:-1]).all())
