"""Reproduce a paper: train what its items need, judge every number, write verdicts, figures and a page."""

from __future__ import annotations

import json
import time
from collections import Counter
from collections.abc import Iterable, Sequence
from contextlib import closing
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from matplotlib.figure import Figure

from farfield._checks import checked_out
from farfield.cell import Cell
from farfield.engine.progress import Progress, Silent
from farfield.engine.scheduler import run
from farfield.environment import settled
from farfield.errors import FarfieldError, unknown, unwritable
from farfield.papers.base import Budget, Item, Paper
from farfield.papers.verdicts import Verdict, VerdictKind, judge
from farfield.plotting.style import save
from farfield.store.files import write_text
from farfield.store.store import StoreWriter
from farfield.store.versions import versions

FIGURES = (".svg", ".png")
DEFAULT_BUDGET = "standard"
PAGE = "index.html"
OUTCOMES: tuple[VerdictKind, ...] = ("reproduced", "differs", "not-comparable")


@dataclass(frozen=True)
class Reproduction:
    """What a reproduction came to.

    Attributes:
        verdicts: one a published number, in the order of the print.
        figures: by item.
        cells: heads the items rest on.
        seconds: wall time of training and testing.
        folder: where its files are.
    """

    paper: Paper
    budget: Budget
    items: tuple[Item, ...]
    verdicts: tuple[Verdict, ...]
    figures: dict[str, Figure]
    cells: int
    seconds: float
    folder: Path

    @property
    def page(self) -> Path:
        """Its HTML page."""
        return self.folder / PAGE

    def counts(self, item: str | None = None) -> dict[VerdictKind, int]:
        """Verdicts by outcome, of one item or of all that hold printed numbers."""
        named = [item] if item else [one.name for one in self.items if not one.theorems]
        return self._counted(named)

    def _counted(self, named: Sequence[str]) -> dict[VerdictKind, int]:
        counter = Counter(verdict.verdict for verdict in self.verdicts if verdict.item in named)
        return {outcome: counter[outcome] for outcome in OUTCOMES}

    def summary(self) -> str:
        """The outcome in one sentence."""
        if self.budget.unjudged:
            return f"The {self.budget.name} budget gives no verdicts: it only shows that everything runs."
        counts, theorems = self.counts(), self._counted([item.name for item in self.items if item.theorems])
        judged = counts["reproduced"] + counts["differs"]
        checked = theorems["reproduced"] + theorems["differs"]
        held = f"; {theorems['reproduced']} of {checked} checks of theorems hold" if checked else ""
        beside = counts["not-comparable"] + theorems["not-comparable"]
        return (
            f"{counts['reproduced']} of {judged} published numbers and claims reproduced, "
            f"{counts['differs']} differ{held}; {beside} further lines have no printed number to compare with."
        )

    def command(self) -> str:
        """The command that runs the same items at the same budget."""
        part = "" if self.items == self.paper.items else f" --only {','.join(item.name for item in self.items)}"
        return f"farfield reproduce {self.paper.name} --budget {self.budget.name}{part}"

    def to_json(self) -> dict[str, Any]:
        """The whole reproduction as one JSON-able object."""
        return {
            "paper": self.paper.name,
            "source": self.paper.source,
            "budget": self.budget.name,
            "items": [item.name for item in self.items],
            "summary": self.summary(),
            "counts": self.counts(),
            "verdicts": [verdict.to_json() for verdict in self.verdicts],
            "cells": self.cells,
            "seconds": round(self.seconds, 2),
            "versions": versions(),
        }


def select_items(paper: Paper, only: Iterable[str] | None) -> tuple[Item, ...]:
    """The items named, in the paper's order; all if none is named (FarfieldError for an unknown name)."""
    only = None if only is None else list(only)
    names = [name for entry in only or () for name in entry.replace(",", " ").split()]
    if only is not None and not names:
        raise FarfieldError("--only names no item: leave it out to run all")
    known = {item.name for item in paper.items}
    for name in names:
        if name not in known:
            raise unknown(f"item of {paper.name}", name, known)
    return tuple(item for item in paper.items if not names or item.name in names)


def plan(items: Iterable[Item], budget: Budget) -> dict[str, dict[str, list[Cell]]]:
    """The cells of each item at a budget, by series."""
    return {item.name: budget.of(item).apply(item.series()) for item in items}


@settled
def run_paper(
    paper: Paper,
    *,
    only: Iterable[str] | None = None,
    budget: str = DEFAULT_BUDGET,
    out: str | Path,
    workers: int | None = None,
    progress: Progress | None = None,
) -> Reproduction:
    """Run a paper's items and judge them; cells that ``out`` already holds are not run again.

    Args:
        only: names of items; all if None.
        budget: ``standard``, ``full``, ``quick`` or ``smoke``.
        out: folder for ``cells/``, ``figures/`` and ``verdicts.json``; the page is the report's to write.

    Raises:
        FarfieldError: for an unknown name, or a folder that cannot be written.
    """
    if budget not in paper.budgets:
        raise unknown("budget", budget, paper.budgets)
    spend = paper.budgets[budget]
    items = select_items(paper, only)
    folder = checked_out(out)
    store = StoreWriter(folder / "cells")
    started = time.perf_counter()
    planned = plan(items, spend)
    cells = list(dict.fromkeys(cell for series in planned.values() for group in series.values() for cell in group))
    finished = dict(zip(cells, run(cells, store, workers=workers, progress=progress), strict=True))
    results = {
        name: {label: [finished[cell] for cell in group] for label, group in series.items()}
        for name, series in planned.items()
    }
    verdicts, figures, named = [], {}, {item.name: item for item in items}
    with closing((progress or Silent()).each("analysing", [*named])) as names:
        for name in names:
            item = named[name]
            for comparison in item.compare(results[name]):
                if spend.why_unjudged(item):
                    comparison = replace(comparison, incomparable=spend.why_unjudged(item))
                verdicts.append(judge(name, comparison))
            if item.draw:
                figures[name] = item.draw(results[name])
    outcome = Reproduction(
        paper, spend, items, tuple(verdicts), figures, len(cells), time.perf_counter() - started, folder
    )
    write_files(outcome, folder)
    return outcome


def write_files(outcome: Reproduction, folder: Path) -> None:
    """Write ``verdicts.json`` and ``figures/``, each replacing its predecessor at once or not at all."""
    try:
        (folder / "figures").mkdir(exist_ok=True)
        write_text(
            folder / "verdicts.json", json.dumps([verdict.to_json() for verdict in outcome.verdicts], indent=1) + "\n"
        )
        for item in outcome.paper.items:  # what an earlier run of other items left
            for suffix in FIGURES:
                (folder / "figures" / f"{item.name}{suffix}").unlink(missing_ok=True)
    except OSError as reason:
        raise unwritable(reason.filename or folder, reason) from None
    for name, figure in outcome.figures.items():
        for suffix in FIGURES:
            save(figure, folder / "figures" / f"{name}{suffix}")
