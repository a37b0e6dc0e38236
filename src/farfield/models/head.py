"""One attention layer with one head, the query at the last position, no MLP and no normalization.

With token embeddings x_t and positions t = 0 .. n (n = length - 1)::

    q = W_Q x_n     k_t = W_K x_t     v_t = W_V x_t          each as the encoding's hooks change it
    logit_t = q . k_t / (sqrt(d) temperature)                 w = softmax(logit)
    class scores = U sum_t w_t v_t

Source: arXiv 2607.18759, section 2. This file holds the dense reference; training and evaluation use the
equal and faster :mod:`farfield.models.lookup`, and a test holds the two together.
"""

from __future__ import annotations

import dataclasses
import math
from typing import NamedTuple

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, Int

from farfield._types import Key, PyTree, Scalar, Tokens
from farfield.encodings.base import Content, Encoding

# Logit of a key that may not be attended to. Finite, so that a row's maximum is never inf - inf.
MASKED = -1e30


@jax.tree_util.register_dataclass
@dataclasses.dataclass(frozen=True)
class HeadParameters:
    """Everything a head trains.

    Attributes:
        embedding: token table E, one row a token.
        query, key, value: W_Q, W_K, W_V, applied as ``x @ W.T``.
        readout: U, one row a class.
        encoding: the positional encoding's parameters for the token embedding.
        head_encoding: those for queries, keys and logits.
    """

    embedding: Float[Array, "vocabulary width"]
    query: Float[Array, "width width"]
    key: Float[Array, "width width"]
    value: Float[Array, "width width"]
    readout: Float[Array, "vocabulary width"]
    encoding: PyTree
    head_encoding: PyTree


class Forward(NamedTuple):
    """A forward pass on a batch, position-major.

    Attributes:
        class_scores: unnormalized log probability of each class.
        weights: attention weights, zero from ``length`` on.
    """

    class_scores: Float[Array, "vocabulary sequence"]
    weights: Float[Array, "position sequence"]


def initialize(key: Key, encoding: Encoding, vocabulary: int, width: int) -> HeadParameters:
    """Parameters as the paper's numbers need them: tables from N(0, 1), linear maps from U(-1, 1)/sqrt(fan-in)."""
    keys = jax.random.split(key, 6)  # the sixth serves both kinds of parameters of an encoding
    bound = 1.0 / math.sqrt(width)

    def linear(key: Key, outputs: int) -> Float[Array, "outputs width"]:
        return jax.random.uniform(key, (outputs, width), minval=-bound, maxval=bound)

    return HeadParameters(
        embedding=jax.random.normal(keys[0], (vocabulary, width)),
        query=linear(keys[1], width),
        key=linear(keys[2], width),
        value=linear(keys[3], width),
        readout=linear(keys[4], vocabulary),
        encoding=encoding.initialize(keys[5], width),
        head_encoding=encoding.initialize_head(keys[5], width),
    )


def forward(
    parameters: HeadParameters, encoding: Encoding, temperature: Scalar, tokens: Tokens, length: Int[Array, ""]
) -> Forward:
    """The dense reference: embed every token of every sequence, then attend.

    Args:
        temperature: divides the logits.
        tokens: a batch padded to a common number of positions.
        length: how many of these positions count; the query is at ``length - 1``.
    """
    positions = jnp.arange(tokens.shape[0])
    query_position = length - 1
    x = parameters.embedding[tokens]  # [position, sequence, width]
    added = encoding.embed(parameters.encoding, positions)
    if added is not None:
        x = x + added[:, None]
    width = x.shape[-1]
    query = x[query_position] @ parameters.query.T  # [sequence, width]
    key = x @ parameters.key.T  # [position, sequence, width]
    content = Content(query[:, None], jnp.swapaxes(key, 0, 1))
    query, key = encoding.rotate(parameters.head_encoding, query, key, query_position[None], positions[:, None])
    logits = jnp.einsum("sd,psd->ps", query, key) / math.sqrt(width)
    bias = encoding.bias(parameters.head_encoding, query_position[None], positions, content)
    if bias is not None:  # [sequence or nothing, query, position]
        logits = logits + jnp.atleast_3d(jnp.moveaxis(bias, -1, 0))[..., 0]
    weights = masked_softmax(logits / temperature, positions < length)
    output = jnp.einsum("ps,psd->sd", weights, x @ parameters.value.T)
    return Forward(parameters.readout @ output.T, weights)


def masked_softmax(
    logits: Float[Array, "position sequence"], visible: Float[Array, " position"]
) -> Float[Array, "position sequence"]:
    """Softmax over positions, zero where not visible."""
    logits = jnp.where(visible[:, None], logits, jnp.asarray(MASKED, logits.dtype))
    peak = jax.lax.stop_gradient(logits.max(axis=0, keepdims=True))
    exponentials = jnp.exp(logits - peak)
    return exponentials / exponentials.sum(axis=0, keepdims=True)


def cross_entropy(class_scores: Float[Array, "vocabulary sequence"], answers: Int[Array, " sequence"]) -> Scalar:
    """Mean cross-entropy over sequences, in nats."""
    log_probability = jax.nn.log_softmax(class_scores, axis=0)
    correct = answers[None] == jnp.arange(class_scores.shape[0])[:, None]
    return -jnp.where(correct, log_probability, jnp.zeros_like(log_probability)).sum() / answers.size
