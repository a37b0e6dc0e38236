"""Folders of results made up for reports, and what their pages say."""

from __future__ import annotations

import dataclasses
import html.parser
from collections.abc import Callable
from pathlib import Path

import numpy as np

from farfield.cell import Cell
from farfield.reporting.gather import gather
from farfield.reporting.page import render
from farfield.results.result import CellResult
from farfield.store.store import StoreWriter
from farfield.study import record
from farfield.study.record import Record
from farfield.study.study import Study
from helpers.support import untrained

EVIL = "<script>alert('x')</script>"
# One compiled program for all of them.
ENCODINGS = [f"rope:base={base}" for base in range(10, 23)]
TASKS = ["offset:1", "offset:2"]
LENGTHS = [8, 16, 32, 128]


def study(encodings=tuple(ENCODINGS), tasks=tuple(TASKS), seeds=2, **changes) -> Study:
    common = {"test": LENGTHS, "sequences": 100, "steps": 3, "batch": 4, "lengths": "4:16"}
    grid = {"encoding": list(encodings), "task": list(tasks)}
    return Study(name="carry", question=f"Who carries? {EVIL}", seeds=seeds, common=common, grid=grid, **changes)


def measured(cell: Cell, accuracy: list[int], selected: list[float], moved: bool = False) -> CellResult:
    """A result with chosen accuracies (of 100 sequences) and shares of rows where the target is selected.

    The mean attention is on the target, or on the first key where the rule has ``moved``. Of sequences that are
    answered wrongly, the target is selected in the same share as of all.
    """
    result = untrained(cell)
    counts, shares = np.array(accuracy), np.array(selected, np.float32)[:, None]
    attention = np.zeros_like(result.head_attention)
    for index, length in enumerate(cell.lengths):
        attention[index, 0, 0 if moved else length - 1 + result.target_offsets[index]] = 1
    return dataclasses.replace(
        result,
        correct=counts,
        correct_sequences=counts,
        head_attention=attention,
        head_selected=shares,
        head_wrong_selected=np.round((100 - counts)[:, None] * shares).astype(int),
    )


def by_kind(cell: Cell) -> CellResult:
    """Results of five kinds, by the encoding's base: kept, rule moved, diluted, never learned, outcompeted."""
    kind = int(cell.encoding.base) - 10
    near, far, selected = {
        0: (100, 99, 1.0),
        1: (100, 6, 0.1),
        2: (100, 40, 0.97),
        3: (20, 20, 0.2),
        5: (100, 40, 0.3),
    }.get(kind, (100, 97, 1.0))
    return measured(cell, [near, near, near, far], [1.0, 1.0, 1.0, selected], moved=kind == 1)


def fill(folder: Path, wanted: Study, make: Callable[[Cell], CellResult] = by_kind, skip=(), known=True) -> Path:
    store = StoreWriter(folder)
    for number, cell in enumerate(wanted.cells()):
        if number not in skip:
            store.write(make(cell))
    if known:
        record.write(folder, Record(wanted, None, "farfield study run study.toml --out runs"))
    return folder


def page_of(folder: Path, interval="t") -> str:
    return render(gather(folder, interval), "farfield report runs", "runs/report")


def text_of(page: str) -> str:
    """What a reader sees, in one line."""

    class Reader(html.parser.HTMLParser):
        def __init__(self) -> None:
            super().__init__()
            self.parts: list[str] = []
            self.inside: list[str] = []

        def handle_starttag(self, tag, attrs):
            if tag in ("script", "style"):
                self.inside.append(tag)

        def handle_endtag(self, tag):
            if tag in ("script", "style"):
                self.inside.pop()

        def handle_data(self, data):
            if not self.inside:
                self.parts.append(data)

    reader = Reader()
    reader.feed(page)
    return " ".join(" ".join(reader.parts).split())


def written_files(folder: Path, where: Path) -> dict[str, str]:
    from farfield.reporting.files import write_files

    names = write_files(gather(folder), where)
    assert sorted(path.name for path in where.iterdir()) == names
    return {name: (where / name).read_text(errors="replace") for name in names}
