"""The grid of a task: which query rows are asked, which key each must select, and what positions they are given.

Row n is the query at place n, with keys at places 0 .. n; it is the last row of a sequence of length n + 1, whose
positions a regime may draw anew. All rows n < L0 are taken as trained; ``shortest`` leaves out those of sequences
shorter than any in training. A row without a target (an offset that reaches before the start) is not asked.
"""

from __future__ import annotations

import functools
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Int, Real

from farfield.errors import FarfieldError
from farfield.positions import Regime
from farfield.positions.shifted import Fixed
from farfield.prediction.features import HELD, FeatureMap
from farfield.rng import Purpose, key_for
from farfield.tasks import Task
from farfield.tasks.base import Positional


@dataclass(frozen=True)
class Grid:
    """Rows that are asked.

    Attributes:
        rows: n of each; in rising order, all draws of a row one after another.
        targets: place of the key to select.
        keys: key positions of one draw a row, shape ``[row, place]``; one line ``[place]`` for all rows where position
            and place differ by a constant.
    """

    rows: Int[np.ndarray, " row"]
    targets: Int[np.ndarray, " row"]
    keys: Real[np.ndarray, "..."]

    def __len__(self) -> int:
        return len(self.rows)

    @property
    def length(self) -> int:
        """The longest sequence."""
        return int(self.rows.max(initial=-1)) + 1

    def positions(self, chosen: Any) -> tuple[Real[np.ndarray, " row"], Real[np.ndarray, "..."]]:
        """Query position of the chosen rows, and key positions of these rows (one line where it serves all)."""
        rows = self.rows[chosen]
        if self.keys.ndim == 1:
            longest = int(rows.max(initial=0)) + 1
            return self.keys[rows], self.keys[:longest]
        keys = self.keys[chosen]
        return keys[np.arange(len(rows)), rows], keys[:, : int(rows.max(initial=0)) + 1]

    def at(self, chosen: Any, places: Int[np.ndarray, "..."]) -> Real[np.ndarray, "..."]:
        """Positions of given places in the chosen rows."""
        return self.keys[places] if self.keys.ndim == 1 else self.keys[chosen, places]

    def chunks(self, size: int) -> Iterator[slice]:
        """Slices of rows, few enough that ``size`` numbers for each key of each row can be held."""
        count = max(1, HELD // max(1, self.length * size))
        return (slice(start, min(start + count, len(self))) for start in range(0, len(self), count))

    def pairs(self) -> tuple[Int[np.ndarray, " case"], Int[np.ndarray, " case"]]:
        """Every row with each of its places but the target: index of the row, and the place."""
        rows = np.repeat(np.arange(len(self)), self.rows + 1)
        starts = np.cumsum(self.rows + 1) - (self.rows + 1)
        places = np.arange(len(rows)) - np.repeat(starts, self.rows + 1)
        rivals = places != self.targets[rows]
        return rows[rivals], places[rivals]

    def part(self, chosen: Any) -> Grid:
        """The grid of the chosen rows."""
        return Grid(self.rows[chosen], self.targets[chosen], self.keys if self.keys.ndim == 1 else self.keys[chosen])


def targets(task: Task, longest: int) -> Int[np.ndarray, " row"]:
    """t_n for n = 0 .. longest - 1, -1 where the row has no target.

    Raises:
        FarfieldError: for a task whose target depends on content.
    """
    if not isinstance(task, Positional):
        raise FarfieldError(
            f"{type(task).__name__} has no target that the query's position alone decides, so the positional channel "
            "says nothing about it: use a task such as offset, position, fraction, root or logarithm"
        )
    rows = np.arange(longest)
    wanted = np.asarray(task.target(jnp.arange(longest, dtype=jnp.int32))).astype(np.int64)
    return np.where((wanted >= 0) & (wanted <= rows), wanted, -1)


def grid(
    task: Task,
    first: int,
    longest: int,
    regime: Regime,
    trained: int,
    *,
    draws: int = 1,
    seed: int = 0,
    purpose: Purpose = Purpose.TRAIN_POSITIONS,
) -> Grid:
    """Rows first - 1 .. longest - 1 that have a target.

    Args:
        first, longest: lengths of the shortest and the longest sequence.
        regime: which positions places are given.
        trained: the longest training length, which some regimes refer to.
        draws: how many draws of positions a row, where the regime draws them.
        seed, purpose: of the draws.
    """
    wanted = targets(task, longest)
    rows = np.arange(first - 1, longest)
    rows = rows[wanted[first - 1 :] >= 0]
    if isinstance(regime, Fixed):
        return Grid(rows, wanted[rows], int(regime.start) + np.arange(longest))
    rows = np.repeat(rows, draws if regime.random else 1)
    drawn = _placing(regime, task, longest, trained)
    keys = drawn(key_for(seed, purpose), jnp.arange(len(rows), dtype=jnp.uint32), jnp.asarray(rows + 1, jnp.int32))
    return Grid(rows, wanted[rows], np.asarray(keys))


@functools.lru_cache(maxsize=16)
def _placing(regime: Regime, task: Task, longest: int, trained: int) -> Any:
    """Positions of many sequences from one key, their numbers and their lengths; compiled, as single calls are slow."""

    def place(key: Any, number: Any, length: Any) -> Any:
        own = jax.random.fold_in(key, number) if regime.random else None
        return regime.positions(own, length, longest, trained, task)

    return jax.jit(jax.vmap(place, in_axes=(None, 0, 0)))


def distinct(
    features: FeatureMap, of: Grid, rows: Int[np.ndarray, " case"], places: Int[np.ndarray, " case"]
) -> tuple[Int[np.ndarray, " kept"], Int[np.ndarray, " kept"]]:
    """The cases whose constraint, Phi(target) - Phi(place) of a row, no earlier case has."""
    query = of.at(rows, of.rows[rows])
    winner, loser = (features.cells(query, of.at(rows, where)) for where in (of.targets[rows], places))
    if winner is None or loser is None:
        winner, loser = rows, places
    _, first = np.unique(np.stack([winner, loser], axis=1), axis=0, return_index=True)
    first.sort()
    return rows[first], places[first]


def differences(
    features: FeatureMap, of: Grid, rows: Int[np.ndarray, " case"], places: Int[np.ndarray, " case"]
) -> Any:
    """Phi(target) - Phi(place) for cases given by row and place."""
    return features.differences(of.at(rows, of.rows[rows]), of.at(rows, of.targets[rows]), of.at(rows, places))
