"""Induction: find the previous occurrence and copy what followed."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, Literal

import jax
import jax.numpy as jnp
from jaxtyping import Array, Int

from farfield._types import Key
from farfield.rng import tokens_in_pieces, uniform_index
from farfield.tasks.base import Batch, Task, asked_at_last, power, require, tasks


@tasks.register("induction")
@dataclass(frozen=True)
class Induction(Task):
    """The last token occurred exactly once before: copy the token that followed it there.

    The earlier place is uniform over 0 .. n - 2 for a query at position n, so that what follows it is never the query
    itself. The query's token is uniform; all other tokens are i.i.d. uniform over the rest. With length 6::

        tokens    7  4  9  1  5  4
        answers   .  .  .  .  .  9        4 stood at position 1, and 9 followed

    Source: Olsson et al., arXiv 2209.11895, reduced to one query a sequence.
    """

    rows: ClassVar[Literal["last", "all"]] = "last"

    def draw(self, key: Key, length: Int[Array, ""], positions: int, sequences: int, vocabulary: int) -> Batch:
        others_key, query_key, place_key = jax.random.split(key, 3)
        query = uniform_index(query_key, sequences, vocabulary)
        others = tokens_in_pieces(others_key, positions, sequences, vocabulary - 1)
        others = others + (others >= query[None]).astype(jnp.int32)
        length = jnp.asarray(length, jnp.int32)
        place = uniform_index(place_key, sequences, length - 2)
        rows = jnp.arange(positions, dtype=jnp.int32)[:, None]
        tokens = jnp.where((rows == place[None]) | (rows == length - 1), query[None], others)
        answers = jnp.take_along_axis(tokens, place[None] + 1, axis=0)[0]
        return asked_at_last(tokens, length, answers, place + 1)

    def chance(self, vocabulary: int, length: int) -> float:
        del length
        return 1.0 / vocabulary

    def sample_space(self, vocabulary: int, length: int) -> float:
        return vocabulary * (length - 2) * power(vocabulary - 1, length - 2)

    def check(self, vocabulary: int, shortest: int, longest: int | None = None) -> None:
        require("induction", "length", shortest, 3, "the query, its earlier occurrence and what followed it")
        require("induction", "vocabulary", vocabulary, 3, "the query's token and two others")
