"""Engines: where chunks run. Each is a `concurrent.futures` executor with what a run must know of it."""

from __future__ import annotations

import contextlib
import os
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import BrokenExecutor, CancelledError, Executor, ThreadPoolExecutor
from dataclasses import dataclass

from farfield.arguments import checked_workers
from farfield.errors import FarfieldError, unknown

ENGINES = ("local", "processes", "dask")
# Threads that run chunks are known by it.
THREADS = "farfield-chunks"


class EngineError(FarfieldError):
    """Nothing more can run on an engine."""


def cores() -> int:
    """Processor cores this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def busy() -> bool:
    """Whether chunks of a run that was given up are still under way in threads, which Python waits for at its end."""
    return any(thread.name.startswith(THREADS) for thread in threading.enumerate())


@dataclass(frozen=True)
class Engine:
    """An executor with what a run must know of it.

    Attributes:
        executor: runs chunks.
        slots: chunks to have submitted at once; more than can run, so that no worker waits for the next.
        shares_memory: whether it runs in this process, so that a chunk can tell of its progress.
        deaths: the kinds of exception that mean "a worker died", not "the chunk failed".
        check: raises :class:`EngineError` if nothing can run on it any more.
    """

    executor: Executor
    slots: Callable[[], int]
    shares_memory: bool = False
    deaths: tuple[type[BaseException], ...] = (BrokenExecutor, CancelledError)
    check: Callable[[], None] = lambda: None


@contextlib.contextmanager
def engine(
    kind: str = "local", *, workers: int | None = None, address: str | None = None, executor: Executor | None = None
) -> Iterator[Engine]:
    """An engine for the time of a run. Left by an exception it abandons what is under way; threads end it by and by.

    ``local`` is one thread a core: compiled programs release Python's lock, so threads keep all cores busy, and a
    program is compiled once for all of them. ``processes`` is one process a core, each starting up and compiling for
    itself, so that studies took 2.1 to 2.2 times as long on two cores; one that dies, as where memory is short, takes
    its chunk alone with it. ``dask`` is a cluster of `distributed`.

    Args:
        kind: ``local``, ``processes`` or ``dask``.
        workers: threads or processes, one a core by default; chunks at once on a cluster.
        address: of a Dask scheduler, ``tcp://host:8786``.
        executor: any other; ``kind`` is then left unread.

    Raises:
        FarfieldError: for an unknown engine, or a cluster that cannot be reached.
    """
    count = checked_workers(workers) or cores()
    if executor is not None:
        if not isinstance(executor, Executor):
            raise FarfieldError(f"executor = {executor!r} must be an executor of concurrent.futures")
        yield Engine(executor, lambda: 2 * count, shares_memory=isinstance(executor, ThreadPoolExecutor))
        return
    if kind not in ENGINES:
        raise unknown("engine", str(kind), ENGINES)
    if kind != "dask" and address is not None:
        raise FarfieldError(f"--address {address} names a Dask scheduler: add --engine dask")
    if kind == "dask":
        from farfield.studies.cluster import cluster

        with cluster(address, workers) as found:
            yield found
        return
    if kind == "local":
        pool: Executor = ThreadPoolExecutor(count, thread_name_prefix=THREADS)
    else:
        from farfield.studies.processes import Processes

        pool = Processes(count)
    try:
        yield Engine(pool, lambda: 2 * count, shares_memory=kind == "local")
    except BaseException:
        pool.shutdown(wait=False, cancel_futures=True)
        raise
    pool.shutdown()
