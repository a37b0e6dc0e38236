"""Growing offsets: the distance from query to target grows with the query's position n, counted from 0.

No fixed offset and no fixed position follows such a rule at every length, so neither relative nor absolute encodings
are expected to extrapolate it ("A Positional Realizability Theory of Length Generalization in Single-Head Attention",
abstract). Targets are exact whole numbers: float32 would round square roots and logarithms wrongly just where they
step, at perfect squares and powers of two.
"""

from __future__ import annotations

from dataclasses import dataclass

import jax
import jax.numpy as jnp
from jaxtyping import Array, Int

from farfield.errors import FarfieldError
from farfield.registry import traced
from farfield.tasks.base import Positional, tasks


@tasks.register("fraction")
@dataclass(frozen=True)
class Fraction(Positional):
    """Copy the token at n // divisor, a fixed fraction of the way in, for a query at position n.

    With divisor 2 and length 6, so n = 5::

        tokens    7  4  9  1  5  3
        answers   .  .  .  .  .  9        the token at position 5 // 2 = 2

    Attributes:
        divisor: at least 2.
    """

    divisor: int = traced()

    def target(self, query_position: Int[Array, "..."]) -> Int[Array, "..."]:
        return query_position // self.divisor

    def check(self, vocabulary: int, shortest: int, longest: int | None = None) -> None:
        if self.divisor < 2:
            raise FarfieldError(
                f"fraction:{self.divisor} must be at least 2: the target is the query's position // divisor"
            )


@tasks.register("root")
@dataclass(frozen=True)
class Root(Positional):
    """Copy the token isqrt(n) places before the query at position n, the square root rounded down.

    With length 6, so n = 5::

        tokens    7  4  9  1  5  3
        answers   .  .  .  .  .  1        the token at position 5 - isqrt(5) = 3
    """

    def target(self, query_position: Int[Array, "..."]) -> Int[Array, "..."]:
        return query_position - integer_root(query_position)


@tasks.register("logarithm")
@dataclass(frozen=True)
class Logarithm(Positional):
    """Copy the token floor(log2(n + 1)) places before the query at position n.

    With length 6, so n = 5::

        tokens    7  4  9  1  5  3
        answers   .  .  .  .  .  1        the token at position 5 - floor(log2(6)) = 3
    """

    def target(self, query_position: Int[Array, "..."]) -> Int[Array, "..."]:
        return query_position - integer_logarithm(query_position + 1)


def integer_root(number: Int[Array, "..."]) -> Int[Array, "..."]:
    """Square root rounded down, exact for whole numbers from 0 to 2**31 - 1."""
    number = jnp.asarray(number)
    root = jnp.zeros_like(number)
    for bit in reversed(range(16)):
        larger = root + (1 << bit)
        # A division, since the square of a root that is too large may overflow.
        root = jnp.where(larger <= number // larger, larger, root)
    return root


def integer_logarithm(number: Int[Array, "..."]) -> Int[Array, "..."]:
    """Logarithm to base 2 rounded down, exact for whole numbers of at least 1."""
    number = jnp.asarray(number)
    return jnp.iinfo(number.dtype).bits - 1 - jax.lax.clz(number)
