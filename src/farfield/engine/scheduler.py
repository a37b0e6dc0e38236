"""Run cells: those the store lacks, chunk by chunk, on an engine, so that no failure takes more than its own cells."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Set
from concurrent.futures import Future, wait
from dataclasses import dataclass
from typing import NamedTuple

import jax

from farfield.cell import Cell
from farfield.engine.base import Engine
from farfield.engine.open import open_engine
from farfield.engine.programs import Chunk, Keeper, chunks, forget_programs, run_chunk
from farfield.engine.progress import Progress, Silent
from farfield.environment import settled
from farfield.errors import EngineError, FarfieldError
from farfield.results.result import CellResult
from farfield.store.checkpoints import Checkpoints
from farfield.store.store import StoreWriter
from farfield.store.versions import versions

# Workers that a chunk may outlive before it is taken to be what kills them, perhaps for want of memory.
MOST_DEATHS = 3
# Most seconds between two looks at a run under way. A wait without an end would miss a Ctrl-C that comes in the instant
# before it begins.
SECONDS = 0.5


class Failure(NamedTuple):
    """A cell that has no result, why in words, and the error behind it."""

    cell: Cell
    reason: str
    cause: BaseException


@dataclass(frozen=True)
class RunSummary:
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


@settled
def run(
    cells: Iterable[Cell],
    store: StoreWriter | None = None,
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

    with open_engine("local", workers=workers) as threads:
        outcome = complete(different, finished.keys(), store, threads, progress, keep)
    if outcome.failures:
        _, reason, cause = outcome.failures[0]
        raise (cause if _unexpected(cause) else FarfieldError(reason)) from None
    return [finished[cell] for cell in wanted]


@settled
def complete(
    cells: list[Cell],
    stored: Set[Cell],
    store: StoreWriter | None,
    on: Engine,
    progress: Progress | None = None,
    keep: Callable[[CellResult], None] = lambda result: None,
    lose: Callable[[Failure], None] = lambda failure: None,
) -> RunSummary:
    """Run those of different, resolved cells that a store lacks.

    Chunks whose worker died run again elsewhere; a chunk out of memory is halved; what fails otherwise is told of at
    the end, and the rest goes on. A cell that another process has stored meanwhile is left to it.

    Args:
        stored: cells that were finished before.
        keep: given each result, also of cells that another process has stored.
        lose: given each failure at once.

    Raises:
        FarfieldError: for a store that cannot be written, or an engine that is lost, at once.
    """
    progress = Silent() if progress is None else progress
    missing = [cell for cell in cells if cell not in stored]
    before = len(cells) - len(missing)
    work = _Work(store, on, progress, keep, lose)
    progress.start(len(cells), before)
    try:
        work.through([_Job(chunk, chunk[0][0].model.lanes) for chunk in chunks(missing)])
    finally:
        progress.finish()
    if work.keeper is not None:  # those of cells whose run was stopped between storing them and forgetting their way
        failed = {failure.cell for failure in work.failures}
        work.keeper.remove(cell for cell in cells if cell not in failed)
    return RunSummary(len(cells), before, tuple(work.failures), tuple(work.diverged))


class Made(NamedTuple):
    """Results of a chunk with the versions of what made them, which need not be those of this process."""

    results: list[CellResult]
    versions: dict[str, str]


class ChunkError(RuntimeError):
    """An unexpected error elsewhere, in words: not every exception can travel between processes."""


# All that :func:`run_elsewhere` raises: of anything else, a chunk that could not even be sent is the cause.
SENT = (FarfieldError, MemoryError, ChunkError)


def run_elsewhere(chunk: Chunk, lanes: int, keeper: Keeper | None) -> Made:
    """:func:`run_chunk` in another process. What it raises can be sent back."""
    try:
        return Made(run_chunk(chunk, lanes=lanes, keeper=keeper), versions())
    except Exception as reason:
        if _out_of_memory(reason):
            forget_programs()
            raise MemoryError(str(reason)) from None
        raise (FarfieldError if isinstance(reason, FarfieldError) else ChunkError)(_said(reason)) from None


class _AbandonedError(Exception):
    """Ends a chunk whose run is over."""


class _Job:
    """A chunk with the lanes it runs in, and how many workers have died over it.

    Attributes:
        trained: training done so far, in cells; counted by the thread that trains, anew when the chunk runs again.
        told: of it, what the progress was told.
        last_try: whether a single model that was out of memory runs again, with the memory of all else given back.
    """

    def __init__(self, chunk: Chunk, lanes: int, deaths: int = 0, told: float = 0.0, last_try: bool = False) -> None:
        self.chunk, self.lanes, self.deaths, self.told, self.last_try = chunk, lanes, deaths, told, last_try
        self.cells = [cell for lane in chunk for cell in lane]
        self.trained = 0.0

    def part(self, chunk: Chunk, lanes: int, deaths: int = 0) -> _Job:
        """A job of some of the lanes."""
        part = _Job(chunk, lanes, deaths)
        part.told = self.told * len(part.cells) / len(self.cells)
        return part

    def once_more(self) -> _Job:
        """The same job, for the last time."""
        return _Job(self.chunk, self.lanes, self.deaths, self.told, last_try=True)

    def halves(self) -> list[_Job]:
        """The same lanes in jobs of half as many, so of half the memory."""
        lanes = self.lanes // 2
        return [self.part(self.chunk[start : start + lanes], lanes) for start in range(0, len(self.chunk), lanes)]


class _Work:
    """A run under way."""

    def __init__(
        self,
        store: StoreWriter | None,
        on: Engine,
        progress: Progress,
        keep: Callable[[CellResult], None],
        lose: Callable[[Failure], None],
    ) -> None:
        self.store, self.engine, self.progress, self.keep, self.lose = store, on, progress, keep, lose
        self.failures: list[Failure] = []
        self.diverged: list[Cell] = []
        self.keeper = None if store is None else Checkpoints(store.folder.absolute())
        self.taken: set[Cell] = set()
        self.abandoned = False

    def through(self, jobs: list[_Job]) -> None:
        """Run all jobs."""
        waiting, running = deque(jobs), dict[Future[Made], _Job]()
        try:
            while waiting or running:
                self._fill(running, waiting)
                finished = wait(running, timeout=SECONDS, return_when="FIRST_COMPLETED").done
                for job in running.values():
                    self._tell(job)
                self._empty(finished, running, waiting)
                del finished  # with what an error holds on to
        except BaseException:
            self.abandoned = True
            raise

    def _fill(self, running: dict[Future[Made], _Job], waiting: deque[_Job]) -> None:
        slots = self.engine.slots() if waiting else 0
        while waiting and len(running) < slots:
            if (job := self._left_of(waiting.popleft())) is not None:
                running[self._submit(job)] = job

    def _submit(self, job: _Job) -> Future[Made]:
        try:
            if self.engine.shares_memory:
                return self.engine.executor.submit(self._run_here, job)
            return self.engine.executor.submit(run_elsewhere, job.chunk, lanes=job.lanes, keeper=self.keeper)
        except Exception as reason:  # of several kinds, by the executor
            self.engine.check()
            said = str(reason) or type(reason).__name__
            raise EngineError(f"{said}; what is finished is kept: run the same again") from None

    def _run_here(self, job: _Job) -> Made:
        def tell(cells: float) -> None:
            if self.abandoned:
                raise _AbandonedError
            job.trained += cells

        if self.abandoned:
            raise _AbandonedError
        return Made(run_chunk(job.chunk, progress=tell, lanes=job.lanes, keeper=self.keeper), versions())

    def _tell(self, job: _Job, trained: float | None = None) -> None:
        trained = job.trained if trained is None else trained
        if trained > job.told:
            self.progress.train(trained - job.told)
            job.told = trained

    def _left_of(self, job: _Job) -> _Job | None:
        """The job without cells that another process has stored meanwhile; None if nothing is left."""
        found = {cell for cell in job.cells if self._found(cell)}
        # Lanes of unequal numbers of cells would not be one chunk: those with anything left run whole.
        left = [lane for lane in job.chunk if not found.issuperset(lane)]
        if len(left) == len(job.chunk):
            return job
        gone = job.part([lane for lane in job.chunk if found.issuperset(lane)], job.lanes)
        self._tell(gone, len(gone.cells))
        return job.part(left, job.lanes, job.deaths) if left else None

    def _found(self, cell: Cell) -> bool:
        """Whether a cell is stored, whole; then it is taken from there."""
        if cell in self.taken:
            return True
        if self.store is None or not self.store.holds(cell) or (result := self.store.read(cell)) is None:
            return False
        self._take(result)
        return True

    def _empty(self, finished: set[Future[Made]], running: dict[Future[Made], _Job], waiting: deque[_Job]) -> None:
        """Keep what came of jobs, results first, for an error may end the run; those to run again wait at the front."""
        for future in sorted(finished, key=lambda future: future.cancelled() or future.exception() is not None):
            waiting.extendleft(self._done(future, running.pop(future)))

    def _done(self, future: Future[Made], job: _Job) -> list[_Job]:
        """Keep what came of a job; what is to run again."""
        self._tell(job)
        try:
            made = future.result()
        except self.engine.deaths as reason:
            self.engine.check()
            if job.deaths + 1 < MOST_DEATHS:
                return [job.part(job.chunk, job.lanes, job.deaths + 1)]
            return self._smaller(job, f"{MOST_DEATHS} workers died over it, perhaps out of memory", reason)
        except EngineError:
            raise
        except Exception as reason:
            if _out_of_memory(reason):
                reason = reason.with_traceback(None)  # which holds the memory
                if self.engine.shares_memory:
                    forget_programs()
                if job.lanes == 1 and not job.last_try:
                    return [job.once_more()]
                return self._smaller(job, "out of memory", reason)
            if not (self.engine.shares_memory or isinstance(reason, SENT)):
                said = f"chunks cannot run there: {_said(reason)}; the same farfield must be installed there as here"
                raise EngineError(said) from None
            return self._failed(job, _said(reason), reason)
        for result in made.results:
            if not self._found(result.cell):
                if self.store is not None:
                    self.store.write(result, made.versions)
                self._take(result)
        self._tell(job, len(job.cells))
        if self.keeper is not None:
            self.keeper.remove(lane[0] for lane in job.chunk)
        return []

    def _take(self, result: CellResult) -> None:
        self.taken.add(result.cell)
        if result.diverged:
            self.diverged.append(result.cell)
        self.keep(result)
        self.progress.advance()

    def _smaller(self, job: _Job, why: str, reason: BaseException) -> list[_Job]:
        first = job.cells[0]
        what = (
            f"{why} with width {first.model.width}, batch {first.batch}, sequences {first.sequences} and lengths up to "
            f"{max(first.longest, *first.lengths)}"
        )
        if job.lanes == 1:
            fewer = ", or --workers 1" if self.engine.slots() > 2 else ""  # two a worker
            return self._failed(job, f"{what}: make one of them smaller{fewer}", reason)
        self.progress.say(f"{what}: going on with {job.lanes // 2} models at a time in place of {job.lanes}")
        return job.halves()

    def _failed(self, job: _Job, why: str, reason: BaseException) -> list[_Job]:
        lost = [Failure(cell, why, reason) for cell in job.cells if cell not in self.taken]
        self.failures += lost
        for failure in lost:
            self.lose(failure)
        self._tell(job, len(job.cells))
        return []


def _out_of_memory(reason: BaseException) -> bool:
    exhausted = isinstance(reason, jax.errors.JaxRuntimeError) and "RESOURCE_EXHAUSTED" in str(reason)
    return exhausted or isinstance(reason, MemoryError)


def _unexpected(reason: BaseException) -> bool:
    """Whether an error is neither the user's nor the machine's, so that its traceback is wanted."""
    return not (isinstance(reason, FarfieldError) or _out_of_memory(reason))


def _said(reason: Exception) -> str:
    words = " ".join(str(reason).split())
    return words if isinstance(reason, FarfieldError | ChunkError) else f"{type(reason).__name__}: {words}"
