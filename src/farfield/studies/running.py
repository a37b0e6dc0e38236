"""Run cells: those of equal shape share one compiled program and train together, four at a time a core.

On a CPU a chunk of small heads is one array axis of one single-threaded program, and one Python thread a
core runs chunks, since compiled programs release Python's lock: measured on two cores, 0.065 ms a step and head,
against 0.074 with the cells of a chunk one after another. A chunk always has the same number of lanes (the last
is filled up by repeating a cell), so a result never depends on what it was trained beside.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import Future, ThreadPoolExecutor, wait
from typing import Any, NamedTuple, Protocol

import jax
import jax.numpy as jnp
import numpy as np

from farfield import evaluation, training
from farfield.errors import FarfieldError
from farfield.evaluation import EvaluationShape
from farfield.studies.cells import PARTS, Cell
from farfield.studies.results import CellResult
from farfield.studies.store import Store

# Counted at tracing, so that a test can assert one compilation a shape.
TRACES: dict[str, int] = {"train": 0, "evaluate": 0}


class Progress(Protocol):
    """What is told of a run's progress; all calls come from one thread at a time."""

    def start(self, total: int, stored: int) -> None:
        """Everything is checked; ``total`` cells are wanted, ``stored`` of them were finished before."""

    def advance(self) -> None:
        """One more cell is finished."""

    def finish(self) -> None:
        """Nothing more will run, be it that all is done or that something failed."""


class Silent:
    """Progress that nobody hears."""

    def start(self, total: int, stored: int) -> None:
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

    progress.start(len(different), len(finished))
    try:
        _run_chunks(chunks(missing), workers or cores(), keep)
    finally:
        progress.finish()
    return [finished[cell] for cell in wanted]


def chunks(cells: Sequence[Cell]) -> list[list[Cell]]:
    """Split cells into groups of one program, and those into chunks of at most the model's ``lanes``."""
    groups: dict[Any, list[Cell]] = {}
    for cell in cells:
        groups.setdefault(program_key(cell), []).append(cell)
    return [
        group[start : start + group[0].model.lanes]
        for group in groups.values()
        for start in range(0, len(group), group[0].model.lanes)
    ]


def program_key(cell: Cell) -> Any:
    """What two cells must share to run in one program: shapes, and the kind of encoding and task."""
    structure = jax.tree.structure([getattr(cell, part) for part in PARTS])
    return cell.shape, evaluation_shape(cell), len(cell.lengths), structure


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


def _run_chunks(chunks: list[list[Cell]], workers: int, keep: Callable[[CellResult], None]) -> None:
    if not chunks:
        return
    pool = ThreadPoolExecutor(min(workers, len(chunks)))
    futures: list[Future[None]] = [pool.submit(_run_chunk, chunk, keep) for chunk in chunks]
    try:
        wait(futures, return_when="FIRST_EXCEPTION")
    except KeyboardInterrupt:
        pool.shutdown(wait=False, cancel_futures=True)
        raise
    pool.shutdown(wait=True, cancel_futures=True)
    for future in futures:
        if not future.cancelled():
            future.result()


def _run_chunk(chunk: list[Cell], keep: Callable[[CellResult], None]) -> None:
    try:
        results = run_chunk(chunk)
    except (MemoryError, jax.errors.JaxRuntimeError) as reason:
        if isinstance(reason, jax.errors.JaxRuntimeError) and "RESOURCE_EXHAUSTED" not in str(reason):
            raise
        raise FarfieldError(
            f"out of memory with width {chunk[0].model.width}, batch {chunk[0].batch}, sequences "
            f"{chunk[0].sequences} and lengths up to {max(chunk[0].longest, *chunk[0].lengths)}: "
            "make one of them smaller, or --workers 1"
        ) from None
    for result in results:
        keep(result)


def run_chunk(chunk: list[Cell]) -> list[CellResult]:
    """Train and test up to ``lanes`` cells of one program, side by side."""
    lanes = chunk + [chunk[-1]] * (chunk[0].model.lanes - len(chunk))
    knobs = jax.tree.map(lambda *values: jnp.stack(values), *(cell.knobs for cell in lanes))
    lengths = jnp.array([cell.lengths for cell in lanes], jnp.int32)
    train, test = programs(chunk[0])
    trained = train(knobs)
    tests = test(trained.parameters, knobs, lengths)
    trained, tests = jax.tree.map(np.asarray, (trained, tests))
    return [
        CellResult(
            cell=cell,
            parameters=jax.tree.map(lambda leaf, lane=lane: leaf[lane], trained.parameters),
            losses=trained.losses[lane],
            correct=tests.correct[lane],
            tested=tests.tested[lane],
            correct_sequences=tests.correct_sequences[lane],
            head_attention=tests.mean_attention[lane],
            head_target_attention=tests.target_attention[lane],
            head_selected=tests.selected[lane],
            snapshots=jax.tree.map(lambda leaf, lane=lane: leaf[lane], trained.snapshots) if cell.snapshots else None,
        )
        for lane, cell in enumerate(chunk)
    ]


class Programs(NamedTuple):
    """Compiled programs: knobs to what training gives, and (parameters, knobs, lengths) to tests."""

    train: Callable[..., Any]
    test: Callable[..., Any]


_compiled: dict[Any, Programs] = {}
_compiling = threading.Lock()


def programs(cell: Cell) -> Programs:
    """The two programs of a cell's group, compiled at first use."""
    key = program_key(cell)
    with _compiling:
        if key not in _compiled:
            _compiled[key] = _compile(cell)
        return _compiled[key]


def _compile(cell: Cell) -> Programs:
    shape, tests, lanes = cell.shape, evaluation_shape(cell), cell.model.lanes

    def train(knobs):
        TRACES["train"] += 1
        return training.train(shape, knobs)

    def test(parameters, knobs, lengths):
        TRACES["evaluate"] += 1
        return jax.lax.map(lambda lane: evaluation.evaluate(tests, *lane), (parameters, knobs, lengths))

    knobs = jax.tree.map(lambda value: jax.ShapeDtypeStruct((lanes, *value.shape), value.dtype), cell.knobs)
    lengths = jax.ShapeDtypeStruct((lanes, len(cell.lengths)), jnp.int32)
    options = compiler_options()
    train_lanes = jax.jit(jax.vmap(train))
    compiled_train = train_lanes.lower(knobs).compile(compiler_options=options)
    parameters = jax.eval_shape(train_lanes, knobs).parameters
    compiled_test = jax.jit(test).lower(parameters, knobs, lengths).compile(compiler_options=options)
    return Programs(compiled_train, compiled_test)


def compiler_options() -> dict[str, Any]:
    """XLA settings: on a CPU one thread a program, as threads run programs side by side, and wide vectors."""
    if jax.default_backend() != "cpu":
        return {}
    return {"xla_cpu_multi_thread_eigen": False, "xla_cpu_prefer_vector_width": 512}
