"""The rules of tasks."""

from __future__ import annotations

import json
import math
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from farfield.environment import settled
from farfield.errors import FarfieldError
from farfield.tasks import Batch, Task, tasks
from farfield.tasks.base import NO_TARGET
from farfield.testing._compare import close, ensure, same
from farfield.testing._programs import as_arrays, compiled, double_precision, settings_of, traced_fields, with_settings
from farfield.testing._rules import Rules

VOCABULARY = 20
POSITIONS = 32
MOST = 100
# Standard deviations by which a count may miss its expectation. All draws are fixed, so nothing fails by chance twice.
DEVIATIONS = 4.5

TASK_RULES = Rules(tasks)
rule = TASK_RULES.rule


@settled
def check_task(
    task: Task, *, only: Iterable[str] | None = None, vocabulary: int = VOCABULARY, positions: int = POSITIONS
) -> None:
    """Hold a task to the rules of all tasks.

    >>> from farfield.testing import check_task
    >>> from farfield.tasks import tasks
    >>> check_task(tasks.get("offset", offset=2), only=["interface", "target"])

    Args:
        only: names of the rules to run, of ``TASK_RULES``; by default all.
        vocabulary: tokens that the task needs; enough for most.
        positions: what batches are padded to, at least 16; larger where the task needs longer sequences.

    Raises:
        BrokenRule: with a line for each rule that the task breaks.
        FarfieldError: for an unknown rule.
    """
    TASK_RULES.check(_Trial(task, vocabulary, positions), only)


def allows(task: Task, vocabulary: int, shortest: int, longest: int | None = None) -> bool:
    """Whether the task accepts these sizes."""
    try:
        task.check(vocabulary, shortest, longest)
    except FarfieldError:
        return False
    return True


def least_length(task: Task, vocabulary: int = VOCABULARY) -> int:
    """Shortest sequences that the task accepts.

    Raises:
        FarfieldError: if it accepts none.
    """
    found = next((length for length in range(1, MOST) if allows(task, vocabulary, length)), None)
    if found is None:
        raise FarfieldError(f"no length below {MOST} is allowed with a vocabulary of {vocabulary}")
    return found


def least_vocabulary(task: Task, vocabulary: int = VOCABULARY) -> int:
    """Fewest tokens that the task accepts at the shortest length of a vocabulary that it accepts."""
    length = least_length(task, vocabulary)
    return next(tokens for tokens in range(2, MOST) if allows(task, tokens, length))


_draw = compiled(
    lambda task, key, length, positions, sequences, vocabulary: task.draw(
        key, length, positions, sequences, vocabulary
    ),
    static_argnames=("positions", "sequences", "vocabulary"),
)


def drawn(
    task: Task,
    seed: int = 0,
    length: int = 12,
    positions: int = POSITIONS,
    sequences: int = 64,
    vocabulary: int = VOCABULARY,
) -> Batch:
    """A batch as numpy arrays; the program is compiled once for every length and setting."""
    sizes = {"positions": positions, "sequences": sequences, "vocabulary": vocabulary}
    return jax.tree.map(np.asarray, _draw(as_arrays(task), jax.random.key(seed), jnp.int32(length), **sizes))


@dataclass(frozen=True)
class _Trial:
    """A task under test."""

    entry: Task
    vocabulary: int
    positions: int

    @property
    def least(self) -> int:
        """Shortest allowed length."""
        return least_length(self.entry, self.vocabulary)

    @property
    def length(self) -> int:
        """A length of usual size that is allowed."""
        return max(12, self.least)

    @property
    def lengths(self) -> list[int]:
        """The shortest allowed lengths, with every remainder of division by three, and a padded batch's own length."""
        return [*range(self.least, self.least + 3), self.positions]

    def drawn(self, **sizes: Any) -> Batch:
        usual = {"length": self.length, "positions": self.positions, "vocabulary": self.vocabulary}
        return drawn(self.entry, **(usual | sizes))


@rule()
def interface(trial: _Trial) -> None:
    """A batch has the shapes and types of the interface."""
    batch = trial.drawn()
    for name, array in zip(Batch._fields, batch, strict=True):
        ensure(array.shape == (trial.positions, 64), f"{name} of shape {array.shape}")
        wanted = np.dtype(bool if name == "supervised" else np.int32)
        ensure(array.dtype == wanted, f"{name} of type {array.dtype}, where {wanted} is due")


@rule()
def double_draws(trial: _Trial) -> None:
    """Double precision changes neither the draws nor their types."""
    expected = trial.drawn()
    with double_precision():
        batch = trial.drawn()
    for name, array, before in zip(Batch._fields, batch, expected, strict=True):
        ensure(array.dtype == before.dtype, f"{name} of types {array.dtype} and {before.dtype}")
        same(array, before, f"{name} in double and in single precision")


@rule()
def vocabulary(trial: _Trial) -> None:
    """Tokens and answers are of the vocabulary at every row, and padding is never supervised."""
    for length in trial.lengths:
        batch = trial.drawn(length=length)
        for name in ("tokens", "answers"):
            array = getattr(batch, name)
            inside = array.min() >= 0 and array.max() < trial.vocabulary
            ensure(inside, f"{name} from {array.min()} to {array.max()} of {trial.vocabulary} at length {length}")
        ensure(not batch.supervised[length:].any(), f"supervised rows behind the length {length}")


@rule()
def supervision(trial: _Trial) -> None:
    """The same rows of every sequence are supervised, at least one, the last alone where `rows` says so."""
    for length in trial.lengths:
        supervised = trial.drawn(length=length).supervised
        ensure(supervised.any(axis=0).all(), f"no supervised row at length {length}")
        ensure((supervised == supervised[:, :1]).all(), f"rows that differ between sequences at length {length}")
        found = supervised[:, 0].nonzero()[0].tolist()
        ensure(trial.entry.rows != "last" or found == [length - 1], f"rows {found} at length {length}")


@rule()
def target(trial: _Trial) -> None:
    """A target holds the answer and is no later than its row."""
    for length in trial.lengths:
        batch = trial.drawn(length=length)
        ensure((batch.targets[~batch.supervised] == NO_TARGET).all(), "a target of a row that is not supervised")
        rows, columns = np.nonzero(batch.targets != NO_TARGET)
        targets = batch.targets[rows, columns]
        ensure((targets >= 0).all(), "a target before the sequence")
        late = targets > rows
        ensure(not late.any(), f"target {targets[late][:1].sum()} of row {rows[late][:1].sum()} at length {length}")
        same(batch.tokens[targets, columns], batch.answers[rows, columns], "tokens of targets and answers")
        # A task either has a target at all supervised rows or at none.
        ensure(len(rows) in (0, batch.supervised.sum()), f"targets at {len(rows)} of {batch.supervised.sum()} rows")


@rule()
def repeatable(trial: _Trial) -> None:
    """Draws repeat from their key, in two programs too, and change with it."""
    first, again, other = (trial.drawn(seed=seed) for seed in (3, 3, 4))
    # Traced anew, so that what a trace has fixed is not taken for what the task says.
    anew = compiled(lambda key, length: trial.entry.draw(key, length, trial.positions, 64, trial.vocabulary))
    for batch in (again, anew(jax.random.key(3), jnp.int32(trial.length))):
        for name, one, two in zip(Batch._fields, first, batch, strict=True):
            same(two, one, f"{name} of two draws with one key")
    different = (first.tokens[: trial.length] != other.tokens[: trial.length]).any(axis=0).mean()
    ensure(different > 0.5, f"{different:.0%} of sequences that differ between two keys")


@rule()
def known_sizes(trial: _Trial) -> None:
    """A length and settings known beforehand give the same batch as traced ones."""
    task, length, sizes = trial.entry, trial.length, (trial.positions, 64, trial.vocabulary)
    known = compiled(lambda key: task.draw(key, length, *sizes))(jax.random.key(0))  # pyright: ignore[reportArgumentType]
    for name, array, traced in zip(Batch._fields, known, trial.drawn(), strict=True):
        same(array, traced, f"{name} with known and with traced sizes")


@rule()
def batched(trial: _Trial) -> None:
    """A seed alone, among eight or in another order sees the same batches, with settings swept beside it.

    jax issue 7708 and functorch issue 996: what a run sees must not depend on which others it runs with.
    """
    task = as_arrays(trial.entry)
    alone = trial.drawn(seed=3)

    def one(seed: Any, length: Any, settings: Any) -> Batch:
        task = with_settings(trial.entry, settings)
        return task.draw(jax.random.key(seed), length, trial.positions, 64, trial.vocabulary)

    together = compiled(jax.vmap(one))
    # Lengths are traced, and settings too, as they are in a sweep.
    sizes = jnp.full(8, trial.length, jnp.int32)
    settings = jax.tree.map(lambda leaf: jnp.broadcast_to(leaf, (8,)), settings_of(task))
    for seeds in (list(range(8)), [9, 3, 1, 0, 7, 5, 4, 2]):
        batches = together(jnp.array(seeds, jnp.uint32), sizes, settings)
        for name, array, expected in zip(Batch._fields, batches, alone, strict=True):
            same(array[seeds.index(3)], expected, f"{name} among eight seeds and alone")


@rule(lambda task: task.padding_invariant)
def independent_of_padding(trial: _Trial) -> None:
    """Padding further leaves the sequences as they were, where the task claims it."""
    tight = trial.length + 1
    for length in (trial.least, trial.length, tight):
        short, wide = trial.drawn(length=length, positions=tight), trial.drawn(length=length)
        for name, array, padded in zip(Batch._fields, short, wide, strict=True):
            same(array[:length], padded[:length], f"{name} of length {length} in two paddings")


@rule()
def sample_space_counted(trial: _Trial) -> None:
    """All sequences of a small sample space and no others are drawn, and the chance level is counted over them."""
    task, least = trial.entry, trial.least
    tokens = least_vocabulary(task, trial.vocabulary) + 1
    counted = 0
    for length in range(least, least + 4):
        space = task.sample_space(tokens, length)
        if space > 600 or not allows(task, tokens, length):
            continue
        # The chance that a given sequence is missed is exp(-20).
        batch = trial.drawn(length=length, positions=least + 4, sequences=2**14, vocabulary=tokens)
        _, first = np.unique(batch.tokens[:length], axis=1, return_index=True)
        ensure(len(first) == space, f"{len(first)} different sequences of length {length} where {space:g} are said")
        answers = batch.answers[batch.supervised[:, 0]][:, first]
        best = np.mean([np.bincount(row).max() / space for row in answers])
        chance = task.chance(tokens, length)
        ensure(math.isclose(chance, best, rel_tol=1e-9), f"chance {chance:g} for {best:g} at length {length}")
        counted += 1
    ensure(counted, "no sample space of at most 600 sequences at the shortest lengths")


@rule()
def equally_likely(trial: _Trial) -> None:
    """All sequences of the sample space are equally likely."""
    length, tokens = trial.least, least_vocabulary(trial.entry, trial.vocabulary) + 1
    batch = trial.drawn(length=length, positions=length + 4, vocabulary=tokens, sequences=2**14)
    _, counts = np.unique(batch.tokens[:length], axis=1, return_counts=True)
    freedom = len(counts) - 1
    ensure(freedom > 0, "a single sequence")
    statistic = ((counts - counts.mean()) ** 2 / counts.mean()).sum()
    off = abs(statistic - freedom) / math.sqrt(2 * freedom)
    ensure(off < DEVIATIONS, f"a chi-square statistic {off:.1f} standard deviations off")


@rule()
def large_sample_space(trial: _Trial) -> None:
    """The sample space of a long sequence is a number of at least one, or infinite."""
    for length, tokens in ((500, 1024), (2**24, 20)):
        space = trial.entry.sample_space(tokens, length)
        ensure(isinstance(space, float), f"{type(space).__name__} for a float at length {length}")
        ensure(space >= 1 or not allows(trial.entry, tokens, length), f"{space:g} sequences of length {length}")


@rule()
def chance_level(trial: _Trial) -> None:
    """The chance level is what the best guess that does not see the sequence gets."""
    sequences = 2**13
    for length in trial.lengths:
        chance = trial.entry.chance(trial.vocabulary, length)
        # Guesses are chosen on one batch and scored on another, or luck would flatter them.
        batch, test = (trial.drawn(seed=seed, length=length, sequences=sequences) for seed in (1, 2))
        rows = np.nonzero(batch.supervised[:, 0])[0]
        guess = np.array([np.bincount(batch.answers[row], minlength=trial.vocabulary).argmax() for row in rows])
        answers = test.answers[test.supervised[:, 0]]
        right = (answers == guess[:, None]).mean()
        # Rows of a sequence may depend on each other, so that each sequence counts once.
        slack = DEVIATIONS * math.sqrt(chance * (1 - chance) / sequences)
        # Choosing among near-equals by a finite batch may cost as much again.
        said = f"{right:.4f} right where chance is {chance:.4f} at length {length}"
        ensure(chance - 2 * slack <= right <= chance + slack, said)
        constant = max((answers == token).mean() for token in range(trial.vocabulary))
        ensure(constant <= chance + slack, f"{constant:.4f} right by one token where chance is {chance:.4f}")


@rule()
def chance_is_a_proportion(trial: _Trial) -> None:
    """The chance level lies between zero and one at every length."""
    for length in (*range(trial.least, 36), 500, 2**16):
        if allows(trial.entry, trial.vocabulary, length):
            chance = trial.entry.chance(trial.vocabulary, length)
            ensure(0 < chance < 1, f"{chance} at length {length}")


@rule()
def what_is_allowed(trial: _Trial) -> None:
    """What is allowed stays allowed with more tokens and for the lengths between."""
    random = np.random.default_rng(0)
    for _ in range(30):
        tokens, shortest, more = (int(random.integers(*ends)) for ends in ((2, 41), (1, 61), (0, 31)))
        if not allows(trial.entry, tokens, shortest, shortest + more):
            continue
        sizes = f"lengths from {shortest} to {shortest + more}"
        ensure(
            allows(trial.entry, tokens + 1, shortest, shortest + more), f"{sizes} with {tokens} tokens, not one more"
        )
        for length in range(shortest, shortest + more + 1):
            ensure(allows(trial.entry, tokens, length), f"{sizes} with {tokens} tokens, not length {length}")


@rule()
def configuration(trial: _Trial) -> None:
    """The configuration survives JSON, the task is hashable, and its traced settings are its data."""
    task = trial.entry
    again = tasks.from_config(json.loads(json.dumps(tasks.config(task))))
    ensure(again == task, f"{again} from the configuration of {task}")
    ensure(hash(again) == hash(task), "another hash")
    ensure(len(jax.tree.leaves(task)) == len(traced_fields(task)), f"leaves {jax.tree.leaves(task)}")


@rule()
def coupled_positions(trial: _Trial) -> None:
    """Coupled positions, if any, count from one, leave zero to filler and do not depend on the padding."""
    couple = compiled(
        lambda task, length, positions: task.coupled_positions(length, positions), static_argnames="positions"
    )
    if trial.entry.coupled_positions(jnp.int32(trial.length), trial.length + 1) is None:
        return
    for length in trial.lengths:
        positions = np.asarray(trial.entry.coupled_positions(jnp.int32(length), trial.positions))
        ensure(positions.shape == (trial.positions,), f"positions of shape {positions.shape}")
        ensure(positions.dtype == np.int32, f"positions of type {positions.dtype}")
        filler = trial.drawn(length=length).tokens[:length, 0] == trial.vocabulary - 1
        ensure((positions[:length][filler] == 0).all(), f"positions of filler at length {length}")
        least = positions[:length][~filler].min()
        ensure(least == 1, f"positions from {least} at length {length}")
        wide = couple(trial.entry, jnp.int32(length), positions=trial.positions + 9)
        close(wide[:length], positions[:length], f"positions of length {length} in two paddings")
