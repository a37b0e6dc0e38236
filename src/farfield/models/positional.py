"""The positional-only head: logits from positions alone, values from content.

Queries and keys are computed from the vector p that the encoding adds, in place of the token::

    q = W_Q p_n     k_t = W_K p_t     v_t = W_V E[token_t]

and from one trained vector c, the same at every place, where it adds none. What the head can select is then what the
encoding can express: pairs of positions (n, t) for learned absolute vectors, offsets for rotary ones. (With c beside
p, learned vectors would also hold a rule about the key's position alone, which carries over.)
Source: the controlled abstraction of "A Positional Realizability Theory of Length Generalization" (abstract).
"""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass
from typing import Any

import jax
import jax.numpy as jnp

from farfield._types import Key
from farfield.encodings.base import adds_vectors
from farfield.models.base import Inputs, Mechanism, models
from farfield.models.head import Head
from farfield.models.parameters import HeadParameters


@models.register("positional")
@dataclass(frozen=True)
class PositionalHead(Head):
    """One attention layer whose logits depend on positions alone and whose values depend on tokens alone.

    Attributes:
        width: model dimension d; each head has d / heads.
        heads: attention heads, their outputs side by side into the readout.
    """

    def initialize(self, key: Key, mechanism: Mechanism, vocabulary: int) -> HeadParameters:
        parameters = super().initialize(key, mechanism, vocabulary)
        rows = 0 if adds_vectors(mechanism.encoding) else 1
        scored = jax.random.normal(jax.random.fold_in(key, 1), (rows, self.width))
        return dataclasses.replace(parameters, scored=scored)

    def _vectors(self, parameters: HeadParameters, mechanism: Mechanism, inputs: Inputs) -> tuple[Any, Any]:
        assert parameters.scored is not None
        added = mechanism.encoding.embed(parameters.encoding, inputs.positions)
        places, sequences = inputs.tokens.shape
        shared = parameters.scored.sum(axis=0, keepdims=True)
        x = shared if added is None else shared + added
        scored = jnp.broadcast_to(x[None], (sequences, places, x.shape[-1]))
        return scored, parameters.embedding[inputs.tokens.T]
