"""Tables for the terminal."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from itertools import groupby

from rich import box
from rich.table import Table

from farfield.api import TrainResult
from farfield.papers.reproduce import Reproduction
from farfield.papers.verdicts import Verdict
from farfield.statistics import Estimate

COLOURS = {"reproduced": "green", "differs": "bold red", "not-comparable": "dim"}
SIGNS = {"reproduced": "✓", "differs": "✗", "not-comparable": "-"}
BY_LENGTH = " L="


def reproduction_table(outcome: Reproduction) -> Table:
    """Published beside measured numbers; numbers of one row of the print share a line."""
    table = Table(box=box.SIMPLE_HEAD, pad_edge=False, title=f"{outcome.paper.title} ({outcome.paper.source})")
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
    parts = []
    for outcome, colour in COLOURS.items():
        count = sum(verdict.verdict == outcome for verdict in verdicts)
        if count:
            of = f" {count}/{len(verdicts)}" if len(verdicts) > 1 else ""
            parts.append(f"[{colour}]{SIGNS[outcome]} {outcome}{of}[/]")
    return ", ".join(parts)


def number(value: float | None) -> str:
    """A number to the digits that tables print: two decimals, four for small ones, none for whole ones."""
    if value is None:
        return "-"
    if value == int(value) and value != 1:
        return f"{value:.0f}"
    return f"{value:.4f}" if 0 < abs(value) < 0.03 else f"{value:.2f}"


def train_tables(result: TrainResult) -> Iterable[Table | str]:
    """Summary of one setting over its seeds."""
    cell = result.cells[0].cell
    n = len(result.cells)
    table = Table(box=box.SIMPLE_HEAD, pad_edge=False)
    for name in ("length", "", f"accuracy (chance {result.cells[0].accuracy[0].chance:.2f})", "peak height"):
        table.add_column(name)
    table.add_column("selected offset (seeds)")
    for length in result.lengths:
        offsets = result.selected_offset[length]
        counted = sorted({offset: offsets.count(offset) for offset in offsets}.items(), key=lambda pair: -pair[1])
        shown = ", ".join(f"{offset} ({count})" for offset, count in counted[:4])
        table.add_row(
            str(length),
            "trained" if length <= cell.longest else "longer",
            estimate(result.accuracy[length]),
            estimate(result.peak[length]),
            shown + (f", {len(counted) - 4} more" if len(counted) > 4 else ""),
        )
    yield table
    yield f"Intervals: {result.accuracy[result.lengths[0]].kind}."
    carrier = result.carrier
    peak = "" if carrier.peak is None else f"; carrier-only profile peaks at offset {carrier.peak}"
    fractions = f"keys {estimate(carrier.key)}, queries {estimate(carrier.query)}"
    yield f"Carrier: {fractions} (1/d = {1 / cell.width:.3f}){peak}."
    distance = estimate(result.equivariance_error)
    nearest = min(result.lengths)
    yield f"Profiles of two lengths over the nearest {nearest} offsets, scaled to one, differ by at most {distance}."
    fitted = result.dilution
    if math.isfinite(fitted.c):
        yield f"Dilution: peak height ≈ 1/({fitted.alpha:.3f} + {fitted.c:.4f} (L - 1)), R² = {fitted.r2:.3f}."
    else:
        yield "Dilution: not fitted, which takes three test lengths and attention that is not zero."
    if result.diverged:
        yield f"Diverged (loss not finite), counted as they are: seeds {', '.join(map(str, result.diverged))}."
    yield f"{n} {'head' if n == 1 else 'heads'} in {result.seconds:.1f} s, compilation included."


def estimate(value: Estimate) -> str:
    """A mean with its interval."""
    if value.low is None or value.high is None:
        return f"{value.mean:.3f}"
    return f"{value.mean:.3f} [{value.low:.3f}, {value.high:.3f}]".replace("[", "\\[")
