"""Run cells: those of equal shape share one compiled program and train together, four at a time a core.

On a CPU a chunk of small heads is one array axis of one single-threaded program, and one Python thread a
core runs chunks, since compiled programs release Python's lock: measured on two cores, 0.065 ms a step and head,
against 0.074 with the cells of a chunk one after another. A chunk always has the same number of lanes (the last
is filled up by repeating a cell), so a result never depends on what it was trained beside.
"""

from __future__ import annotations

import functools
import itertools
import os
import threading
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import Future, ThreadPoolExecutor, wait
from dataclasses import replace
from typing import Any, NamedTuple, Protocol

import jax
import jax.numpy as jnp
import numpy as np

from farfield import evaluation, training
from farfield._types import PyTree
from farfield.errors import FarfieldError
from farfield.evaluation import EvaluationShape
from farfield.studies.cells import PARTS, Cell
from farfield.studies.results import CellResult
from farfield.studies.store import Store
from farfield.tasks import Positional, Task

# Counted at tracing, so that a test can assert one compilation a shape.
TRACES: dict[str, int] = {"train": 0, "evaluate": 0}


# Cells that one training run serves, and runs trained side by side in one program.
Lane = list[Cell]
Chunk = list[Lane]


# Most steps that one execution of a program runs.
STRETCH = 500
# Longest sequences whose targets are tabulated.
LONGEST_TABLE = 4096


class Progress(Protocol):
    """What is told of a run's progress; all calls come from one thread at a time."""

    def start(self, total: int, stored: int) -> None:
        """Everything is checked; ``total`` cells are wanted, ``stored`` of them were finished before."""

    def train(self, cells: float) -> None:
        """So much more training is done, in cells: a quarter of the steps of two cells is half a cell."""

    def advance(self) -> None:
        """One more cell is finished."""

    def finish(self) -> None:
        """Nothing more will run, be it that all is done or that something failed."""


class Silent:
    """Progress that nobody hears."""

    def start(self, total: int, stored: int) -> None:
        pass

    def train(self, cells: float) -> None:
        pass

    def advance(self) -> None:
        pass

    def finish(self) -> None:
        pass


def cores() -> int:
    """Processor cores this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def run(
    cells: Iterable[Cell],
    store: Store | None = None,
    *,
    workers: int | None = None,
    progress: Progress | None = None,
) -> list[CellResult]:
    """Train and test cells; those the store holds are read, not run.

    Args:
        cells: what to run; equal cells run once.
        store: where results are kept as they finish. None keeps them in memory only.
        workers: threads, one a core by default.
        progress: told as cells finish.

    Returns:
        One result a cell, in the order given.

    Raises:
        FarfieldError: for a cell that cannot run, before anything runs; for a store that cannot be written.
    """
    wanted = [cell.resolved() for cell in cells]
    different = list(dict.fromkeys(wanted))
    stored = {cell: store.read(cell) for cell in different} if store else {}
    finished = {cell: result for cell, result in stored.items() if result is not None}
    missing = [cell for cell in different if cell not in finished]
    progress = Silent() if progress is None else progress
    lock = threading.Lock()

    def keep(result: CellResult) -> None:
        with lock:
            if store is not None:
                store.write(result)
            finished[result.cell] = result
            progress.advance()

    def train(cells: float) -> None:
        with lock:
            progress.train(cells)

    progress.start(len(different), len(finished))
    try:
        _run_chunks(chunks(missing), workers or cores(), keep, train)
    finally:
        if store is not None:
            store.settle()
        progress.finish()
    return [finished[cell] for cell in wanted]


def chunks(cells: Sequence[Cell]) -> list[Chunk]:
    """Split cells into groups of the same programs, and those into chunks of at most the model's ``lanes``.

    Cells that differ in their tests alone share a lane: they are trained once.
    """
    lanes: dict[Cell, Lane] = {}
    for cell in cells:
        lanes.setdefault(as_trained(cell), []).append(cell)
    groups: dict[Any, list[Lane]] = {}
    for lane in lanes.values():
        groups.setdefault((lane[0].snapshots, *map(program_key, lane)), []).append(lane)
    return [
        group[start : start + group[0][0].model.lanes]
        for group in groups.values()
        for start in range(0, len(group), group[0][0].model.lanes)
    ]


def as_trained(cell: Cell) -> Cell:
    """The cell without what only its tests depend on: equal for cells that are trained alike."""
    return replace(cell, test_positions=cell.positions, lengths=(cell.longest,), sequences=1, evaluation_seed=None)


def program_key(cell: Cell) -> Any:
    """What two cells must share to run in one program: shapes, and the kind of encoding and task."""
    return training_key(cell), evaluation_shape(cell), len(cell.lengths), _structure(cell)


def training_key(cell: Cell) -> Any:
    """The same for training alone."""
    return cell.shape, _structure(as_trained(cell))


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


def _run_chunks(
    chunks: list[Chunk], workers: int, keep: Callable[[CellResult], None], train: Callable[[float], None]
) -> None:
    if not chunks:
        return
    pool = ThreadPoolExecutor(min(workers, len(chunks)))
    futures: list[Future[None]] = [pool.submit(_run_chunk, chunk, keep, train) for chunk in chunks]
    try:
        while not _over(futures):
            pass
    except KeyboardInterrupt:
        pool.shutdown(wait=False, cancel_futures=True)
        raise
    pool.shutdown(wait=True, cancel_futures=True)
    for future in futures:
        if not future.cancelled():
            future.result()


def _over(futures: Sequence[Future[None]]) -> bool:
    """Whether all chunks are done or one has failed, after a second at most.

    A wait without an end would miss a Ctrl-C that comes in the instant before it begins.
    """
    state = wait(futures, timeout=1.0, return_when="FIRST_EXCEPTION")
    return not state.not_done or any(future.exception() for future in state.done)


def _run_chunk(chunk: Chunk, keep: Callable[[CellResult], None], train: Callable[[float], None]) -> None:
    try:
        results = run_chunk(chunk, train)
    except (MemoryError, jax.errors.JaxRuntimeError) as reason:
        if isinstance(reason, jax.errors.JaxRuntimeError) and "RESOURCE_EXHAUSTED" not in str(reason):
            raise
        first = chunk[0][0]
        raise FarfieldError(
            f"out of memory with width {first.model.width}, batch {first.batch}, sequences "
            f"{first.sequences} and lengths up to {max(first.longest, *first.lengths)}: "
            "make one of them smaller, or --workers 1"
        ) from None
    for result in results:
        keep(result)


def run_chunk(chunk: Chunk, progress: Callable[[float], None] = lambda cells: None) -> list[CellResult]:
    """Train up to ``lanes`` models of one program side by side, and run every test that their lanes ask for.

    Args:
        progress: told of training done, in cells.
    """
    missing = chunk[0][0].model.lanes - len(chunk)
    trained = _train(
        [as_trained(lane[0]) for lane in chunk], missing, lambda share: progress(share * sum(map(len, chunk)))
    )
    tested = [
        (column, _test(column, trained.run.parameters, missing))
        for column in (list(cells) for cells in zip(*chunk, strict=True))
    ]
    trained = jax.tree.map(np.asarray, trained)
    return [_result(cell, trained, tests, lane) for column, tests in tested for lane, cell in enumerate(column)]


class Trained(NamedTuple):
    """What training gives, on a leading axis of lanes.

    Attributes:
        run: at its end.
        snapshots: the parameters after each of the cells' ``snapshots``.
    """

    run: training.Run
    snapshots: list[PyTree]


def _train(cells: list[Cell], missing: int, progress: Callable[[float], None]) -> Trained:
    """Train cells of one program, in stretches.

    XLA's processor backend frees what it notes of a loop's turns when the program ends: .35 MB a step of a two-layer
    transformer. A stretch bounds that.
    """
    steps, snapshots = cells[0].steps, cells[0].snapshots
    begin, advance = programs_of_training(cells[0])
    knobs = _stacked([knobs_of(cell) for cell in cells], missing)
    run, draws = begin(knobs)
    kept = {0: run.parameters}
    for start, stop in itertools.pairwise(sorted({*range(0, steps, STRETCH), *snapshots, 0, steps})):
        run = jax.block_until_ready(advance(knobs, draws, run, np.int32(start), np.int32(stop)))
        if stop in snapshots:
            kept[stop] = run.parameters
        progress((stop - start) / steps)
    return Trained(run, [kept[step] for step in snapshots])


def _test(cells: list[Cell], parameters: Any, missing: int) -> Any:
    """The tests of one cell of every lane."""
    lengths = _stacked([jnp.array(cell.lengths, jnp.int32) for cell in cells], missing)
    tests = program_of_tests(cells[0])(parameters, _stacked([knobs_of(cell) for cell in cells], missing), lengths)
    return jax.tree.map(np.asarray, tests)


def _stacked(values: list[Any], missing: int) -> Any:
    """Trees on a common leading axis, the last repeated for lanes that have no cell."""
    return jax.tree.map(lambda *leaves: jnp.stack(leaves), *values, *[values[-1]] * missing)


def _result(cell: Cell, trained: Any, tests: Any, lane: int) -> CellResult:
    def of_lane(tree: Any) -> Any:
        return jax.tree.map(lambda leaf: leaf[lane], tree)

    return CellResult(
        cell=cell,
        parameters=of_lane(trained.run.parameters),
        losses=trained.run.losses[lane],
        correct=tests.correct[lane],
        tested=tests.tested[lane],
        correct_sequences=tests.correct_sequences[lane],
        head_attention=tests.mean_attention[lane],
        head_target_attention=tests.target_attention[lane],
        head_selected=tests.selected[lane],
        snapshots=jax.tree.map(lambda *leaves: np.stack(leaves), *map(of_lane, trained.snapshots))
        if cell.snapshots
        else None,
    )


_compiled: dict[Any, Any] = {}
_compiling = threading.Lock()


def programs_of_training(cell: Cell) -> tuple[Callable[..., Any], Callable[..., Any]]:
    """:func:`training.begin` and :func:`training.advance` for all lanes, compiled at first use."""
    return _once(training_key(cell), lambda: _compile_training(as_trained(cell)))


def program_of_tests(cell: Cell) -> Callable[..., Any]:
    """(parameters, knobs, lengths) to the tests of all lanes, compiled at first use."""
    return _once(program_key(cell), lambda: _compile_tests(cell))


def _once(key: Any, make: Callable[[], Any]) -> Any:
    with _compiling:
        if key not in _compiled:
            _compiled[key] = make()
        return _compiled[key]


def _compile_training(cell: Cell) -> tuple[Callable[..., Any], Callable[..., Any]]:
    shape = cell.shape

    def advance(knobs, draws, run, start, stop):
        TRACES["train"] += 1
        return training.advance(shape, knobs, draws, run, start, stop)

    knobs = _lanes_of(knobs_of(cell), cell)
    begin = jax.jit(jax.vmap(functools.partial(training.begin, shape)))
    run, draws = jax.eval_shape(begin, knobs)
    number = jax.ShapeDtypeStruct((), jnp.int32)
    stretch = jax.jit(jax.vmap(advance, in_axes=(0, 0, 0, None, None))).lower(knobs, draws, run, number, number)
    return begin.lower(knobs).compile(compiler_options()), stretch.compile(compiler_options())


def _compile_tests(cell: Cell) -> Any:
    shape = evaluation_shape(cell)

    def test(parameters, knobs, lengths):
        TRACES["evaluate"] += 1
        return jax.lax.map(lambda lane: evaluation.evaluate(shape, *lane), (parameters, knobs, lengths))

    parameters = jax.eval_shape(lambda knobs: training.initial_parameters(cell.shape, knobs), cell.knobs)
    lengths = jax.ShapeDtypeStruct((len(cell.lengths),), jnp.int32)
    arguments = _lanes_of((parameters, knobs_of(cell), lengths), cell)
    return jax.jit(test).lower(*arguments).compile(compiler_options())


def _lanes_of(tree: Any, cell: Cell) -> Any:
    """Shapes of one lane as those of all lanes."""
    return jax.tree.map(lambda leaf: jax.ShapeDtypeStruct((cell.model.lanes, *leaf.shape), leaf.dtype), tree)


def compiler_options() -> dict[str, Any]:
    """XLA settings: on a CPU one thread a program, as threads run programs side by side, and wide vectors."""
    if jax.default_backend() != "cpu":
        return {}
    return {"xla_cpu_multi_thread_eigen": False, "xla_cpu_prefer_vector_width": 512}
