"""Fixed-offset retrieval."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from jaxtyping import Array, Int

from farfield._types import Key, Tokens
from farfield.errors import FarfieldError
from farfield.registry import traced
from farfield.rng import uniform_tokens
from farfield.tasks.base import Positional, tasks


@tasks.register("offset")
@dataclass(frozen=True)
class FixedOffset(Positional):
    """Copy the token K places before the query, which is the last position.

    With K = 2 and length 6::

        tokens    7  4  9  1  5  3
        answers   .  .  .  .  .  1        the token at position 3

    Source: arXiv 2607.18759, section 2.

    Attributes:
        offset: K >= 1.
    """

    # Stored results were drawn in one piece.
    padding_invariant: ClassVar[bool] = False

    offset: int = traced()

    def target(self, query_position: Int[Array, "..."]) -> Int[Array, "..."]:
        return query_position - self.offset

    def sample(self, key: Key, positions: int, sequences: int, vocabulary: int) -> Tokens:
        return uniform_tokens(key, positions, sequences, vocabulary)

    def check(self, vocabulary: int, shortest: int, longest: int | None = None) -> None:
        check_offset("offset", self.offset, shortest)


def check_offset(name: str, offset: int, shortest: int) -> None:
    """Refuse an offset, written ``name:offset``, that is below 1 or reaches outside the shortest sequences.

    Raises:
        FarfieldError: with the reason and the mend.
    """
    if offset < 1:
        raise FarfieldError(f"{name}:{offset} must be at least 1: K counts places before the query")
    if offset >= shortest:
        raise FarfieldError(
            f"{name}:{offset} reaches outside sequences of length {shortest}: "
            + (f"use an offset of at most {shortest - 1} or " if shortest > 1 else "use ")
            + f"lengths of at least {offset + 1}"
        )
