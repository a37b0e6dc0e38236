"""T5: a trained bias for each bucket of offsets."""

from __future__ import annotations

import functools
from dataclasses import dataclass

import jax.numpy as jnp
from jaxtyping import Array, Float, Int

from farfield._types import Key, Positions, PyTree
from farfield.encodings.base import Encoding, HeadContent, encodings
from farfield.encodings.parts import LARGEST, normal, offsets, require_real, require_whole
from farfield.errors import FarfieldError
from farfield.registry import setting, traced

MOST_BUCKETS = 2**11
FARTHEST = 2**30


@encodings.register("t5")
@dataclass(frozen=True)
class T5(Encoding):
    """T5: add a trained number b_c to the logit, c being the bucket of the offset key - query.

    Offsets share buckets the more the farther they are: with B buckets of past offsets and E = B // 2, the
    distances 0 .. E - 1 have one each, and a distance r >= E falls in bucket
    E + floor((B - E) log(r / E) / log(distance / E)), at most B - 1.
    Source: Raffel et al., arXiv 1910.10683, section 2.1, and its code. T5 does not divide logits by sqrt(d);
    here the dot product is divided, and the bias is added after.

    A bucket that holds no offset of the trained lengths keeps its initialization. With buckets=32 and
    distance=128, heads trained to 16 positions never meet the offset -16 or beyond: at ``deviation`` 0 their far
    buckets stay level with one another, while large draws can outweigh everything trained and make the head jump
    to them.

    Attributes:
        buckets: rows of the table.
        distance: from here on all offsets share the last bucket.
        deviation: standard deviation of the normal initialization; 0 starts from zeros.
        bidirectional: half of the buckets are for keys after the query; otherwise those share the bucket of
            offset 0. (One row, that of offset +0, is then never read, as in T5's own tables.)
    """

    real_positions = False

    buckets: int = setting(32, aliases=("relative_attention_num_buckets",))
    distance: int = setting(128, aliases=("relative_attention_max_distance",))
    deviation: float = traced(0.0)
    bidirectional: bool = False

    def check(self, width: int, longest: int) -> None:
        require_whole("t5:buckets", self.buckets, 4 if self.bidirectional else 2, MOST_BUCKETS)
        if self.bidirectional and self.buckets % 2:
            raise FarfieldError(
                f"t5:buckets={self.buckets} cannot be halved between past and future: use an even number, "
                "or bidirectional=false"
            )
        exact = (self.buckets // 2 if self.bidirectional else self.buckets) // 2
        if not exact < self.distance <= FARTHEST:
            raise FarfieldError(
                f"t5:distance={self.distance} must be a whole number from {exact + 1} to {FARTHEST}: "
                f"with {self.buckets} buckets the nearest {exact} distances have one each"
            )
        require_real("t5:deviation", self.deviation, 0, LARGEST, open_ends=False)

    def initialize_head(self, key: Key, width: int) -> PyTree:
        return {"bias": normal(key, self.deviation, self.buckets)}

    def bias(
        self, parameters: PyTree, query_positions: Positions, key_positions: Positions, content: HeadContent
    ) -> Float[Array, "query key"]:
        table = jnp.asarray(parameters["bias"])
        bucket = bucket_of(
            offsets(query_positions, key_positions), self.buckets, self.distance, bidirectional=self.bidirectional
        )
        return table.at[bucket].get(mode="promise_in_bounds").astype(content.query.dtype)


def bucket_of(offset: Int[Array, "..."], buckets: int, distance: int, *, bidirectional: bool) -> Int[Array, "..."]:
    """The bucket of each offset key - query, by comparing whole numbers.

    A float32 logarithm, as in T5's code, may put an offset at the edge of a bucket on either side of it.
    """
    if not bidirectional:
        return _past_bucket(jnp.maximum(-offset, jnp.zeros_like(offset)), buckets, distance)
    half = buckets // 2
    bucket = _past_bucket(jnp.abs(offset), half, distance)
    return bucket + half * (offset > 0).astype(bucket.dtype)


def _past_bucket(distances: Int[Array, "..."], buckets: int, distance: int) -> Int[Array, "..."]:
    edges = jnp.asarray(bucket_edges(buckets, distance), distances.dtype)
    return jnp.searchsorted(edges, distances, side="right", method="scan_unrolled")


@functools.lru_cache(maxsize=64)
def bucket_edges(buckets: int, distance: int) -> tuple[int, ...]:
    """The least distance in each bucket but bucket 0, exactly.

    With E exact buckets and S = buckets - E others, E (distance / E)**(s/S) <= r means
    E**(S-s) distance**s <= r**S, a comparison of whole numbers.
    """
    exact = buckets // 2
    steps = buckets - exact
    edges = list(range(1, exact + 1))
    for step in range(1, steps):
        bound = exact ** (steps - step) * distance**step
        edge = round(exact * (distance / exact) ** (step / steps))
        while (edge - 1) ** steps >= bound:
            edge -= 1
        while edge**steps < bound:
            edge += 1
        edges.append(edge)
    return tuple(edges)
