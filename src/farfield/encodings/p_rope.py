"""p-RoPE: rotary embedding without its lowest frequencies."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import jax.numpy as jnp
from jaxtyping import Array, Float

from farfield.encodings.base import encodings
from farfield.encodings.rotary import RotaryFamily, frequencies, precision
from farfield.errors import FarfieldError
from farfield.registry import traced


@encodings.register("p-rope")
@dataclass(frozen=True)
class PRope(RotaryFamily):
    """p-RoPE: RoPE that keeps the highest frequencies: theta_i = base**(-2i/d) for i < int(share * d) // 2, else 0.

    The slow pairs, which a trained model uses for content, then carry it at any distance. Unlike partial rotary
    (``rope:fraction``), the frequencies that stay are the same ones as in full RoPE.
    Source: Barbero et al., Round and Round We Go!, arXiv 2410.06205 (its p is ``share``).

    Attributes:
        share: share of the pairs that rotate; 1 is RoPE.
        base, layout: as in :class:`~farfield.encodings.rope.Rope`.
    """

    share: float = 0.75
    base: float = traced(10000.0)
    layout: str = "half"

    def frequencies(self, width: int, length: Any = None, dtype: Any = None) -> Float[Array, " half"]:
        theta = frequencies(width, jnp.asarray(self.base, precision(dtype)))
        return jnp.where(jnp.arange(width // 2) < self._kept(width), theta, jnp.zeros_like(theta))

    def check(self, width: int, longest: int) -> None:
        super().check(width, longest)
        if not 0 < self.share <= 1:
            raise FarfieldError(f"p-rope:share={self.share:g} must be above 0 and at most 1")
        if not self._kept(width):
            raise FarfieldError(
                f"p-rope:share={self.share:g} of d = {width} leaves no pair to rotate: "
                f"use at least share={2 / width:g}, or the encoding none"
            )

    def _kept(self, width: int) -> int:
        return int(self.share * width) // 2
