"""The engine of a Dask cluster that runs already, of `distributed`."""

from __future__ import annotations

import contextlib
import logging
import threading
import warnings
from collections.abc import Iterator
from concurrent.futures import CancelledError, Future
from typing import Any

from farfield.engine.base import THREADS, Engine
from farfield.errors import EngineError, FarfieldError
from farfield.store.versions import versions

# Seconds to look for the scheduler, at first and when its connection is lost.
PATIENCE = 10
# What numbers depend on, so that it must be the same here and on the workers.
PACKAGES = ("farfield", "jax", "jaxlib", "numpy", "optax")


@contextlib.contextmanager
def cluster(address: str | None, workers: int | None) -> Iterator[Engine]:
    """The engine of the cluster whose scheduler is at an address.

    Workers may come and go. A chunk whose worker dies is given to another by the scheduler, which gives it up after as
    many deaths as its setting `distributed.scheduler.allowed-failures` says.

    Args:
        address: as in ``tcp://host:8786``.
        workers: chunks submitted at once; twice the threads of the cluster by default.

    Raises:
        FarfieldError: without distributed or an address, and for a cluster that cannot be reached.
        EngineError: for workers that cannot run chunks.
    """
    try:
        import distributed
        from distributed.scheduler import KilledWorker
    except ImportError:
        raise FarfieldError("the dask engine needs distributed: pip install 'farfield[dask]'") from None
    if address is None:
        raise FarfieldError(
            "--engine dask needs --address of a scheduler, for example tcp://127.0.0.1:8786; start one by "
            "`dask scheduler`"
        )
    # What they say of lost connections is said here in a line.
    for name in ("distributed", "distributed.client", "distributed.gc", "tornado.application"):
        logging.getLogger(name).setLevel(logging.CRITICAL + 1)
    client = _client(distributed, address)
    lost = EngineError(
        f"lost the Dask scheduler at {address}; what is finished is kept: once it runs, run the same command again"
    )

    def check() -> None:
        if client.status != "running":
            raise lost

    def slots() -> int:
        if workers is not None:
            return workers
        try:
            return max(1, 2 * sum(client.nthreads().values()))
        except Exception:  # of several kinds, by where the connection broke
            check()
            raise lost from None

    try:
        _check_workers(client)
        if not client.nthreads():
            warnings.warn(f"the cluster at {address} has no workers yet: chunks wait for them", stacklevel=2)
        executor = client.get_executor(pure=False)  # else a chunk that failed would be taken for done when run again
        yield Engine(executor, slots, deaths=(KilledWorker, CancelledError), check=check)
    finally:
        with contextlib.suppress(Exception):  # a scheduler that is gone would be waited for
            client.close(timeout=5 if client.status == "running" else 0)


def _client(distributed: Any, address: str) -> Any:
    from distributed.comm.addressing import get_address_host_port

    opened: Future[Any] = Future()

    def open_it() -> None:
        try:
            get_address_host_port(address, strict=True)  # a client that finds out takes 20 s to close
            opened.set_result(distributed.Client(address, timeout=PATIENCE, set_as_default=False))
        except BaseException as reason:
            opened.set_exception(reason)

    # A client waits without end where something else than a scheduler answers.
    threading.Thread(target=open_it, name=f"{THREADS}-client", daemon=True).start()
    try:
        return opened.result(PATIENCE + 2)
    except Exception as reason:  # by what answers at the address, if anything does
        said = " ".join(str(reason).split()) or f"no Dask scheduler answered within {PATIENCE + 2} s"
        raise FarfieldError(f"cannot reach a Dask scheduler at {address}: {said}") from None


def _check_workers(client: Any) -> None:
    """Refuse workers of other versions, whose numbers would be stored as if made by those of this process."""
    ours = versions()
    for worker, found in client.run(versions, on_error="return").items():
        if isinstance(found, OSError):  # it died in this moment
            continue
        if isinstance(found, BaseException):
            raise EngineError(f"the Dask worker at {worker} cannot run farfield: {found}; install it there")
        for package in PACKAGES:
            if found[package] != ours[package]:
                raise EngineError(
                    f"the Dask worker at {worker} has {package} {found[package]}, and this process {ours[package]}: "
                    "install the same on both"
                )
