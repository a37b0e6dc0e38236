"""The positional-only head: logits from positions alone, values from content.

Every query and every key is computed from the same trained vector c in place of the token::

    q = W_Q (c + p_n)     k_t = W_K (c + p_t)     v_t = W_V E[token_t]

with p the encoding's added vector, if any. What the head can select is then what the encoding can express.
Source: the controlled abstraction of "A Positional Realizability Theory of Length Generalization" (abstract).
"""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass
from typing import Any

import jax
import jax.numpy as jnp

from farfield._types import Key
from farfield.models.base import Inputs, Mechanism, models
from farfield.models.head import Head, HeadParameters


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
        scored = jax.random.normal(jax.random.fold_in(key, 1), (1, self.width))
        return dataclasses.replace(parameters, scored=scored)

    def _vectors(self, parameters: HeadParameters, mechanism: Mechanism, inputs: Inputs) -> tuple[Any, Any]:
        assert parameters.scored is not None
        added = mechanism.encoding.embed(parameters.encoding, inputs.positions)
        places, sequences = inputs.tokens.shape
        x = parameters.scored if added is None else parameters.scored + added
        scored = jnp.broadcast_to(x[None], (sequences, places, x.shape[-1]))
        return scored, parameters.embedding[inputs.tokens.T]
