"""What every rotary encoding shares: pairs of coordinates turned by angles that grow with the position."""

from __future__ import annotations

import abc
from dataclasses import dataclass, field
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Int

from farfield._types import Positions, PyTree
from farfield.encodings.base import Encoding, encodings
from farfield.errors import FarfieldError
from farfield.pytrees import pytree

LAYOUTS = ("half", "interleaved")
LARGEST_BASE = 1e30

Phase = tuple[Float[Array, "... half"], Float[Array, "... half"]]


class Rotary(Encoding):
    """What turns coordinate pairs by a phase that depends on the position."""

    layout: str  # a field of the subclasses, which decide its place

    @abc.abstractmethod
    def frequencies(self, width: int, length: Any = None, dtype: Any = None) -> Float[Array, " half"]:
        """Frequency theta_i of each of the width/2 pairs, in radians per position; 0 for a pair that stands still.

        Pair i is found by :meth:`order`.

        Args:
            length: the length in use, where frequencies depend on it; None for lengths no longer than training's.
            dtype: float32 or better; the default float if None.
        """

    @abc.abstractmethod
    def phase(self, positions: Any, width: int, dtype: Any, length: Any = None) -> Phase:
        """Cosine and sine of each turning pair's angle at each position, shape ``positions.shape + (pairs,)``."""

    def rotated(self, width: int) -> int:
        """How many coordinates turn, the first ones; by default all."""
        return width

    def gain(self, dtype: Any) -> Any:
        """The factor on rotated queries and keys alike, part of :meth:`phase`: logits are multiplied by its square."""
        del dtype
        return 1.0

    def magnitudes(
        self, query_positions: Positions, key_positions: Positions, width: int, dtype: Any
    ) -> tuple[Float[Array, "... half"], Float[Array, "... half"]] | None:
        """What queries and keys are multiplied by, pair by pair, beside turning; None for nothing (all but xpos)."""
        del query_positions, key_positions, width, dtype
        return None

    def order(self, width: int) -> Int[np.ndarray, " width"]:
        """The order of coordinates that makes coordinates i and i + width/2 of the result pair i.

        A measurement that knows the half-split layout alone reads any rotary head by ``queries[:, order]``.
        """
        turning, still = np.split(np.arange(width), [self.rotated(width)])
        pairs = turning.reshape(-1, 2).T if self.layout == "interleaved" else turning.reshape(2, -1)
        return np.concatenate([pairs, still.reshape(2, -1)], axis=1).reshape(-1)

    def rotate(
        self,
        parameters: PyTree,
        query: Float[Array, "... width"],
        key: Float[Array, "... width"],
        query_positions: Positions,
        key_positions: Positions,
    ) -> tuple[Float[Array, "... width"], Float[Array, "... width"]]:
        width = query.shape[-1]
        # Keys after the last query are masked, mere padding, so the queries alone say which length is in use.
        length = jnp.max(query_positions) + 1 if self.reads_length else None
        query_phase = self.phase(query_positions, width, query.dtype, length)
        key_phase = self.phase(key_positions, width, key.dtype, length)
        magnitudes = self.magnitudes(query_positions, key_positions, width, query.dtype)
        if magnitudes is not None:
            query_phase, key_phase = (
                (cos * size, sin * size) for (cos, sin), size in zip((query_phase, key_phase), magnitudes, strict=True)
            )
        return turn(query, *query_phase, self.layout), turn(key, *key_phase, self.layout)


class RotaryFamily(Rotary):
    """Rotary encodings given by their frequencies; a subclass has fields and :meth:`frequencies`, seldom more."""

    base: float

    def phase(self, positions: Any, width: int, dtype: Any, length: Any = None) -> Phase:
        """Phases in float32 or better, cast last.

        At position 4096 a bfloat16 phase is off by whole turns (transformers issues 25681 and 29285).
        """
        precise = jnp.promote_types(dtype, jnp.float32)
        theta = self.frequencies(width, length, precise)[: self.rotated(width) // 2]
        angle = jnp.multiply.outer(jnp.asarray(positions).astype(precise), theta)
        gain = self.gain(precise)
        return (gain * jnp.cos(angle)).astype(dtype), (gain * jnp.sin(angle)).astype(dtype)

    def tabulated(self, width: int, longest: int) -> Encoding:
        # A whole number for a setting is a real number all the same.
        dtype = jnp.result_type(*jax.tree.leaves(self), 1.0)
        return RopeTable(*self.phase(jnp.arange(longest), width, dtype), self, self.layout)

    def check(self, width: int, longest: int) -> None:
        name = encodings.name_of(self)
        if width % 2:
            raise FarfieldError(f"{name} rotates pairs of coordinates, so d must be even: got d = {width}")
        if self.layout not in LAYOUTS:
            raise FarfieldError(f"{name}:layout={self.layout!r} is not one of {', '.join(LAYOUTS)}")
        if not 1.0 < self.base < LARGEST_BASE:
            raise FarfieldError(
                f"{name}:base={self.base:g} must be a number between 1 and {LARGEST_BASE:g}, both excluded"
            )


@pytree
@dataclass(frozen=True)
class RopeTable(Rotary):
    """A rotary encoding with the cosines and sines of positions 0 .. longest - 1 computed once."""

    cos: Float[Array, "longest pairs"]
    sin: Float[Array, "longest pairs"]
    original: Rotary
    layout: str = field(metadata={"static": True})

    def frequencies(self, width: int, length: Any = None, dtype: Any = None) -> Float[Array, " half"]:
        return self.original.frequencies(width, length, dtype)

    def rotated(self, width: int) -> int:
        return self.original.rotated(width)

    def gain(self, dtype: Any) -> Any:
        return self.original.gain(dtype)

    def magnitudes(
        self, query_positions: Positions, key_positions: Positions, width: int, dtype: Any
    ) -> tuple[Float[Array, "... half"], Float[Array, "... half"]] | None:
        return self.original.magnitudes(query_positions, key_positions, width, dtype)

    def phase(self, positions: Any, width: int, dtype: Any, length: Any = None) -> Phase:
        return self.cos[positions].astype(dtype), self.sin[positions].astype(dtype)


def precision(dtype: Any) -> Any:
    """The type in which to compute frequencies: ``dtype``, or the default float if None."""
    return float if dtype is None else dtype


def frequencies(width: int, base: Any) -> Float[Array, " half"]:
    """Rotary frequencies theta_i = base**(-2i/width) for i = 0 .. width/2 - 1, in radians per position."""
    base = jnp.asarray(base)
    exponent = jnp.arange(0, width, 2, dtype=base.dtype) / width
    return base**-exponent


def turn(
    x: Float[Array, "... width"], cos: Float[Array, "... pairs"], sin: Float[Array, "... pairs"], layout: str
) -> Float[Array, "... width"]:
    """Rotate the first coordinates, two for each pair of the tables, and leave the rest as they are."""
    turning = 2 * cos.shape[-1]
    if turning == x.shape[-1]:
        return rotate_pairs(x, cos, sin, layout)
    turned = rotate_pairs(x[..., :turning], cos, sin, layout)
    rest = jnp.broadcast_to(x[..., turning:], (*turned.shape[:-1], x.shape[-1] - turning))
    return jnp.concatenate([turned, rest], axis=-1)


def rotate_pairs(
    x: Float[Array, "... width"], cos: Float[Array, "... half"], sin: Float[Array, "... half"], layout: str
) -> Float[Array, "... width"]:
    """Rotate each coordinate pair: (a, b) -> (a cos - b sin, a sin + b cos)."""
    cos, sin = (table.reshape((1,) * (x.ndim - table.ndim) + table.shape) for table in (cos, sin))
    shape = jnp.broadcast_shapes(x.shape[:-1], cos.shape[:-1])
    cos, sin = (jnp.broadcast_to(table, shape + table.shape[-1:]) for table in (cos, sin))
    x = jnp.broadcast_to(x, shape + x.shape[-1:])
    if layout == "half":
        a, b = jnp.split(x, 2, axis=-1)
        return jnp.concatenate([a * cos - b * sin, a * sin + b * cos], axis=-1)
    a, b = x[..., 0::2], x[..., 1::2]
    return jnp.stack([a * cos - b * sin, a * sin + b * cos], axis=-1).reshape(x.shape)
