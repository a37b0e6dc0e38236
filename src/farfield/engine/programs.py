"""Compiled programs: which cells can share one, and training and testing a chunk of them with it.

Cells of equal shape share one program and train together, four heads at a time. On a CPU a chunk of small heads is one
array axis of one single-threaded program: measured on two cores, 0.065 ms a step and head, against 0.074 with the cells
of a chunk one after another. A chunk always has the same number of lanes (the last is filled up by repeating a cell),
so a result never depends on what it was trained beside. Measured on a CPU, heads trained two at a time, as where memory
was short, are those of four bit for bit; one at a time they differ in the last bits from the first steps on.
"""

from __future__ import annotations

import functools
import gc
import itertools
import threading
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any, Protocol, runtime_checkable

import jax
import jax.numpy as jnp
import numpy as np

from farfield import evaluation, training
from farfield.cell import PARTS, Cell
from farfield.environment import settled
from farfield.evaluation import EvaluationShape
from farfield.results.result import CellResult
from farfield.tasks import Positional, Task
from farfield.training import Trained

# Counted at tracing, so that a test can assert one compilation a shape.
TRACES: dict[str, int] = {"train": 0, "evaluate": 0}

# Cells that one training run serves, and runs trained side by side in one program.
Lane = list[Cell]
Chunk = list[Lane]

# Most steps that one execution of a program runs.
STRETCH = 500
# Longest sequences whose targets are tabulated.
LONGEST_TABLE = 4096


@settled
def chunks(cells: Sequence[Cell]) -> list[Chunk]:
    """Split cells into groups of the same programs, and those into chunks of at most the model's ``lanes``.

    Cells that differ in their tests alone share a lane: they are trained once.
    """
    lanes: dict[Cell, Lane] = {}
    for cell in cells:
        lanes.setdefault(cell.as_trained(), []).append(cell)
    groups: dict[Any, list[Lane]] = {}
    for lane in lanes.values():
        groups.setdefault((lane[0].snapshots, *map(program_key, lane)), []).append(lane)
    return [
        group[start : start + group[0][0].model.lanes]
        for group in groups.values()
        for start in range(0, len(group), group[0][0].model.lanes)
    ]


def program_key(cell: Cell) -> Any:
    """What two cells must share to run in one program: shapes, and the kind of encoding and task."""
    return training_key(cell), evaluation_shape(cell), len(cell.lengths), _structure(cell)


def training_key(cell: Cell) -> Any:
    """The same for training alone."""
    return cell.shape, _structure(cell.as_trained())


def _structure(cell: Cell) -> Any:
    parts = {part: getattr(cell, part) for part in PARTS}
    return jax.tree.structure(parts | {"task": _task(cell)})


def knobs_of(cell: Cell) -> training.Knobs:
    """The cell's knobs as its programs take them."""
    return replace(cell.knobs, task=jax.tree.map(jnp.asarray, _task(cell)))


def _task(cell: Cell) -> Task:
    """A positional task's targets as a table, where they are few, so that such tasks share a program."""
    reach = max(cell.longest, *cell.lengths)
    if isinstance(cell.task, Positional) and reach <= LONGEST_TABLE:
        return _tabulated(cell.task, reach)
    return cell.task


@functools.lru_cache(maxsize=1024)
def _tabulated(task: Positional, reach: int) -> Positional:
    return task.tabulated(reach)


def evaluation_shape(cell: Cell) -> EvaluationShape:
    """What decides the evaluation program of a cell."""
    return EvaluationShape(
        model=cell.model,
        vocabulary=cell.vocabulary,
        sequences=cell.sequences,
        longest=max(cell.lengths),
        trained=cell.longest,
        streams=cell.streams,
        path=cell.shape.path,
    )


@runtime_checkable
class Keeper(Protocol):
    """Where training under way is kept, so that it goes on after a stop."""

    def load(self, cell: Cell, like: Trained) -> tuple[int, Trained] | None:
        """The step and state that a training of ``cell`` had reached, in the shape of ``like``; None for none."""
        ...

    def save(self, cell: Cell, step: int, state: Trained) -> None:
        """Keep it."""
        ...


@settled
def run_chunk(
    chunk: Chunk,
    progress: Callable[[float], None] = lambda cells: None,
    *,
    lanes: int | None = None,
    keeper: Keeper | None = None,
) -> list[CellResult]:
    """Train models of one program side by side, and run every test that their lanes ask for.

    Args:
        chunk: at most ``lanes`` lanes.
        progress: told of training done, in cells.
        lanes: models side by side, the model's own number by default; fewer take less memory.
        keeper: of training under way, for models that train alone.
    """
    lanes = lanes or chunk[0][0].model.lanes
    trained = _train(
        [lane[0].as_trained() for lane in chunk], lanes, lambda share: progress(share * sum(map(len, chunk))), keeper
    )
    tested = [
        (column, _test(column, trained.run.parameters, lanes))
        for column in (list(cells) for cells in zip(*chunk, strict=True))
    ]
    trained = jax.tree.map(np.asarray, trained)
    return [_result(cell, trained, tests, lane) for column, tests in tested for lane, cell in enumerate(column)]


def _train(cells: list[Cell], lanes: int, progress: Callable[[float], None], keeper: Keeper | None) -> Trained:
    """Train cells of one program, in stretches.

    XLA's processor backend frees what it notes of a loop's turns when the program ends: .35 MB a step of a two-layer
    transformer. A stretch bounds that, and ends where a model that trains alone is kept on the way.
    """
    steps, snapshots = cells[0].steps, cells[0].snapshots
    keeper = keeper if cells[0].model.lanes == 1 and steps > STRETCH else None
    begin, advance = programs_of_training(cells[0], lanes)
    knobs = _stacked([knobs_of(cell) for cell in cells], lanes)
    run, draws = begin(knobs)
    state, reached = Trained(run, [run.parameters] * snapshots.count(0)), 0
    if keeper is not None and (found := keeper.load(cells[0], Trained(run, [run.parameters] * len(snapshots)))):
        reached, state = found
        progress(reached / steps)
    ends = {*range(0, steps, STRETCH), *snapshots, steps}
    for start, stop in itertools.pairwise(sorted({reached, *(end for end in ends if end > reached)})):
        run = jax.block_until_ready(advance(knobs, draws, state.run, np.int32(start), np.int32(stop)))
        state = Trained(run, [*state.snapshots, *[run.parameters] * (stop in snapshots)])
        progress((stop - start) / steps)
        if keeper is not None and stop < steps:
            keeper.save(cells[0], stop, state)
    return state


def _test(cells: list[Cell], parameters: Any, lanes: int) -> Any:
    """The tests of one cell of every lane."""
    lengths = _stacked([jnp.array(cell.lengths, jnp.int32) for cell in cells], lanes)
    knobs = _stacked([knobs_of(cell) for cell in cells], lanes)
    return jax.tree.map(np.asarray, program_of_tests(cells[0], lanes)(parameters, knobs, lengths))


def _stacked(values: list[Any], lanes: int) -> Any:
    """Trees on a common leading axis, the last repeated for lanes that have no cell."""
    return jax.tree.map(lambda *leaves: jnp.stack(leaves), *values, *[values[-1]] * (lanes - len(values)))


def _result(cell: Cell, trained: Any, tests: Any, lane: int) -> CellResult:
    def of_lane(tree: Any) -> Any:
        return jax.tree.map(lambda leaf: leaf[lane], tree)

    return CellResult(
        cell=cell,
        parameters=of_lane(trained.run.parameters),
        losses=trained.run.losses[lane],
        correct=tests.correct[lane],
        tested=tests.tested[lane],
        unanswered=tests.unanswered[lane],
        correct_sequences=tests.correct_sequences[lane],
        clusters=tests.clusters[lane],
        wrong_moments=tests.wrong_moments[lane],
        head_attention=tests.mean_attention[lane],
        head_attention_error=tests.attention_error[lane],
        head_target_attention=tests.target_attention[lane],
        head_selected=tests.selected[lane],
        head_wrong_selected=tests.wrong_selected[lane],
        snapshots=jax.tree.map(lambda *leaves: np.stack(leaves), *map(of_lane, trained.snapshots))
        if cell.snapshots
        else None,
    )


_compiled: dict[Any, _Compiled] = {}


@settled
def programs_of_training(cell: Cell, lanes: int | None = None) -> tuple[Callable[..., Any], Callable[..., Any]]:
    """:func:`training.begin` and :func:`training.advance` for all lanes, compiled at first use."""
    lanes = lanes or cell.model.lanes
    return _once((lanes, training_key(cell)), lambda: _compile_training(cell.as_trained(), lanes))


@settled
def program_of_tests(cell: Cell, lanes: int | None = None) -> Callable[..., Any]:
    """(parameters, knobs, lengths) to the tests of all lanes, compiled at first use."""
    lanes = lanes or cell.model.lanes
    return _once((lanes, program_key(cell)), lambda: _compile_tests(cell, lanes))


def forget_programs() -> None:
    """Give back the memory of all compiled programs; those that are needed again are compiled again."""
    _compiled.clear()
    jax.clear_caches()
    gc.collect()


class _Compiled:
    """A program that is compiled once, by the first thread that needs it, while others compile others."""

    def __init__(self) -> None:
        self.lock = threading.Lock()
        self.program: Any = None


def _once(key: Any, make: Callable[[], Any]) -> Any:
    entry = _compiled.setdefault(key, _Compiled())
    with entry.lock:
        if entry.program is None:
            entry.program = make()
        return entry.program


def _compile_training(cell: Cell, lanes: int) -> tuple[Callable[..., Any], Callable[..., Any]]:
    shape = cell.shape

    def advance(knobs, draws, run, start, stop):
        TRACES["train"] += 1
        return training.advance(shape, knobs, draws, run, start, stop)

    knobs = _lanes_of(knobs_of(cell), lanes)
    begin = jax.jit(jax.vmap(functools.partial(training.begin, shape)))
    run, draws = jax.eval_shape(begin, knobs)
    number = jax.ShapeDtypeStruct((), jnp.int32)
    stretch = jax.jit(jax.vmap(advance, in_axes=(0, 0, 0, None, None))).lower(knobs, draws, run, number, number)
    return begin.lower(knobs).compile(compiler_options()), stretch.compile(compiler_options())


def _compile_tests(cell: Cell, lanes: int) -> Any:
    shape = evaluation_shape(cell)

    def test(parameters, knobs, lengths):
        TRACES["evaluate"] += 1
        return jax.lax.map(lambda lane: evaluation.evaluate(shape, *lane), (parameters, knobs, lengths))

    parameters = jax.eval_shape(lambda knobs: training.initial_parameters(cell.shape, knobs), cell.knobs)
    lengths = jax.ShapeDtypeStruct((len(cell.lengths),), jnp.int32)
    arguments = _lanes_of((parameters, knobs_of(cell), lengths), lanes)
    return jax.jit(test).lower(*arguments).compile(compiler_options())


def _lanes_of(tree: Any, lanes: int) -> Any:
    """Shapes of one lane as those of all lanes."""
    return jax.tree.map(lambda leaf: jax.ShapeDtypeStruct((lanes, *leaf.shape), leaf.dtype), tree)


def compiler_options() -> dict[str, Any]:
    """XLA settings: on a CPU one thread a program, as threads run programs side by side, and wide vectors."""
    if jax.default_backend() != "cpu":
        return {}
    return {"xla_cpu_multi_thread_eigen": False, "xla_cpu_prefer_vector_width": 512}
