"""A trained bias for each offset, shared by all offsets beyond a reach."""

from __future__ import annotations

from dataclasses import dataclass

import jax.numpy as jnp
from jaxtyping import Array, Float

from farfield._types import Key, Positions, PyTree
from farfield.encodings.base import Encoding, HeadContent, encodings
from farfield.encodings.parts import LARGEST, normal, offsets, require_real, require_whole
from farfield.registry import traced


@encodings.register("clipped")
@dataclass(frozen=True)
class Clipped(Encoding):
    """One trained bias an offset, clipped: add b_r to the logit, r = min(max(query - key, 0), reach).

    The plainest table of relative biases: every offset down to -reach has a row of its own, those beyond share
    the last one, and keys after the query share row 0. Wherever training lengths exceed ``reach``, every row is
    trained, and a longer test meets no row that is new. Source: the clipping is that of Shaw et al., arXiv
    1803.02155, section 3.2; a scalar for each offset is T5's form (Raffel et al., arXiv 1910.10683, section 2.1).

    Attributes:
        reach: the farthest offset with a row of its own; the table has reach + 1 rows.
        deviation: standard deviation of the normal initialization; 0 starts from zeros.
    """

    real_positions = False

    reach: int = 8
    deviation: float = traced(0.0)

    def check(self, width: int, longest: int) -> None:
        require_whole("clipped:reach", self.reach, 1)
        require_real("clipped:deviation", self.deviation, 0, LARGEST, open_ends=False)

    def initialize_head(self, key: Key, width: int) -> PyTree:
        return {"bias": normal(key, self.deviation, self.reach + 1)}

    def bias(
        self, parameters: PyTree, query_positions: Positions, key_positions: Positions, content: HeadContent
    ) -> Float[Array, "query key"]:
        row = jnp.clip(-offsets(query_positions, key_positions), 0, self.reach)
        return jnp.asarray(parameters["bias"]).at[row].get(mode="promise_in_bounds").astype(content.query.dtype)
