"""Attention of several heads over a batch, the dense way; every model's reference."""

from __future__ import annotations

import dataclasses
import math
from typing import NamedTuple

import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float, Int

from farfield._pytree import pytree
from farfield._types import Key, Positions, PyTree
from farfield.encodings.base import HeadContent
from farfield.models.base import AskedRows, Mechanism, Observed


@pytree
@dataclasses.dataclass(frozen=True)
class AttentionParameters:
    """The heads of one layer; every leaf has a leading head axis.

    Attributes:
        query, key, value: W_Q, W_K, W_V, applied as ``x @ W.T``.
        encoding: the positional encoding's parameters for queries, keys and logits.
        normalizer: the normalizer's parameters.
    """

    query: Float[Array, "head width model"]
    key: Float[Array, "head width model"]
    value: Float[Array, "head width model"]
    encoding: PyTree
    normalizer: PyTree

    def __len__(self) -> int:
        return self.query.shape[0]

    def head(self, index: int) -> AttentionParameters:
        """The parameters of one head, without the head axis."""
        return jax.tree.map(lambda leaf: leaf[index], self)


def linear(key: Key, outputs: int, inputs: int) -> Float[Array, "outputs inputs"]:
    """A linear map from U(-1, 1)/sqrt(inputs), the start that the paper's numbers need."""
    bound = 1.0 / math.sqrt(inputs)
    return jax.random.uniform(key, (outputs, inputs), minval=-bound, maxval=bound)


def initialize(keys: Array, mechanism: Mechanism, heads: int, width: int) -> AttentionParameters:
    """Fresh heads from four keys: of queries, keys, values and what belongs to the mechanism."""
    head_width = width // heads

    def projection(key: Key) -> Float[Array, "head width model"]:
        return linear(key, width, width).reshape(heads, head_width, width)

    def stacked(draw) -> PyTree:
        return jax.tree.map(lambda *leaves: jnp.stack(leaves), *map(draw, range(heads)))

    def of_encoding(head: int) -> PyTree:
        key = jax.random.fold_in(keys[3], 2 * head)
        return mechanism.encoding.of_head(head, heads).initialize_head(key, head_width)

    def of_normalizer(head: int) -> PyTree:
        return mechanism.normalizer.initialize(jax.random.fold_in(keys[3], 2 * head + 1))

    return AttentionParameters(
        query=projection(keys[0]),
        key=projection(keys[1]),
        value=projection(keys[2]),
        encoding=stacked(of_encoding),
        normalizer=stacked(of_normalizer),
    )


def visible_keys(rows: Int[Array, " row"], places: int, length: Int[Array, ""]) -> Bool[Array, "row key"]:
    """Keys that each row may attend to: its own place and those before it, within the length."""
    keys = jnp.arange(places)[None]
    return (keys <= rows[:, None]) & (keys < length)


def row_places(rows: AskedRows, places: int, length: Int[Array, ""]) -> Int[Array, " row"]:
    """Places of the rows that are asked for."""
    return jnp.arange(places) if rows == "all" else (length - 1)[None]


class Projected(NamedTuple):
    """Queries, keys and values of all heads side by side."""

    query: Float[Array, "... row model"]
    key: Float[Array, "... place model"]
    value: Float[Array, "... place model"]


def project(
    parameters: AttentionParameters,
    asking: Float[Array, "... row model"],
    asked: Float[Array, "... place model"],
    valued: Float[Array, "... place model"],
) -> Projected:
    """What the heads make of the vectors that queries, keys and values are projected from."""

    def side_by_side(weights: Float[Array, "head width model"], x: Float[Array, "... model"]) -> Array:
        return x @ weights.reshape(-1, weights.shape[-1]).T

    return Projected(
        side_by_side(parameters.query, asking),
        side_by_side(parameters.key, asked),
        side_by_side(parameters.value, valued),
    )


def attend(
    parameters: AttentionParameters,
    mechanism: Mechanism,
    projected: Projected,
    positions: Positions,
    rows: Int[Array, " row"],
    length: Int[Array, ""],
) -> tuple[Float[Array, "sequence row model"], list[Observed]]:
    """Attended values of all heads, concatenated, and the inside of each.

    Args:
        projected: of every sequence; queries at ``rows`` alone.
        positions: one a place.
        rows: places of the queries.
    """
    heads = len(parameters)
    visible = visible_keys(rows, projected.key.shape[1], length)
    outputs, inside = [], []
    for index, parts in enumerate(zip(*(jnp.split(part, heads, axis=-1) for part in projected), strict=True)):
        query, key, value = parts
        head = parameters.head(index)
        observed = _observe(head, mechanism, index, heads, query, key, positions, rows, visible)
        outputs.append(jnp.einsum("sqk,skd->sqd", observed.weights, value))
        inside.append(observed)
    return jnp.concatenate(outputs, axis=-1), inside


def _observe(
    head: AttentionParameters,
    mechanism: Mechanism,
    index: int,
    heads: int,
    query: Float[Array, "sequence row width"],
    key: Float[Array, "sequence place width"],
    positions: Positions,
    rows: Int[Array, " row"],
    visible: Bool[Array, "row key"],
) -> Observed:
    encoding, normalizer = mechanism.encoding.of_head(index, heads), mechanism.normalizer
    turned_query, turned_key = encoding.rotate(head.encoding, query, key, positions[rows], positions)
    logits = jnp.einsum("sqd,skd->sqk", turned_query, turned_key) / math.sqrt(query.shape[-1])
    bias = encoding.bias(head.encoding, positions[rows], positions, HeadContent(query, key, visible))
    if bias is not None:
        logits = logits + jnp.broadcast_to(bias, logits.shape)
    count = visible.sum(axis=1)
    logits = logits * jnp.broadcast_to(normalizer.scale(head.normalizer, count), count.shape)[None, :, None]
    by_key = normalizer.attend(jnp.moveaxis(logits, -1, 0), visible.T[:, None], count[None])
    return Observed(query, key, logits, jnp.moveaxis(by_key, 0, -1))
