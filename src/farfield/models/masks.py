"""Which keys a query may attend to, and the positions that go with padding and packing."""

from __future__ import annotations

from collections.abc import Sequence

import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Int, Real

from farfield.errors import FarfieldError


def causal_mask(queries: int, keys: int) -> Bool[Array, "query key"]:
    """Each query sees the keys up to its own, the last query being the last key (aligned at the bottom right).

    With fewer queries than keys, the first keys come from a cache that all queries see::

        causal_mask(2, 5)    1 1 1 1 0
                             1 1 1 1 1

    With more queries than keys, the first queries come before every key and see none.
    """
    return jnp.arange(keys)[None] <= (jnp.arange(queries) + keys - queries)[:, None]


def positions_from_mask(
    mask: Bool[Array, "... place"] | Real[Array, "... place"], padding: int = 0
) -> Int[Array, "... place"]:
    """Positions that count real tokens from 0, so that padding on the left changes nothing: [0,0,1,1,1] -> 0,1,2.

    Args:
        mask: True (or 1) at real tokens.
        padding: position of the others, which nothing may attend to. OPT reads table row ``position + 2`` and has
            -1 for them.
    """
    real = jnp.asarray(mask).astype(bool)
    counted = jnp.cumsum(real, axis=-1, dtype=jnp.int32) - 1
    return jnp.where(real, counted, jnp.full_like(counted, padding))


def packed_positions(lengths: Sequence[int]) -> Int[Array, " place"]:
    """Positions of documents packed into one sequence, each counted from 0: lengths 3, 1, 2 -> 0,1,2,0,0,1."""
    return jnp.asarray(np.concatenate([np.arange(length) for length in _checked(lengths)]), jnp.int32)


def packed_mask(lengths: Sequence[int]) -> Bool[Array, "query key"]:
    """The causal mask of documents packed into one sequence: no attention across documents."""
    document = jnp.asarray(np.repeat(np.arange(len(lengths)), _checked(lengths)))
    return (document[:, None] == document[None]) & causal_mask(len(document), len(document))


def _checked(lengths: Sequence[int]) -> Sequence[int]:
    if not len(lengths) or min(lengths) < 1:
        raise FarfieldError(f"packed documents of lengths {list(lengths)}: give at least one, each of 1 token or more")
    return lengths
