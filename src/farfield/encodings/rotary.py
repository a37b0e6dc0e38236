"""What every rotary encoding shares: pairs of coordinates turned by angles that grow with the position."""

from __future__ import annotations

import abc
import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, ClassVar

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Int

from farfield._pytree import pytree
from farfield._types import Positions, PyTree
from farfield.encodings.base import Encoding, encodings
from farfield.encodings.parts import signed
from farfield.errors import FarfieldError
from farfield.registry import setting, traced

LAYOUTS = ("half", "interleaved")
LARGEST_BASE = 1e30
# Distance from position 0 up to which phases are float32 products: training's are all nearer.
NEAR = 2**14
# What the product of a share and a width may lack of the whole number that is meant: .58 * 50 is 28.999999999999996.
ROUNDING = 1e-9

Phase = tuple[Float[Array, "... half"], Float[Array, "... half"]]


class Rotary(Encoding):
    """What turns coordinate pairs by a phase that depends on the position."""

    layout: str  # a field of the subclasses, which decide its place

    @abc.abstractmethod
    def frequencies(self, width: int, length: Any = None, dtype: Any = None) -> Float[Array, " half"]:
        """Frequency theta_i of each of the width/2 pairs, in radians per position; 0 for a pair that stands still.

        Pair i is found by :meth:`order`.

        Args:
            length: the length in use, where frequencies depend on it; None for lengths no longer than training's.
            dtype: float32 or better; the default float if None.
        """

    @abc.abstractmethod
    def phase(self, positions: Any, width: int, dtype: Any, length: Any = None) -> Phase:
        """Cosine and sine of each turning pair's angle at each position, shape ``positions.shape + (pairs,)``."""

    def rotated(self, width: int) -> int:
        """How many coordinates turn, the first ones; by default all."""
        return width

    def gain(self, dtype: Any) -> Any:
        """The factor on rotated queries and keys alike, part of :meth:`phase`: it is squared in logits."""
        del dtype
        return 1.0

    def gains(self, width: int) -> Float[np.ndarray, " half"]:
        """The factor on each of the width/2 pairs, in float64: 1 for those past the rotated coordinates."""
        with jax.enable_x64(True):
            gain = float(self.gain(jnp.float64))
        return np.where(np.arange(width // 2) < self.rotated(width) // 2, gain, 1.0)

    def magnitudes(
        self, query_positions: Positions, key_positions: Positions, width: int, dtype: Any
    ) -> tuple[Float[Array, "... half"], Float[Array, "... half"]] | None:
        """What queries and keys are multiplied by, pair by pair, beside turning; None for nothing (all but xpos)."""
        del query_positions, key_positions, width, dtype
        return None

    def order(self, width: int) -> Int[np.ndarray, " width"]:
        """The order of coordinates that makes coordinates i and i + width/2 of the result pair i.

        A measurement that knows the half-split layout alone reads any rotary head by ``queries[:, order]``.
        """
        turning, still = np.split(np.arange(width), [self.rotated(width)])
        pairs = turning.reshape(-1, 2).T if self.layout == "interleaved" else turning.reshape(2, -1)
        return np.concatenate([pairs, still.reshape(2, -1)], axis=1).reshape(-1)

    def rotate(
        self,
        parameters: PyTree,
        query: Float[Array, "... width"],
        key: Float[Array, "... width"],
        query_positions: Positions,
        key_positions: Positions,
    ) -> tuple[Float[Array, "... width"], Float[Array, "... width"]]:
        width = query.shape[-1]
        query_positions, key_positions = signed(query_positions), signed(key_positions)
        # Keys after the last query are masked, mere padding, so the queries alone say which length is in use.
        length = jnp.max(query_positions) + 1 if self.reads_length else None
        query_phase = self.phase(query_positions, width, query.dtype, length)
        key_phase = self.phase(key_positions, width, key.dtype, length)
        magnitudes = self.magnitudes(query_positions, key_positions, width, query.dtype)
        if magnitudes is not None:
            query_phase, key_phase = (
                (cos * size, sin * size) for (cos, sin), size in zip((query_phase, key_phase), magnitudes, strict=True)
            )
        return turn(query, *query_phase, self.layout), turn(key, *key_phase, self.layout)


class RotaryFamily(Rotary):
    """Rotary encodings given by their frequencies; a subclass has fields and :meth:`spectrum`, seldom more.

    All may rotate a part of the head alone: pairs are formed, and frequencies spread, within the rotating coordinates,
    as in GPT-NeoX (Black et al., arXiv 2204.06745). The rest passes through as it is.
    """

    base: float
    fraction: float  # of the coordinates that rotate

    # Settings of config.json that no encoding has under any name.
    instead: ClassVar[Mapping[str, str]] = dict.fromkeys(
        ("rope_type", "type"), "the type is the encoding's name, as in yarn:factor=4"
    )

    @abc.abstractmethod
    def spectrum(self, width: int, length: Any, dtype: Any) -> Float[Array, " half"]:
        """Frequencies of a head that rotates as a whole: :meth:`frequencies` of ``width`` rotating coordinates.

        Args:
            dtype: float32 or better.
        """

    def rotated(self, width: int) -> int:
        return math.floor(self.fraction * width + ROUNDING)

    def frequencies(self, width: int, length: Any = None, dtype: Any = None) -> Float[Array, " half"]:
        turning = self.rotated(width)
        theta = self.spectrum(turning, length, float if dtype is None else dtype)
        return theta if turning == width else jnp.pad(theta, (0, (width - turning) // 2))

    def phase(self, positions: Any, width: int, dtype: Any, length: Any = None) -> Phase:
        """Phases in float32 or better, cast last.

        At position 4096 a bfloat16 phase is off by whole turns (transformers issues 25681 and 29285).
        """
        precise, turning = jnp.promote_types(dtype, jnp.float32), self.rotated(width)
        angle = angles(positions, lambda dtype: self.spectrum(turning, length, dtype), precise)
        gain = self.gain(precise)
        return (gain * jnp.cos(angle)).astype(dtype), (gain * jnp.sin(angle)).astype(dtype)

    def tabulated(self, width: int, longest: int) -> Encoding:
        # A whole number for a setting is a real number all the same.
        dtype = jnp.result_type(*jax.tree.leaves(self), 1.0)
        return RopeTable(*self.phase(jnp.arange(longest), width, dtype), self, self.layout)

    def check(self, width: int, longest: int) -> None:
        name = encodings.name_of(self)
        if width % 2:
            raise FarfieldError(f"{name} rotates pairs of coordinates, so d must be even: got d = {width}")
        if self.layout not in LAYOUTS:
            raise FarfieldError(f"{name}:layout={self.layout!r} is not one of {', '.join(LAYOUTS)}")
        check_base(name, self.base)
        if not 0 < self.fraction <= 1:
            raise FarfieldError(
                f"{name}:fraction={self.fraction:g} must be above 0 and at most 1; the encoding none rotates nothing"
            )
        turning = self.rotated(width)
        if turning % 2 or not turning:
            raise FarfieldError(
                f"{name}:fraction={self.fraction:g} of d = {width} rotates {turning} coordinates, which form no pairs: "
                f"choose a fraction that makes their number even, such as {max(2, turning - turning % 2) / width:g}"
            )


def base_setting(default: float = 10000.0) -> Any:
    """The field ``base`` of a rotary encoding."""
    return traced(default, aliases=("rope_theta", "rotary_emb_base"))


def fraction_setting() -> Any:
    """The field ``fraction`` of a rotary encoding."""
    return setting(1.0, aliases=("partial_rotary_factor", "rotary_pct"))


@pytree
@dataclass(frozen=True)
class RopeTable(Rotary):
    """A rotary encoding with the cosines and sines of positions 0 .. longest - 1 computed once."""

    cos: Float[Array, "longest pairs"]
    sin: Float[Array, "longest pairs"]
    original: Rotary
    layout: str = field(metadata={"static": True})

    def frequencies(self, width: int, length: Any = None, dtype: Any = None) -> Float[Array, " half"]:
        return self.original.frequencies(width, length, dtype)

    def rotated(self, width: int) -> int:
        return self.original.rotated(width)

    def gain(self, dtype: Any) -> Any:
        return self.original.gain(dtype)

    def magnitudes(
        self, query_positions: Positions, key_positions: Positions, width: int, dtype: Any
    ) -> tuple[Float[Array, "... half"], Float[Array, "... half"]] | None:
        return self.original.magnitudes(query_positions, key_positions, width, dtype)

    def phase(self, positions: Any, width: int, dtype: Any, length: Any = None) -> Phase:
        return self.cos[positions].astype(dtype), self.sin[positions].astype(dtype)


def check_base(name: str, base: float) -> None:
    """Refuse a base that is 1 in float32, at which all pairs turn alike, or is out of its range (FarfieldError)."""
    if not (base < LARGEST_BASE and np.float32(base) > 1):
        raise FarfieldError(f"{name}:base={base:.9g} must be a number between 1 and {LARGEST_BASE:g}, both excluded")


def frequencies(width: int, base: Any) -> Float[Array, " half"]:
    """Rotary frequencies theta_i = base**(-2i/width) for i = 0 .. width/2 - 1, in radians per position."""
    base = jnp.asarray(base)
    exponent = jnp.arange(0, width, 2, dtype=base.dtype) / width
    return base**-exponent


def angles(positions: Any, spectrum: Callable[[Any], Float[Array, " half"]], dtype: Any) -> Float[Array, "... half"]:
    """position * theta_i in radians; from :data:`NEAR` on less whole turns, from products in float64.

    At position 2**24 a float32 product is off by a radian, and has lost which of its neighbours it belongs to.

    Args:
        spectrum: frequencies theta_i in a type, radians per position.
        dtype: float32 or better.
    """
    positions = jnp.asarray(positions)
    near = jnp.multiply.outer(positions.astype(dtype), spectrum(dtype))
    if jnp.finfo(dtype).bits >= 64:
        return near
    with jax.enable_x64(True):
        turns = jnp.multiply.outer(positions.astype(jnp.float64), spectrum(jnp.float64) / (2 * math.pi))
        far = ((turns - jnp.round(turns)) * (2 * math.pi)).astype(dtype)
    return jnp.where((jnp.abs(positions) < NEAR)[..., None], near, far)


def turn(
    x: Float[Array, "... width"], cos: Float[Array, "... pairs"], sin: Float[Array, "... pairs"], layout: str
) -> Float[Array, "... width"]:
    """Rotate the first coordinates, two for each pair of the tables, and leave the rest as they are."""
    turning = 2 * cos.shape[-1]
    if turning == x.shape[-1]:
        return rotate_pairs(x, cos, sin, layout)
    turned = rotate_pairs(x[..., :turning], cos, sin, layout)
    rest = jnp.broadcast_to(x[..., turning:], (*turned.shape[:-1], x.shape[-1] - turning))
    return jnp.concatenate([turned, rest], axis=-1)


def rotate_pairs(
    x: Float[Array, "... width"], cos: Float[Array, "... half"], sin: Float[Array, "... half"], layout: str
) -> Float[Array, "... width"]:
    """Rotate each coordinate pair: (a, b) -> (a cos - b sin, a sin + b cos)."""
    cos, sin = (table.reshape((1,) * (x.ndim - table.ndim) + table.shape) for table in (cos, sin))
    shape = jnp.broadcast_shapes(x.shape[:-1], cos.shape[:-1])
    cos, sin = (jnp.broadcast_to(table, shape + table.shape[-1:]) for table in (cos, sin))
    x = jnp.broadcast_to(x, shape + x.shape[-1:])
    if layout == "half":
        a, b = jnp.split(x, 2, axis=-1)
        return jnp.concatenate([a * cos - b * sin, a * sin + b * cos], axis=-1)
    a, b = x[..., 0::2], x[..., 1::2]
    return jnp.stack([a * cos - b * sin, a * sin + b * cos], axis=-1).reshape(x.shape)
