"""Positions that the task couples."""

from __future__ import annotations

from dataclasses import dataclass

import jax
import jax.numpy as jnp
from jaxtyping import Array, Int

from farfield._types import Key
from farfield.encodings.base import Encoding
from farfield.errors import FarfieldError
from farfield.positions.base import Regime, padded, regimes, task_name
from farfield.positions.shifted import LARGEST_RANGE
from farfield.tasks.base import Task

NONE = 0


@regimes.register("coupled")
@dataclass(frozen=True)
class Coupled(Regime):
    """Tokens of equal role in the task share a position: :meth:`farfield.tasks.base.Task.coupled_positions`.

    With ``most``, all positions of a batch are shifted by one random number, such that the largest is at most
    ``most``: every row of a table up to ``most`` is then trained. A position of 0, which counting from 1 leaves for
    tokens without a role, stays 0.
    Source: Cho et al., arXiv 2405.20671, whose ``max_pos`` is ``most``.

    Attributes:
        most: largest position with random shifts, 0 for none.
    """

    most: int = NONE

    @property
    def random(self) -> bool:
        return self.most != NONE

    def positions(
        self, key: Key | None, length: Int[Array, ""], count: int, trained: int, task: Task | None = None
    ) -> Int[Array, " count"]:
        del trained
        positions = _of_task(length, count, task)
        if not self.random:
            return positions
        assert key is not None
        shift = jax.random.randint(key, (), 0, self.most - positions.max() + 1, dtype=jnp.int32)
        return jnp.where(positions > 0, positions + shift, positions)

    def largest(self, longest: int, trained: int, task: Task | None = None) -> int:
        del trained
        return max(self.most, _largest(longest, task)) + 1

    def check(self, longest: int, trained: int, task: Task | None = None, encoding: Encoding | None = None) -> None:
        super().check(longest, trained, task, encoding)
        largest = _largest(longest, task)
        if self.most != NONE and not largest <= self.most <= LARGEST_RANGE:
            raise FarfieldError(
                f"coupled:most={self.most} must be from {largest}, the largest position of sequences of length "
                f"{longest}, to {LARGEST_RANGE}, or 0 for no random shift"
            )


def _of_task(length: Int[Array, ""], count: int, task: Task | None) -> Int[Array, " count"]:
    if task is None:
        raise FarfieldError("positions 'coupled' are those of a task: pass the task")
    positions = task.coupled_positions(length, count)
    if positions is None:
        raise FarfieldError(
            f"task {task_name(task)!r} does not say which of its tokens correspond, so positions 'coupled' are "
            "undefined for it: use a task that couples its tokens, or other positions such as random-subset"
        )
    return padded(jnp.asarray(positions).astype(jnp.int32), length)


def _largest(longest: int, task: Task | None) -> int:
    """The largest coupled position of a sequence of ``longest`` tokens."""
    with jax.ensure_compile_time_eval():
        return int(_of_task(jnp.asarray(longest, jnp.int32), longest, task).max())
