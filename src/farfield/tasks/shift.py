"""Full-sequence shift."""

from __future__ import annotations

from dataclasses import dataclass

import jax.numpy as jnp
from jaxtyping import Array, Int

from farfield._types import Key
from farfield.registry import traced
from farfield.rng import tokens_in_pieces
from farfield.tasks.base import NO_TARGET, Batch, Task, power, tasks
from farfield.tasks.offset import check_offset


@tasks.register("shift")
@dataclass(frozen=True)
class Shift(Task):
    """Copy the token K places back at every row that has one; tokens are i.i.d. uniform.

    With K = 2 and length 6::

        tokens    7  4  9  1  5  3
        answers   .  .  7  4  9  1

    Source: arXiv 2607.18759, section 5.2 (out[i] = in[i - K], K = 3).

    Attributes:
        offset: K >= 1.
    """

    offset: int = traced()

    def draw(self, key: Key, length: Int[Array, ""], positions: int, sequences: int, vocabulary: int) -> Batch:
        tokens = tokens_in_pieces(key, positions, sequences, vocabulary)
        rows = jnp.arange(positions, dtype=jnp.int32)
        targets = rows - jnp.asarray(self.offset, jnp.int32)
        supervised = ((targets >= 0) & (rows < jnp.asarray(length, jnp.int32)))[:, None]
        return Batch(
            tokens=tokens,
            answers=jnp.where(supervised, tokens[jnp.maximum(targets, 0)], 0),
            supervised=jnp.broadcast_to(supervised, tokens.shape),
            targets=jnp.broadcast_to(jnp.where(supervised, targets[:, None], NO_TARGET), tokens.shape),
        )

    def chance(self, vocabulary: int, length: int) -> float:
        del length
        return 1.0 / vocabulary

    def sample_space(self, vocabulary: int, length: int) -> float:
        return power(vocabulary, length)

    def check(self, vocabulary: int, shortest: int, longest: int | None = None) -> None:
        check_offset("shift", self.offset, shortest)
