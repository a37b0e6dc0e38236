"""Rotary position embedding, on the whole head or a part of it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import jax.numpy as jnp
from jaxtyping import Array, Float

from farfield.encodings.base import encodings
from farfield.encodings.rotary import LAYOUTS, Rotary, RotaryFamily, frequencies, precision, rotate_pairs
from farfield.errors import FarfieldError
from farfield.registry import traced


@encodings.register("rope")
@dataclass(frozen=True)
class Rope(RotaryFamily):
    """RoPE: rotate coordinate pair i of queries and keys by position * theta_i, theta_i = base**(-2i/r).

    r is the number of coordinates that rotate, d for the whole head. The logit then depends on positions only
    through the offset key - query (Lemma 1 of arXiv 2607.18759).
    Source: Su et al., RoFormer, arXiv 2104.09864, equations 14-15. Partial rotary is that of GPT-NeoX (Black et
    al., arXiv 2204.06745): pairs are formed, and frequencies spread, within the rotating coordinates.

    Attributes:
        base: theta's base, 10000 in the original.
        layout: which coordinates form pair i: ``half`` takes (i, i + r/2), ``interleaved`` (2i, 2i + 1).
            The two differ by a fixed permutation of coordinates; checkpoints must say which they use.
        fraction: share of the head that rotates, its first r = int(fraction * d) coordinates.
    """

    base: float = traced(10000.0)
    layout: str = "half"
    fraction: float = 1.0

    def rotated(self, width: int) -> int:
        return int(self.fraction * width)

    def frequencies(self, width: int, length: Any = None, dtype: Any = None) -> Float[Array, " half"]:
        turning = self.rotated(width)
        theta = frequencies(turning, jnp.asarray(self.base, precision(dtype)))
        return theta if turning == width else jnp.pad(theta, (0, (width - turning) // 2))

    def check(self, width: int, longest: int) -> None:
        super().check(width, longest)
        if not 0 < self.fraction <= 1:
            raise FarfieldError(
                f"rope:fraction={self.fraction:g} must be above 0 and at most 1; the encoding none rotates nothing"
            )
        turning = self.rotated(width)
        if turning % 2 or not turning:
            raise FarfieldError(
                f"rope:fraction={self.fraction:g} of d = {width} rotates {turning} coordinates, which form no pairs: "
                f"choose a fraction that makes their number even, such as {max(2, turning - turning % 2) / width:g}"
            )


__all__ = ["LAYOUTS", "Rope", "Rotary", "frequencies", "rotate_pairs"]
