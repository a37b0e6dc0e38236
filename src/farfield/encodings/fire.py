"""FIRE: a small network of the distance as a share of the query's position."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import Any

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float

from farfield._types import Key, Positions, PyTree
from farfield.encodings.base import Encoding, HeadContent, encodings
from farfield.encodings.parts import LARGEST, MOST_ROWS, distances, precise, require_real, require_whole
from farfield.registry import traced

BY_LENGTH = 0.0
# The paper trains on 2048 positions from a threshold of 512.
SHARE_OF_LENGTH = 4
ALONE = 512.0
SMALLEST = 1e-6


@encodings.register("fire")
@dataclass(frozen=True)
class Fire(Encoding):
    """FIRE: add f(phi(query - key) / phi(max(L, query))) to the logit, phi(x) = log(1 + c x).

    f is a network with one hidden layer of rectified linear units; f, c and L are trained in each head. A query
    at L or beyond sees the share of the way back to the start that lies between it and the key, which is always
    in [0, 1], so the encoding is not relative; a query before L sees a function of the distance alone. L also
    keeps the first query from 0/0. Source: Li et al., arXiv 2310.04418, section 3 and the code of its appendix.

    c and L stay above 0 because their logarithms are trained; the published code takes absolute values. There
    one network with an output for each head serves a layer; here every head has a network. Keys after the query
    take their distance |query - key|, as there; the mask hides them.

    Attributes:
        hidden: units of f, 32 in the paper.
        scale: c at the start, 0.1 in the paper.
        threshold: L at the start. 0 means a quarter of the longest training length, as the paper's 512 is of
            2048; where no training length is known, 512.
    """

    relative = False

    hidden: int = 32
    scale: float = traced(0.1)
    threshold: float = traced(BY_LENGTH)

    def resolved(self, trained: int, longest: int) -> Fire:
        by_length = self.threshold == BY_LENGTH
        return replace(self, threshold=max(1.0, trained / SHARE_OF_LENGTH)) if by_length else self

    def check(self, width: int, longest: int) -> None:
        require_whole("fire:hidden", self.hidden, 1, MOST_ROWS)
        require_real("fire:scale", self.scale, SMALLEST, LARGEST)
        if self.threshold != BY_LENGTH:
            require_real("fire:threshold", self.threshold, SMALLEST, LARGEST)

    def initialize_head(self, key: Key, width: int) -> PyTree:
        of_input, of_shift, of_output, of_constant = jax.random.split(key, 4)
        bound = 1 / math.sqrt(self.hidden)
        threshold = jnp.asarray(self.threshold, float)
        threshold = jnp.where(threshold == BY_LENGTH, jnp.full_like(threshold, ALONE), threshold)
        return {
            # Linear maps and their constants from U(-1, 1)/sqrt(fan-in); the first has a single input.
            "input": _uniform(of_input, 1.0, self.hidden),
            "shift": _uniform(of_shift, 1.0, self.hidden),
            "output": _uniform(of_output, bound, self.hidden),
            "constant": _uniform(of_constant, bound),
            "log_scale": jnp.log(jnp.asarray(self.scale, float)),
            "log_threshold": jnp.log(threshold),
        }

    def bias(
        self, parameters: PyTree, query_positions: Positions, key_positions: Positions, content: HeadContent
    ) -> Float[Array, "query key"]:
        dtype = precise(content.query.dtype)
        parameters = {name: jnp.asarray(value).astype(dtype) for name, value in parameters.items()}
        share = progress(
            distances(query_positions, key_positions, dtype),
            query_positions.astype(dtype),
            jnp.exp(parameters["log_scale"]),
            jnp.exp(parameters["log_threshold"]),
        )
        first, shift = (parameters[name][None, None] for name in ("input", "shift"))
        units = jax.nn.relu(share[..., None] * first + shift)  # [query, key, hidden]
        return (units @ parameters["output"] + parameters["constant"]).astype(content.query.dtype)


def progress(
    distance: Float[Array, "query key"], query_positions: Float[Array, " query"], scale: Any, threshold: Any
) -> Float[Array, "query key"]:
    """phi(distance) / phi(max(threshold, query position)), phi(x) = log(1 + scale x)."""
    normalizer = jnp.log1p(scale * jnp.maximum(query_positions, threshold))
    # Reached only where training drives the threshold to 0.
    return jnp.log1p(scale * distance) / jnp.maximum(normalizer, jnp.full_like(normalizer, SMALLEST))[:, None]


def _uniform(key: Key, bound: float, *shape: int) -> Float[Array, "..."]:
    return jax.random.uniform(key, shape, minval=-bound, maxval=bound)
