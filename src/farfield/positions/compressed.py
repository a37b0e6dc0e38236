"""Positions of a long sequence made to fit a table of the training length, for tests."""

from __future__ import annotations

from dataclasses import dataclass

import jax.numpy as jnp
from jaxtyping import Array, Float, Int

from farfield._types import Key
from farfield.encodings.base import Encoding
from farfield.errors import FarfieldError
from farfield.positions.base import Regime, places, regimes
from farfield.tasks.base import Task

ROUNDINGS = ("floor", "nearest")


class Compressed(Regime):
    """Positions below the training length whatever the length; those of a sequence that fits are its places."""

    def largest(self, longest: int, trained: int, task: Task | None = None) -> int:
        del task
        return min(longest, trained)


@regimes.register("interpolate")
@dataclass(frozen=True)
class Interpolate(Compressed):
    """p (trained - 1) / (length - 1) where the length is beyond the training length, else p: real numbers.

    The first and the last token are where the longest training sequence had them. A learned table gives positions
    between two rows what lies between these rows.
    Source: Chen et al., arXiv 2306.15595, for positions of any encoding; here with both ends kept in place.
    """

    real = True

    def positions(
        self, key: Key | None, length: Int[Array, ""], count: int, trained: int, task: Task | None = None
    ) -> Float[Array, " count"]:
        del key, task
        length = jnp.asarray(length).astype(jnp.int32)
        position = places(length, count)
        # The whole part in whole numbers: a rounded product could put the last token outside the table.
        last = jnp.maximum(length - 1, 1)
        row, rest = multiply_divide(position, trained - 1, last)
        between = row.astype(float) + rest.astype(float) / last.astype(float)
        return jnp.where(length > trained, between, position.astype(float))


@regimes.register("clamp")
@dataclass(frozen=True)
class Clamp(Compressed):
    """min(p, trained - 1): all tokens beyond the training length stand at its last position."""

    def positions(
        self, key: Key | None, length: Int[Array, ""], count: int, trained: int, task: Task | None = None
    ) -> Int[Array, " count"]:
        del key, task
        return jnp.minimum(places(length, count), trained - 1)


@regimes.register("rescale")
@dataclass(frozen=True)
class Rescale(Compressed):
    """Whole numbers that stretch the training length over a longer sequence; p where it fits.

    ``floor``: floor(p trained / length), every position of the table equally often, as near as can be.
    ``nearest``: p (trained - 1) / (length - 1) to the nearest whole number, halves up: both ends kept in place.
    Arithmetic is on whole numbers, so no rounding moves a token. arXiv 2607.18759 speaks of index rescaling in its
    appendix on absolute positions and leaves the rounding open.

    Attributes:
        rounding: ``floor`` or ``nearest``.
    """

    rounding: str = "floor"

    def positions(
        self, key: Key | None, length: Int[Array, ""], count: int, trained: int, task: Task | None = None
    ) -> Int[Array, " count"]:
        del key, task
        length = jnp.asarray(length).astype(jnp.int32)
        position = places(length, count)
        if self.rounding == "floor":
            scaled, _ = multiply_divide(position, trained, length)
        else:
            last = jnp.maximum(length - 1, 1)
            scaled, rest = multiply_divide(position, trained - 1, last)
            scaled = scaled + (rest >= last - rest).astype(scaled.dtype)
        return jnp.where(length > trained, scaled, position)

    def check(self, longest: int, trained: int, task: Task | None = None, encoding: Encoding | None = None) -> None:
        super().check(longest, trained, task, encoding)
        if self.rounding not in ROUNDINGS:
            raise FarfieldError(f"rescale:rounding={self.rounding!r} is not one of {', '.join(ROUNDINGS)}")


def multiply_divide(
    value: Int[Array, " count"], factor: int, divisor: Int[Array, ""]
) -> tuple[Int[Array, " count"], Int[Array, " count"]]:
    """Quotient and rest of ``value * factor / divisor``, whose product may not fit 32 bits.

    Long division, one bit of ``factor`` after the other.

    Args:
        value: from 0 to ``divisor``, below 2**29.
    """
    quotient, rest = jnp.zeros_like(value), jnp.zeros_like(value)
    for bit in f"{factor:b}":
        rest = 2 * rest + (value if bit == "1" else 0)
        quotient = 2 * quotient + rest // divisor
        rest = rest % divisor
    return quotient, rest
