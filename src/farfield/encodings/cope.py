"""CoPE: positions that count the keys which the query's content asks for."""

from __future__ import annotations

import math
from dataclasses import dataclass

import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float

from farfield._types import Key, Positions, PyTree
from farfield.encodings.base import Encoding, HeadContent, encodings
from farfield.encodings.parts import LARGEST, normal, offsets, precise, require_real, require_whole
from farfield.registry import traced


@encodings.register("cope")
@dataclass(frozen=True)
class Cope(Encoding):
    """CoPE: add q . e[p] to the logit, p being the number of keys from the key to the query, as the query counts them.

    Every key up to the query has a gate g = sigmoid(q . k / sqrt(d)), and p sums the gates from the key to the
    query, both included, up to rows - 1; a p between whole numbers interpolates between its neighbours' vectors.
    So a logit depends on the keys in between, and on positions only in telling which keys come before the query.
    Source: Golovneva et al., arXiv 2405.18719, section 4. As in the appendix's listing, gates see the scaled
    logits and q . e[p] is added without a scale, where the paper's equations leave scales out altogether.

    Keys are taken in the order in which they are given, and those that :attr:`HeadContent.visible` names have gates.
    A key after the query has p = 0, which the mask hides.

    Attributes:
        rows: position vectors e[0] .. e[rows - 1] (p_max in the paper); all larger counts read the last.
        deviation: standard deviation of the normal initialization; 0, as in the listing, starts from zeros.
    """

    reads_context = True

    rows: int = 64
    deviation: float = traced(0.0)

    def check(self, width: int, longest: int) -> None:
        require_whole("cope:rows", self.rows, 2)
        require_real("cope:deviation", self.deviation, 0, LARGEST, open_ends=False)

    def initialize_head(self, key: Key, width: int) -> PyTree:
        return {"table": normal(key, self.deviation, self.rows, width)}

    def bias(
        self, parameters: PyTree, query_positions: Positions, key_positions: Positions, content: HeadContent
    ) -> Float[Array, "... query key"]:
        dtype = precise(content.query.dtype)
        query, key = content.query.astype(dtype), content.key.astype(dtype)
        table = jnp.asarray(parameters["table"]).astype(dtype)
        visible = content.visible
        if visible is None:
            visible = offsets(query_positions, key_positions) <= 0
        count = counts(query, key, visible)
        by_row = jnp.einsum("...qd,rd->...qr", query, table)
        by_row = jnp.broadcast_to(by_row, (*count.shape[:-1], len(table)))
        return interpolated(by_row, count).astype(content.query.dtype)


def counts(
    query: Float[Array, "... query width"], key: Float[Array, "... key width"], visible: Bool[Array, "query key"]
) -> Float[Array, "... query key"]:
    """The sum of the gates of each key and all visible ones after it."""
    logits = jnp.einsum("...qd,...kd->...qk", query, key) / math.sqrt(query.shape[-1])
    gates = jax.nn.sigmoid(logits)
    gates = jnp.where(jnp.broadcast_to(visible, gates.shape), gates, jnp.zeros_like(gates))
    return jnp.flip(jnp.cumsum(jnp.flip(gates, axis=-1), axis=-1), axis=-1)


def interpolated(
    by_row: Float[Array, "... query row"], count: Float[Array, "... query key"]
) -> Float[Array, "... query key"]:
    """``by_row`` read at real-valued rows; beyond the last row, the last."""
    last = by_row.shape[-1] - 1
    count = jnp.minimum(count, jnp.full_like(count, last))
    below = jnp.minimum(count.astype(jnp.int32), last - 1)
    low, high = (jnp.take_along_axis(by_row, row, axis=-1) for row in (below, below + 1))
    share = count - below.astype(count.dtype)
    return low * (1 - share) + high * share
