"""The fast path: the vocabulary is smaller than the batch.

A batch of 256 sequences of 16 tokens holds 4,096 (token, position) pairs, of which at most 20 x 16 = 320
differ. So the *vocabulary* is embedded once at every position, one matrix product gives the logit of every
(query token, key position, key token), and the batch looks its logits up. After the softmax the weights are
summed by token, and one small matrix product with the tokens' class scores ends the forward pass. Same
parameters, same loss, same gradient as :func:`farfield.models.head.forward`, up to rounding.

What a lookup costs on a CPU lies in its gathers and scatters, so both have derivatives of their own: the
gradient of a sum by token is a gather, and that of a gather is one scatter of scalars.
"""

from __future__ import annotations

import functools
import math
from typing import NamedTuple

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, Int

from farfield._types import Positions, Scalar, Tokens
from farfield.encodings.base import Content, Encoding
from farfield.models.head import Forward, HeadParameters, masked_softmax

# Positions added up in one unrolled expression of `sum_by_token`, which vectorizes where a reduction does not.
UNROLL = 16


class Tables(NamedTuple):
    """What a head does to every token at a block of positions, for one query position.

    Attributes:
        logits: attention logit, divided by the temperature, of (query token, key position, key token).
        token_scores: class scores U W_V x of each token.
        position_scores: class scores U W_V p of each position's added vector, None when nothing is added.
    """

    logits: Float[Array, "vocabulary position vocabulary"]
    token_scores: Float[Array, "vocabulary vocabulary"]
    position_scores: Float[Array, "position vocabulary"] | None


def tables(
    parameters: HeadParameters,
    encoding: Encoding,
    temperature: Scalar,
    query_position: Int[Array, ""],
    key_positions: Positions,
) -> Tables:
    """Tables for keys at ``key_positions`` and a query at ``query_position``."""
    embedding = parameters.embedding
    vocabulary, width = embedding.shape
    query = embedding @ parameters.query.T  # [vocabulary, width]
    key = (embedding @ parameters.key.T)[None]  # [position or 1, vocabulary, width]
    position_scores = None
    added = encoding.embed(parameters.encoding, key_positions)
    if added is not None:
        key = key + (added @ parameters.key.T)[:, None]
        position_scores = added @ parameters.value.T @ parameters.readout.T
        query_added = encoding.embed(parameters.encoding, query_position[None])
        assert query_added is not None
        query = query + query_added @ parameters.query.T
    content = Content(query[:, None, None], jnp.swapaxes(key, 0, 1)[None])  # [query token, key token, place, width]
    query, key = encoding.rotate(parameters.head_encoding, query, key, query_position[None], key_positions[:, None])
    query = query * (1.0 / (math.sqrt(width) * temperature))
    key = jnp.broadcast_to(key, (len(key_positions), vocabulary, width))
    logits = (query @ key.reshape(-1, width).T).reshape(vocabulary, len(key_positions), vocabulary)
    bias = encoding.bias(parameters.head_encoding, query_position[None], key_positions, content)
    if bias is not None:  # [query token, key token, 1, position], without the tokens where it does not depend on them
        bias = jnp.broadcast_to(bias, (1,) * (4 - bias.ndim) + bias.shape)[:, :, 0]
        logits = logits + jnp.swapaxes(bias, 1, 2) / temperature
    return Tables(logits, embedding @ parameters.value.T @ parameters.readout.T, position_scores)


def class_scores(
    table: Tables, weights: Float[Array, "position sequence"], tokens: Tokens
) -> Float[Array, "vocabulary sequence"]:
    """Sum of the attended values, read out: linear in ``weights``, which need not be normalized."""
    by_token: Array = sum_by_token(weights, tokens, len(table.token_scores))  # pyright: ignore[reportAssignmentType]
    scores = table.token_scores.T @ by_token
    if table.position_scores is not None:
        scores = scores + table.position_scores.T @ weights
    return scores


def forward(
    parameters: HeadParameters, encoding: Encoding, temperature: Scalar, tokens: Tokens, length: Int[Array, ""]
) -> Forward:
    """The same function as :func:`farfield.models.head.forward`, by table lookup."""
    positions = jnp.arange(tokens.shape[0])
    query_position = length - 1
    table = tables(parameters, encoding, temperature, query_position, positions)
    logits = gather_logits(table.logits, tokens[query_position], tokens)
    weights = masked_softmax(logits, positions < length)
    return Forward(class_scores(table, weights, tokens), weights)


def _flat_index(logits: Array, query_tokens: Array, tokens: Array) -> Array:
    _, positions, vocabulary = logits.shape
    return (query_tokens[None] * positions + jnp.arange(positions)[:, None]) * vocabulary + tokens


@jax.custom_vjp
def gather_logits(
    logits: Float[Array, "vocabulary position vocabulary"], query_tokens: Int[Array, " sequence"], tokens: Tokens
) -> Float[Array, "position sequence"]:
    """``logits[query token, position, token]`` for every position of every sequence."""
    index = _flat_index(logits, query_tokens, tokens)
    return logits.reshape(-1).at[index].get(mode="promise_in_bounds")


def _gather_forward(logits, query_tokens, tokens):
    # The shape of the table is all its gradient needs; an empty slice carries it without carrying the table.
    return gather_logits(logits, query_tokens, tokens), (logits[:0], query_tokens, tokens)


def _gather_backward(residual, gradient):
    empty, query_tokens, tokens = residual
    vocabulary = empty.shape[-1]
    zeros = jnp.zeros((vocabulary, *empty.shape[1:]), gradient.dtype)
    index = _flat_index(zeros, query_tokens, tokens)
    scattered = zeros.reshape(-1).at[index].add(gradient, mode="promise_in_bounds")
    return scattered.reshape(zeros.shape), None, None


gather_logits.defvjp(_gather_forward, _gather_backward)


@functools.partial(jax.custom_vjp, nondiff_argnums=(2,))
def sum_by_token(
    weights: Float[Array, "position sequence"], tokens: Tokens, vocabulary: int
) -> Float[Array, "vocabulary sequence"]:
    """Total weight that each token of the vocabulary receives in each sequence."""
    identity = jnp.arange(vocabulary)[:, None]

    def add_rows(total, rows):
        for row_weights, row_tokens in zip(*rows, strict=True):
            total = total + jnp.where(row_tokens[None] == identity, row_weights[None], jnp.zeros_like(total))
        return total

    positions, sequences = weights.shape
    total = jnp.zeros((vocabulary, sequences), weights.dtype)
    whole = positions - positions % UNROLL
    if whole > UNROLL:
        blocks = tuple(array[:whole].reshape(-1, UNROLL, sequences) for array in (weights, tokens))
        total, _ = jax.lax.scan(lambda total, rows: (add_rows(total, rows), None), total, blocks)
        weights, tokens = weights[whole:], tokens[whole:]
    return add_rows(total, (weights, tokens))


def _sum_forward(weights, tokens, vocabulary):
    return sum_by_token(weights, tokens, vocabulary), tokens


def _sum_backward(vocabulary, tokens, gradient):
    del vocabulary
    return jnp.take_along_axis(gradient, tokens, axis=0, mode="promise_in_bounds"), None


sum_by_token.defvjp(_sum_forward, _sum_backward)
