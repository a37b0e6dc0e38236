"""What a paper and an item of it are: small declarations that the command ``farfield reproduce`` runs."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any

from farfield.papers.verdicts import Comparison
from farfield.studies.cells import Cell
from farfield.studies.results import CellResult

# Cells of an item by the name of their series, and the same once they have run.
Series = Mapping[str, list[Cell]]
Results = Mapping[str, list[CellResult]]


@dataclass(frozen=True)
class Budget:
    """How much of the paper's effort to spend.

    Attributes:
        name: as given on the command line.
        note: what it does to the paper's settings, in a sentence for the reader.
        most_seeds: keep at most so many seeds a setting.
        steps, sequences: replace the paper's when given.
        verdicts: whether its numbers may be judged.
    """

    name: str
    note: str
    most_seeds: int | None = None
    steps: int | None = None
    sequences: int | None = None
    verdicts: bool = True

    def apply(self, series: Series) -> dict[str, list[Cell]]:
        """The same series at this budget."""
        changes: dict[str, Any] = {}
        if self.steps is not None:
            changes["steps"] = self.steps
        if self.sequences is not None:
            changes["sequences"] = self.sequences
        return {
            name: [replace(cell, **changes).resolved() for cell in cells[: self.most_seeds]]
            for name, cells in series.items()
        }


BUDGETS = {
    budget.name: budget
    for budget in (
        Budget("full", "The paper's steps and sequences; 16 seeds a setting, the paper's own 1, 5 or 8 among them."),
        Budget("quick", "Trimmed to 4 seeds a setting, fewer than most of the paper: wide intervals.", most_seeds=4),
        Budget(
            "smoke",
            "One seed, 40 steps and 128 sequences: shows that everything runs, gives no verdicts.",
            most_seeds=1,
            steps=40,
            sequences=128,
            verdicts=False,
        ),
    )
}


@dataclass(frozen=True)
class Item:
    """A table or figure of a paper.

    Attributes:
        name: as given to ``--only``.
        title: what it shows, in one line.
        about: its module's docstring: the command, what it costs, what to expect.
        series: the cells it needs, by series.
        compare: published against measured numbers, in the order of the print.
        draw: its figure in the paper's layout (matplotlib), or None for a table.
        caption: what to see in the figure.
    """

    name: str
    title: str
    about: str | None
    series: Callable[[], Series]
    compare: Callable[[Results], list[Comparison]]
    draw: Callable[[Results], Any] | None = None
    caption: str = ""


@dataclass(frozen=True)
class Paper:
    """A paper whose numbers can be reproduced.

    Attributes:
        name: as given on the command line.
        source: where it is published.
        claim: what it says, in two sentences for someone who has not read it, and the words that its tables use.
    """

    name: str
    title: str
    source: str
    claim: str
    items: tuple[Item, ...]
