"""Addition of two whole numbers, digit by digit."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import jax
import jax.numpy as jnp
from jaxtyping import Array, Int

from farfield._types import Key, Positions, Tokens
from farfield.rng import tokens_in_pieces
from farfield.tasks.base import NO_TARGET, Batch, Task, power, require, tasks

DIGITS = 10
SPECIAL = 3  # plus, equals, filler


class _Layout(NamedTuple):
    """Where things are: ``place`` counts rows from the first digit of a, and is negative at filler."""

    place: Int[Array, " position"]
    size: Int[Array, ""]  # digits of an operand

    @classmethod
    def of(cls, length: Int[Array, ""], positions: int) -> _Layout:
        body = jnp.asarray(length, jnp.int32) - 2
        return cls(jnp.arange(positions, dtype=jnp.int32) - body % 3, body // 3)

    @property
    def equals(self) -> Int[Array, ""]:
        """Place of the equals sign."""
        return 2 * self.size + 1


@tasks.register("addition")
@dataclass(frozen=True)
class Addition(Task):
    """a + b = sum, all three numbers reversed: their least significant digit comes first.

    Operands have n digits each, independent and uniform, so that leading zeros occur; the sum has n + 1, the last
    possibly 0. It is fed by teacher forcing, and its last digit is answered and never read: 3 n + 2 positions, with
    filler in front where the length does not fit. Digits are tokens 0 to 9; plus, equals and filler are the last
    three of the vocabulary. With vocabulary 13 and length 9, for 57 + 68 = 125::

        tokens   12  7  5 10  8  6 11  5  2
        answers   .  .  .  .  .  .  5  2  1
        coupled   0  2  3  1  2  3  1  2  3

    Chance is 1/10 at every digit but the last, where 0 is right in (1 + 10**-n) / 2 of the cases.

    Source: McLeish et al., arXiv 2405.17399 (operands and sum reversed); Lee et al., arXiv 2307.03381, reverse the
    sum alone. Positions are coupled as in Cho et al., arXiv 2405.20671, section 3: digits of equal significance in
    both operands and in the sum share one, and plus and equals share the one before the least significant digit's.
    There operands are not reversed and positions fall along the sum; here they rise along all three numbers.
    """

    def draw(self, key: Key, length: Int[Array, ""], positions: int, sequences: int, vocabulary: int) -> Batch:
        layout = _Layout.of(length, positions)
        most = max((positions - 2) // 3, 1)
        first, second = (
            tokens_in_pieces(part, most, sequences, DIGITS)
            for part in jax.random.split(key)  # one key each, or their digits would depend on the padding
        )
        # Zeros beyond the operands, so that the last carry becomes the sum's last digit.
        inside = (jnp.arange(most, dtype=jnp.int32) < layout.size)[:, None]
        first, second = (jnp.pad(jnp.where(inside, number, 0), ((0, 1), (0, 0))) for number in (first, second))
        total = digits_of_sum(first, second)

        place, equals = layout.place[:, None], layout.equals
        supervised = (place >= equals) & (place < equals + layout.size + 1)

        def row(number: Tokens, beginning: Int[Array, ""] | int) -> Int[Array, "row sequence"]:
            return number[jnp.clip(layout.place - beginning, 0, most)]

        read = jnp.where(place < layout.size, row(first, 0), row(second, layout.size + 1))
        read = jnp.where(place > equals, row(total, equals + 1), read)
        for at, special in ((layout.size, 3), (equals, 2)):
            read = jnp.where(place == at, vocabulary - special, read)
        return Batch(
            tokens=jnp.where(place < 0, vocabulary - 1, read),
            answers=jnp.where(supervised, row(total, equals), 0),
            supervised=jnp.broadcast_to(supervised, read.shape),
            targets=jnp.full(read.shape, NO_TARGET, jnp.int32),
        )

    def chance(self, vocabulary: int, length: int) -> float:
        del vocabulary
        size = (length - 2) // 3
        return (size / DIGITS + (1 + 10.0**-size) / 2) / (size + 1)

    def sample_space(self, vocabulary: int, length: int) -> float:
        del vocabulary
        return power(DIGITS, 2 * ((length - 2) // 3))

    def check(self, vocabulary: int, shortest: int, longest: int | None = None) -> None:
        require("addition", "length", shortest, 5, "two operands of one digit, plus, equals and a digit of the sum")
        require("addition", "vocabulary", vocabulary, DIGITS + SPECIAL, "ten digits, plus, equals and filler")

    def coupled_positions(self, length: Int[Array, ""], positions: int) -> Positions:
        place, size = _Layout.of(length, positions)
        return jnp.where(place < 0, 0, (place + 1) % (size + 1) + 1)


def digits_of_sum(first: Tokens, second: Tokens) -> Tokens:
    """Digits of a + b for digits ``[position, sequence]``, least significant first; the last carry is dropped."""
    sums = first + second
    # A sum of 9 hands on the carry that it receives; any other decides it. So the carry out of a digit is that of
    # the last deciding digit up to it, found as the largest of even numbers that rise with the place, plus the carry.
    deciding = 2 * jnp.arange(1, len(sums) + 1, dtype=jnp.int32)[:, None] + (sums > 9).astype(jnp.int32)
    carry = jax.lax.cummax(jnp.where(sums == 9, 0, deciding), axis=0) & 1
    received = jnp.concatenate([jnp.zeros_like(carry[:1]), carry[:-1]])
    return (sums + received) % DIGITS
