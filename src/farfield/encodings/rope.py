"""Rotary position embedding."""

from __future__ import annotations

import abc
from dataclasses import dataclass, field
from typing import Any

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, Int

from farfield._types import PyTree
from farfield.encodings.base import Encoding, encodings
from farfield.errors import FarfieldError
from farfield.registry import traced

LAYOUTS = ("half", "interleaved")
LARGEST_BASE = 1e30


class Rotary(Encoding):
    """What rotates coordinate pairs by a phase that depends on the position; subclasses say which phase."""

    layout: str  # a field of the subclasses, which decide its place

    def frequencies(self, width):  # replaced on merging
        return frequencies(width, self.base)

    @abc.abstractmethod
    def phase(
        self, positions: Any, width: int, dtype: Any
    ) -> tuple[Float[Array, "... half"], Float[Array, "... half"]]:
        """Cosine and sine of each pair's angle at each position, shape ``positions.shape + (width/2,)``."""

    def rotate(
        self,
        parameters: PyTree,
        query: Float[Array, "... width"],
        key: Float[Array, "... width"],
        query_positions: Int[Array, "..."],
        key_positions: Int[Array, "..."],
    ) -> tuple[Float[Array, "... width"], Float[Array, "... width"]]:
        return (
            rotate_pairs(query, *self.phase(query_positions, query.shape[-1], query.dtype), self.layout),
            rotate_pairs(key, *self.phase(key_positions, key.shape[-1], key.dtype), self.layout),
        )


@encodings.register("rope")
@dataclass(frozen=True)
class Rope(Rotary):
    """Rotate coordinate pair i of queries and keys by position * theta_i, theta_i = base**(-2i/d).

    The logit then depends on positions only through the offset key - query (Lemma 1 of arXiv 2607.18759).
    Source: Su et al., RoFormer, arXiv 2104.09864, equations 14-15.

    Attributes:
        base: theta's base, 10000 in the original.
        layout: which coordinates form pair i: ``half`` takes (i, i + d/2), ``interleaved`` (2i, 2i + 1).
            The two differ by a fixed permutation of coordinates; checkpoints must say which they use.
    """

    base: float = traced(10000.0)
    layout: str = "half"

    def check(self, width: int, longest: int) -> None:
        if width % 2:
            raise FarfieldError(f"rope rotates pairs of coordinates, so d must be even: got d = {width}")
        if self.layout not in LAYOUTS:
            raise FarfieldError(f"rope:layout={self.layout!r} is not one of {', '.join(LAYOUTS)}")
        if not 1.0 < self.base < LARGEST_BASE:
            raise FarfieldError(f"rope:base={self.base:g} must be a number between 1 and {LARGEST_BASE:g}")

    def tabulated(self, width: int, longest: int) -> Encoding:
        dtype = jnp.result_type(self.base, 1.0)  # a whole number for the base is a real number all the same
        return RopeTable(*self.phase(jnp.arange(longest), width, dtype), self.layout)

    def phase(
        self, positions: Any, width: int, dtype: Any
    ) -> tuple[Float[Array, "... half"], Float[Array, "... half"]]:
        """Phases in float32 or better, cast last.

        At position 4096 a bfloat16 phase is off by whole turns (transformers issues 25681 and 29285).
        """
        precise = jnp.promote_types(dtype, jnp.float32)
        theta = frequencies(width, jnp.asarray(self.base, precise))
        angle = jnp.multiply.outer(jnp.asarray(positions).astype(precise), theta)
        return jnp.cos(angle).astype(dtype), jnp.sin(angle).astype(dtype)


@jax.tree_util.register_dataclass
@dataclass(frozen=True)
class RopeTable(Rotary):
    """:class:`Rope` with the cosines and sines of positions 0 .. longest - 1 computed once."""

    cos: Float[Array, "longest half"]
    sin: Float[Array, "longest half"]
    layout: str = field(metadata={"static": True})

    def phase(
        self, positions: Any, width: int, dtype: Any
    ) -> tuple[Float[Array, "... half"], Float[Array, "... half"]]:
        return self.cos[positions].astype(dtype), self.sin[positions].astype(dtype)


def frequencies(width: int, base: Any) -> Float[Array, " half"]:
    """Rotary frequencies theta_i = base**(-2i/width) for i = 0 .. width/2 - 1, in radians per position."""
    base = jnp.asarray(base)
    exponent = jnp.arange(0, width, 2, dtype=base.dtype) / width
    return base**-exponent


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
