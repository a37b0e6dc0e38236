"""What an encoding alone does to a query and the keys before it, by offset: before any training."""

from __future__ import annotations

from typing import Any, NamedTuple

import jax.numpy as jnp
import numpy as np
from jaxtyping import Float, Int

from farfield.encodings.base import Encoding, HeadContent
from farfield.rng import Purpose, key_for


class EncodingProfile(NamedTuple):
    """The three hooks' effect for a query at position ``length - 1``; a part is None where it does nothing.

    Attributes:
        offsets: key - query, from 0 down to -(length - 1).
        rotation: dot product of equal vectors of ones after rotation, divided by d: g(s)/g(0) of Lemma 2 with
            equal weights (arXiv 2607.18759), where 1 is no change.
        bias: added to the logit, in logit units; with query and key of ones where it depends on content.
        added: dot product of the vectors added to the two tokens, divided by d.
    """

    offsets: Int[np.ndarray, " offset"]
    rotation: Float[np.ndarray, " offset"] | None
    bias: Float[np.ndarray, " offset"] | None
    added: Float[np.ndarray, " offset"] | None


def encoding_profile(
    encoding: Encoding, width: int, length: int, *, seed: int = 0, head: int = 0, heads: int = 1
) -> EncodingProfile:
    """Profile of a resolved encoding; trainable parameters are those that ``seed`` starts from.

    Args:
        width: the dimension that the encoding acts on.
        length: places; the query is the last.
        head, heads: which head of how many, where heads differ.
    """
    model = encoding.initialize(key_for(seed, Purpose.INITIALIZE), width)
    encoding = encoding.of_head(head, heads)
    parameters = encoding.initialize_head(key_for(seed, Purpose.INITIALIZE, head), width)
    positions = jnp.arange(length)
    ones = jnp.ones((length, width))
    query, key = encoding.rotate(parameters, ones[:1], ones, positions[-1:], positions)
    rotates = type(encoding).rotate is not Encoding.rotate
    added = encoding.embed(model, positions)
    bias = encoding.bias(parameters, positions[-1:], positions, HeadContent(ones[:1], ones))

    def by_offset(values: Any) -> Float[np.ndarray, " offset"]:
        return np.asarray(values, np.float64)[::-1]

    return EncodingProfile(
        offsets=-np.arange(length),
        rotation=by_offset(key @ query[0] / width) if rotates else None,
        bias=None if bias is None else by_offset(jnp.broadcast_to(bias, (1, length))[0]),
        added=None if added is None else by_offset(added @ added[-1] / width),
    )
