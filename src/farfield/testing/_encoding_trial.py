"""An encoding under test: its logits by its hooks alone, for vectors and parameters drawn at random."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from farfield.encodings import Encoding, HeadContent, encodings
from farfield.testing._programs import as_arrays, compiled, drawn, settings_of, with_settings
from farfield.testing._rules import Rules

TRAINED = 16
LONGEST = 48
FAR = 10**6
WIDTH = 8
# Enough positions in a row for every bucket, row and position vector to be read.
SPREAD = 160

ENCODING_RULES = Rules(encodings)


class Parameters(NamedTuple):
    """An encoding's parameters of both kinds."""

    model: Any
    head: Any


def drawn_parameters(encoding: Encoding, width: int, seed: int) -> Parameters:
    """Parameters of an encoding from N(0, 1)."""
    return Parameters(
        drawn(lambda key: encoding.initialize(key, width), seed),
        drawn(lambda key: encoding.initialize_head(key, width), seed),
    )


def vectors(seed: int, count: int, width: int, dtype: Any = None) -> tuple[jax.Array, jax.Array]:
    """Normal queries and keys [count, width]."""
    draws = np.random.default_rng(seed).normal(size=(2, count, width))
    query, key = jnp.asarray(draws, dtype or float)
    return query, key


def pair_logits(
    encoding: Encoding, parameters: Parameters, query: Any, key: Any, query_positions: Any, key_positions: Any
) -> jax.Array:
    """Logits [query, key] before the softmax, for vectors at given positions, by the three hooks alone."""
    added_query = encoding.embed(parameters.model, query_positions)
    added_key = encoding.embed(parameters.model, key_positions)
    if added_query is not None and added_key is not None:
        query, key = query + added_query.astype(query.dtype), key + added_key.astype(key.dtype)
    content = HeadContent(query, key)
    query, key = encoding.rotate(parameters.head, query, key, query_positions, key_positions)
    logits = query @ key.T / np.sqrt(query.shape[-1]).astype(query.dtype)
    bias = encoding.bias(parameters.head, query_positions, key_positions, content)
    return logits if bias is None else logits + bias.astype(logits.dtype)


logits_of = compiled(pair_logits)


@compiled
def value_and_gradient(encoding: Encoding, parameters: Parameters, query: Any, key: Any, positions: Any) -> Any:
    """A weighted sum of the logits of all pairs, and its gradient in settings, parameters, queries and keys.

    Finite wherever the logits and their derivatives are, however large, as a square is not.
    """
    count = jnp.arange(len(positions), dtype=float)
    weights = jnp.cos(7 * count[:, None] + 3 * count[None])

    def loss(settings: Any, parameters: Parameters, query: Any, key: Any) -> Any:
        logits = pair_logits(with_settings(encoding, settings), parameters, query, key, positions, positions)
        return (weights * logits).sum()

    return jax.value_and_grad(loss, argnums=(0, 1, 2, 3))(settings_of(encoding), parameters, query, key)


def rounded(tree: Any, dtype: Any) -> Any:
    """All arrays of a pytree in another type."""
    return jax.tree.map(lambda leaf: leaf.astype(dtype), tree)


@dataclass(frozen=True)
class EncodingTrial:
    """An encoding under test."""

    entry: Encoding
    unread: dict[str, int]

    def resolved(self, longest: int = LONGEST) -> Encoding:
        """The encoding for positions 0 .. longest."""
        return self.entry.resolved(TRAINED, longest)

    def ready(self, longest: int = LONGEST, width: int = WIDTH, seed: int = 0) -> tuple[Encoding, Parameters]:
        """The encoding for positions 0 .. longest, checked, with its settings as arrays, and its parameters."""
        encoding, parameters = self.plain(longest, width, seed)
        return as_arrays(encoding, float), parameters

    def plain(self, longest: int = LONGEST, width: int = WIDTH, seed: int = 0) -> tuple[Encoding, Parameters]:
        """The same with its settings as they were given."""
        encoding = self.resolved(longest)
        encoding.check(width, longest)
        return encoding, drawn_parameters(encoding, width, seed)
