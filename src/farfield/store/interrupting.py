"""Queries that Ctrl-C and other signals stop: while DuckDB computes in the main thread, no handler of Python's runs."""

from __future__ import annotations

import threading
from collections.abc import Callable
from concurrent.futures import Future, wait
from typing import TypeVar

import duckdb

Answer = TypeVar("Answer")
# Threads that run queries are known by it.
THREADS = "farfield-query"
# Seconds between looks at a query, and those that a stopped one has to end.
LOOK, GRACE = 0.1, 1.0


def busy() -> bool:
    """Whether a query that was given up is still under way."""
    return any(thread.name == THREADS for thread in threading.enumerate())


def interruptible(connection: duckdb.DuckDBPyConnection, act: Callable[[], Answer]) -> Answer:
    """What ``act`` returns or raises, run in a thread of its own.

    An exception that a signal raises in this thread meanwhile stops what the connection is doing, and is raised.
    """
    answer: Future[Answer] = Future()
    thread = threading.Thread(target=_answer, args=(answer, act), name=THREADS, daemon=True)
    thread.start()
    try:
        while not answer.done():
            wait([answer], timeout=LOOK)
    except BaseException:
        connection.interrupt()
        thread.join(GRACE)
        raise
    return answer.result()


def _answer(answer: Future[Answer], act: Callable[[], Answer]) -> None:
    try:
        answer.set_result(act())
    except BaseException as reason:
        answer.set_exception(reason)
