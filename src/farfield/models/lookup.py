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
from typing import TYPE_CHECKING, Any, NamedTuple

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, Int

from farfield._types import Positions, Scalar, Tokens
from farfield.encodings.base import Encoding, HeadContent
from farfield.models import attention
from farfield.models.attention import AttentionParameters
from farfield.models.base import AskedRows, Forward, Inputs, Mechanism
from farfield.normalizers import Normalizer

if TYPE_CHECKING:
    from farfield.models.parameters import HeadParameters

# Positions added up in one unrolled expression of `sum_by_token`, which vectorizes where a reduction does not.
UNROLL = 16


class HeadView(NamedTuple):
    """One head of a one-layer model, with the tables that it reads.

    Attributes:
        encoding: as this head sees it.
        embedding: parameters of the encoding's added vector.
        parameters: of the head, without the head axis.
        scored: vectors that queries and keys are projected from, one a token.
        token_scores: class scores U W_V x of each token.
        readout: the part of U that reads this head.
        values_see_positions: whether the encoding's added vector enters the values.
    """

    encoding: Encoding
    embedding: Any
    parameters: AttentionParameters
    scored: Float[Array, "vocabulary model"]
    token_scores: Float[Array, "token vocabulary"]
    readout: Float[Array, "vocabulary width"]
    values_see_positions: bool


def head_views(parameters: HeadParameters, mechanism: Mechanism) -> list[HeadView]:
    """Every head of a one-layer model."""
    heads = len(parameters.attention)
    readouts = jnp.split(parameters.readout, heads, axis=1)
    views = []
    for index, readout in enumerate(readouts):
        head = parameters.attention.head(index)
        views.append(
            HeadView(
                encoding=mechanism.encoding.of_head(index, heads),
                embedding=parameters.encoding,
                parameters=head,
                scored=parameters.embedding if parameters.scored is None else parameters.scored.sum(0, keepdims=True),
                token_scores=parameters.embedding @ head.value.T @ readout.T,
                readout=readout,
                values_see_positions=parameters.scored is None,
            )
        )
    return views


class Tables(NamedTuple):
    """What a head does to every token at a block of places, for one query.

    Attributes:
        logits: scaled logit of (query token, key place, key token); one token in a positional-only head.
        position_scores: class scores U W_V p of each place's added vector, None when nothing is added.
    """

    logits: Float[Array, "vocabulary place vocabulary"]
    position_scores: Float[Array, "place vocabulary"] | None


def tables(head: HeadView, scale: Scalar, query_position: Positions, key_positions: Positions) -> Tables:
    """Tables for keys at ``key_positions`` and a query at ``query_position``; ``scale`` multiplies the logits."""
    encoding, parameters = head.encoding, head.parameters
    tokens, places = len(head.scored), len(key_positions)
    query = head.scored @ parameters.query.T  # [token, width]
    key = (head.scored @ parameters.key.T)[None]  # [place or 1, token, width]
    position_scores = None
    added = encoding.embed(head.embedding, key_positions)
    if added is not None:
        key = key + (added @ parameters.key.T)[:, None]
        if head.values_see_positions:
            position_scores = added @ parameters.value.T @ head.readout.T
        query_added = encoding.embed(head.embedding, query_position[None])
        assert query_added is not None
        query = query + query_added @ parameters.query.T
    width = query.shape[-1]
    by_token = jnp.broadcast_to(jnp.swapaxes(key, 0, 1), (tokens, places, width))
    content = HeadContent(query[:, None, None], by_token[None])  # [query token, key token, place, width]
    query, key = encoding.rotate(parameters.encoding, query, key, query_position[None], key_positions[:, None])
    query = query * (scale / math.sqrt(width))
    key = jnp.broadcast_to(key, (places, tokens, width))
    logits = (query @ key.reshape(-1, width).T).reshape(tokens, places, tokens)
    bias = encoding.bias(parameters.encoding, query_position[None], key_positions, content)
    if bias is not None:  # [query token, key token, 1, place], without the tokens where it does not depend on them
        bias = jnp.broadcast_to(bias, (1,) * (4 - bias.ndim) + bias.shape)[:, :, 0]
        logits = logits + jnp.swapaxes(bias, 1, 2) * scale
    return Tables(logits, position_scores)


def logit_scale(head: HeadView, normalizer: Normalizer, count: Any) -> Scalar:
    """What the normalizer multiplies this head's logits by, for a query that sees ``count`` keys."""
    return jnp.asarray(normalizer.scale(head.parameters.normalizer, jnp.asarray(count)), head.scored.dtype)


def scored_tokens(head: HeadView, tokens: Int[Array, "..."]) -> Int[Array, "..."]:
    """Which row of ``scored`` each token is: the token itself, or the one row that all share."""
    return tokens if len(head.scored) == len(head.token_scores) else jnp.zeros_like(tokens)


def class_scores(
    head: HeadView, table: Tables, weights: Float[Array, "place sequence"], tokens: Tokens
) -> Float[Array, "vocabulary sequence"]:
    """Sum of the attended values, read out: linear in ``weights``, which need not be normalized."""
    by_token: Array = sum_by_token(weights, tokens, len(head.token_scores))  # pyright: ignore[reportAssignmentType]
    scores = head.token_scores.T @ by_token
    if table.position_scores is not None:
        scores = scores + table.position_scores.T @ weights
    return scores


def forward(parameters: HeadParameters, mechanism: Mechanism, inputs: Inputs, rows: AskedRows) -> Forward:
    """The same function as the dense path of :class:`farfield.models.head.Head`, by table lookup."""
    tokens, positions, length = inputs.settled()
    heads = head_views(parameters, mechanism)
    normalizer = mechanism.normalizer

    def row(place: Int[Array, ""]) -> tuple[Array, Array]:
        visible = attention.visible_keys(place[None], len(tokens), length)[0]
        count = jnp.minimum(place + 1, length)
        scores, weights = [], []
        for head in heads:
            table = tables(head, logit_scale(head, normalizer, count), positions[place], positions)
            attended = normalizer.attend(_logits_of(head, table, tokens, place), visible[:, None], count)
            weights.append(jnp.broadcast_to(attended, tokens.shape))
            scores.append(class_scores(head, table, weights[-1], tokens))
        return sum(scores[1:], start=scores[0]), jnp.stack(weights)

    if rows == "last":
        scores, weights = row(length - 1)
        return Forward(scores[None], weights[:, None])
    scores, weights = jax.vmap(row)(jnp.arange(len(tokens)))
    return Forward(scores, jnp.swapaxes(weights, 0, 1))


def _logits_of(
    head: HeadView, table: Tables, tokens: Tokens, place: Int[Array, ""]
) -> Float[Array, "position columns"]:
    """Logits of the query at ``place``; one column for all sequences where logits do not depend on tokens."""
    if len(head.scored) < len(head.token_scores):
        return table.logits[0, :, :1]
    return gather_logits(table.logits, tokens[place], tokens)


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
