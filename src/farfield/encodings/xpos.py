"""xPos: rotary embedding whose pairs fade with distance."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import jax.numpy as jnp
from jaxtyping import Array, Float

from farfield._types import Positions
from farfield.encodings.base import encodings
from farfield.encodings.parts import LARGEST
from farfield.encodings.rotary import RotaryFamily, base_setting, fraction_setting, frequencies
from farfield.errors import FarfieldError
from farfield.registry import traced

GAMMA = 0.4
# A gap between neighbouring positions over which a pair fades to e**-20, to nothing, counts as no longer.
FADED = 20.0
# The widest spread of exponents within one call: logits towards later keys grow as far as e**42, which float32 and
# bfloat16 still square. A mask hides them, but would not hide the inf * 0 of an overflow in a gradient.
WIDEST = 42.0


@encodings.register("xpos")
@dataclass(frozen=True)
class XPos(RotaryFamily):
    """xPos: RoPE whose pair i is multiplied by zeta_i**((n - m)/scale_base) for query n and key m <= n.

    zeta_i = (2i/d + 0.4) / 1.4 is below 1, so every pair fades with distance, the fastest first. For causal
    attention only: towards later keys it would grow.
    Source: Sun et al., arXiv 2212.10554; the frequencies are RoPE's.

    The product form zeta**n * zeta**-m overflows float32 near position 36,000. Only offsets matter, so exponents
    are measured from the query (one query in a call), or from the middle of the positions given. With several
    queries, each gap over which a pair fades to e**-20 is shortened to that, and positions so many and so far
    apart that float32 cannot hold their factors (more than 17,100 in a row at scale_base 512) give NaN, and are
    refused beforehand where a model is trained or tested.

    Attributes:
        scale_base: positions over which pair i fades by zeta_i.
        base, layout, fraction: as in :class:`~farfield.encodings.rope.Rope`.
    """

    scale_base: float = traced(512.0, aliases=("xpos_scale_base",))
    base: float = base_setting()
    layout: str = "half"
    fraction: float = fraction_setting()

    def spectrum(self, width: int, length: Any, dtype: Any) -> Float[Array, " half"]:
        return frequencies(width, jnp.asarray(self.base, dtype))

    def rates(self, width: int, dtype: Any) -> Float[Array, " pairs"]:
        """-ln(zeta_i)/scale_base: how fast each rotating pair fades, per position."""
        turning = self.rotated(width)
        zeta = (jnp.arange(0, turning, 2, dtype=dtype) / turning + GAMMA) / (1 + GAMMA)
        return -jnp.log(zeta) / jnp.asarray(self.scale_base, dtype)

    def magnitudes(
        self, query_positions: Positions, key_positions: Positions, width: int, dtype: Any
    ) -> tuple[Float[Array, "... half"], Float[Array, "... half"]] | None:
        precise = jnp.promote_types(dtype, jnp.float32)
        rates = self.rates(width, precise)
        if query_positions.size == 1:
            distance = (query_positions.reshape(()) - key_positions).astype(precise)
            fade = jnp.multiply.outer(distance, rates)
            # Later keys are masked; what they are given must only be finite.
            key = jnp.exp(-jnp.maximum(fade, -WIDEST / 2))
            return jnp.ones((*query_positions.shape, len(rates)), dtype), key.astype(dtype)
        # One factor a query and one a key, so that their product is right for all pairs of them.
        places = jnp.sort(jnp.concatenate([query_positions.reshape(-1), key_positions.reshape(-1)]))
        gaps = jnp.diff(places).astype(precise)[:, None]
        gaps = jnp.minimum(gaps, jnp.floor(FADED / rates)[None])
        places_faded = jnp.concatenate([jnp.zeros((1, len(rates)), precise), jnp.cumsum(gaps, axis=0)])
        exponent = places_faded * rates[None]
        spread = exponent[-1:]
        exponent = jnp.where(spread <= WIDEST, exponent - spread / 2, jnp.full_like(exponent, jnp.nan))
        query = jnp.exp(-exponent[jnp.searchsorted(places, query_positions)])
        key = jnp.exp(exponent[jnp.searchsorted(places, key_positions)])
        return query.astype(dtype), key.astype(dtype)

    def check(self, width: int, longest: int) -> None:
        super().check(width, longest)
        if not 1 <= self.scale_base <= LARGEST:
            raise FarfieldError(
                f"xpos:scale_base={self.scale_base:g} must be a number of positions, at least 1 and at most {LARGEST:g}"
            )

    def check_together(self, width: int, span: int) -> None:
        fastest = -math.log(GAMMA / (1 + GAMMA))
        most = int(WIDEST * self.scale_base / fastest)
        if span > most:
            raise FarfieldError(
                f"xpos:scale_base={self.scale_base:g} fades beyond what float32 holds where the queries of {span} "
                f"positions are rotated together, {most} at most: use sequences of at most {most}, "
                f"scale_base={math.ceil(span * fastest / WIDEST)} or larger, or a one-layer head with a task "
                "supervised at its end"
            )
