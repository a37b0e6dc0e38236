"""The interface of a task: what a sequence is, which rows count, which key is the target, what the answer is."""

from __future__ import annotations

import abc
from dataclasses import dataclass
from typing import ClassVar, Literal, NamedTuple

import jax.numpy as jnp
from jaxtyping import Array, Bool, Int

from farfield._types import Key, Positions, Tokens
from farfield.random import uniform_tokens
from farfield.registry import Registry

NO_TARGET = -1


class Batch(NamedTuple):
    """Sequences with what is asked of them, position-major and padded to a common number of positions.

    Attributes:
        tokens: what the model reads; arbitrary from the length on.
        answers: the token (class) wanted at each row; arbitrary where not supervised.
        supervised: rows that enter loss and accuracy; none from the length on.
        targets: index of the key whose token is the answer, ``NO_TARGET`` where no single key holds it.
    """

    tokens: Tokens
    answers: Int[Array, "position sequence"]
    supervised: Bool[Array, "position sequence"]
    targets: Int[Array, "position sequence"]


@dataclass(frozen=True)
class Task(abc.ABC):
    """A task on sequences of a given length, the number of positions that the model reads."""

    # Which rows can be supervised: the last alone, where a head needs one query, or any.
    rows: ClassVar[Literal["last", "all"]] = "all"

    @abc.abstractmethod
    def draw(self, key: Key, length: Int[Array, ""], positions: int, sequences: int, vocabulary: int) -> Batch:
        """Sequences of one length.

        Args:
            length: may be traced; at most ``positions``.
            positions: what the batch is padded to.
        """

    @abc.abstractmethod
    def chance(self, vocabulary: int, length: int) -> float:
        """Accuracy of the best guess that ignores the sequence, averaged over supervised rows."""

    @abc.abstractmethod
    def sample_space(self, vocabulary: int, length: int) -> float:
        """How many different sequences there are (may be inf): small spaces are seen whole in training."""

    def check(self, vocabulary: int, shortest: int) -> None:
        """Refuse settings that ``vocabulary`` tokens or a sequence of ``shortest`` positions cannot hold.

        Raises:
            FarfieldError: naming the setting, the reason and the mend.
        """
        del vocabulary, shortest

    def coupled_positions(self, length: Int[Array, ""], positions: int) -> Positions | None:
        """Positions that say which tokens correspond (position coupling, Cho et al., arXiv 2405.20671).

        Tokens of equal role share a position, counted from 1; arbitrary from the length on. None where the task
        has no such structure.
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
        return uniform_tokens(key, positions, sequences, vocabulary)

    def draw(self, key: Key, length: Int[Array, ""], positions: int, sequences: int, vocabulary: int) -> Batch:
        tokens = self.sample(key, positions, sequences, vocabulary)
        rows = jnp.arange(positions)[:, None]
        supervised = jnp.broadcast_to(rows == length - 1, tokens.shape)
        targets = jnp.where(supervised, self.target(length - 1), NO_TARGET)
        answers = jnp.where(supervised, tokens[self.target(length - 1)][None], 0)
        return Batch(tokens, answers, supervised, targets)

    def chance(self, vocabulary: int, length: int) -> float:
        del length
        return 1.0 / vocabulary

    def sample_space(self, vocabulary: int, length: int) -> float:
        return float(vocabulary) ** length if length < 200 else float("inf")


tasks: Registry[Task] = Registry("task")
