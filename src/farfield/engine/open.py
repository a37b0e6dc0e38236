"""The engine that is asked for by its name, or around an executor of the caller's."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from concurrent.futures import Executor, ThreadPoolExecutor

from farfield._checks import checked_workers
from farfield.engine.base import Engine, cores
from farfield.engine.local import threads
from farfield.errors import FarfieldError, unknown

ENGINES = ("local", "dask")


@contextlib.contextmanager
def open_engine(
    kind: str = "local", *, workers: int | None = None, address: str | None = None, executor: Executor | None = None
) -> Iterator[Engine]:
    """An engine for the time of a run.

    ``local`` is one thread a core. ``dask`` is a cluster of `distributed`.

    Args:
        kind: ``local`` or ``dask``.
        workers: threads, one a core by default; chunks at once on a cluster.
        address: of a Dask scheduler, ``tcp://host:8786``.
        executor: any other of `concurrent.futures`; ``kind`` is then not read.

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
        from farfield.engine.dask import cluster  # distributed is an extra

        with cluster(address, workers) as found:
            yield found
        return
    with threads(count) as found:
        yield found
