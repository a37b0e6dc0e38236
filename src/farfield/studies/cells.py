"""A cell: one trained head with its tests, as a frozen record with a content hash for its name."""

from __future__ import annotations

import dataclasses
import hashlib
import json
import math
import operator
from typing import Any

import numpy as np

from farfield.encodings import Encoding, encodings
from farfield.errors import FarfieldError, unknown
from farfield.tasks import Task, tasks
from farfield.training import FORWARD, Path, Shape

# Enters every cell's identity. Raise it when a change of code changes what a stored number means.
DATA_VERSION = 1

# Whole-number settings with the least and the most of each; the most keep a slip of the keyboard from filling memory.
WHOLE = {
    "seed": (0, 2**32 - 1),
    "vocabulary": (2, 1024),
    "width": (1, 4096),
    "shortest": (1, 4096),
    "longest": (1, 4096),
    "steps": (1, 10**7),
    "batch": (1, 2**16),
    "sequences": (1, 2**20),
}
# Most entries of the lookup table of logits, vocabulary^2 for each training position: a gigabyte for four heads.
MOST_LOGITS = 2**26
LONGEST_TEST = 2**24


@dataclasses.dataclass(frozen=True)
class Cell:
    """One head to train short and test long. The defaults are the paper's (arXiv 2607.18759, section 5).

    Attributes:
        encoding, task: entries of their registries.
        seed: of weights, batches and test sequences alike.
        vocabulary: number of tokens.
        width: model and head dimension d.
        temperature: divides the attention logits, in training and in tests.
        shortest, longest: training lengths, drawn uniformly once a step.
        steps, batch, learning_rate: of Adam.
        weight_decay: coupled L2 on the encoding's own parameters.
        path: ``lookup``, or ``dense`` for the slow reference.
        lengths: test lengths.
        sequences: test sequences a length.
    """

    encoding: Encoding
    task: Task
    seed: int = 0
    vocabulary: int = 20
    width: int = 64
    temperature: float = 1.0
    shortest: int = 8
    longest: int = 16
    steps: int = 4000
    batch: int = 256
    learning_rate: float = 1e-3
    weight_decay: float = 0.0
    path: Path = "lookup"
    lengths: tuple[int, ...] = (12, 16, 20, 24, 32, 40, 48)
    sequences: int = 4096

    def resolved(self) -> Cell:
        """The cell with every default filled in, checked.

        Raises:
            FarfieldError: naming the setting, the reason and the mend.
        """
        whole = {name: _whole(name, getattr(self, name)) for name in WHOLE}
        for name, value in whole.items():
            least, most = WHOLE[name]
            if not least <= value <= most:
                raise FarfieldError(f"{name} = {value} must be a whole number from {least} to {most}")
        lengths = tuple(sorted(_whole("test length", length) for length in self.lengths))
        encoding, task = encodings.normalized(self.encoding), tasks.normalized(self.task)
        # One spelling of each number, so that 1 and 1.0 are the same cell.
        real = {name: _real(name, getattr(self, name)) for name in ("temperature", "learning_rate", "weight_decay")}
        for name, value in real.items():
            if value == 0 and name != "weight_decay":
                raise FarfieldError(f"{name} = {getattr(self, name)} must be a positive number")
        if self.shortest > self.longest:
            raise FarfieldError(f"training lengths {self.shortest}:{self.longest}: the shortest must come first")
        if self.path not in FORWARD:
            raise unknown("path", self.path, FORWARD)
        if self.path == "lookup" and self.vocabulary**2 * self.longest > MOST_LOGITS:
            raise FarfieldError(
                f"vocabulary = {self.vocabulary} with lengths up to {self.longest} needs too large a lookup table: "
                "use the dense path, fewer tokens or shorter training lengths"
            )
        if not lengths or lengths[0] < 1:
            raise FarfieldError(f"test lengths {list(lengths)} must be positive whole numbers, at least one")
        if len(set(lengths)) < len(lengths):
            raise FarfieldError(f"test lengths {list(lengths)} name a length twice")
        if lengths[-1] > LONGEST_TEST:
            raise FarfieldError(f"test length {lengths[-1]} is longer than {LONGEST_TEST}, the most that is allowed")
        task.check(whole["vocabulary"], min(whole["shortest"], lengths[0]))
        reach = max(whole["longest"], lengths[-1])
        encoding.check(whole["width"], reach)
        return dataclasses.replace(
            self, encoding=encoding.resolved(whole["longest"], reach), task=task, lengths=lengths, **whole, **real
        )

    @property
    def shape(self) -> Shape:
        """What decides the training program that this cell compiles to."""
        return Shape(
            vocabulary=self.vocabulary,
            width=self.width,
            longest=self.longest,
            batch=self.batch,
            steps=self.steps,
            path=self.path,
        )

    def config(self) -> dict[str, Any]:
        """JSON-able configuration; :meth:`from_config` is the inverse."""
        plain = {field.name: getattr(self, field.name) for field in dataclasses.fields(self)}
        return plain | {
            "encoding": encodings.config(self.encoding),
            "task": tasks.config(self.task),
            "lengths": list(self.lengths),
        }

    @classmethod
    def from_config(cls, config: dict[str, Any]) -> Cell:
        """Rebuild a cell from :meth:`config`'s result."""
        return cls(
            **config
            | {
                "encoding": encodings.from_config(config["encoding"]),
                "task": tasks.from_config(config["task"]),
                "lengths": tuple(config["lengths"]),
            }
        )

    @property
    def identity(self) -> str:
        """Content hash of the resolved configuration: 16 hexadecimal digits, the name of the cell's files."""
        content = json.dumps({"data_version": DATA_VERSION, **self.config()}, sort_keys=True)
        return hashlib.sha256(content.encode()).hexdigest()[:16]


def _whole(name: str, value: Any) -> int:
    """A Python integer from any kind of integer, numpy's among them; nothing is rounded."""
    try:
        return operator.index(value)
    except TypeError:
        raise FarfieldError(f"{name} = {value!r} must be a whole number") from None


def _real(name: str, value: Any) -> float:
    """A number that float32 can hold, not negative."""
    try:
        number = float(value)
        with np.errstate(over="ignore", under="ignore"):
            single = float(np.float32(number))
    except (TypeError, ValueError):
        raise FarfieldError(f"{name} = {value!r} must be a number") from None
    if not 0 <= single < math.inf or (single == 0) != (number == 0):
        raise FarfieldError(f"{name} = {value} must be a number from 0 up, within the range of float32")
    return number
