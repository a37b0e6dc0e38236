"""`farfield conjecture`."""

from __future__ import annotations

import sys
import time
from typing import Annotated

import typer
from rich.console import Console

from farfield.cli.common import Json, answer
from farfield.cli.progress import SECONDS_BETWEEN_LINES


def conjecture(
    seconds: Annotated[float, typer.Option(help="Draw cases for about so long; what is begun is finished.")] = 60.0,
    seed: Annotated[int, typer.Option(help="Decides the cases and their order; the time decides how many.")] = 0,
    cases: Annotated[int | None, typer.Option(help="Try at most so many, for a run that can be repeated.")] = None,
    as_json: Json = False,
) -> None:
    """Search for a deterministic case whose trained outcome is not the one that alpha foretells.

    The paper leaves the general deterministic case as a conjecture. This draws feature maps and targets at random,
    trains a linear positional kernel on short rows in three ways, compares it on longer rows with the kernel that alpha
    is read from, and says what it tried. docs/realizability.md says what is known of each way.

    Examples:

        farfield conjecture --seconds 60

        farfield conjecture --seed 1 --cases 500 --seconds 600 --json
    """
    from farfield.cli.render.conjecture import conjecture_tables
    from farfield.papers.realizability.conjecture.search import search

    with _Told() as told:
        found = search(seconds=seconds, seed=seed, cases=cases, progress=lambda so_far, gone: told(so_far.tried, gone))
    answer(found, conjecture_tables, as_json)
    if found.interrupted:
        raise typer.Exit(130)


class _Told:
    """How far the search is, on standard error: a line that changes on a terminal, rare plain lines elsewhere."""

    def __enter__(self) -> _Told:
        here = sys.stderr is not None and sys.stderr.isatty()
        self._status = Console(stderr=True).status("drawing cases") if here else None
        if self._status is not None:
            self._status.start()
        self._spoken = time.monotonic()
        return self

    def __call__(self, tried: int, seconds: float) -> None:
        if self._status is not None:
            self._status.update(f"{tried} cases drawn after {seconds:.0f} s")
        elif sys.stderr is not None and time.monotonic() - self._spoken >= SECONDS_BETWEEN_LINES:
            self._spoken = time.monotonic()
            print(f"farfield: {tried} cases drawn after {seconds:.0f} s", file=sys.stderr, flush=True)

    def __exit__(self, *_: object) -> None:
        if self._status is not None:
            self._status.stop()
