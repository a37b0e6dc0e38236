"""A cell: one trained model with its tests, as a frozen record with a content hash for its name."""

from __future__ import annotations

import dataclasses
import itertools
import math
from collections.abc import Iterable
from typing import Any, Literal, NamedTuple, get_args

import jax
import jax.numpy as jnp
import numpy as np

from farfield._checks import index, plain
from farfield.cell_settings import LONGEST_TEST, LONGEST_TRAINING, MOST_SEED, SETTINGS
from farfield.encodings import Encoding, encodings
from farfield.encodings.base import adds_vectors, is_trained
from farfield.environment import settled
from farfield.errors import FarfieldError, unknown
from farfield.identity import identity_of
from farfield.lengths import Range, range_of
from farfield.models import Model, models
from farfield.models.base import LogitPath
from farfield.models.head import Head
from farfield.normalizers import Normalizer, normalizers
from farfield.normalizers.softmax import Softmax
from farfield.positions import Regime, regimes
from farfield.positions.shifted import Fixed
from farfield.registry import Registry
from farfield.tasks import Positional, Task, tasks
from farfield.training import Knobs, Shape

HEAD, SOFTMAX, FIXED = Head(), Softmax(), Fixed()

# Most entries of the lookup table of logits, vocabulary^2 for each training position: a gigabyte for four heads.
MOST_LOGITS = 2**26
# Most entries of attention weights, of all sequences and heads, that a step of the dense path may hold.
MOST_WEIGHTS = 2**29
MOST_SNAPSHOTS = 1000
# A test that does not stream holds whole rows of attention, and all of them where every row is supervised.
LONGEST_TEST_AT_ONCE = 4096

# Least and most of every whole number.
WHOLE = {name: (of.low, of.high) for name, of in SETTINGS.items() if of.kind == "whole"} | {
    "seed": (0, MOST_SEED),
    "shortest": (1, LONGEST_TRAINING),
    "longest": (1, LONGEST_TRAINING),
}
REAL = tuple(name for name, of in SETTINGS.items() if of.kind == "real")

# The parts of a cell that are entries of a registry.
PARTS: dict[str, Registry[Any]] = {
    "encoding": encodings,
    "task": tasks,
    "model": models,
    "normalizer": normalizers,
    "positions": regimes,
    "test_positions": regimes,
}


class Seeds(NamedTuple):
    """Seeds of a cell: of its weights, of its training batches and of its test sequences."""

    model: int
    data: int
    evaluation: int


@dataclasses.dataclass(frozen=True)
class Cell:
    """One model to train short and test long. The defaults are the paper's (arXiv 2607.18759, section 5).

    Attributes:
        encoding, task, model, normalizer: entries of their registries.
        positions: which integers the tokens are given in training.
        test_positions: the same in tests; None for those of training.
        seed: of weights, batches and test sequences alike, where the next two do not say otherwise.
        data_seed: of training batches (lengths, tokens, positions); None for ``seed``.
        evaluation_seed: of test sequences; None for ``seed``.
        vocabulary: number of tokens.
        shortest, longest: training lengths, drawn uniformly once a step.
        steps, batch, learning_rate: of Adam.
        weight_decay: coupled L2 on the encoding's own parameters.
        path: how logits are computed: ``lookup``, the slow reference ``dense``, or ``auto`` for the lookup
            wherever it is exact; a resolved cell says which.
        lengths: test lengths.
        sequences: test sequences a length.
        snapshots: numbers of steps after which the weights are kept besides the final ones; 0 for the initial.
    """

    encoding: Encoding
    task: Task
    seed: int = 0
    model: Model = HEAD
    normalizer: Normalizer = SOFTMAX
    positions: Regime = FIXED
    test_positions: Regime | None = None
    vocabulary: int = SETTINGS["vocabulary"].default
    shortest: int = SETTINGS["lengths"].default[0]
    longest: int = SETTINGS["lengths"].default[1]
    steps: int = SETTINGS["steps"].default
    batch: int = SETTINGS["batch"].default
    learning_rate: float = SETTINGS["learning_rate"].default
    weight_decay: float = SETTINGS["weight_decay"].default
    path: LogitPath | Literal["auto"] = "auto"
    lengths: tuple[int, ...] = SETTINGS["test"].default
    sequences: int = SETTINGS["sequences"].default
    snapshots: tuple[int, ...] = SETTINGS["snapshots"].default
    data_seed: int | None = None
    evaluation_seed: int | None = None

    @settled
    def resolved(self) -> Cell:
        """The cell with every default filled in, checked.

        Raises:
            FarfieldError: naming the setting, the reason and the mend.
        """
        given = self if self.test_positions is not None else dataclasses.replace(self, test_positions=self.positions)
        parts = {name: registry.normalized(getattr(given, name)) for name, registry in PARTS.items()}
        checked = dataclasses.replace(given, **parts, **_numbers(self), lengths=checked_test_lengths(self.lengths))
        checked = dataclasses.replace(checked, snapshots=checked_snapshots(self.snapshots, checked.steps))
        checked = checked._with_lengths_filled_in()
        checked._check_parts()
        checked = dataclasses.replace(checked, path=checked._chosen_path())
        checked._check_together()
        return checked

    def _with_lengths_filled_in(self) -> Cell:
        """The same with settings that depend on training and test lengths written out."""
        assert self.test_positions is not None
        trained, longest = self.longest, max(self.lengths)
        self.model.check()
        self.task.check(self.vocabulary, min(self.shortest, self.lengths[0]), max(trained, longest))
        filled = dataclasses.replace(
            self,
            positions=self.positions.resolved(trained, trained),
            test_positions=self.test_positions.resolved(trained, longest),
            normalizer=self.normalizer.resolved(trained),
        )
        assert filled.test_positions is not None
        for regime, reach in ((filled.positions, trained), (filled.test_positions, longest)):
            regime.check(reach, trained, self.task, self.encoding)
        return dataclasses.replace(filled, encoding=self.encoding.resolved(trained, filled.largest_position))

    @property
    def largest_position(self) -> int:
        """One more than the largest position that training or tests can meet."""
        return max(self._largest_in_training, self._largest_in_tests)

    @property
    def _largest_in_training(self) -> int:
        return self.positions.largest(self.longest, self.longest, self.task)

    @property
    def _largest_in_tests(self) -> int:
        assert self.test_positions is not None
        return self.test_positions.largest(max(self.lengths), self.longest, self.task)

    def _check_parts(self) -> None:
        """Refuse parts that do not fit each other."""
        self.normalizer.check()
        width = self.model.width if adds_vectors(self.encoding) else self.model.head_width
        self.encoding.check(width, self.largest_position)
        if self.weight_decay and not is_trained(self.encoding, width):
            raise FarfieldError(
                f"weight_decay = {self.weight_decay:g} does nothing: it acts on the encoding's own parameters, and "
                f"{encodings.name_of(self.encoding)} has none: leave it out, or train an encoding such as learned"
            )
        if not self.streams and self.lengths[-1] > LONGEST_TEST_AT_ONCE:
            raise FarfieldError(
                f"test length {self.lengths[-1]}: task {tasks.name_of(self.task)} with model "
                f"{models.name_of(self.model)} is tested with whole rows of attention in memory: at most "
                f"{LONGEST_TEST_AT_ONCE} positions; a task with positional targets on a head has no such limit"
            )

    def _check_together(self) -> None:
        """Refuse an encoding that cannot encode all queries of a sequence in one call, where the model does so."""
        assert self.test_positions is not None
        if self.path == "dense" and (self.task.rows == "all" or self.model.lookup_obstacle(self.encoding) is not None):
            spans = (
                self.positions.span(self.longest, self.longest, self.task),
                self.test_positions.span(max(self.lengths), self.longest, self.task),
            )
            self.encoding.check_together(self.model.head_width, max(spans))

    @property
    def streams(self) -> bool:
        """Whether tests go through the keys in blocks: exact for a head whose task has positional targets."""
        return isinstance(self.task, Positional) and self.model.lookup_obstacle(self.encoding) is None

    def _chosen_path(self) -> LogitPath:
        if self.path not in ("auto", *get_args(LogitPath)):
            raise unknown("path", self.path, ("auto", *get_args(LogitPath)))
        obstacle = self.model.lookup_obstacle(self.encoding)
        if obstacle is None and self.vocabulary**2 * self.longest > MOST_LOGITS:
            obstacle = (
                f"vocabulary = {self.vocabulary} with lengths up to {self.longest} needs too large a lookup table: "
                "fewer tokens or shorter training lengths would fit"
            )
        if self.path == "lookup" and obstacle is not None:
            raise FarfieldError(f"the lookup path is not possible: {obstacle}; use the dense path or auto")
        chosen: LogitPath = "lookup" if self.path == "auto" and obstacle is None else "dense"
        chosen = chosen if self.path == "auto" else self.path  # pyright: ignore[reportAssignmentType]
        rows = self.longest if self.task.rows == "all" else 1
        weights = self.batch * self.longest * rows * len(self.model.head_names)
        if weights > MOST_WEIGHTS:
            raise FarfieldError(
                f"batch = {self.batch} with lengths up to {self.longest} holds {weights:.1e} attention weights a step, "
                f"more than {MOST_WEIGHTS:.1e}: make one of them smaller"
            )
        return chosen

    def range_of(self, length: int) -> Range:
        """Whether a length is shorter than training, trained, or longer."""
        return range_of(length, self.shortest, self.longest)

    @property
    def shape(self) -> Shape:
        """What decides the training program that this cell compiles to."""
        assert self.path != "auto", "a cell is resolved before it runs"
        return Shape(
            model=self.model,
            vocabulary=self.vocabulary,
            longest=self.longest,
            batch=self.batch,
            steps=self.steps,
            path=self.path,
            largest=self._largest_in_training,
        )

    @property
    @settled
    def knobs(self) -> Knobs:
        """What the compiled programs of a resolved cell take as data."""
        assert self.test_positions is not None
        return jax.tree.map(
            jnp.asarray,
            Knobs(
                seed=jnp.uint32(self.seeds.model),
                data_seed=jnp.uint32(self.seeds.data),
                evaluation_seed=jnp.uint32(self.seeds.evaluation),
                encoding=self.encoding,
                task=self.task,
                normalizer=self.normalizer,
                positions=self.positions,
                test_positions=self.test_positions,
                shortest=jnp.int32(self.shortest),
                learning_rate=jnp.float32(self.learning_rate),
                weight_decay=jnp.float32(self.weight_decay),
            ),
        )

    @property
    def seeds(self) -> Seeds:
        """The three seeds, those left out filled in."""
        data = self.seed if self.data_seed is None else self.data_seed
        return Seeds(self.seed, data, self.seed if self.evaluation_seed is None else self.evaluation_seed)

    def as_trained(self) -> Cell:
        """The cell without what only its tests depend on: equal for cells that are trained alike."""
        return dataclasses.replace(
            self, test_positions=self.positions, lengths=(self.longest,), sequences=1, evaluation_seed=None
        )

    def with_seeds(self, seeds: Seeds) -> Cell:
        """The resolved cell with other seeds, resolved."""
        return dataclasses.replace(self, **_seeds(*seeds))

    def config(self) -> dict[str, Any]:
        """JSON-able configuration; :meth:`from_config` is the inverse."""
        plain = {field.name: getattr(self, field.name) for field in dataclasses.fields(self)}
        parts = {
            name: None if plain[name] is None else registry.config(plain[name]) for name, registry in PARTS.items()
        }
        return plain | parts | {"lengths": list(self.lengths), "snapshots": list(self.snapshots)}

    @classmethod
    def from_config(cls, config: dict[str, Any]) -> Cell:
        """Rebuild a cell from :meth:`config`'s result."""
        parts = {
            name: None if config[name] is None else registry.from_config(config[name])
            for name, registry in PARTS.items()
        }
        tuples = {name: tuple(config[name]) for name in ("lengths", "snapshots")}
        settings: dict[str, Any] = config | parts | tuples
        return cls(**settings)

    @property
    def identity(self) -> str:
        """Content hash of the resolved configuration: 16 hexadecimal digits, the name of the cell's files."""
        return identity_of(self.config())


def _numbers(cell: Cell) -> dict[str, Any]:
    """Every number of a cell in one spelling, so that 1 and 1.0 are the same cell, and within its limits."""
    numbers = {name: checked_number(name, getattr(cell, name)) for name in (*WHOLE, *REAL)}
    if numbers["shortest"] > numbers["longest"]:
        raise FarfieldError(
            f"training lengths {numbers['shortest']}:{numbers['longest']}: the shortest must come first"
        )
    return numbers | _seeds(cell.seed, cell.data_seed, cell.evaluation_seed)


def _seeds(model: Any, data: Any, evaluation: Any) -> dict[str, Any]:
    """The three seeds in one spelling: those that are the first are None."""
    seed = checked_number("seed", model)
    given = {"data_seed": data, "evaluation_seed": evaluation}
    others = {name: None if value is None else checked_number(name, value) for name, value in given.items()}
    return {"seed": seed, **{name: None if value == seed else value for name, value in others.items()}}


def checked_number(name: str, value: Any) -> int | float:
    """A number of a cell, for example its ``steps``, in one spelling (FarfieldError outside its limits)."""
    if name in REAL:
        return _real(name, value, positive=name == "learning_rate")
    least, most = WHOLE["seed" if name.endswith("seed") else name]
    whole = _whole(name, value)
    if not least <= whole <= most:
        raise FarfieldError(f"{name} = {whole} must be a whole number from {least} to {most}")
    return whole


def checked_test_lengths(given: Any) -> tuple[int, ...]:
    """Test lengths in ascending order (FarfieldError if they are none)."""
    lengths = tuple(sorted(_whole("test length", length) for length in itertools.islice(given, LONGEST_TEST + 1)))
    if not lengths or lengths[0] < 1:
        raise FarfieldError(f"test lengths {list(lengths)} must be positive whole numbers, at least one")
    if len(set(lengths)) < len(lengths):
        raise FarfieldError(f"test lengths {list(lengths)} name a length twice")
    if lengths[-1] > LONGEST_TEST:
        raise FarfieldError(f"test length {lengths[-1]} is longer than {LONGEST_TEST}, the most that is allowed")
    return lengths


def checked_snapshots(given: Any, steps: int) -> tuple[int, ...]:
    """Snapshots of a training of so many steps (FarfieldError if they are none)."""
    if isinstance(given, str | bytes) or not isinstance(given, Iterable):
        raise FarfieldError(f"snapshots = {given!r} must be a list of steps, for example [0, 200]")
    snapshots = tuple(_whole("snapshot", step) for step in itertools.islice(given, MOST_SNAPSHOTS + 1))
    if len(snapshots) > MOST_SNAPSHOTS:
        raise FarfieldError(f"more than {MOST_SNAPSHOTS} snapshots: keep fewer")
    if list(snapshots) != sorted({*snapshots}) or not all(0 <= step <= steps for step in snapshots):
        raise FarfieldError(
            f"snapshots {list(snapshots)} must be numbers of steps from 0 to {steps}, each larger than the one before"
        )
    return snapshots


def _whole(name: str, value: Any) -> int:
    """A Python integer from any kind of integer; nothing is rounded."""
    number = index(value)
    if number is None:
        raise FarfieldError(f"{name} = {value!r} must be a whole number")
    return number


def _real(name: str, value: Any, *, positive: bool) -> float:
    """A number that float32 can hold, not negative and, if ``positive``, not zero."""
    value = plain(value)
    try:
        if isinstance(value, bool):
            raise TypeError
        number = float(value)
        with np.errstate(over="ignore", under="ignore"):
            single = float(np.float32(number))
    except (TypeError, ValueError):
        raise FarfieldError(f"{name} = {value!r} must be a number") from None
    if not 0 <= single < math.inf or (single == 0) != (number == 0) or (positive and number == 0):
        kind = "a positive number" if positive else "a number from 0 up"
        raise FarfieldError(f"{name} = {value} must be {kind}, within the range of float32")
    return number + 0.0  # -0.0 is 0.0
