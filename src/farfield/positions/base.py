"""The interface of a position regime: which positions the tokens of a sequence are given."""

from __future__ import annotations

import abc
from dataclasses import dataclass
from typing import Any, ClassVar

import jax.numpy as jnp
from jaxtyping import Array, Int, Real

from farfield._types import Key
from farfield.encodings.base import Encoding, encodings
from farfield.errors import FarfieldError
from farfield.registry import Registry
from farfield.tasks.base import Task, tasks


@dataclass(frozen=True)
class Regime(abc.ABC):
    """Gives each place of a sequence its position; training has one regime and testing another.

    All sequences of a batch share their positions, and what a place of the sequence gets does not depend on what the
    batch is padded to.
    """

    # Whether positions are real numbers, which an encoding by tables of whole distances has no meaning for.
    real: ClassVar[bool] = False

    @property
    def random(self) -> bool:
        """Whether positions are drawn, so that a key is needed and an evaluation averages over several draws."""
        return False

    @abc.abstractmethod
    def positions(
        self, key: Key | None, length: Int[Array, ""], count: int, trained: int, task: Task | None = None
    ) -> Real[Array, " count"]:
        """Positions of one batch; entries from the length on repeat the last, so they are inside any table.

        Args:
            key: for regimes that are :attr:`random`; others take None.
            length: how many places count, 1 or more; may be traced.
            count: what the batch is padded to, at least the length.
            trained: the longest training length.
            task: whose coupled positions are wanted; only ``coupled`` reads it.
        """

    @abc.abstractmethod
    def largest(self, longest: int, trained: int, task: Task | None = None) -> int:
        """One more than the largest position of sequences up to ``longest``: how long tables must be."""

    def span(self, longest: int, trained: int, task: Task | None = None) -> int:
        """One more than the largest distance between two positions of a sequence up to ``longest``."""
        return self.largest(longest, trained, task)

    def resolved(self, trained: int, longest: int) -> Regime:
        """The regime with settings that depend on lengths filled in; by default itself.

        Args:
            trained: the longest training length.
            longest: the longest length that this regime is used for.
        """
        del trained, longest
        return self

    def check(self, longest: int, trained: int, task: Task | None = None, encoding: Encoding | None = None) -> None:
        """Refuse settings that cannot work for these lengths, this task and this encoding, where they are given.

        Args:
            longest: the longest length that this regime is used for.
            trained: the longest training length.

        Raises:
            FarfieldError: naming the setting, the reason and the mend.
        """
        del longest, trained, task
        if self.real and encoding is not None and not encoding.real_positions:
            raise FarfieldError(
                f"positions {_name(regimes, self)!r} lie between whole numbers, which encoding "
                f"{_name(encodings, encoding)!r} has no values for: use clamp or rescale, or an encoding such as rope"
            )


def padded(positions: Real[Array, " count"], length: Int[Array, ""]) -> Real[Array, " count"]:
    """``positions`` with the last one, at ``length - 1``, repeated from the length on."""
    return jnp.where(jnp.arange(len(positions)) < length, positions, positions[length - 1])


def places(length: Int[Array, ""], count: int) -> Int[Array, " count"]:
    """0, 1, ... length - 1, the last repeated up to ``count``."""
    return jnp.minimum(jnp.arange(count, dtype=jnp.int32), jnp.asarray(length).astype(jnp.int32) - 1)


def _name(registry: Registry[Any], entry: Any) -> str:
    try:
        return registry.name_of(entry)
    except FarfieldError:  # an entry of a user's own, used without being registered
        return type(entry).__name__


def task_name(task: Task) -> str:
    """The name of a task for an error message."""
    return _name(tasks, task)


regimes: Registry[Regime] = Registry("position regime")
