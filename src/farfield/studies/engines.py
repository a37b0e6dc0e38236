"""Engines: where chunks run. All of them are a `concurrent.futures` executor and what to do when its workers die."""

from __future__ import annotations

import contextlib
import multiprocessing
import os
from collections.abc import Callable, Iterator
from concurrent.futures import BrokenExecutor, Executor, ProcessPoolExecutor, ThreadPoolExecutor
from dataclasses import dataclass, field
from typing import Any

from farfield.errors import FarfieldError, unknown

ENGINES = ("local", "processes", "dask")


def cores() -> int:
    """Processor cores this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


@dataclass
class Engine:
    """An executor with what a run must know of it.

    Attributes:
        executor: runs chunks.
        slots: chunks to have under way at once.
        shares_memory: whether it runs in this process, so that a chunk can tell of its progress.
        renew: a new executor in place of one that broke; None where the executor mends itself.
        deaths: the kinds of exception that mean "a worker died", not "the chunk failed".
    """

    executor: Executor
    slots: int
    shares_memory: bool = False
    renew: Callable[[], Executor] | None = None
    deaths: tuple[type[BaseException], ...] = field(default=(BrokenExecutor,))

    def revive(self) -> None:
        """Replace an executor that broke."""
        if self.renew is not None:
            self.executor.shutdown(wait=False, cancel_futures=True)
            self.executor = self.renew()


@contextlib.contextmanager
def engine(
    kind: str = "local", *, workers: int | None = None, address: str | None = None, executor: Executor | None = None
) -> Iterator[Engine]:
    """An engine for the time of a run.

    ``local`` is one thread a core: compiled programs release Python's lock, so threads keep all cores busy, and a
    program is compiled once for all of them. ``processes`` is one process a core (spawned, never forked: JAX's threads
    do not survive a fork), each compiling for itself; a process that dies takes its chunk alone with it. ``dask`` is a
    cluster of `distributed`.

    Args:
        kind: ``local``, ``processes`` or ``dask``.
        workers: threads or processes, one a core by default; chunks at once on a cluster.
        address: of a Dask scheduler, ``tcp://host:8786``.
        executor: any other; ``kind`` is then left unread.

    Raises:
        FarfieldError: for an unknown engine, or a cluster that cannot be reached.
    """
    if executor is not None:
        yield Engine(executor, workers or cores(), shares_memory=isinstance(executor, ThreadPoolExecutor))
        return
    if kind not in ENGINES:
        raise unknown("engine", kind, ENGINES)
    if kind != "dask" and address is not None:
        raise FarfieldError(f"--address {address} names a Dask scheduler: add --engine dask")
    if kind == "dask":
        with _dask(address, workers) as found:
            yield found
        return
    count = workers or cores()
    if kind == "local":
        found = Engine(ThreadPoolExecutor(count), count, shares_memory=True)
    else:
        found = Engine(_processes(count), count, renew=lambda: _processes(count))
    try:
        yield found
    except BaseException:
        found.executor.shutdown(wait=False, cancel_futures=True)
        raise
    found.executor.shutdown(wait=True)


def _processes(count: int) -> Executor:
    return ProcessPoolExecutor(count, mp_context=multiprocessing.get_context("spawn"))


# Times that Dask itself moves a chunk whose worker died, before it tells of it.
DASK_MOVES = 10


@contextlib.contextmanager
def _dask(address: str | None, workers: int | None) -> Iterator[Engine]:
    try:
        import distributed
        from distributed.client import FutureCancelledError
        from distributed.scheduler import KilledWorker
    except ImportError:
        raise FarfieldError("the dask engine needs distributed: pip install 'farfield[dask]'") from None
    if address is None:
        raise FarfieldError(
            "--engine dask needs --address of a scheduler, for example tcp://127.0.0.1:8786; start one by "
            "`dask scheduler`"
        )
    client = _client(distributed, address)
    try:
        client.run_on_scheduler(_allow_deaths, DASK_MOVES)
        lost = (KilledWorker, FutureCancelledError, BrokenExecutor)
        slots = workers or max(1, 2 * sum(client.nthreads().values()))
        yield Engine(client.get_executor(), slots, deaths=lost)
    finally:
        client.close(timeout=5)


def _client(distributed: Any, address: str) -> Any:
    try:
        return distributed.Client(address, timeout=10, set_as_default=False)
    except (OSError, ValueError, TimeoutError) as reason:
        raise FarfieldError(f"cannot reach a Dask scheduler at {address}: {reason}") from None


def _allow_deaths(count: int, dask_scheduler: Any = None) -> None:
    """On the scheduler: do not give a chunk up because its workers were killed a few times."""
    dask_scheduler.allowed_failures = max(dask_scheduler.allowed_failures, count)
