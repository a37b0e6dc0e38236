"""A payload, a separator, and the payload once more in some order: copy, reverse, sort.

The echo is fed by teacher forcing: each row from the separator on is asked for the next token, and reads the right
one before it. The last token of the echo is answered and never read, so a payload of n tokens takes 2 n positions; an
odd length has one filler in front. The separator is the last token but one of the vocabulary, the filler the last; the
payload is drawn from the others.
"""

from __future__ import annotations

import abc
import math
from dataclasses import dataclass

import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Int
from scipy import stats

from farfield._types import Key, Positions, Tokens
from farfield.errors import FarfieldError
from farfield.rng import permutations, tokens_in_pieces
from farfield.tasks.base import NO_TARGET, Batch, Task, power, require, tasks

SPECIAL = 2  # separator and filler


@dataclass(frozen=True)
class Echo(Task):
    """A payload repeated in an order that a subclass gives.

    Attributes:
        unique: whether the payload's tokens are all different, or independent and uniform.
    """

    unique: bool = False

    @abc.abstractmethod
    def order(self, payload: Tokens, size: Int[Array, ""]) -> Int[Array, "position sequence"]:
        """Index into the payload of each token of the echo; arbitrary but inside from ``size`` on.

        Args:
            payload: padded to a common number of positions.
            size: how many of them count.
        """

    def draw(self, key: Key, length: Int[Array, ""], positions: int, sequences: int, vocabulary: int) -> Batch:
        length = jnp.asarray(length, jnp.int32)
        size, start = length // 2, length % 2
        payload = self.payload(key, max(positions // 2, 1), sequences, vocabulary - SPECIAL)
        order = self.order(payload, size)
        echo = jnp.take_along_axis(payload, order, axis=0)

        separator = start + size
        rows = jnp.arange(positions, dtype=jnp.int32)
        supervised = ((rows >= separator) & (rows < length))[:, None]

        def row(array: Tokens, index: Int[Array, " row"]) -> Int[Array, "row sequence"]:
            return array[jnp.clip(index, 0, len(array) - 1)]

        read = jnp.where((rows > separator)[:, None], row(echo, rows - separator - 1), row(payload, rows - start))
        read = jnp.where((rows == separator)[:, None], vocabulary - 2, read)
        return Batch(
            tokens=jnp.where((rows < start)[:, None], vocabulary - 1, read),
            answers=jnp.where(supervised, row(echo, rows - separator), 0),
            supervised=jnp.broadcast_to(supervised, read.shape),
            targets=jnp.where(supervised, start + row(order, rows - separator), NO_TARGET),
        )

    def payload(self, key: Key, positions: int, sequences: int, content: int) -> Tokens:
        """Tokens below ``content``, arbitrary beyond it where they are unique and run out."""
        if not self.unique:
            return tokens_in_pieces(key, positions, sequences, content)
        # A whole permutation whatever the padding, so that its beginning does not depend on it.
        drawn = permutations(key, content, sequences)[:positions]
        return jnp.pad(drawn, ((0, positions - len(drawn)), (0, 0)))

    def chance(self, vocabulary: int, length: int) -> float:
        del length
        return 1.0 / (vocabulary - SPECIAL)

    def sample_space(self, vocabulary: int, length: int) -> float:
        content, size = vocabulary - SPECIAL, length // 2
        if not self.unique:
            return power(content, size)
        try:
            return float(math.perm(content, size))
        except OverflowError:
            return math.inf

    def check(self, vocabulary: int, shortest: int, longest: int | None = None) -> None:
        name = tasks.name_of(self)
        require(name, "length", shortest, 2, "one token and the separator")
        require(name, "vocabulary", vocabulary, SPECIAL + 2, "separator, filler and two others")
        longest, content = longest or shortest, vocabulary - SPECIAL
        if self.unique and longest // 2 > content:
            raise FarfieldError(
                f"{name}:unique=true at length {longest} needs {longest // 2} different tokens beside separator and "
                f"filler: use a vocabulary of at least {longest // 2 + SPECIAL}, lengths of at most {2 * content + 1}, "
                "or unique=false"
            )


def _places(length: Int[Array, ""], positions: int) -> tuple[Int[Array, " position"], Int[Array, ""], Array, Array]:
    """Places counted from the first payload token, the payload's size, and where filler and payload are."""
    length = jnp.asarray(length, jnp.int32)
    size, start = length // 2, length % 2
    place = jnp.arange(positions, dtype=jnp.int32) - start
    return place, size, place < 0, place < size


@tasks.register("copy")
@dataclass(frozen=True)
class Copy(Echo):
    """Repeat the payload after the separator.

    With vocabulary 12, so separator 10 and filler 11, and length 7::

        tokens   11  7  4  9 10  7  4
        answers   .  .  .  .  7  4  9
        coupled   0  2  3  4  1  2  3

    Source: Zhou et al., arXiv 2310.16028 (copy with unique and with repeated tokens); Jelassi et al., arXiv 2402.01032.
    Positions are coupled as in Cho et al., arXiv 2405.20671: each token of the echo has its source's position, and the
    separator, which precedes the first, has one less, so that a row asked for a token stands one position before it.

    Attributes:
        unique: whether the payload's tokens are all different.
    """

    def order(self, payload: Tokens, size: Int[Array, ""]) -> Int[Array, "position sequence"]:
        del size
        return jnp.broadcast_to(jnp.arange(len(payload), dtype=jnp.int32)[:, None], payload.shape)

    def coupled_positions(self, length: Int[Array, ""], positions: int) -> Positions:
        place, size, filler, payload = _places(length, positions)
        return jnp.where(filler, 0, jnp.where(payload, place + 2, place - size + 1))


@tasks.register("reverse")
@dataclass(frozen=True)
class Reverse(Echo):
    """Repeat the payload after the separator, last token first.

    With vocabulary 12, so separator 10 and filler 11, and length 7::

        tokens   11  7  4  9 10  9  4
        answers   .  .  .  .  9  4  7
        coupled   0  1  2  3  4  3  2

    Source: Deletang et al., arXiv 2207.02098 (reverse string); Kazemnejad et al., arXiv 2305.19466. Positions are
    coupled as in :class:`Copy`, except that a row asked for a token stands one position after it.

    Attributes:
        unique: whether the payload's tokens are all different.
    """

    def order(self, payload: Tokens, size: Int[Array, ""]) -> Int[Array, "position sequence"]:
        index = jnp.maximum(size - 1 - jnp.arange(len(payload), dtype=jnp.int32), 0)
        return jnp.broadcast_to(index[:, None], payload.shape)

    def coupled_positions(self, length: Int[Array, ""], positions: int) -> Positions:
        place, size, filler, payload = _places(length, positions)
        return jnp.where(filler, 0, jnp.where(payload, place + 1, 2 * size + 1 - place))


@tasks.register("sort")
@dataclass(frozen=True)
class Sort(Echo):
    """Repeat the payload after the separator, smallest token first; equal tokens keep their order.

    With vocabulary 12, so separator 10 and filler 11, and length 7::

        tokens   11  7  4  9 10  4  7
        answers   .  .  .  .  4  7  9

    Chance is that of guessing the likeliest token at each rank: small ones first, large ones last.

    Source: Deletang et al., arXiv 2207.02098 (bucket sort); Zhou et al., arXiv 2310.16028.

    Attributes:
        unique: whether the payload's tokens are all different.
    """

    def order(self, payload: Tokens, size: Int[Array, ""]) -> Int[Array, "position sequence"]:
        padding = (jnp.arange(len(payload), dtype=jnp.int32) >= size)[:, None]
        last = jnp.where(padding, jnp.iinfo(jnp.int32).max, payload)
        return jnp.argsort(last, axis=0, stable=True).astype(jnp.int32)

    def chance(self, vocabulary: int, length: int) -> float:
        content, size = vocabulary - SPECIAL, length // 2
        rank = np.arange(size)
        best, below = np.zeros(size), np.zeros(size)
        for token in range(content):
            if self.unique:
                # The token is drawn, and `rank` of the other size - 1 tokens are among the smaller ones.
                likely = size / content * stats.hypergeom.pmf(rank, content - 1, token, size - 1)
            else:
                # More than `rank` of the size tokens are at most this one, less those where a smaller one suffices.
                up_to = stats.binom.sf(rank, size, (token + 1) / content)
                likely, below = up_to - below, up_to
            best = np.maximum(best, likely)
        return float(best.mean())
