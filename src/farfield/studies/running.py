"""Run cells: those the store lacks, chunk by chunk, on an engine, so that no failure takes more than its own cells."""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable, Iterable
from concurrent.futures import Future, wait
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import jax

from farfield.errors import FarfieldError
from farfield.studies.cells import Cell
from farfield.studies.checkpoints import Checkpoints
from farfield.studies.engines import Engine, engine
from farfield.studies.programs import Chunk, chunks, run_chunk
from farfield.studies.progress import Progress, Silent
from farfield.studies.results import CellResult
from farfield.studies.store import Store

# Workers that a chunk may outlive before it is taken to be what kills them.
MOST_DEATHS = 5


class Failure(NamedTuple):
    """A cell that has no result, why in words, and the error behind it."""

    cell: Cell
    reason: str
    cause: BaseException


@dataclass(frozen=True)
class Outcome:
    """What a run came to.

    Attributes:
        total: different cells wanted.
        stored: of them, finished before.
        failures: cells without a result.
        diverged: cells whose training ended in a loss that is not a number; their results are kept as such.
    """

    total: int
    stored: int
    failures: tuple[Failure, ...]
    diverged: tuple[Cell, ...]


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
        FarfieldError: for a cell that cannot run, before anything runs; for a store that cannot be written; for the
            first cell that failed, once the others are done.
    """
    wanted = [cell.resolved() for cell in cells]
    different = list(dict.fromkeys(wanted))
    stored = {cell: store.read(cell) for cell in different} if store else {}
    finished = {cell: result for cell, result in stored.items() if result is not None}

    def keep(result: CellResult) -> None:
        finished[result.cell] = result

    missing = [cell for cell in different if cell not in finished]
    with engine("local", workers=workers) as threads:
        outcome = complete(missing, len(finished), store, threads, progress, keep)
    if outcome.failures:
        _, reason, cause = outcome.failures[0]
        raise cause if _unexpected(cause) else FarfieldError(reason) from None
    return [finished[cell] for cell in wanted]


def complete(
    missing: list[Cell],
    stored: int,
    store: Store | None,
    on: Engine,
    progress: Progress | None = None,
    keep: Callable[[CellResult], None] = lambda result: None,
) -> Outcome:
    """Run different, resolved cells that a store lacks.

    Chunks whose worker died run again elsewhere; a chunk out of memory is halved; what fails otherwise is told of at
    the end, and the rest goes on. A cell that another process has stored meanwhile is left to it.

    Args:
        stored: cells that were finished before, for the progress.
        keep: given each result, also of cells that another process has stored.

    Raises:
        FarfieldError: for a store that cannot be written.
    """
    progress = Silent() if progress is None else progress
    work = _Work(store, on, progress, keep)
    progress.start(len(missing) + stored, stored)
    try:
        work.through([_Job(chunk, chunk[0][0].model.lanes) for chunk in chunks(missing)])
    finally:
        if store is not None:
            store.settle()
        progress.finish()
    return Outcome(len(missing) + stored, stored, tuple(work.failures), tuple(work.diverged))


@dataclass(frozen=True)
class _Job:
    """A chunk with the lanes it runs in, and how many workers have died over it."""

    chunk: Chunk
    lanes: int
    deaths: int = 0

    @property
    def cells(self) -> list[Cell]:
        return [cell for lane in self.chunk for cell in lane]

    def halves(self) -> list[_Job]:
        """The same lanes in jobs of half as many, so of half the memory."""
        lanes = self.lanes // 2
        return [_Job(self.chunk[start : start + lanes], lanes) for start in range(0, len(self.chunk), lanes)]


class _Work:
    """A run under way."""

    def __init__(self, store: Store | None, on: Engine, progress: Progress, keep: Callable[[CellResult], None]) -> None:
        self.store, self.engine, self.progress, self.keep = store, on, progress, keep
        self.failures: list[Failure] = []
        self.diverged: list[Cell] = []
        self.keeper = None if store is None else Checkpoints(store.folder)
        self.taken: set[Cell] = set()
        self.unreadable: set[Cell] = set()
        self.lock = threading.Lock()

    def through(self, jobs: list[_Job]) -> None:
        """Run all jobs."""
        if self.store is not None:  # there by name at the start, and yet not read as finished
            self.unreadable = {cell for job in jobs for cell in job.cells if self.store.holds(cell)}
        waiting, running = deque(jobs), dict[Future[list[CellResult]], _Job]()
        while waiting or running:
            while waiting and len(running) < self.engine.slots:
                if (job := self._left_of(waiting.popleft())) is not None:
                    running[self._submit(job)] = job
            # A second at a time: a wait without an end would miss a Ctrl-C that comes in the instant before it begins.
            for future in wait(running, timeout=1.0, return_when="FIRST_COMPLETED").done:
                waiting.extendleft(self._done(future, running.pop(future)))

    def _submit(self, job: _Job) -> Future[list[CellResult]]:
        settings: dict[str, Any] = {"lanes": job.lanes, "keeper": self.keeper}
        if self.engine.shares_memory:
            settings["progress"] = self._train
        try:
            return self.engine.executor.submit(run_chunk, job.chunk, **settings)
        except self.engine.deaths:
            self.engine.revive()
            return self.engine.executor.submit(run_chunk, job.chunk, **settings)

    def _train(self, cells: float) -> None:
        with self.lock:
            self.progress.train(cells)

    def _left_of(self, job: _Job) -> _Job | None:
        """The job without cells that another process has stored meanwhile; None if nothing is left."""
        if self.store is None:
            return job
        fresh = [cell for cell in job.cells if cell not in self.unreadable and self.store.holds(cell)]
        found = {cell: result for cell in fresh if (result := self.store.read(cell)) is not None}
        for result in found.values():
            self._take(result)
        # Lanes of unequal numbers of cells would not be one chunk: those with anything left run whole.
        left = [lane for lane in job.chunk if not all(cell in found for cell in lane)]
        return replace(job, chunk=left) if left else None

    def _done(self, future: Future[list[CellResult]], job: _Job) -> list[_Job]:
        """Keep what a job gave; what is to run again."""
        try:
            results = future.result()
        except self.engine.deaths as reason:
            return self._again(job, reason)
        except Exception as reason:
            if _out_of_memory(reason):
                return self._smaller(job, "out of memory", reason)
            return self._failed(job, _said(reason), reason)
        for result in results:
            if self.store is not None:
                self.store.write(result)
            self._take(result)
        if self.keeper is not None:
            self.keeper.remove([lane[0] for lane in job.chunk])
        return []

    def _take(self, result: CellResult) -> None:
        if result.cell in self.taken:
            return
        self.taken.add(result.cell)
        if result.diverged:
            self.diverged.append(result.cell)
        self.keep(result)
        with self.lock:
            self.progress.advance()

    def _again(self, job: _Job, reason: BaseException) -> list[_Job]:
        self.engine.revive()
        if job.deaths + 1 < MOST_DEATHS:
            return [replace(job, deaths=job.deaths + 1)]
        return self._smaller(job, f"{MOST_DEATHS} workers died over it, perhaps out of memory", reason)

    def _smaller(self, job: _Job, why: str, reason: BaseException) -> list[_Job]:
        first = job.cells[0]
        what = (
            f"{why} with width {first.model.width}, batch {first.batch}, sequences {first.sequences} and lengths up to "
            f"{max(first.longest, *first.lengths)}"
        )
        if job.lanes == 1:
            return self._failed(job, f"{what}: make one of them smaller, or --workers 1", reason)
        self.progress.say(f"{what}: going on with {job.lanes // 2} models at a time in place of {job.lanes}")
        return job.halves()

    def _failed(self, job: _Job, why: str, reason: BaseException) -> list[_Job]:
        self.failures += [Failure(cell, why, reason) for cell in job.cells]
        return []


def _out_of_memory(reason: BaseException) -> bool:
    exhausted = isinstance(reason, jax.errors.JaxRuntimeError) and "RESOURCE_EXHAUSTED" in str(reason)
    return exhausted or isinstance(reason, MemoryError)


def _unexpected(reason: BaseException) -> bool:
    """Whether an error is neither the user's nor the machine's, so that its traceback is wanted."""
    return not (isinstance(reason, FarfieldError) or _out_of_memory(reason))


def _said(reason: Exception) -> str:
    words = " ".join(str(reason).split())
    return words if isinstance(reason, FarfieldError) else f"{type(reason).__name__}: {words}"
