"""LongRoPE: one divisor a pair, found by search, and given here."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import jax.numpy as jnp
from jaxtyping import Array, Float

from farfield.encodings.base import encodings
from farfield.encodings.rotary import base_setting, fraction_setting, frequencies
from farfield.encodings.scaled_rope import LARGEST_FACTOR, ExtendedRope, original_length_setting
from farfield.errors import FarfieldError
from farfield.printing import short
from farfield.registry import traced
from farfield.spec import value_text

COMPUTED = 0.0


@encodings.register("longrope", aliases=("su",))
@dataclass(frozen=True)
class LongRope(ExtendedRope):
    """LongRoPE: theta_i / short_factor[i] up to M = original_length in use, theta_i / long_factor[i] past it.

    Rotated queries and keys are multiplied by the attention factor a, at every length, so logits by a**2. The
    length in use is the largest query position given + 1, found anew at every call.

    Logits change only with the offset on either side of the switch; across it they change, so it is not a
    relative encoding.
    Source: Ding et al., arXiv 2402.13753; a as in the released Phi-3 models.

    Attributes:
        factor: s, how many times longer than M the context may become.
        original_length: M; 0 for the longest training length.
        short_factor, long_factor: one divisor a rotating pair, d/2 of them. None given stands for 1 in every pair, and
            for ``factor`` in every pair (position interpolation).
        attention_factor: a; 0 for sqrt(1 + ln(s) / ln(M)).
        base, layout, fraction: as in :class:`~farfield.encodings.rope.Rope`.
    """

    relative = False
    reads_length = True

    factor: float = traced(4.0)
    original_length: int = original_length_setting()
    short_factor: tuple[float, ...] = ()
    long_factor: tuple[float, ...] = ()
    attention_factor: float = COMPUTED
    base: float = base_setting()
    layout: str = "half"
    fraction: float = fraction_setting()

    def spectrum(self, width: int, length: Any, dtype: Any) -> Float[Array, " half"]:
        theta = frequencies(width, jnp.asarray(self.base, dtype))
        short = jnp.asarray(self.short_factor or (1.0,) * len(theta), dtype)
        if length is None:
            return theta / short
        long = jnp.asarray(self.long_factor, dtype) if self.long_factor else jnp.full_like(theta, self.factor)
        return theta / jnp.where(length > self.original_length, long, short)

    def gain(self, dtype: Any) -> Any:
        if self.attention_factor != COMPUTED:
            return self.attention_factor
        return jnp.sqrt(1 + jnp.log(jnp.asarray(self.factor, dtype)) / math.log(self.original_length))

    def check(self, width: int, longest: int) -> None:
        super().check(width, longest)
        for name in ("short_factor", "long_factor"):
            factors = getattr(self, name)
            pairs = self.rotated(width) // 2
            if factors and len(factors) != pairs:
                rotating = f"d = {width}" if self.fraction == 1 else f"d = {width} that rotate"
                raise FarfieldError(
                    f"longrope:{name} has {len(factors)} numbers for the {pairs} pairs of {rotating}: give one a pair"
                )
            if not all(1 / LARGEST_FACTOR <= factor <= LARGEST_FACTOR for factor in factors):
                raise FarfieldError(
                    f"longrope:{name} must be numbers from {1 / LARGEST_FACTOR:g} to {LARGEST_FACTOR:g}: "
                    f"got {short(value_text(factors))}"
                )
        if self.attention_factor != COMPUTED and not 1e-3 <= self.attention_factor <= 1e3:
            raise FarfieldError(
                f"longrope:attention_factor={self.attention_factor:g} must be from 0.001 to 1000, or 0 to compute it"
            )
        if self.original_length < 2 and self.attention_factor == COMPUTED:
            raise FarfieldError(
                "longrope:original_length=1 has no logarithm to divide by: use at least 2, or give the attention_factor"
            )
