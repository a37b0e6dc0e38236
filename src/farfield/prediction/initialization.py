"""alpha under initialization: what a trained head selects where training has said nothing.

Gradient descent moves a kernel only within the span of the features that it has seen. The rest of a trained head's
kernel is what it started from. So a trained head is taken to be

    beta w* + (1 - P) w_0,

w* the selected kernel, beta the logits that training has made of its margin of 1, w_0 the kernel of an untrained head
and P the projection onto the span of the trained grid's features. Where several weights make up one coordinate (a
query times a key), their span is not the features', and this is an approximation.
"""

from __future__ import annotations

import functools
from dataclasses import dataclass
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Float, Real

from farfield.encodings import Encoding
from farfield.encodings.clipped import Clipped
from farfield.encodings.fire import Fire
from farfield.encodings.key_only import KeyOnly
from farfield.encodings.learned import Learned
from farfield.encodings.rotary import RotaryFamily
from farfield.encodings.shaw import Shaw
from farfield.encodings.sinusoidal import Sinusoidal
from farfield.encodings.t5 import T5
from farfield.encodings.transformer_xl import TransformerXL
from farfield.models.base import Mechanism, models
from farfield.normalizers.softmax import Softmax
from farfield.prediction.features import FeatureMap, OneHot, Position
from farfield.prediction.grid import Grid
from farfield.prediction.selection import Selected, rows_of
from farfield.prediction.sensitivity import seen_basis
from farfield.rng import Purpose, key_for


class Spread(NamedTuple):
    """alpha over untrained starts.

    Attributes:
        mean, deviation: over draws, the latter the sample standard deviation.
        low, high: the smallest and the largest.
        draws: how many.
        logit_scale: beta.
    """

    mean: float
    deviation: float
    low: float
    high: float
    draws: int
    logit_scale: float


class Untrained(NamedTuple):
    """One untrained positional-only head.

    Attributes:
        query, key: W_Q c and W_K c of the vector c that all places share; the maps W_Q and W_K themselves where the
            encoding adds vectors and there is no such c.
        parameters: of the encoding in this head.
        model: of the encoding in the model.
    """

    query: Float[np.ndarray, "..."]
    key: Float[np.ndarray, "..."]
    parameters: Any
    model: Any


def untrained(encoding: Encoding, width: int, draws: int, seed: int) -> list[Untrained]:
    """Positional-only heads as the package starts them."""
    model = models.get("positional", width=width)
    mechanism = Mechanism(encoding, Softmax())

    def head(key: Any) -> Untrained:
        drawn: Any = model.initialize(key, mechanism, 2)
        query, key = drawn.attention.query[0], drawn.attention.key[0]
        if drawn.scored is not None and len(drawn.scored):
            query, key = query @ drawn.scored[0], key @ drawn.scored[0]
        return Untrained(query, key, jax.tree.map(lambda leaf: leaf[0], drawn.attention.encoding), drawn.encoding)

    keys = jnp.stack([key_for(seed, Purpose.INITIALIZE, draw) for draw in range(draws)])
    # Operation by operation: these are compiled once for all encodings, a program of them for each.
    heads = jax.tree.map(np.asarray, jax.vmap(head)(keys))
    return [jax.tree.map(lambda leaf, draw=draw: leaf[draw], heads) for draw in range(draws)]


@functools.singledispatch
def first_kernel(encoding: Encoding, head: Untrained) -> Float[np.ndarray, " feature"] | None:
    """Coordinates of an untrained head's kernel, in logits; None where none of them is left untrained."""
    del encoding, head
    return None


@first_kernel.register
def _(encoding: T5, head: Untrained) -> Any:
    return np.asarray(head.parameters["bias"], float)


@first_kernel.register
def _(encoding: Clipped, head: Untrained) -> Any:
    return np.asarray(head.parameters["bias"], float)


@first_kernel.register
def _(encoding: Shaw, head: Untrained) -> Any:
    by_row = np.asarray(head.parameters["table"], float) @ head.query / np.sqrt(len(head.query))
    return by_row[encoding.reach :: -1]  # the table's rows count key - query, from -reach up


@first_kernel.register
def _(encoding: RotaryFamily, head: Untrained) -> Any:
    width = len(head.query)
    order = encoding.order(width)
    (a, b), (c, d) = (np.asarray(vector, float)[order].reshape(2, -1) for vector in (head.query, head.key))
    # (q e^{i n theta}) . (k e^{i j theta}) = Re(q k* e^{i (n - j) theta}), pairs read as complex numbers.
    return np.concatenate([a * c + b * d, a * d - b * c]) / np.sqrt(width)


@first_kernel.register
def _(encoding: TransformerXL, head: Untrained) -> Any:
    met = (head.query + head.parameters["v"]) @ np.asarray(head.parameters["map"], float)
    sines, cosines = met.reshape(2, -1)
    return np.concatenate([cosines, sines]) / np.sqrt(len(head.query))


@first_kernel.register
def _(encoding: Sinusoidal, head: Untrained) -> Any:
    width = head.query.shape[-1]
    matrix = np.asarray(head.query, float).T @ head.key / np.sqrt(width)
    index = np.arange(width)
    sines, cosines = index.reshape(2, -1) if encoding.layout == "concatenated" else index.reshape(-1, 2).T
    order = np.concatenate([cosines, sines])
    return matrix[np.ix_(order, order)].reshape(-1)


@first_kernel.register
def _(encoding: Fire, head: Untrained) -> Any:
    first, shift, output = (np.asarray(head.parameters[name], float) for name in ("input", "shift", "output"))
    knots = np.linspace(0, 1, encoding.hidden)
    return np.maximum(knots[:, None] * first + shift, 0) @ output


@dataclass(frozen=True)
class Beside(OneHot):
    """A table whose missing entries are the scores of an untrained head with a vector at each position."""

    vectors: Float[np.ndarray, "position width"] = None  # pyright: ignore[reportAssignmentType]
    matrix: Float[np.ndarray, "width width"] = None  # pyright: ignore[reportAssignmentType]

    def scores(
        self, kernel: Float[np.ndarray, " size"], query: Real[np.ndarray, " row"], keys: Position
    ) -> Float[np.ndarray, "row key"]:
        trained = super().scores(kernel, query, keys)
        line = np.broadcast_to(keys, trained.shape)
        _, known = self._index(self.cells(query[:, None], line))
        met = self.vectors[query] @ self.matrix
        drawn = met @ self.vectors[keys].T if keys.ndim == 1 else np.einsum("rd,rkd->rk", met, self.vectors[keys])
        return np.where(known, trained, drawn)


def under_initialization(
    selected: Selected,
    encoding: Encoding,
    width: int,
    deep: Grid,
    logit_scale: float,
    draws: int,
    seed: int = 0,
) -> Spread:
    """alpha_L with the unseen part of the kernel drawn as heads start.

    Args:
        logit_scale: beta.
        draws: at least 2.
    """
    shares = []
    error = logit_scale * selected.solution.error
    for features, kernel in _trained_heads(selected, encoding, width, deep, logit_scale, draws, seed):
        shares.append(float(rows_of(features, kernel, deep, error=error).won.mean()))
    return Spread(
        float(np.mean(shares)), float(np.std(shares, ddof=1)), min(shares), max(shares), len(shares), logit_scale
    )


def _trained_heads(
    selected: Selected, encoding: Encoding, width: int, deep: Grid, scale: float, draws: int, seed: int
) -> Any:
    """The map and the kernel of each draw."""
    features, trained = selected.features, scale * selected.kernel
    heads = untrained(encoding, width, draws, seed)
    if isinstance(encoding, KeyOnly):
        assert isinstance(features, OneHot)
        wide = features.holding(np.arange(int(deep.keys.max()) + 1))
        known = np.searchsorted(wide.support, features.support)
        for head in heads:
            kernel = np.asarray(head.parameters["bias"], float)[wide.support]
            kernel[known] = trained
            yield wide, kernel
        return
    if isinstance(encoding, Learned):
        assert isinstance(features, OneHot)
        for head in heads:
            matrix = np.asarray(head.query, float).T @ head.key / np.sqrt(width)
            table = np.asarray(head.model["table"], float)
            yield Beside(**vars(features), vectors=table, matrix=matrix), trained
        return
    left_out = _outside(features, selected.grid)
    for head in heads:
        first = first_kernel(encoding, head)
        yield features, trained if first is None else trained + left_out(first)


def _outside(features: FeatureMap, trained: Grid) -> Any:
    """The projection away from the trained grid's span."""
    basis = seen_basis(features, trained)
    return lambda kernel: kernel - basis @ (basis.T @ kernel)
