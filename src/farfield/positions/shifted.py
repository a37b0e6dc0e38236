"""Positions one after another, from a start that is given or drawn."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import jax
import jax.numpy as jnp
from jax.core import Tracer
from jaxtyping import Array, Int

from farfield._types import Key
from farfield.encodings.base import Encoding
from farfield.errors import FarfieldError
from farfield.positions.base import Regime, places, regimes
from farfield.registry import traced
from farfield.tasks.base import Task

DEFAULT_RANGE = 2048
# Positions above this are no longer whole numbers in float32, in which distances enter a bias.
LARGEST_RANGE = 2**24


@regimes.register("fixed")
@dataclass(frozen=True)
class Fixed(Regime):
    """start, start + 1, ...: with start 0 what is meant where nothing is said.

    Attributes:
        start: position of the first token, 0 or more.
    """

    start: int = traced(0)

    def positions(
        self, key: Key | None, length: Int[Array, ""], count: int, trained: int, task: Task | None = None
    ) -> Int[Array, " count"]:
        del key, trained, task
        return jnp.asarray(self.start, jnp.int32) + places(length, count)

    def largest(self, longest: int, trained: int, task: Task | None = None) -> int:
        del trained, task
        return int(self.start) + longest

    def span(self, longest: int, trained: int, task: Task | None = None) -> int:
        del trained, task
        return longest

    def check(self, longest: int, trained: int, task: Task | None = None, encoding: Encoding | None = None) -> None:
        super().check(longest, trained, task, encoding)
        if not 0 <= self.start <= LARGEST_RANGE - longest:
            raise FarfieldError(
                f"fixed:start={self.start} must be from 0 to {LARGEST_RANGE - longest} for {longest} tokens"
            )


class FromRange(Regime):
    """Positions drawn from [0, size); subclasses say how. ``size`` is a field of theirs."""

    size: int

    @property
    def random(self) -> bool:
        return True

    def largest(self, longest: int, trained: int, task: Task | None = None) -> int:
        del longest, trained, task
        return self.size

    def check(self, longest: int, trained: int, task: Task | None = None, encoding: Encoding | None = None) -> None:
        super().check(longest, trained, task, encoding)
        self._check_length(longest)
        if self.size > LARGEST_RANGE:
            raise FarfieldError(f"{regimes.name_of(self)}:size={self.size} must be at most {LARGEST_RANGE}")

    def _check_length(self, length: Any) -> None:
        """Refuse a sequence longer than the range, where its length is known before anything is compiled."""
        if not isinstance(length, Tracer) and int(length) > self.size:
            name = regimes.name_of(self)
            raise FarfieldError(
                f"{int(length)} different positions cannot be drawn from the {self.size} of {name}:size={self.size}: "
                f"use {name}:size={int(length)} or larger, or shorter sequences"
            )


@regimes.register("random-start")
@dataclass(frozen=True)
class RandomStart(FromRange):
    """s, s + 1, ... with s uniform in [0, N - length], one draw a batch: every row below N is trained.

    Source: the randomized offsets of Kiyono et al. (SHAPE), arXiv 2109.05644, within a range.

    Attributes:
        size: N, at least the longest length.
    """

    size: int = DEFAULT_RANGE

    def positions(
        self, key: Key | None, length: Int[Array, ""], count: int, trained: int, task: Task | None = None
    ) -> Int[Array, " count"]:
        del trained, task
        assert key is not None
        self._check_length(length)
        start = jax.random.randint(key, (), 0, self.size - jnp.asarray(length) + 1, dtype=jnp.int32)
        return start + places(length, count)

    def span(self, longest: int, trained: int, task: Task | None = None) -> int:
        del trained, task
        return longest
