"""p-RoPE: rotary embedding without its lowest frequencies."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import jax.numpy as jnp
from jaxtyping import Array, Float

from farfield.encodings.base import encodings
from farfield.encodings.rotary import ROUNDING, RotaryFamily, base_setting, frequencies
from farfield.errors import FarfieldError
from farfield.registry import setting


@encodings.register("p-rope", aliases=("proportional",))
@dataclass(frozen=True)
class PRope(RotaryFamily):
    """p-RoPE: RoPE that keeps the highest frequencies: theta_i = base**(-2i/d) for i < share * d/2, else 0.

    The slow pairs, which a trained model uses for content, then carry it at any distance. Unlike partial rotary
    (``rope:fraction``), the frequencies that stay are the same ones as in full RoPE.
    Source: Barbero et al., Round and Round We Go!, arXiv 2410.06205 (its p is ``share``).

    Attributes:
        share: share of the pairs that rotate, rounded to the nearest pair; 1 is RoPE.
        base, layout, fraction: as in :class:`~farfield.encodings.rope.Rope`.
    """

    # What config.json calls partial_rotary_factor beside the type proportional is this share.
    share: float = setting(0.75, aliases=("partial_rotary_factor",))
    base: float = base_setting()
    layout: str = "half"
    fraction: float = 1.0

    def spectrum(self, width: int, length: Any, dtype: Any) -> Float[Array, " half"]:
        theta = frequencies(width, jnp.asarray(self.base, dtype))
        return jnp.where(jnp.arange(width // 2) < self._kept(width), theta, jnp.zeros_like(theta))

    def check(self, width: int, longest: int) -> None:
        super().check(width, longest)
        if not 0 < self.share <= 1:
            raise FarfieldError(f"p-rope:share={self.share:g} must be above 0 and at most 1")
        if not self._kept(turning := self.rotated(width)):
            raise FarfieldError(
                f"p-rope:share={self.share:g} of d = {turning} leaves no pair to rotate: "
                f"use at least share={2 / turning:g}, or the encoding none"
            )

    def _kept(self, width: int) -> int:
        """The nearest number of pairs; a half is rounded down, as the published code rounds everything."""
        return math.ceil(self.share * width / 2 - 0.5 - ROUNDING)
