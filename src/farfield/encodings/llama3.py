"""The frequency bands of Llama 3.1."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from farfield.encodings.base import encodings
from farfield.encodings.parts import LARGEST
from farfield.encodings.rotary import base_setting, fraction_setting, frequencies
from farfield.encodings.scaled_rope import ExtendedRope, original_length_setting
from farfield.errors import FarfieldError
from farfield.registry import traced


@encodings.register("llama3")
@dataclass(frozen=True)
class Llama3(ExtendedRope):
    """Llama 3: three bands by t = M theta_i / (2 pi), the turns that pair i makes within the original length M.

    theta_i where t > high; theta_i / factor where t < low; between them (1 - s) theta_i / factor + s theta_i with
    s = (t - low) / (high - low).
    Source: Llama Team, arXiv 2407.21783, and the released code's ``apply_scaling``.

    The defaults are Llama 3.1's, base included. For heads trained on short sequences give ``original_length=0``.

    Attributes:
        factor: how many times slower the slow pairs turn.
        low, high: turns within M below which a pair is slowed, and above which it is left alone.
        original_length: M; 0 for the longest training length.
        base, layout, fraction: as in :class:`~farfield.encodings.rope.Rope`.
    """

    factor: float = traced(8.0)
    low: float = traced(1.0, aliases=("low_freq_factor",))
    high: float = traced(4.0, aliases=("high_freq_factor",))
    original_length: int = original_length_setting(8192)
    base: float = base_setting(500000.0)
    layout: str = "half"
    fraction: float = fraction_setting()

    def spectrum(self, width: int, length: Any, dtype: Any) -> Float[Array, " half"]:
        base, factor, low, high = (jnp.asarray(x, dtype) for x in (self.base, self.factor, self.low, self.high))
        theta = frequencies(width, base)
        turns = theta * (self.original_length / (2 * math.pi))
        kept = jnp.clip((turns - low) / (high - low), 0, 1)
        return theta * kept + theta / factor * (1 - kept)

    def check(self, width: int, longest: int) -> None:
        super().check(width, longest)
        if not (0 < self.low < self.high <= LARGEST and np.float32(self.low) < np.float32(self.high)):
            raise FarfieldError(
                f"llama3:low={self.low:g} and high={self.high:g} must be positive numbers of turns, low below high, "
                f"at most {LARGEST:g}, and not the same in float32"
            )
