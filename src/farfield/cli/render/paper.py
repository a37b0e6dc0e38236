"""Verdicts on a paper's numbers for the terminal: a line an item, then in full what differs; or every number."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from itertools import groupby

from rich import box
from rich.padding import Padding
from rich.table import Table
from rich.text import Text

from farfield.papers.reproduce import Reproduction
from farfield.papers.verdicts import Verdict, VerdictKind
from farfield.printing import number

COLOURS: dict[VerdictKind, str] = {"reproduced": "green", "differs": "bold red", "not-comparable": "dim"}
SIGNS: dict[VerdictKind, str] = {"reproduced": "✓", "differs": "✗", "not-comparable": "-"}
BY_LENGTH = " L="


def reproduction_tables(outcome: Reproduction, every: bool) -> Iterator[Table | Text | Padding]:
    """What a reproduction came to.

    Args:
        every: begin with every number.
    """
    if every:
        yield every_number(outcome)
    yield items_table(outcome)
    yield from differences(outcome)
    yield Text(f"{outcome.summary()} {outcome.cells} models, {outcome.seconds:.0f} s.")
    yield Text(f"Budget {outcome.budget.name}: {outcome.budget.note}")


def items_table(outcome: Reproduction) -> Table:
    """One line an item: its mark, and how many of its numbers came to which verdict."""
    table = Table(box=box.SIMPLE_HEAD, pad_edge=False, padding=(0, 1, 0, 0), title=_title(outcome))
    table.add_column("", width=1)
    table.add_column("item", no_wrap=True)
    table.add_column("title")
    for name in ("reproduced", "differ", "not\ncomparable"):
        table.add_column(name, justify="right", no_wrap=True)
    for item in outcome.items:
        counts = outcome.counts(item.name)
        title = Text(item.title, no_wrap=True, overflow="ellipsis")
        table.add_row(_mark(counts), item.name, title, *(_count(counts, name) for name in counts))
    return table


def _mark(counts: Mapping[VerdictKind, int]) -> str:
    """The sign of an item: what differs outweighs what is reproduced."""
    worst: VerdictKind = "differs" if counts["differs"] else "reproduced" if counts["reproduced"] else "not-comparable"
    return f"[{COLOURS[worst]}]{SIGNS[worst]}[/]"


def _count(counts: Mapping[VerdictKind, int], name: VerdictKind) -> str:
    return f"[{COLOURS[name]}]{counts[name]}[/]" if counts[name] else "[dim]0[/]"


def differences(outcome: Reproduction) -> Iterator[Text | Padding]:
    """Every number that differs, with its interval and what was tried to explain it."""
    for verdict in outcome.verdicts:
        if verdict.verdict != "differs":
            continue
        sign = SIGNS["differs"]
        yield Text.assemble((f"{sign} {verdict.item}", COLOURS["differs"]), f": {verdict.cell}")
        tried = verdict.explanation or "nothing is written down."
        for line in (_measured(verdict), verdict.why, f"Tried: {tried}"):
            yield Padding(Text(line), (0, 0, 0, 2))
    if any(verdict.verdict == "differs" for verdict in outcome.verdicts):
        yield Text()


def _measured(verdict: Verdict) -> str:
    """The two numbers, ours with the interval of its mean."""
    seeds = f" in {verdict.n} seeds" if verdict.n > 1 else ""
    ends = (verdict.mean_low, verdict.mean_high)
    interval = "" if None in ends else f", mean within {number(ends[0])} to {number(ends[1])} (95%)"
    return f"Published {number(verdict.published)}, measured {number(verdict.measured)}{seeds}{interval}."


def every_number(outcome: Reproduction) -> Table:
    """Published beside measured numbers; numbers of one row of the print share a line."""
    table = Table(box=box.SIMPLE_HEAD, pad_edge=False, title=_title(outcome))
    for name in ("item", "number", "published", "measured", "seeds", "verdict"):
        table.add_column(name, overflow="fold")
    previous = ""
    for (item, name), group in groupby(outcome.verdicts, lambda verdict: (verdict.item, row_of(verdict))):
        verdicts = list(group)
        lengths = [verdict.cell.partition(BY_LENGTH)[2] for verdict in verdicts]
        span = f" at L = {', '.join(lengths)}" if len(verdicts) > 1 else ""
        table.add_row(
            item if item != previous else "",
            (name if span else verdicts[0].cell) + span,
            " ".join(number(verdict.published) for verdict in verdicts),
            " ".join(number(verdict.measured) for verdict in verdicts),
            str(verdicts[0].n),
            _outcome(verdicts),
        )
        previous = item
    return table


def row_of(verdict: Verdict) -> str:
    """What the numbers of one printed row share: the cell's name without its length."""
    return verdict.cell.partition(BY_LENGTH)[0]


def _outcome(verdicts: Sequence[Verdict]) -> str:
    counts = Counter(verdict.verdict for verdict in verdicts)
    return ", ".join(
        f"[{colour}]{SIGNS[outcome]} {outcome}{f' {counts[outcome]}/{len(verdicts)}' if len(verdicts) > 1 else ''}[/]"
        for outcome, colour in COLOURS.items()
        if counts[outcome]
    )


def _title(outcome: Reproduction) -> str:
    return f"{outcome.paper.title} ({outcome.paper.source})"
