"""The interface of a task: what a sequence is, which key is the target, what the answer is."""

from __future__ import annotations

import abc
from dataclasses import dataclass

from jaxtyping import Array, Int

from farfield._types import Key, Tokens
from farfield.random import uniform_tokens
from farfield.registry import Registry


@dataclass(frozen=True)
class Task(abc.ABC):
    """A retrieval task: the query is the last position, the answer is the token at the target position."""

    @abc.abstractmethod
    def target(self, query_position: Int[Array, ""]) -> Int[Array, ""]:
        """The position whose token is the answer, for a query at ``query_position``."""

    def sample(self, key: Key, positions: int, sequences: int, vocabulary: int) -> Tokens:
        """Tokens ``[position, sequence]``, independent and uniform."""
        return uniform_tokens(key, positions, sequences, vocabulary)

    def chance(self, vocabulary: int) -> float:
        """Accuracy of a guess that ignores the sequence."""
        return 1.0 / vocabulary

    def check(self, shortest: int) -> None:
        """Refuse settings that a sequence of ``shortest`` positions cannot hold (FarfieldError)."""
        del shortest


tasks: Registry[Task] = Registry("task")
