"""Transformer-XL: relative sinusoids met by the query, and two trained vectors in the query's place."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float

from farfield._types import Key, Positions, PyTree
from farfield.encodings.base import Encoding, HeadContent, encodings
from farfield.encodings.parts import LARGEST, normal, offsets, precise, require_real
from farfield.encodings.rotary import angles, frequencies
from farfield.errors import FarfieldError
from farfield.registry import traced


@encodings.register("transformer-xl")
@dataclass(frozen=True)
class TransformerXL(Encoding):
    """Transformer-XL: add ((q + v) . W_R r_{query - key} + u . k) / sqrt(d) to the logit.

    r_x = [sin(x theta_0) .. sin(x theta_{d/2-1}), cos(x theta_0) ..], sines and cosines concatenated as in the
    published code, theta_i = base**(-2i/d). W_R, u and v are trained. With the dot product q . k / sqrt(d) this
    is the whole of A^rel. Source: Dai et al., arXiv 1901.02860, section 3.3.

    The published code multiplies by the r of every distance and then shifts each row into place; r is taken at
    the offset itself here, which asks for no order of the positions and holds for keys after the query too. The
    working memory is queries x keys x d/2. In a head narrower than its model, r has the head's width where the
    original has the model's.

    Attributes:
        base: of the sinusoids' frequencies.
        deviation: standard deviation of the normal initialization of u and v, 0.02 in the published code.
            W_R starts from U(-1, 1)/sqrt(d), as the package's other linear maps.
    """

    base: float = traced(10000.0)
    deviation: float = traced(0.02)

    def check(self, width: int, longest: int) -> None:
        if width % 2:
            raise FarfieldError(f"transformer-xl pairs sines with cosines, so d must be even: got d = {width}")
        require_real("transformer-xl:base", self.base, 1, LARGEST)
        require_real("transformer-xl:deviation", self.deviation, 0, LARGEST, open_ends=False)

    def initialize_head(self, key: Key, width: int) -> PyTree:
        of_map, of_query, of_key = jax.random.split(key, 3)
        bound = 1 / math.sqrt(width)
        return {
            "map": jax.random.uniform(of_map, (width, width), minval=-bound, maxval=bound),
            "u": normal(of_key, self.deviation, width),
            "v": normal(of_query, self.deviation, width),
        }

    def bias(
        self, parameters: PyTree, query_positions: Positions, key_positions: Positions, content: HeadContent
    ) -> Float[Array, "... query key"]:
        width = content.query.shape[-1]
        dtype = precise(content.query.dtype)
        linear, u, v = (jnp.asarray(parameters[name]).astype(dtype) for name in ("map", "u", "v"))
        query, key = content.query.astype(dtype), content.key.astype(dtype)
        met = (query + v.reshape((1,) * (query.ndim - 1) + (width,))) @ linear  # (q + v) . W_R, to meet r
        waves = sinusoid(-offsets(query_positions, key_positions), width, jnp.asarray(self.base, dtype))
        by_position = jnp.einsum("...qd,qkd->...qk", met, waves)
        by_content = (key @ u)[..., None, :]
        return ((by_position + by_content) / math.sqrt(width)).astype(content.query.dtype)


def sinusoid(positions: Any, width: int, base: Float[Array, ""]) -> Float[Array, "... width"]:
    """[sin(x theta_0), sin(x theta_1), .. , cos(x theta_0), ..] of each x, in the type of ``base``."""
    angle = angles(positions, lambda dtype: frequencies(width, base.astype(dtype)), base.dtype)
    return jnp.concatenate([jnp.sin(angle), jnp.cos(angle)], axis=-1)
