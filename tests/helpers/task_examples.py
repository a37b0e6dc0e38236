"""What test files on tasks share: every registered task as written on a command line, and the least it works with."""

from __future__ import annotations

import dataclasses

from farfield.tasks import Batch, Task, tasks
from farfield.testing import tasks as testing
from farfield.testing.tasks import POSITIONS, VOCABULARY, allows, least_length  # noqa: F401 (for the test files)


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


def drawn(task: str | Task, **sizes: int) -> Batch:
    """A batch of a task or its spec as numpy arrays."""
    return testing.drawn(tasks.parse(task) if isinstance(task, str) else task, **sizes)
