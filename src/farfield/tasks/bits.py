"""Questions about a whole sequence of fair bits, asked at its last position. No single key holds the answer."""

from __future__ import annotations

import abc
from dataclasses import dataclass
from typing import ClassVar, Literal

import jax.numpy as jnp
from jaxtyping import Array, Int
from scipy import stats

from farfield._types import Key
from farfield.rng import tokens_in_pieces
from farfield.tasks.base import Batch, Task, asked_at_last, power, tasks


@dataclass(frozen=True)
class Bits(Task):
    """Tokens 0 and 1, independent and fair; the rest of the vocabulary is not used."""

    rows: ClassVar[Literal["last", "all"]] = "last"

    @abc.abstractmethod
    def answer(self, ones: Int[Array, " sequence"], length: Int[Array, ""]) -> Int[Array, " sequence"]:
        """The answer, 0 or 1, given the number of ones."""

    def draw(self, key: Key, length: Int[Array, ""], positions: int, sequences: int, vocabulary: int) -> Batch:
        del vocabulary
        tokens = tokens_in_pieces(key, positions, sequences, 2)
        length = jnp.asarray(length, jnp.int32)
        inside = (jnp.arange(positions, dtype=jnp.int32) < length)[:, None]
        ones = jnp.where(inside, tokens, 0).sum(axis=0, dtype=jnp.int32)
        return asked_at_last(tokens, length, self.answer(ones, length))

    def sample_space(self, vocabulary: int, length: int) -> float:
        return power(2, length)


@tasks.register("parity")
@dataclass(frozen=True)
class Parity(Bits):
    """Whether the number of ones is odd: 1 if so, 0 if even.

    With length 6::

        tokens    1  0  1  1  0  1
        answers   .  .  .  .  .  0        four ones

    Source: Deletang et al., arXiv 2207.02098 (parity check); Chiang and Cholak, arXiv 2202.12172.
    """

    def answer(self, ones: Int[Array, " sequence"], length: Int[Array, ""]) -> Int[Array, " sequence"]:
        del length
        return ones & 1

    def chance(self, vocabulary: int, length: int) -> float:
        return 0.5


@tasks.register("majority")
@dataclass(frozen=True)
class Majority(Bits):
    """Whether more than half of the bits are ones: 1 if so; 0 if not, a tie included.

    With length 6::

        tokens    1  0  1  1  0  1
        answers   .  .  .  .  .  1        four ones of six

    Chance is 1/2 at odd lengths; at an even length L, where ties answer 0, it is 1/2 + C(L, L/2) / 2**(L + 1).

    Source: Merrill et al., arXiv 2106.16213; the rule for ties is this project's own.
    """

    def answer(self, ones: Int[Array, " sequence"], length: Int[Array, ""]) -> Int[Array, " sequence"]:
        # Not 2 * ones > length, which a sequence of 2**30 bits would overflow.
        return (ones > length - ones).astype(jnp.int32)

    def chance(self, vocabulary: int, length: int) -> float:
        tie = 0.0 if length % 2 else float(stats.binom.pmf(length // 2, length, 0.5))
        return 0.5 + tie / 2
