"""The interface of a task: what a sequence is, which rows count, which key is the target, what the answer is."""

from __future__ import annotations

import abc
import math
from dataclasses import dataclass
from typing import Any, ClassVar, Literal, NamedTuple

import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Int

from farfield._pytree import pytree
from farfield._types import Key, Positions, Tokens
from farfield.errors import FarfieldError
from farfield.registry import Registry
from farfield.rng import PIECE, tokens_in_pieces

NO_TARGET = -1


class Batch(NamedTuple):
    """Sequences with what is asked of them, position-major and padded to a common number of positions.

    Attributes:
        tokens: what the model reads; arbitrary tokens of the vocabulary from the length on.
        answers: the token (class) wanted at each row; an arbitrary one where not supervised.
        supervised: rows that enter loss and accuracy; none from the length on.
        targets: index of the key whose token is the answer, ``NO_TARGET`` where no single key holds it.
    """

    tokens: Tokens
    answers: Int[Array, "position sequence"]
    supervised: Bool[Array, "position sequence"]
    targets: Int[Array, "position sequence"]


@dataclass(frozen=True)
class Task(abc.ABC):
    """A task on sequences of a given length, the number of positions that the model reads.

    Ordinary tokens (digits, bits, letters) are numbered from 0; the special ones of a task (separator, plus, equals,
    mode, filler) are the last of the vocabulary. Where a task's parts do not fill a length, filler comes first.
    """

    # Which rows can be supervised: the last alone, where a head needs one query, or any.
    rows: ClassVar[Literal["last", "all"]] = "all"
    # Whether padding further leaves the sequences of :meth:`draw` as they were. A test holds it to its word.
    padding_invariant: ClassVar[bool] = True

    @abc.abstractmethod
    def draw(self, key: Key, length: Int[Array, ""], positions: int, sequences: int, vocabulary: int) -> Batch:
        """Sequences of one length, each equally likely among all :meth:`sample_space` of them.

        Args:
            length: may be traced; at most ``positions``.
            positions: what the batch is padded to.
        """

    def draw_each(self, keys: Any, length: Int[Array, ""], positions: int, vocabulary: int) -> Batch:
        """One sequence a key, for tests: it depends on its key and the length, not on the padding nor on the others.

        Args:
            keys: one a sequence.
            length: may be traced; at most ``positions``.
        """
        one = jax.vmap(lambda key: self.draw(key, length, positions, 1, vocabulary), out_axes=1)
        return jax.tree.map(lambda leaf: leaf[..., 0], one(keys))

    @abc.abstractmethod
    def chance(self, vocabulary: int, length: int) -> float:
        """Accuracy of the best guess that knows the row but not the sequence, averaged over supervised rows."""

    @abc.abstractmethod
    def sample_space(self, vocabulary: int, length: int) -> float:
        """How many different sequences there are (may be inf): small spaces are seen whole in training."""

    def check(self, vocabulary: int, shortest: int, longest: int | None = None) -> None:
        """Refuse settings that ``vocabulary`` tokens or sequences of these lengths cannot hold.

        Args:
            shortest, longest: lengths of training or test; ``longest`` left out is ``shortest``.

        Raises:
            FarfieldError: naming the setting, the reason and the mend.
        """
        del vocabulary, shortest, longest

    def coupled_positions(self, length: Int[Array, ""], positions: int) -> Positions | None:
        """Positions that say which tokens correspond (position coupling, Cho et al., arXiv 2405.20671).

        Tokens of equal role share a position, counted from 1; filler, which has no partner, has position 0;
        arbitrary from the length on. None where the task has no such structure.
        """
        del length, positions
        return None


@dataclass(frozen=True)
class Positional(Task):
    """Copy the token at a position that depends on the query's position alone; tokens are i.i.d. uniform.

    The query is the last position. Such tasks can be tested at any length, streaming over keys.
    """

    rows: ClassVar[Literal["last", "all"]] = "last"

    @abc.abstractmethod
    def target(self, query_position: Int[Array, "..."]) -> Int[Array, "..."]:
        """The position whose token is the answer, for a query at ``query_position``."""

    def sample(self, key: Key, positions: int, sequences: int, vocabulary: int) -> Tokens:
        """Tokens ``[position, sequence]``, independent and uniform."""
        return tokens_in_pieces(key, positions, sequences, vocabulary)

    def tabulated(self, reach: int) -> Positional:
        """The same task for queries at positions below ``reach``, its targets written out as data.

        Tasks that differ in their rule alone then share one compiled program. A task that draws its sequences in a
        way of its own is returned as it is.
        """
        usual = all(getattr(type(self), name) is getattr(Positional, name) for name in DRAWN_BY)
        return Tabulated(self.target(jnp.arange(reach, dtype=jnp.int32))) if usual else self

    def draw(self, key: Key, length: Int[Array, ""], positions: int, sequences: int, vocabulary: int) -> Batch:
        tokens = self.sample(key, positions, sequences, vocabulary)
        target = self.target(jnp.asarray(length, jnp.int32) - 1)
        return asked_at_last(tokens, length, tokens[target], jnp.broadcast_to(target, (sequences,)))

    def draw_each(self, keys: Any, length: Int[Array, ""], positions: int, vocabulary: int) -> Batch:
        if type(self).draw is not Positional.draw:
            return super().draw_each(keys, length, positions, vocabulary)
        pieces = jnp.arange(-(-positions // PIECE), dtype=jnp.int32)

        def tokens_of(key: Key) -> Int[Array, " position"]:
            drawn = jax.vmap(lambda piece: self.sample(jax.random.fold_in(key, piece), PIECE, 1, vocabulary))(pieces)
            return drawn.reshape(-1)[:positions]

        tokens = jax.vmap(tokens_of, out_axes=1)(keys)
        target = self.target(jnp.asarray(length, jnp.int32) - 1)
        return asked_at_last(tokens, length, tokens[target], jnp.broadcast_to(target, (len(keys),)))

    def chance(self, vocabulary: int, length: int) -> float:
        del length
        return 1.0 / vocabulary

    def sample_space(self, vocabulary: int, length: int) -> float:
        return power(vocabulary, length)


# What a task may override to draw its sequences in a way of its own.
DRAWN_BY = ("draw", "sample", "coupled_positions")


@pytree
@dataclass(frozen=True)
class Tabulated(Positional):
    """A positional task as data: ``targets[n]`` is the target of a query at position n."""

    targets: Int[Array, " position"]

    def target(self, query_position: Int[Array, "..."]) -> Int[Array, "..."]:
        return jnp.asarray(self.targets)[query_position]


def asked_at_last(
    tokens: Tokens,
    length: Int[Array, ""],
    answers: Int[Array, " sequence"],
    targets: Int[Array, " sequence"] | None = None,
) -> Batch:
    """The batch that asks one answer of each sequence, at its last position."""
    rows = jnp.arange(len(tokens), dtype=jnp.int32)[:, None]
    supervised = jnp.broadcast_to(rows == jnp.asarray(length, jnp.int32) - 1, tokens.shape)
    nowhere = jnp.full(tokens.shape, NO_TARGET, jnp.int32)
    return Batch(
        tokens=tokens,
        answers=jnp.where(supervised, answers[None], 0),
        supervised=supervised,
        targets=nowhere if targets is None else jnp.where(supervised, targets[None].astype(jnp.int32), nowhere),
    )


def power(base: int, exponent: int) -> float:
    """``base ** exponent`` as a float, inf where no float is that large."""
    try:
        return float(base) ** exponent
    except OverflowError:
        return math.inf


def require(task: str, setting: str, value: Any, least: int, reason: str) -> None:
    """Refuse a setting below the least that a task works with.

    Args:
        task: how the task is written, for the message.
        setting: ``"vocabulary"`` or ``"length"``, or another whole number.
        reason: what needs that many.

    Raises:
        FarfieldError: if ``value < least``.
    """
    if value < least:
        raise FarfieldError(f"{task} needs a {setting} of at least {least}, for {reason}: got {value}")


def overlap(task: Task, vocabulary: int, length: int, training_draws: int) -> float:
    """Expected share of test sequences that training has seen.

    With N equally likely sequences and n independent training draws of the same length, a test sequence is among
    them with probability ``1 - (1 - 1/N)**n``: 0.06 for parity at length 16 after 4,000 sequences, 1 at length 6.
    Accuracy in such a space says little about a rule until that share is taken off.

    Args:
        training_draws: sequences of this length seen in training (steps x batch x the share of this length).

    Raises:
        FarfieldError: if ``training_draws`` is negative.
    """
    if training_draws < 0:
        raise FarfieldError(f"training_draws = {training_draws} must be 0 or more: it counts training sequences")
    space = task.sample_space(vocabulary, length)
    if training_draws == 0 or math.isinf(space):
        return 0.0
    if space <= 1:
        return 1.0
    # The plain formula loses every digit where 1/N is below the precision of a float.
    return -math.expm1(training_draws * math.log1p(-1 / space))


tasks: Registry[Task] = Registry("task")
