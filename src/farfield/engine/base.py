"""Engines: where chunks run. Each is a `concurrent.futures` executor with what a run must know of it."""

from __future__ import annotations

import os
import threading
from collections.abc import Callable
from concurrent.futures import BrokenExecutor, CancelledError, Executor
from dataclasses import dataclass

# Threads that run chunks are known by it.
THREADS = "farfield-chunks"


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
