"""Relative position representations: a trained key vector for each clipped offset."""

from __future__ import annotations

import math
from dataclasses import dataclass

import jax.numpy as jnp
from jaxtyping import Array, Float, Int

from farfield._types import Key, Positions, PyTree
from farfield.encodings.base import Encoding, HeadContent, encodings
from farfield.encodings.parts import LARGEST, MOST_ROWS, normal, offsets, precise, require_real, require_whole
from farfield.registry import traced


@encodings.register("shaw")
@dataclass(frozen=True)
class Shaw(Encoding):
    """Relative keys of Shaw et al.: add q . a_c / sqrt(d) to the logit, c = clip(key - query, -reach, reach).

    The table a has 2 reach + 1 rows of the head's width; offsets past the reach share the outermost rows, so it
    serves any length. Keys alone have relative vectors here; the paper adds some to the values as well and finds
    (its Table 3) that those of the keys suffice. Source: Shaw et al., arXiv 1803.02155, sections 3.1 and 3.2.

    Attributes:
        reach: the farthest offset, either way, with a vector of its own (k in the paper).
        deviation: standard deviation of the normal initialization. The paper does not give one.
    """

    real_positions = False

    reach: int = 16
    deviation: float = traced(0.02)

    def check(self, width: int, longest: int) -> None:
        require_whole("shaw:reach", self.reach, 1, MOST_ROWS // 2)
        require_real("shaw:deviation", self.deviation, 0, LARGEST, open_ends=False)

    def initialize_head(self, key: Key, width: int) -> PyTree:
        return {"table": normal(key, self.deviation, 2 * self.reach + 1, width)}

    def bias(
        self, parameters: PyTree, query_positions: Positions, key_positions: Positions, content: HeadContent
    ) -> Float[Array, "... query key"]:
        dtype = precise(content.query.dtype)
        table = jnp.asarray(parameters["table"]).astype(dtype)
        by_row = jnp.einsum("...qd,rd->...qr", content.query.astype(dtype), table) / math.sqrt(table.shape[-1])
        row = jnp.broadcast_to(
            row_of(offsets(query_positions, key_positions), self.reach),
            (*by_row.shape[:-1], len(key_positions)),
        )
        bias = jnp.take_along_axis(by_row, row, axis=-1, mode="promise_in_bounds")
        return bias.astype(content.query.dtype)


def row_of(offset: Int[Array, "..."], reach: int) -> Int[Array, "..."]:
    """The table's row for each offset key - query: 0 for -reach and before, 2 reach for reach and beyond."""
    return jnp.clip(offset, -reach, reach) + reach
