"""A store on the terminal: where it stands, what is wrong with it, what a query found."""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from rich.table import Table
from rich.text import Text

from farfield.printing import short

if TYPE_CHECKING:
    from farfield.store.reader import Table as Rows
    from farfield.store.status import StoreStatus
    from farfield.store.verify import Verified

# Rows of a query, and names of a list, that a terminal shows.
MOST_ROWS = 1000
# More columns than this do not fit beside one another.
MOST_COLUMNS = 12
# Letters of a value where each has a line; a configuration is a kilobyte.
MOST_LETTERS = 130
MOST_NAMES = 10


def standing_tables(found: StoreStatus) -> Iterator[Any]:
    """Where a store stands: a sentence, cells by encoding and task, then whatever is not as it should be."""
    said = [_how_many(found), _size(found.bytes)]
    said += [f"{found.diverged} diverged"] if found.diverged else []
    said += [f"{len(found.failures)} failed"] if found.failures else []
    said += [f"{found.older} of an older data version, which no study reads"] if found.older else []
    said += [f"{found.writing} files being written or left half-written"] if found.writing else []
    yield Text("; ".join(said))
    if found.groups:
        table = Table("encoding", "task", box=None, pad_edge=False, header_style="bold")
        for name in ("settings", "cells", "diverged", "failed"):
            table.add_column(name, justify="right")
        for group in found.groups:
            table.add_row(Text(short(group.encoding)), Text(short(group.task)), *map(str, group[2:]))
        yield table
    yield from _named("damaged, run again if wanted", [f"{name}: {what}" for name, what in found.damaged.items()])
    yield from _named("foreign, to be removed", [f"{name}: {what}" for name, what in found.foreign.items()])
    yield from _named("failed", [f"{identity}: {why}" for identity, why in found.failures.items()])
    yield from _named(
        "seeds that computed the same, bit for bit, and are no different seeds",
        [f"{group.encoding} {group.task}: {', '.join(group.cells)}" for group in found.identical],
    )
    for made_by, cells in found.made_by.items():
        yield Text(f"{cells} made by {made_by}")


def _how_many(found: StoreStatus) -> str:
    asked = found.asked
    if asked is None:
        return f"{_count(found.cells, 'cell')} in {found.folder}"
    budget = f" ({asked.budget})" if asked.budget else ""
    others = f", and {_count(asked.others, 'cell')} of other settings" if asked.others else ""
    return f"{asked.finished} of {asked.wanted} cells of the study {asked.name}{budget}{others} in {found.folder}"


def verified_tables(found: Verified) -> Iterator[Any]:
    """What looking through a store found, what is wrong first."""
    wrong = sum(finding.wrong for finding in found.findings)
    older = f", {found.older} of an older data version" if found.older else ""
    verdict = "nothing is wrong" if found.sound else f"{wrong} {'file is' if wrong == 1 else 'files are'} wrong"
    yield Text(
        f"{found.folder}: {_count(found.files, 'file')} read, {_count(found.cells, 'whole cell')}{older}; {verdict}"
    )
    if found.findings:
        table = Table("", "file", "what it is", "what to do", box=None, pad_edge=False, header_style="bold")
        for finding in found.findings:
            cells = (finding.kind, finding.file, finding.what, finding.mend)
            table.add_row(*(Text(cell) for cell in cells))
        yield table


def query_table(found: Rows) -> Iterator[Any]:
    """Rows of a query; those of many columns one below another, a line a column."""
    shown = found.rows[:MOST_ROWS]
    if len(found.columns) > MOST_COLUMNS:
        yield from _upright(found.columns, shown)
    else:
        table = Table(box=None, pad_edge=False, header_style="bold")
        for column in found.columns:
            table.add_column(Text(column))
        for row in shown:
            table.add_row(*(Text(_short(value)) for value in row))
        yield table
    count, left = len(found.rows), len(found.rows) - MOST_ROWS
    yield Text(f"and {left} more rows: --csv and --json print all" if left > 0 else _count(count, "row"))


def _upright(columns: list[str], rows: list[tuple[Any, ...]]) -> Iterator[Table]:
    for number, row in enumerate(rows, 1):
        table = Table(box=None, pad_edge=False, header_style="bold")
        table.add_column(f"row {number}")
        table.add_column("")
        for column, value in zip(columns, row, strict=True):
            text = _short(value)
            table.add_row(Text(column), Text(text if len(text) <= MOST_LETTERS else text[: MOST_LETTERS - 1] + "…"))
        yield table


def to_plain(value: Any) -> Any:
    """A value of a query as JSON holds it; numbers that do not exist are null."""
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    if isinstance(value, list | tuple):
        return [to_plain(entry) for entry in value]
    if isinstance(value, dict):
        return {str(name): to_plain(entry) for name, entry in value.items()}
    return value if value is None or isinstance(value, bool | int | str) else str(value)


def _named(title: str, lines: list[str]) -> Iterator[Text]:
    if lines:
        yield Text(f"{title}:")
        yield from (Text(f"  {short(line)}") for line in lines[:MOST_NAMES])
    if len(lines) > MOST_NAMES:
        yield Text(f"  and {len(lines) - MOST_NAMES} more: --json names all")


def _short(value: Any) -> str:
    if isinstance(value, float):
        return f"{value:.6g}"
    return "" if value is None else short(str(value))


def _count(number: int, noun: str) -> str:
    return f"{number} {noun}{'' if number == 1 else 's'}"


def _size(size: float) -> str:
    for unit in ("bytes", "kB", "MB", "GB"):
        if size < 1000 or unit == "GB":
            return f"{size:.0f} {unit}" if unit == "bytes" else f"{size:.1f} {unit}"
        size /= 1000
    return ""
