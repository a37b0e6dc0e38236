"""What a paper and an item of it are: small declarations that the command ``farfield reproduce`` runs."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any

from farfield.cell import Cell
from farfield.papers.verdicts import Comparison
from farfield.results.result import CellResult

# Cells of an item by the name of their series, and the same once they have run.
Series = Mapping[str, list[Cell]]
Results = Mapping[str, list[CellResult]]


@dataclass(frozen=True)
class Effort:
    """How much of the paper's effort to spend on an item; None where it is the paper's.

    Attributes:
        most_seeds: keep at most so many seeds a setting.
        steps, sequences: replace the paper's.
    """

    most_seeds: int | None = None
    steps: int | None = None
    sequences: int | None = None

    def apply(self, series: Series) -> dict[str, list[Cell]]:
        """The same series with this effort."""
        changes: dict[str, Any] = {}
        if self.steps is not None:
            changes["steps"] = self.steps
        if self.sequences is not None:
            changes["sequences"] = self.sequences
        return {
            name: [_with(cell, changes).resolved() for cell in cells[: self.most_seeds]]
            for name, cells in series.items()
        }


def _with(cell: Cell, changes: Mapping[str, Any]) -> Cell:
    """A changed cell; snapshots beyond its last step are dropped."""
    changed = replace(cell, **changes)
    return replace(changed, snapshots=tuple(step for step in cell.snapshots if step <= changed.steps))


@dataclass(frozen=True)
class Budget:
    """How much of a paper's effort to spend.

    Attributes:
        name: as given on the command line.
        note: what it does to the paper's settings, in a sentence for the reader.
        effort: for most items.
        long_effort: for items that take long.
        unjudged: why numbers cannot be judged; empty if they can.
        long_unjudged: the same for items that take long.
    """

    name: str
    note: str
    effort: Effort = Effort()
    long_effort: Effort = Effort()
    unjudged: str = ""
    long_unjudged: str = ""

    def of(self, item: Item) -> Effort:
        """The effort for an item."""
        return self.long_effort if item.long else self.effort

    def why_unjudged(self, item: Item) -> str:
        """Why an item's numbers cannot be judged; empty if they can."""
        return self.long_unjudged if item.long else self.unjudged


# Whatever the paper: shows that everything runs.
SMOKE_EFFORT = Effort(most_seeds=1, steps=40, sequences=128)
NO_VERDICTS = "The smoke budget gives no verdicts."
SMOKE = Budget(
    "smoke",
    "One seed, 40 steps and 128 sequences: shows that everything runs, gives no verdicts.",
    effort=SMOKE_EFFORT,
    long_effort=SMOKE_EFFORT,
    unjudged=NO_VERDICTS,
    long_unjudged=NO_VERDICTS,
)


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
        long: whether training takes so long that smaller budgets shorten it.
        theorems: whether its lines check statements instead of printed numbers; they are counted apart.
    """

    name: str
    title: str
    about: str | None
    series: Callable[[], Series]
    compare: Callable[[Results], list[Comparison]]
    draw: Callable[[Results], Any] | None = None
    caption: str = ""
    long: bool = False
    theorems: bool = False


@dataclass(frozen=True)
class Paper:
    """A paper whose numbers can be reproduced.

    Attributes:
        name: as given on the command line.
        source: where it is published.
        claim: what it says, in two sentences for someone who has not read it, and the words that its tables use.
        budgets: by name, ``standard``, ``full``, ``quick`` and ``smoke``.
    """

    name: str
    title: str
    source: str
    claim: str
    items: tuple[Item, ...]
    budgets: Mapping[str, Budget]
