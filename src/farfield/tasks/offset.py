"""Fixed-offset retrieval."""

from __future__ import annotations

from dataclasses import dataclass

from jaxtyping import Array, Int

from farfield.errors import FarfieldError
from farfield.registry import traced
from farfield.tasks.base import Positional, tasks


@tasks.register("offset")
@dataclass(frozen=True)
class FixedOffset(Positional):
    """Copy the token K places before the query, which is the last position.

    With K = 2 and length 6::

        tokens   7  4  9  1  5  3
        query                   ^
        target            ^            answer 1

    Source: arXiv 2607.18759, section 2.

    Attributes:
        offset: K >= 1.
    """

    offset: int = traced()

    def target(self, query_position: Int[Array, "..."]) -> Int[Array, "..."]:
        return query_position - self.offset

    def check(self, vocabulary: int, shortest: int) -> None:
        if self.offset < 1:
            raise FarfieldError(f"offset:{self.offset} must be at least 1: K counts places before the query")
        if self.offset >= shortest:
            raise FarfieldError(
                f"offset:{self.offset} reaches outside sequences of length {shortest}: "
                + (f"use an offset of at most {shortest - 1} or " if shortest > 1 else "use ")
                + f"lengths of at least {self.offset + 1}"
            )
