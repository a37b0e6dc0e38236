"""An executor of processes of which each may die alone, and none outlives the process that started it."""

from __future__ import annotations

import contextlib
import multiprocessing
import os
import signal
import threading
from collections.abc import Callable
from concurrent.futures import BrokenExecutor, Executor, Future, ProcessPoolExecutor, ThreadPoolExecutor
from queue import SimpleQueue
from typing import Any

from farfield.studies.engines import THREADS, EngineError

# Spawned, never forked: JAX's threads do not survive a fork.
CONTEXT = multiprocessing.get_context("spawn")
# Worker processes that may die before their first call until it is said that none can start.
STARTS = 2


class Processes(Executor):
    """Worker processes, each a pool to itself: in a common pool one that dies ends all.

    A call whose worker died raises :class:`BrokenExecutor`; the next has a new worker. Workers end when their end of a
    pipe that this process holds is closed, which the system does however this process ends.

    Args:
        count: of processes, started as they are needed.
    """

    def __init__(self, count: int) -> None:
        self._threads = ThreadPoolExecutor(count, thread_name_prefix=THREADS)
        self._idle: SimpleQueue[ProcessPoolExecutor | None] = SimpleQueue()
        for _ in range(count):
            self._idle.put(None)
        ends: Any = CONTEXT.Pipe(duplex=False)
        self._ends_with_us, self._lifeline = ends

    def submit(self, fn: Callable[..., Any], /, *args: Any, **kwargs: Any) -> Future[Any]:
        """Run a function in a worker process."""
        return self._threads.submit(self._call, fn, args, kwargs)

    def _call(self, fn: Callable[..., Any], args: Any, kwargs: Any) -> Any:
        worker = self._idle.get()
        try:
            worker = worker or self._start()
            return worker.submit(fn, *args, **kwargs).result()
        except BrokenExecutor:
            worker = None
            raise
        finally:
            self._idle.put(worker)

    def _start(self) -> ProcessPoolExecutor:
        for _ in range(STARTS):
            worker = ProcessPoolExecutor(1, CONTEXT, _begin, (self._ends_with_us,))
            try:
                worker.submit(os.getpid).result()
            except BrokenExecutor:
                continue
            return worker
        raise EngineError(
            "worker processes end as they start: in a script, run studies below `if __name__ == '__main__':`; else try "
            "--engine local"
        )

    def shutdown(self, wait: bool = True, *, cancel_futures: bool = False) -> None:
        """End all processes: after the calls under way, or without waiting for them."""
        if not wait:
            self._lifeline.close()  # which ends the calls, so that waiting for them is short
        self._threads.shutdown(cancel_futures=cancel_futures)
        while not self._idle.empty():
            if (worker := self._idle.get()) is not None:
                worker.shutdown()
        self._lifeline.close()
        self._ends_with_us.close()


def _begin(lifeline: Any) -> None:
    """In a worker: leave Ctrl-C, which a terminal sends to all, to the process that started it, and end with that."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    threading.Thread(target=_end_with, args=(lifeline,), daemon=True).start()


def _end_with(lifeline: Any) -> None:
    with contextlib.suppress(OSError):
        lifeline.poll(None)  # nothing is ever sent, so this returns when the other end is closed
    os._exit(1)
