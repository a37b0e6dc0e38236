"""One attention layer, no MLP and no normalization: the head that the papers analyse.

With token embeddings x_t at places t = 0 .. n::

    q = W_Q x_n     k_t = W_K x_t     v_t = W_V x_t          each as the encoding's hooks change it
    logit_t = q . k_t / sqrt(d)                               w = normalizer(logit)
    class scores = U sum_t w_t v_t                            U acts on all heads' outputs side by side

Source: arXiv 2607.18759, section 2. This file holds the dense reference; training and evaluation use the
equal and faster :mod:`farfield.models.lookup` wherever it is exact, and a test holds the two together.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, Int

from farfield._types import Key, Scalar
from farfield.models import attention, lookup
from farfield.models.attention import linear
from farfield.models.base import AskedRows, Forward, Inputs, LogitPath, Mechanism, Model, Observed, models
from farfield.models.parameters import HeadParameters


@models.register("head")
@dataclass(frozen=True)
class Head(Model):
    """One attention layer of one or more heads with a linear readout, no MLP, no normalization.

    Attributes:
        width: model dimension d; each head has d / heads.
        heads: attention heads, their outputs side by side into the readout.
    """

    def initialize(self, key: Key, mechanism: Mechanism, vocabulary: int) -> HeadParameters:
        """Tables from N(0, 1), linear maps from U(-1, 1)/sqrt(fan-in), as the paper's numbers need them."""
        keys = jax.random.split(key, 6)
        return HeadParameters(
            embedding=jax.random.normal(keys[0], (vocabulary, self.width)),
            scored=None,
            attention=attention.initialize(keys[jnp.array([1, 2, 3, 5])], mechanism, self.heads, self.width),
            readout=linear(keys[4], vocabulary, self.width),
            encoding=mechanism.encoding.initialize(keys[5], self.width),
        )

    def forward(
        self, parameters: HeadParameters, mechanism: Mechanism, inputs: Inputs, rows: AskedRows, path: LogitPath
    ) -> Forward:
        if path == "lookup":
            return lookup.forward(parameters, mechanism, inputs, rows)
        return self._dense(parameters, mechanism, inputs, rows)[0]

    def observe(
        self, parameters: HeadParameters, mechanism: Mechanism, inputs: Inputs, rows: AskedRows
    ) -> list[Observed]:
        return self._dense(parameters, mechanism, inputs, rows)[1]

    def _dense(
        self, parameters: HeadParameters, mechanism: Mechanism, inputs: Inputs, rows: AskedRows
    ) -> tuple[Forward, list[Observed]]:
        """Embed every token of every sequence, then attend."""
        tokens, positions, length = inputs = inputs.settled()
        scored, valued = self._vectors(parameters, mechanism, inputs)
        places = attention.row_places(rows, len(tokens), length)
        projected = attention.project(parameters.attention, scored[:, places], scored, valued)
        output, inside = attention.attend(parameters.attention, mechanism, projected, positions, places, length)
        scores = jnp.einsum("sqd,cd->qcs", output, parameters.readout)
        return Forward(scores, jnp.stack([head.weights.transpose(1, 2, 0) for head in inside])), inside

    def _vectors(self, parameters: HeadParameters, mechanism: Mechanism, inputs: Inputs) -> tuple[Any, Any]:
        """What is scored and what is valued, ``[sequence, place, width]`` each."""
        x = parameters.embedding[inputs.tokens.T]
        added = mechanism.encoding.embed(parameters.encoding, inputs.positions)
        x = x if added is None else x + added[None]
        return x, x


def cross_entropy(
    class_scores: Float[Array, "row vocabulary sequence"],
    answers: Int[Array, "row sequence"],
    supervised: Array | None = None,
) -> Scalar:
    """Mean cross-entropy over supervised rows (all rows if None), in nats."""
    log_probability = jax.nn.log_softmax(class_scores, axis=1)
    correct = answers[:, None] == jnp.arange(class_scores.shape[1])[None, :, None]
    if supervised is None:
        return -jnp.where(correct, log_probability, jnp.zeros_like(log_probability)).sum() / answers.size
    counted = correct & supervised[:, None]
    total = jnp.where(counted, log_probability, jnp.zeros_like(log_probability)).sum()
    return -total / jnp.maximum(supervised.sum(), 1).astype(total.dtype)
