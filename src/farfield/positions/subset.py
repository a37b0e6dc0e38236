"""Randomized positions: a random ordered subset of a range."""

from __future__ import annotations

from dataclasses import dataclass

import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Int

from farfield._types import Key
from farfield.positions.base import padded, regimes
from farfield.positions.shifted import DEFAULT_RANGE, FromRange
from farfield.tasks.base import Task

# Draws up to which comparing each with all others is cheaper than sorting them.
FEW = 64


@regimes.register("random-subset")
@dataclass(frozen=True)
class RandomSubset(FromRange):
    """A subset of [0, N) of as many positions as the sequence has tokens, all such subsets equally likely, in order.

    One draw a batch. A relative table for it has 2N - 1 rows.
    Source: Ruoss et al., arXiv 2305.16843.

    Attributes:
        size: N, at least the longest length; 2048 as in the source.
    """

    size: int = DEFAULT_RANGE

    def positions(
        self, key: Key | None, length: Int[Array, ""], count: int, trained: int, task: Task | None = None
    ) -> Int[Array, " count"]:
        del trained, task
        assert key is not None
        self._check_length(length)
        length = jnp.asarray(length).astype(jnp.int32)
        chosen = ordered_subset(key, length, count, self.size)
        return padded(chosen, length)


def ordered_subset(key: Key, length: Int[Array, ""], count: int, size: int) -> Int[Array, " count"]:
    """``length`` different numbers below ``size`` in rising order; entries from the length on are ``size``.

    Floyd's algorithm (Bentley and Floyd, Communications of the ACM 30(9), 1987): for i = 0 .. length - 1 and
    limit_i = size - length + i, draw t_i uniformly from [0, limit_i] and take it, or limit_i itself where t_i is taken
    already. The draw of each place has a key of its own, so that it does not depend on ``count``.

    Which draws are taken already is found for all at once: t_i is, where an earlier draw was the same, or where it is
    limit_j for a place j < i that took its limit. The latter are chains of places, followed by doubling.

    Args:
        length: at most ``count`` and ``size``; may be traced.
    """
    index = jnp.arange(count, dtype=jnp.int32)
    limits = size - length + index
    keys = jax.vmap(lambda place: jax.random.fold_in(key, place))(index)
    draws = jax.vmap(lambda key, limit: jax.random.randint(key, (), 0, limit + 1, dtype=jnp.int32))(keys, limits)
    taken = _drawn_before(draws)
    earlier = draws - (size - length)
    # A place whose draw is no earlier place's limit points to itself.
    earlier = jnp.where((earlier >= 0) & (earlier < index), earlier, index)
    for _ in range((count - 1).bit_length()):
        taken, earlier = taken | taken[earlier], earlier[earlier]
    chosen = jnp.where(taken, limits, draws)
    return jnp.sort(jnp.where(index < length, chosen, jnp.full_like(chosen, size)))


def _drawn_before(draws: Int[Array, " count"]) -> Bool[Array, " count"]:
    """Whether an earlier draw was the same."""
    if len(draws) <= FEW:
        index = jnp.arange(len(draws))
        return ((draws[:, None] == draws[None]) & (index[None] < index[:, None])).any(axis=1)
    order = jnp.argsort(draws, stable=True)
    ranked = draws[order]
    again = jnp.concatenate([jnp.zeros(1, bool), ranked[1:] == ranked[:-1]])
    return jnp.zeros(len(draws), bool).at[order].set(again)
