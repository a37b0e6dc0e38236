"""Rotary position embedding, on the whole head or a part of it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import jax.numpy as jnp
from jaxtyping import Array, Float

from farfield.encodings.base import encodings
from farfield.encodings.rotary import (
    LAYOUTS,
    Rotary,
    RotaryFamily,
    base_setting,
    fraction_setting,
    frequencies,
    rotate_pairs,
)


@encodings.register("rope", aliases=("default",))
@dataclass(frozen=True)
class Rope(RotaryFamily):
    """RoPE: rotate coordinate pair i of queries and keys by position * theta_i, theta_i = base**(-2i/r).

    r is the number of coordinates that rotate, d for the whole head. The logit then depends on positions only
    through the offset key - query (Lemma 1 of arXiv 2607.18759).
    Source: Su et al., RoFormer, arXiv 2104.09864, equations 14-15. Partial rotary is that of GPT-NeoX (Black et
    al., arXiv 2204.06745): pairs are formed, and frequencies spread, within the rotating coordinates. So it is in
    every rotary encoding, whose formulas then have r for d.

    Attributes:
        base: theta's base, 10000 in the original.
        layout: which coordinates form pair i: ``half`` takes (i, i + r/2), ``interleaved`` (2i, 2i + 1).
            The two differ by a fixed permutation of coordinates; checkpoints must say which they use.
        fraction: share of the head that rotates, its first r = int(fraction * d) coordinates.
    """

    base: float = base_setting()
    layout: str = "half"
    fraction: float = fraction_setting()

    def spectrum(self, width: int, length: Any, dtype: Any) -> Float[Array, " half"]:
        return frequencies(width, jnp.asarray(self.base, dtype))


__all__ = ["LAYOUTS", "Rope", "Rotary", "frequencies", "rotate_pairs"]
