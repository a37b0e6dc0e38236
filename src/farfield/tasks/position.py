"""Fixed-position retrieval."""

from __future__ import annotations

from dataclasses import dataclass

import jax.numpy as jnp
from jaxtyping import Array, Int

from farfield.errors import FarfieldError
from farfield.registry import traced
from farfield.tasks.base import Positional, tasks


@tasks.register("position")
@dataclass(frozen=True)
class FixedPosition(Positional):
    """Copy the token at position P, counted from 0, whatever the length.

    With P = 1 and length 6::

        tokens    7  4  9  1  5  3
        answers   .  .  .  .  .  4        the token at position 1

    The mirror image of a fixed offset: reflecting ``j -> n - j`` turns one into the other (the duality of "A Positional
    Realizability Theory of Length Generalization in Single-Head Attention", abstract).

    Attributes:
        position: P >= 0.
    """

    position: int = traced()

    def target(self, query_position: Int[Array, "..."]) -> Int[Array, "..."]:
        query_position = jnp.asarray(query_position)
        return jnp.broadcast_to(jnp.asarray(self.position, query_position.dtype), query_position.shape)

    def check(self, vocabulary: int, shortest: int, longest: int | None = None) -> None:
        if self.position < 0:
            raise FarfieldError(f"position:{self.position} must be at least 0: positions count from the first token")
        if self.position >= shortest:
            raise FarfieldError(
                f"position:{self.position} lies outside sequences of length {shortest}: "
                f"use a position of at most {shortest - 1} or lengths of at least {self.position + 1}"
            )
