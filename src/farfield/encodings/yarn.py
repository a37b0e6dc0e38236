"""YaRN: interpolate the slow pairs, leave the fast ones, sharpen attention."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar

import jax.numpy as jnp
from jaxtyping import Array, Float

from farfield.encodings.base import encodings
from farfield.encodings.parts import LARGEST
from farfield.encodings.rotary import base_setting, fraction_setting, frequencies
from farfield.encodings.scaled_rope import ExtendedRope, original_length_setting
from farfield.errors import FarfieldError
from farfield.registry import traced

COMPUTED = 0.0


@encodings.register("yarn")
@dataclass(frozen=True)
class Yarn(ExtendedRope):
    """YaRN: theta_i ((1 - r_i) + r_i / factor), r_i a ramp from 0 at pair ``low`` to 1 at pair ``high``.

    Pair c(b) = d ln(M / (2 pi b)) / (2 ln base) turns b times within the original length M. The ramp starts at
    c(beta_fast), rounded down and no less than 0, and ends at c(beta_slow), rounded up and no more than d - 1.
    Rotated queries and keys are multiplied by the attention factor a, so logits by a**2.
    Source: Peng et al., arXiv 2309.00071; bounds and a as in the authors' code.

    Where M is so short that the slowest ramp would end before it starts (M < 2 pi beta_slow), it ends where it
    starts; the reference then interpolates nothing.

    Attributes:
        factor: how many times longer the context is than in training.
        original_length: M; 0 for the longest training length.
        beta_fast, beta_slow: turns within M above which a pair is left alone, and below which it is interpolated.
        attention_factor: a; 0 for 0.1 ln(factor) + 1.
        truncate: whether the ends of the ramp are rounded to whole pairs.
        base, layout, fraction: as in :class:`~farfield.encodings.rope.Rope`.
    """

    instead: ClassVar[Mapping[str, str]] = {
        **ExtendedRope.instead,
        **dict.fromkeys(
            ("mscale", "mscale_all_dim"),
            "give attention_factor=(0.1 mscale ln(factor) + 1) / (0.1 mscale_all_dim ln(factor) + 1)",
        ),
    }

    factor: float = traced(4.0)
    original_length: int = original_length_setting()
    beta_fast: float = 32.0
    beta_slow: float = 1.0
    attention_factor: float = COMPUTED
    truncate: bool = True
    base: float = base_setting()
    layout: str = "half"
    fraction: float = fraction_setting()

    def spectrum(self, width: int, length: Any, dtype: Any) -> Float[Array, " half"]:
        base, factor = jnp.asarray(self.base, dtype), jnp.asarray(self.factor, dtype)
        theta = frequencies(width, base)
        ramp = self.ramp(width, base)
        return theta * (1 - ramp) + theta / factor * ramp

    def ramp(self, width: int, base: Float[Array, ""]) -> Float[Array, " half"]:
        """Share of interpolation in each pair, from 0 to 1."""
        low, high = (self._pair(turns, width, base) for turns in (self.beta_fast, self.beta_slow))
        if self.truncate:
            low, high = jnp.floor(low), jnp.ceil(high)
        low = jnp.maximum(low, 0)
        high = jnp.maximum(jnp.minimum(high, width - 1), low)
        high = jnp.where(high == low, high + 0.001, high)
        return jnp.clip((jnp.arange(width // 2, dtype=base.dtype) - low) / (high - low), 0, 1)

    def gain(self, dtype: Any) -> Any:
        if self.attention_factor != COMPUTED:
            return self.attention_factor
        return 0.1 * jnp.log(jnp.asarray(self.factor, dtype)) + 1

    def check(self, width: int, longest: int) -> None:
        super().check(width, longest)
        if not 0 < self.beta_slow < self.beta_fast <= LARGEST:
            raise FarfieldError(
                f"yarn:beta_slow={self.beta_slow:g} and beta_fast={self.beta_fast:g} must be positive numbers of "
                f"turns, the slow below the fast, at most {LARGEST:g}"
            )
        if self.attention_factor != COMPUTED and not 1e-3 <= self.attention_factor <= 1e3:
            raise FarfieldError(
                f"yarn:attention_factor={self.attention_factor:g} must be from 0.001 to 1000, or 0 to compute it"
            )

    def _pair(self, turns: float, width: int, base: Float[Array, ""]) -> Float[Array, ""]:
        """c(turns): the pair, as a real number, that turns so many times within the original length."""
        # Only the base's logarithm is of limited precision: 2 pi keeps c off whole numbers at settings in use.
        return jnp.asarray(width * math.log(self.original_length / (2 * math.pi * turns)) / 2, base.dtype) / jnp.log(
            base
        )
