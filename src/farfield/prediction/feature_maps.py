"""The feature map of each encoding that has a linear positional kernel; the others are refused with the reason.

The head meant is the positional-only one (:mod:`farfield.models.positional`): queries and keys carry positions alone.
:func:`feature_map` dispatches on the encoding's class; a user's own encoding joins by ``feature_map.register``.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Float, Int

from farfield.encodings import Encoding, encodings
from farfield.encodings.alibi import Alibi
from farfield.encodings.clipped import Clipped
from farfield.encodings.cope import Cope
from farfield.encodings.fire import Fire, progress
from farfield.encodings.kerple import KerpleLog, KerplePower
from farfield.encodings.key_only import KeyOnly
from farfield.encodings.learned import Learned
from farfield.encodings.none import NoEncoding
from farfield.encodings.rope import frequencies
from farfield.encodings.rotary import RotaryFamily
from farfield.encodings.shaw import Shaw
from farfield.encodings.sinusoidal import Sinusoidal
from farfield.encodings.t5 import T5, bucket_of
from farfield.encodings.transformer_xl import TransformerXL
from farfield.encodings.xpos import XPos
from farfield.errors import FarfieldError
from farfield.prediction.features import FARTHEST, FeatureMap, OneHot, OneNumber, Pairs, Position, Product
from farfield.rng import Purpose, key_for

Features = Float[np.ndarray, "... size"]

LINEARIZED_FIRE = (
    "its function is piecewise linear with as many knots as hidden units, evenly spaced where training may move them, "
    "and its scale and threshold are held at their first values"
)
ONE_SHAPE = "the shape of the distance is held at the encoding's settings; only its weight varies, and is positive"
ANY_RANK = "any matrix of scores is allowed, where a head's has a rank of at most its width"


@functools.singledispatch
def feature_map(encoding: Encoding, width: int) -> FeatureMap:
    """Phi of an encoding, resolved, in a head of ``width``.

    Raises:
        FarfieldError: where the encoding has no linear positional kernel, with the reason.
    """
    del width
    raise FarfieldError(
        f"{type(encoding).__name__} has no feature map, so nothing can be predicted of it without training: "
        "register one with farfield.prediction.feature_map.register"
    )


def named(text: str | Encoding, trained: int, longest: int) -> Encoding:
    """An encoding by name, with its settings filled in.

    Raises:
        FarfieldError: naming the setting, the reason and the mend.
    """
    encoding = encodings.parse(text) if isinstance(text, str) else text
    return (encodings.normalized(encoding) if encodings.holds(encoding) else encoding).resolved(trained, longest)


def waves(theta: Float[np.ndarray, " half"]) -> Callable[[Position], Features]:
    """[cos x theta, sin x theta] of each x."""

    def of(x: Position) -> Features:
        angle = np.multiply.outer(np.asarray(x, float), theta)
        return np.concatenate([np.cos(angle), np.sin(angle)], axis=-1)

    return of


def rotary(theta: Float[np.ndarray, " half"], sizes: Float[np.ndarray, " half"] | float = 1.0) -> OneNumber:
    """Relative features of a rotary head: a query and a key of any direction in each plane, of a size in each."""
    of, both = waves(theta), np.tile(np.broadcast_to(sizes, theta.shape), 2)
    return OneNumber(lambda x: both * of(x), 2 * len(theta), tuple(theta.tolist()), reads="offset")


def table_of(cell: Callable[[Int[np.ndarray, "..."]], Int[np.ndarray, "..."]], rows: int) -> OneHot:
    """A trained number for each cell of offsets query - key."""
    return OneHot(lambda query, key: cell(query - key), np.arange(rows), reads="offset")


@feature_map.register
def _(encoding: KeyOnly, width: int) -> FeatureMap:
    del width
    return OneHot(lambda query, key: key.astype(np.int64), reads="key")


@feature_map.register
def _(encoding: RotaryFamily, width: int) -> FeatureMap:
    sizes = encoding.gains(width) ** 2
    if not encoding.reads_length:
        with jax.enable_x64(True):
            return rotary(np.asarray(encoding.frequencies(width, dtype=jnp.float64)), sizes)

    @functools.cache
    def theta(position: float) -> Float[np.ndarray, " half"]:
        with jax.enable_x64(True):
            return np.asarray(encoding.frequencies(width, jnp.asarray(position + 1.0), jnp.float64))

    def of(query: Position, key: Position) -> Features:
        used, index = np.unique(query, return_inverse=True)
        angle = (query - key)[..., None] * np.stack([theta(float(n)) for n in used])[index.reshape(query.shape)]
        return np.tile(sizes, 2) * np.concatenate([np.cos(angle), np.sin(angle)], axis=-1)

    return Pairs(of, width)


@feature_map.register
def _(encoding: XPos, width: int) -> FeatureMap:
    with jax.enable_x64(True):
        of = waves(np.asarray(encoding.frequencies(width, dtype=jnp.float64)))
        rates = np.asarray(encoding.rates(width, jnp.float64))
    rates = np.pad(rates, (0, width // 2 - len(rates)))

    def faded(x: Position) -> Features:
        fade = np.exp(-np.multiply.outer(np.asarray(x, float), rates))
        return of(x) * np.concatenate([fade, fade], axis=-1)

    return OneNumber(faded, width, reads="offset")


@feature_map.register
def _(encoding: TransformerXL, width: int) -> FeatureMap:
    return rotary(np.asarray(_frequencies(width, encoding.base)))


@feature_map.register
def _(encoding: Sinusoidal, width: int) -> FeatureMap:
    theta = _frequencies(width, encoding.base)
    return Product(waves(theta), width, tuple(theta.tolist()))


def _frequencies(width: int, base: Any) -> Float[np.ndarray, " half"]:
    with jax.enable_x64(True):
        return np.asarray(frequencies(width, jnp.asarray(base, jnp.float64)))


@feature_map.register
def _(encoding: T5, width: int) -> FeatureMap:
    del width

    def cell(offset: Int[np.ndarray, "..."]) -> Int[np.ndarray, "..."]:
        # One table to look up, since JAX would compile the search anew for every shape.
        reach = 1 << int(offset.max(initial=1)).bit_length()
        return _buckets(encoding.buckets, encoding.distance, encoding.bidirectional, reach)[offset]

    return table_of(cell, encoding.buckets)


@functools.lru_cache(maxsize=32)
def _buckets(buckets: int, distance: int, bidirectional: bool, reach: int) -> Int[np.ndarray, " reach"]:
    return np.asarray(bucket_of(-jnp.arange(reach), buckets, distance, bidirectional=bidirectional)).astype(np.int64)


@feature_map.register
def _(encoding: Clipped, width: int) -> FeatureMap:
    del width
    return table_of(lambda offset: np.minimum(offset, encoding.reach), encoding.reach + 1)


@feature_map.register
def _(encoding: Shaw, width: int) -> FeatureMap:
    del width
    return table_of(lambda offset: np.minimum(offset, encoding.reach), encoding.reach + 1)


@feature_map.register
def _(encoding: Learned, width: int) -> FeatureMap:
    del width
    return OneHot(lambda query, key: query.astype(np.int64) * FARTHEST + key, reads="pair", note=ANY_RANK)


@feature_map.register
def _(encoding: Alibi, width: int) -> FeatureMap:
    del width
    slope = float(encoding.of_head(0, 1).slope)
    sign = 1.0 if encoding.learned else float(np.sign(slope))
    return OneNumber(_falling(lambda x: sign * x), 1, reads="offset", one_signed=not encoding.learned)


@feature_map.register
def _(encoding: KerpleLog, width: int) -> FeatureMap:
    del width
    of = _falling(lambda x: np.log1p(float(encoding.rate) * x))
    return OneNumber(of, 1, reads="offset", one_signed=True, note=ONE_SHAPE)


@feature_map.register
def _(encoding: KerplePower, width: int) -> FeatureMap:
    del width
    of = _falling(lambda x: x ** float(encoding.power))
    return OneNumber(of, 1, reads="offset", one_signed=True, note=ONE_SHAPE)


def _falling(of: Callable[[Float[np.ndarray, "..."]], Float[np.ndarray, "..."]]) -> Callable[[Position], Features]:
    return lambda x: -of(np.asarray(x, float))[..., None]


_progress = jax.jit(progress)


@feature_map.register
def _(encoding: Fire, width: int) -> FeatureMap:
    with jax.enable_x64(True):
        start = encoding.initialize_head(key_for(0, Purpose.INITIALIZE), width)
        scale, threshold = (jnp.exp(jnp.asarray(start[name], float)) for name in ("log_scale", "log_threshold"))

    def of(query: Position, key: Position) -> Features:
        # In few sizes, since JAX compiles every size anew.
        size = 1024
        while size < query.size:
            size *= 4
        padded = np.zeros((2, size))
        padded[:, : query.size] = query.reshape(-1), (query - key).reshape(-1)
        with jax.enable_x64(True):
            share = np.asarray(_progress(padded[1][:, None], padded[0], scale, threshold))
        share = share[: query.size, 0].reshape(query.shape)
        # Hat functions of the share of the way back, at evenly spaced knots.
        place = share[..., None] * (encoding.hidden - 1)
        return np.maximum(0.0, 1 - np.abs(place - np.arange(encoding.hidden)))

    return Pairs(of, encoding.hidden, note=LINEARIZED_FIRE)


@feature_map.register
def _(encoding: NoEncoding, width: int) -> FeatureMap:
    del width
    return OneNumber(lambda x: np.zeros((*np.shape(x), 1)), 1, reads="offset")


@feature_map.register
def _(encoding: Cope, width: int) -> FeatureMap:
    del width
    raise FarfieldError(
        "cope has no positional kernel: its positions count keys that the content asks for. "
        "Train it instead, or predict an encoding of positions such as rope"
    )
