"""The engine of this machine: one thread a core."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor

from farfield.engine.base import THREADS, Engine


@contextlib.contextmanager
def threads(count: int) -> Iterator[Engine]:
    """An engine of so many threads.

    Compiled programs release Python's lock, so threads keep all cores busy, and a program is compiled once for all.
    On an exception, pending chunks are cancelled; running threads stop at their next progress call.
    """
    pool = ThreadPoolExecutor(count, thread_name_prefix=THREADS)
    try:
        yield Engine(pool, lambda: 2 * count, shares_memory=True)
    except BaseException:
        pool.shutdown(wait=False, cancel_futures=True)
        raise
    pool.shutdown()
