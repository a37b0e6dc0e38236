"""Reproduce a paper by its name, into a folder of its own, with its page."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

from farfield.engine.progress import Progress
from farfield.errors import unknown
from farfield.papers import PAPERS
from farfield.papers.page import write_page
from farfield.papers.reproduce import DEFAULT_BUDGET, Reproduction, run_paper, select_items


def reproduce(
    paper: str,
    *,
    only: Iterable[str] | None = None,
    budget: str = DEFAULT_BUDGET,
    out: str | Path | None = None,
    workers: int | None = None,
    progress: Progress | None = None,
) -> Reproduction:
    """Make a paper's tables and figures again, and compare each published number with the measured one.

    >>> import farfield as ff
    >>> print(ff.reproduce("implicit-bias", only=["table1"]).summary())     # doctest: +SKIP

    Args:
        paper: its name, ``"implicit-bias"`` or ``"realizability"``.
        only: names of items, ``["table1"]``; all if None.
        budget: ``standard``, ``full``, ``quick`` (fewer seeds) or ``smoke`` (no verdicts).
        out: folder of ``index.html``, ``verdicts.json``, ``figures/`` and ``cells/``; finished cells there are not
            run again. A folder of its own under ``farfield-results/`` if None.
        workers: threads, one a core by default.
        progress: told as heads finish.

    Raises:
        FarfieldError: for an unknown name, or a folder that cannot be written.
    """
    if paper not in PAPERS:
        raise unknown("paper", str(paper), PAPERS)
    only = None if only is None else list(only)
    if out is None:
        # A part of the paper, or a smaller budget, must not replace a whole reproduction.
        part = [] if budget == DEFAULT_BUDGET else [str(budget)]
        part += [item.name for item in select_items(PAPERS[paper], only)] if only else []
        out = Path("farfield-results") / "-".join([paper, *part])
    found = run_paper(PAPERS[paper], only=only, budget=budget, out=out, workers=workers, progress=progress)
    write_page(found, found.folder)
    return found
