"""A decoder transformer: pre-LayerNorm, causal attention, an MLP with GELU.

Each layer adds to the residual stream x::

    x += W_O [heads of LayerNorm(x)]
    x += W_2 GELU(W_1 LayerNorm(x) + b_1) + b_2               W_1 is 4 widths tall
    class scores = U LayerNorm(x)

The encoding's added vector enters once, with the tokens; rotation and bias act in every head of every layer.
Source: GPT-2's block (Radford et al., 2019); the two-layer, four-head case is arXiv 2607.18759, section 5.2.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any, ClassVar

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float

from farfield._pytree import pytree
from farfield._types import Key, PyTree, Tokens
from farfield.encodings.base import Encoding
from farfield.errors import FarfieldError
from farfield.models import attention
from farfield.models.attention import AttentionParameters, Projected, linear
from farfield.models.base import AskedRows, Forward, Inputs, LogitPath, Mechanism, Model, Observed, models
from farfield.registry import setting

MOST_LAYERS = 64
# Added to a variance, so that a constant vector is not divided by zero.
SMALLEST_VARIANCE = 1e-5


@pytree
@dataclass(frozen=True)
class NormParameters:
    """Scale and shift of a LayerNorm."""

    scale: Float[Array, " width"]
    shift: Float[Array, " width"]


@pytree
@dataclass(frozen=True)
class LayerParameters:
    """One block: attention with its output map W_O, and the MLP."""

    attention_norm: NormParameters
    attention: AttentionParameters
    output: Float[Array, "width width"]
    mlp_norm: NormParameters
    up: Float[Array, "hidden width"]
    up_bias: Float[Array, " hidden"]
    down: Float[Array, "width hidden"]
    down_bias: Float[Array, " width"]


@pytree
@dataclass(frozen=True)
class TransformerParameters:
    """Everything a decoder transformer trains."""

    embedding: Float[Array, "vocabulary width"]
    layers: list[LayerParameters]
    norm: NormParameters
    readout: Float[Array, "vocabulary width"]
    encoding: PyTree


@models.register("transformer")
@dataclass(frozen=True)
class Transformer(Model):
    """A decoder transformer of any depth: pre-LayerNorm, causal, an MLP of four widths with GELU.

    Attributes:
        width: model dimension; each head has width / heads.
        heads: attention heads a layer.
        layers: depth.
    """

    lanes: ClassVar[int] = 1

    layers: int = setting(2, aliases=("num_hidden_layers", "n_layer"))

    @property
    def head_names(self) -> tuple[str, ...]:
        return tuple(f"layer {layer} head {head}" for layer in range(self.layers) for head in range(self.heads))

    def check(self) -> None:
        super().check()
        if not 1 <= self.layers <= MOST_LAYERS:
            raise FarfieldError(f"layers = {self.layers} must be a whole number from 1 to {MOST_LAYERS}")

    def lookup_obstacle(self, encoding: Encoding) -> str | None:
        del encoding
        return "a transformer's later layers read vectors that differ from token to token"

    def initialize(self, key: Key, mechanism: Mechanism, vocabulary: int) -> TransformerParameters:
        """Tables from N(0, 1), linear maps from U(-1, 1)/sqrt(fan-in), biases zero."""
        keys = jax.random.split(key, 3 + self.layers)
        return TransformerParameters(
            embedding=jax.random.normal(keys[0], (vocabulary, self.width)),
            layers=[self._initialize_layer(key, mechanism) for key in keys[3:]],
            norm=self._initialize_norm(),
            readout=linear(keys[1], vocabulary, self.width),
            encoding=mechanism.encoding.initialize(keys[2], self.width),
        )

    def _initialize_layer(self, key: Key, mechanism: Mechanism) -> LayerParameters:
        keys = jax.random.split(key, 7)
        hidden = 4 * self.width
        return LayerParameters(
            attention_norm=self._initialize_norm(),
            attention=attention.initialize(keys[:4], mechanism, self.heads, self.width),
            output=linear(keys[4], self.width, self.width),
            mlp_norm=self._initialize_norm(),
            up=linear(keys[5], hidden, self.width),
            up_bias=jnp.zeros(hidden),
            down=linear(keys[6], self.width, hidden),
            down_bias=jnp.zeros(self.width),
        )

    def _initialize_norm(self) -> NormParameters:
        return NormParameters(jnp.ones(self.width), jnp.zeros(self.width))

    def forward(
        self, parameters: TransformerParameters, mechanism: Mechanism, inputs: Inputs, rows: AskedRows, path: LogitPath
    ) -> Forward:
        assert path == "dense", self.lookup_obstacle(mechanism.encoding)
        return self._forward(parameters, mechanism, inputs, rows)[0]

    def observe(
        self, parameters: TransformerParameters, mechanism: Mechanism, inputs: Inputs, rows: AskedRows
    ) -> list[Observed]:
        return self._forward(parameters, mechanism, inputs, rows)[1]

    def _forward(
        self, parameters: TransformerParameters, mechanism: Mechanism, inputs: Inputs, rows: AskedRows
    ) -> tuple[Forward, list[Observed]]:
        tokens, positions, length = inputs.settled()
        vectors = parameters.embedding[None]
        added = mechanism.encoding.embed(parameters.encoding, positions)
        if added is not None:
            vectors = vectors + added[:, None]
        x = _looked_up(vectors, tokens)
        # Equal tokens at equal positions are equal vectors until the first attention: each is projected once.
        few = vectors.shape[0] * vectors.shape[1] <= tokens.size
        inside: list[Observed] = []
        for index, layer in enumerate(parameters.layers):
            # Every place feeds the next layer; after the last one only the rows asked for matter.
            asked: AskedRows = rows if index == len(parameters.layers) - 1 else "all"
            places = attention.row_places(asked, len(tokens), length)

            def at_rows(y: Any, asked: AskedRows = asked, places: Any = places) -> Any:
                return y if asked == "all" else y[:, places]

            normed = layer_norm(vectors if few and not index else x, layer.attention_norm)
            if few and not index:
                different = attention.project(layer.attention, normed, normed, normed)
                query, key, value = (_looked_up(part, tokens) for part in different)
                projected = Projected(at_rows(query), key, value)
            else:
                projected = attention.project(layer.attention, at_rows(normed), normed, normed)
            attended, heads = attention.attend(layer.attention, mechanism, projected, positions, places, length)
            inside += heads
            x = _written_out(at_rows(x) + attended @ layer.output.T)
            x = _written_out(x + _mlp(layer, x))
        scores = jnp.einsum("sqd,cd->qcs", layer_norm(x, parameters.norm), parameters.readout)
        return Forward(scores, _weights(inside, scores.shape[0], rows, length)), inside


def _looked_up(
    table: Float[Array, "places vocabulary width"], tokens: Tokens
) -> Float[Array, "sequence position width"]:
    """The vector of each token at its place; a table of one place serves all."""
    return table[jnp.arange(len(table))[None], tokens.T]


@jax.custom_vjp
def _written_out(x: Float[Array, "sequence row width"]) -> Float[Array, "sequence row width"]:
    """``x``, whose gradient is in memory before anything reads it.

    The gradient of a linear map's weights needs it transposed. XLA would fold all sums that lead to it into that
    transposition and compute them column by column: a tenth of a training step. It does not look into a loop.
    """
    return x


def _write_gradient(_: None, gradient: Float[Array, "sequence row width"]) -> tuple[Array]:
    blocks = gradient.reshape(math.gcd(len(gradient), 8), -1)

    def write(index: Any, written: Array) -> Array:
        return jax.lax.dynamic_update_index_in_dim(written, blocks[index], index, axis=0)

    return (jax.lax.fori_loop(0, len(blocks), write, jnp.zeros_like(blocks)).reshape(gradient.shape),)


_written_out.defvjp(lambda x: (x, None), _write_gradient)


def _mlp(layer: LayerParameters, x: Float[Array, "sequence row width"]) -> Float[Array, "sequence row width"]:
    hidden = layer_norm(x, layer.mlp_norm) @ layer.up.T + _as_rows(layer.up_bias)
    return gelu(hidden) @ layer.down.T + _as_rows(layer.down_bias)


def gelu(x: Float[Array, "*shape"]) -> Float[Array, "*shape"]:
    """x times the probability that a standard normal number is below x."""
    # By erfc, as jax.nn.gelu does it, it has more digits far below 0, where it is nearly 0, and takes twice the time.
    return x * (0.5 + 0.5 * jax.lax.erf(x * math.sqrt(0.5)))


def _weights(inside: list[Observed], rows: int, kind: AskedRows, length: Any) -> Float[Array, "head row key sequence"]:
    """Attention weights of all layers at the rows asked for."""
    weights = [head.weights for head in inside]
    if kind == "last":
        weights = [weight if weight.shape[1] == rows else weight[:, (length - 1)[None]] for weight in weights]
    return jnp.stack([weight.transpose(1, 2, 0) for weight in weights])


def _as_rows(vector: Float[Array, " width"]) -> Float[Array, "1 1 width"]:
    return vector[None, None]


def layer_norm(x: Float[Array, "sequence place width"], parameters: NormParameters) -> Float[Array, "... width"]:
    """Zero mean and unit variance along the width, then scale and shift."""
    centered = x - x.mean(axis=-1, keepdims=True)
    variance = jnp.square(centered).mean(axis=-1, keepdims=True)
    return centered * jax.lax.rsqrt(variance + SMALLEST_VARIANCE) * _as_rows(parameters.scale) + _as_rows(
        parameters.shift
    )
