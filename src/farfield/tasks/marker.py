"""Retrieval by content: the target is marked."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, Literal

import jax
import jax.numpy as jnp
from jaxtyping import Array, Int

from farfield._types import Key
from farfield.rng import tokens_in_pieces, uniform_index
from farfield.tasks.base import Batch, Task, asked_at_last, power, require, tasks


@tasks.register("marker")
@dataclass(frozen=True)
class Marker(Task):
    """Copy the one marked token, which is at a uniform position before the query.

    The upper half of the vocabulary (``vocabulary // 2`` tokens) is marked, the lower half is not: a query that matches
    marked keys solves the task at any length, without positions. With vocabulary 20, so marked from 10 on, and
    length 6::

        tokens    7  4 19  1  5  3
        answers   .  .  .  .  . 19

    Source: the content escape named in "A Positional Realizability Theory of Length Generalization in Single-Head
    Attention", abstract; the form is this project's own.
    """

    rows: ClassVar[Literal["last", "all"]] = "last"

    def draw(self, key: Key, length: Int[Array, ""], positions: int, sequences: int, vocabulary: int) -> Batch:
        plain_key, place_key, marked_key = jax.random.split(key, 3)
        plain = tokens_in_pieces(plain_key, positions, sequences, vocabulary - vocabulary // 2)
        place = uniform_index(place_key, sequences, jnp.asarray(length, jnp.int32) - 1)
        marked = uniform_index(marked_key, sequences, vocabulary // 2) + (vocabulary - vocabulary // 2)
        rows = jnp.arange(positions, dtype=jnp.int32)[:, None]
        tokens = jnp.where(rows == place[None], marked[None], plain)
        return asked_at_last(tokens, length, marked, place)

    def chance(self, vocabulary: int, length: int) -> float:
        del length
        return 1.0 / (vocabulary // 2)

    def sample_space(self, vocabulary: int, length: int) -> float:
        return (length - 1) * (vocabulary // 2) * power(vocabulary - vocabulary // 2, length - 1)

    def check(self, vocabulary: int, shortest: int, longest: int | None = None) -> None:
        require("marker", "length", shortest, 2, "a marked token and the query")
        require("marker", "vocabulary", vocabulary, 4, "two marked and two unmarked tokens")
