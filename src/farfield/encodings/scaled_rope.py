"""RoPE stretched to longer contexts by its frequencies: interpolated, or with a larger base."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any, ClassVar

import jax.numpy as jnp
from jaxtyping import Array, Float

from farfield.encodings.base import Encoding, encodings
from farfield.encodings.rotary import RotaryFamily, base_setting, fraction_setting, frequencies
from farfield.errors import FarfieldError
from farfield.registry import setting, traced

TRAINED = 0
LARGEST_FACTOR = 1e6
# The largest base that a base and a factor may make together.
LARGEST_SLOWED = 1e38


class ScaledRope(RotaryFamily):
    """RoPE for contexts ``factor`` times as long as those of training."""

    factor: float

    def check(self, width: int, longest: int) -> None:
        super().check(width, longest)
        if not 1.0 <= self.factor <= LARGEST_FACTOR:
            raise FarfieldError(
                f"{encodings.name_of(self)}:factor={self.factor:g} must be a number from 1, which changes nothing, "
                f"to {LARGEST_FACTOR:g}"
            )


def original_length_setting(default: int = TRAINED) -> Any:
    """The field ``original_length`` of an encoding that depends on the length of training."""
    return setting(default, aliases=("original_max_position_embeddings",))


class ExtendedRope(ScaledRope):
    """Scaled RoPE that depends on the length of training too."""

    original_length: int

    instead: ClassVar[Mapping[str, str]] = {
        **ScaledRope.instead,
        "max_position_embeddings": "give the length of the context before stretching as original_length",
    }

    def resolved(self, trained: int, longest: int) -> ExtendedRope:
        if self.original_length != TRAINED:
            return self
        return replace(self, original_length=trained)  # pyright: ignore[reportArgumentType]

    def tabulated(self, width: int, longest: int) -> Encoding:
        # Past the original length the frequencies follow the length in use, and no one table serves.
        if self.reads_length and longest > self.original_length:
            return self
        return super().tabulated(width, longest)

    def check(self, width: int, longest: int) -> None:
        super().check(width, longest)
        name = encodings.name_of(self)
        if self.original_length == TRAINED:
            raise FarfieldError(
                f"{name}:original_length=0 stands for the longest training length, which is not known here: "
                f"give the length of the context before stretching, for example {name}:original_length=2048"
            )
        if self.original_length < 0:
            raise FarfieldError(f"{name}:original_length={self.original_length} must be a positive whole number")


@encodings.register("position-interpolation", aliases=("linear",))
@dataclass(frozen=True)
class PositionInterpolation(ScaledRope):
    """Position interpolation: theta_i / factor, so that position 8 of factor 4 acts as position 2.

    Source: Chen et al., arXiv 2306.15595; "linear" in transformers.

    Attributes:
        factor: how many times longer the context is than in training.
        base, layout, fraction: as in :class:`~farfield.encodings.rope.Rope`.
    """

    factor: float = traced(4.0)
    base: float = base_setting()
    layout: str = "half"
    fraction: float = fraction_setting()

    def spectrum(self, width: int, length: Any, dtype: Any) -> Float[Array, " half"]:
        return frequencies(width, jnp.asarray(self.base, dtype)) / jnp.asarray(self.factor, dtype)


@encodings.register("ntk")
@dataclass(frozen=True)
class NTK(ScaledRope):
    """NTK-aware scaling: base * factor**(d/(d-2)) for base.

    The slowest pair is interpolated by exactly ``factor``, the fastest not at all.
    Source: bloc97's note of June 2023, as given in Peng et al., arXiv 2309.00071.

    Attributes:
        factor: how many times slower the slowest pair turns ("alpha" in the note).
        base, layout, fraction: as in :class:`~farfield.encodings.rope.Rope`.
    """

    factor: float = traced(4.0)
    base: float = base_setting()
    layout: str = "half"
    fraction: float = fraction_setting()

    def spectrum(self, width: int, length: Any, dtype: Any) -> Float[Array, " half"]:
        return frequencies(width, ntk_base(jnp.asarray(self.base, dtype), jnp.asarray(self.factor, dtype), width))

    def check(self, width: int, longest: int) -> None:
        super().check(width, longest)
        check_slowed("ntk", self.rotated(width), self.base, self.factor)


@encodings.register("dynamic-ntk", aliases=("dynamic",))
@dataclass(frozen=True)
class DynamicNTK(ExtendedRope):
    """Dynamic NTK: scaling that grows with the length L in use, and leaves lengths up to M = original_length alone.

    theta_i = b**(-2i/d) with b = base * (factor max(L, M)/M - (factor - 1))**(d/(d-2)). L is the largest query
    position given + 1, found anew at every call: nothing is kept from a longer run to a shorter one.

    Logits change only with the offset as long as L <= M, and at any one L; across lengths past M they change, so
    it is not a relative encoding. Cached keys of an earlier, shorter L would have to be rotated again.
    Source: emozilla's note of June 2023, as given in Peng et al., arXiv 2309.00071; "dynamic" in
    transformers.

    Attributes:
        factor: how fast the base grows once L passes M.
        original_length: M; 0 for the longest training length.
        base, layout, fraction: as in :class:`~farfield.encodings.rope.Rope`.
    """

    relative = False
    reads_length = True

    factor: float = traced(2.0)
    original_length: int = original_length_setting()
    base: float = base_setting()
    layout: str = "half"
    fraction: float = fraction_setting()

    def spectrum(self, width: int, length: Any, dtype: Any) -> Float[Array, " half"]:
        base, factor = jnp.asarray(self.base, dtype), jnp.asarray(self.factor, dtype)
        original = jnp.asarray(self.original_length, dtype)
        used = original if length is None else jnp.maximum(jnp.asarray(length, dtype), original)
        return frequencies(width, ntk_base(base, factor * used / original - (factor - 1), width))

    def check(self, width: int, longest: int) -> None:
        super().check(width, longest)
        farthest = self.factor * max(longest, self.original_length) / self.original_length - (self.factor - 1)
        check_slowed("dynamic-ntk", self.rotated(width), self.base, farthest)


def ntk_base(base: Float[Array, ""], scale: Float[Array, ""], width: int) -> Float[Array, ""]:
    """The base with which the slowest of width/2 pairs turns ``scale`` times slower: base * scale**(d/(d-2))."""
    return base * scale ** (width / (width - 2))


def check_slowed(name: str, width: int, base: float, scale: float) -> None:
    """Refuse to slow a lone pair, or by so much that float32 cannot hold :func:`ntk_base` (FarfieldError)."""
    if width < 4:
        raise FarfieldError(f"{name} slows the slowest of several pairs, so d must be at least 4: got d = {width}")
    if math.log(base) + math.log(scale) * width / (width - 2) > math.log(LARGEST_SLOWED):
        raise FarfieldError(
            f"{name}:factor slows the slowest of {width // 2} pairs {scale:g} times, which makes a base of {base:g} "
            f"larger than {LARGEST_SLOWED:g}: use a smaller factor, a smaller base, or a wider head"
        )
