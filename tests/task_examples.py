"""What test files on tasks share: every registered task as written on a command line, and the least it works with."""

from __future__ import annotations

import dataclasses
import functools

import jax
import jax.numpy as jnp
import numpy as np

from farfield.errors import FarfieldError
from farfield.tasks import Batch, Task, tasks
from support import quick_jit

VOCABULARY = 20
POSITIONS = 32


def written(name: str) -> str:
    """A task with its defaults; a setting that it cannot do without is 2."""
    fields = dataclasses.fields(tasks[name])
    return f"{name}:2" if any(field.default is dataclasses.MISSING for field in fields) else name


# Every registered task, and settings that change what is drawn.
TASKS = [
    *map(written, tasks),
    "offset:1",
    "position:0",
    "fraction:3",
    "shift:3",
    "mode:near=2,far=5",
    "copy:unique=true",
    "reverse:unique=true",
    "sort:unique=true",
]


def allows(task: Task, vocabulary: int, shortest: int, longest: int | None = None) -> bool:
    """Whether the task accepts these sizes."""
    try:
        task.check(vocabulary, shortest, longest)
    except FarfieldError:
        return False
    return True


def least_length(task: Task, vocabulary: int = VOCABULARY) -> int:
    """Shortest sequences that the task accepts."""
    return next(length for length in range(1, 100) if allows(task, vocabulary, length))


def least_vocabulary(task: Task) -> int:
    """Fewest tokens that the task accepts at its shortest length."""
    return next(vocabulary for vocabulary in range(2, 100) if allows(task, vocabulary, least_length(task)))


@functools.partial(quick_jit, static_argnames=("positions", "sequences", "vocabulary"))
def _drawn(task: Task, key: jax.Array, length: jax.Array, positions: int, sequences: int, vocabulary: int) -> Batch:
    return task.draw(key, length, positions, sequences, vocabulary)


def drawn(
    task: str | Task,
    seed: int = 0,
    length: int = 12,
    positions: int = POSITIONS,
    sequences: int = 64,
    vocabulary: int = VOCABULARY,
) -> Batch:
    """A batch as numpy arrays; the program is compiled once for every length and setting."""
    task = tasks.parse(task) if isinstance(task, str) else task
    task = jax.tree.map(jnp.asarray, task)
    batch = _drawn(task, jax.random.key(seed), jnp.int32(length), positions, sequences, vocabulary)
    return Batch(*map(np.asarray, batch))
