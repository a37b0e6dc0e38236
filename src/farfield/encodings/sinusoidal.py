"""Sinusoidal absolute position embedding."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float

from farfield._types import Key, Positions, PyTree
from farfield.encodings.base import Encoding, encodings
from farfield.encodings.parts import signed
from farfield.encodings.rotary import angles, check_base, frequencies
from farfield.errors import FarfieldError
from farfield.registry import traced

LAYOUTS = ("interleaved", "concatenated")


@jax.tree_util.register_static
@dataclass(frozen=True)
class Width:
    """The model's width, in the place of trainable parameters: known to the program, and nothing to train."""

    size: int


@encodings.register("sinusoidal")
@dataclass(frozen=True)
class Sinusoidal(Encoding):
    """Sinusoidal absolute: add sin(t theta_i) and cos(t theta_i) to the token at position t, theta_i = base**(-2i/d).

    The inner product of two of these vectors depends on the offset alone, but a head also meets them with
    tokens and through its maps, so its logits are not relative.
    Source: Vaswani et al., arXiv 1706.03762, section 3.5.

    Attributes:
        layout: where the waves sit: ``interleaved`` sin, cos, sin, cos, ... as the paper writes it, or
            ``concatenated`` all sines, then all cosines. Implementations differ and seldom say which
            (transformer-xl issue 119); a trained model must be read with its own.
        base: theta's base.
    """

    relative = False

    layout: str = "interleaved"
    base: float = traced(10000.0)

    def frequencies(self, width: int, dtype: Any = None) -> Float[Array, " half"]:
        """theta_i in radians per position."""
        return frequencies(width, jnp.asarray(self.base, float if dtype is None else dtype))

    def initialize(self, key: Key, width: int) -> PyTree:
        return {"width": Width(width)}

    def embed(self, parameters: PyTree, positions: Positions) -> Float[Array, "position width"]:
        """The waves in the default float, which its caller casts to the embedding's."""
        width = parameters["width"].size
        dtype = self.frequencies(width).dtype
        angle = angles(signed(positions), lambda dtype: self.frequencies(width, dtype), dtype)
        waves = jnp.sin(angle), jnp.cos(angle)
        if self.layout == "concatenated":
            return jnp.concatenate(waves, axis=-1)
        return jnp.stack(waves, axis=-1).reshape((*angle.shape[:-1], width))

    def check(self, width: int, longest: int) -> None:
        if width % 2:
            raise FarfieldError(f"sinusoidal positions pair a sine with a cosine, so d must be even: got d = {width}")
        if self.layout not in LAYOUTS:
            raise FarfieldError(f"sinusoidal:layout={self.layout!r} is not one of {', '.join(LAYOUTS)}")
        check_base("sinusoidal", self.base)
