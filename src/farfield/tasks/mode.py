"""An offset chosen by the content of the query."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, Literal

import jax
import jax.numpy as jnp
from jaxtyping import Array, Int

from farfield._types import Key
from farfield.errors import FarfieldError
from farfield.registry import traced
from farfield.rng import tokens_in_pieces, uniform_index
from farfield.tasks.base import Batch, Task, asked_at_last, power, require, tasks

MODES = 2


@tasks.register("mode")
@dataclass(frozen=True)
class Mode(Task):
    """Copy the token K0 or K1 places before the query, as the mode token at the query says.

    The last two tokens of the vocabulary are the modes, near (K0) and far (K1); each is at the query half of the time
    and nowhere else. All other tokens are i.i.d. uniform over the rest. With K0 = 1, K1 = 3, vocabulary 12 and
    length 6::

        tokens    7  4  9  1  5 10
        answers   .  .  .  .  .  5        mode 10 is near: one place back

        tokens    7  4  9  1  5 11
        answers   .  .  .  .  .  9        mode 11 is far: three places back

    Source: arXiv 2607.18759, section 5.1 and appendix (content-conditioned retrieval). Which tokens the modes are is
    not printed there.

    Attributes:
        near, far: K0 and K1, 1 <= K0 < K1.
    """

    rows: ClassVar[Literal["last", "all"]] = "last"

    near: int = traced(1)
    far: int = traced(3)

    def draw(self, key: Key, length: Int[Array, ""], positions: int, sequences: int, vocabulary: int) -> Batch:
        content_key, mode_key = jax.random.split(key)
        content = tokens_in_pieces(content_key, positions, sequences, vocabulary - MODES)
        mode = uniform_index(mode_key, sequences, MODES)
        query = jnp.asarray(length, jnp.int32) - 1
        at_query = (jnp.arange(positions, dtype=jnp.int32) == query)[:, None]
        near, far = query - jnp.asarray(self.near, jnp.int32), query - jnp.asarray(self.far, jnp.int32)
        return asked_at_last(
            tokens=jnp.where(at_query, mode[None] + (vocabulary - MODES), content),
            length=length,
            answers=jnp.where(mode == 0, content[near], content[far]),
            targets=jnp.where(mode == 0, near, far),
        )

    def chance(self, vocabulary: int, length: int) -> float:
        del length
        return 1.0 / (vocabulary - MODES)

    def sample_space(self, vocabulary: int, length: int) -> float:
        return MODES * power(vocabulary - MODES, length - 1)

    def check(self, vocabulary: int, shortest: int, longest: int | None = None) -> None:
        written = f"mode:near={self.near},far={self.far}"
        if self.near < 1:
            raise FarfieldError(f"{written}: near must be at least 1, since it counts places before the query")
        if self.far <= self.near:
            raise FarfieldError(f"{written}: far must be larger than near: swap them, or use offset:{self.near}")
        require(written, "length", shortest, self.far + 1, "the farther target to lie inside")
        require(written, "vocabulary", vocabulary, MODES + 2, "two mode tokens and two others")
