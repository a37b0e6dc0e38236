"""Table 4: width, vocabulary, training lengths and temperature, K = 2.

``farfield reproduce implicit-bias --only table4``: 16 + 72 rotary heads, about a minute and a half on two cores.
The print has one seed a row; the verdict is given for that, and the last line says how many of its numbers lie
within the 95% interval of the mean of ours. The print's temperature multiplies the logits: its 0.5 is a
temperature of 2 where logits are divided by it, and the reverse.
"""

from typing import Any

import numpy as np

from farfield.models.head import Head
from farfield.normalizers.softmax import Softmax
from farfield.papers.base import Item, Results, Series
from farfield.papers.implicit_bias import table2
from farfield.papers.implicit_bias.setup import EXACT, PUBLISHED, SWEEP, SWEEP_SEEDS, rope, survivors
from farfield.papers.verdicts import Comparison

OFFSET = 2
ROWS = PUBLISHED["table4"]["rows"]
REFERENCE = {
    "d": PUBLISHED["setup"]["head"]["d"],
    "vocab": PUBLISHED["setup"]["head"]["vocab"],
    "lengths": PUBLISHED["setup"]["train"]["lengths"],
    "temperature": 1.0,
}
NAMES = {"d": "width", "vocab": "vocabulary", "lengths": "lengths", "temperature": "logits times"}
COLUMNS = {
    name: (0.01 if name == "r2" else unit, measure)
    for name, unit, measure in table2.COLUMNS
    if name in ("key_fraction", "alpha", "c", "r2")
}


def settings(knob: str, value: Any) -> dict[str, Any]:
    """What one row changes in a cell."""
    if knob == "d":
        return {"model": Head(value)}
    if knob == "vocab":
        return {"vocabulary": value}
    if knob == "lengths":
        return {"shortest": value[0], "longest": value[1]}
    return {"normalizer": Softmax(1 / value)}


def label(row: dict[str, Any]) -> str:
    """Name of a row, as its series and its numbers carry it."""
    value = row["value"]
    return f"{NAMES[row['knob']]} {'{}-{}'.format(*value) if isinstance(value, list) else f'{value:g}'}"


def series() -> Series:
    return {
        label(row): rope(OFFSET)
        if row["value"] == REFERENCE[row["knob"]]
        else rope(OFFSET, seeds=SWEEP_SEEDS, **settings(row["knob"], row["value"]))
        for row in ROWS
    }


def compare(results: Results) -> list[Comparison]:
    comparisons = [
        Comparison(
            f"{label(row)} {name.replace('_', ' ')}",
            row[name],
            unit,
            [measure(cell) for cell in results[label(row)]],
            SWEEP,
            note=_other_reading(row, results) if name == "key_fraction" else "",
        )
        for row in ROWS
        for name, (unit, measure) in COLUMNS.items()
    ]
    widths = [results[label(row)] for row in ROWS if row["knob"] == "d"]
    rates = [float(np.mean([cell.dilution.c for cell in cells])) for cells in widths]
    falls = Comparison(
        "dilution rate c falls with width: share of steps",
        1.0,
        EXACT,
        [float(np.mean(np.diff(rates) < 0))],
        0,
        note=f"Means {', '.join(f'{rate:.4f}' for rate in rates)}.",
    )
    return [*comparisons, falls, survivors(comparisons)]


def _other_reading(row: dict[str, Any], results: Results) -> str:
    """What the row would be if logits were divided by the print's temperature."""
    if row["knob"] != "temperature" or row["value"] == 1:
        return ""
    inverse = next(other for other in ROWS if other["knob"] == "temperature" and other["value"] == 1 / row["value"])
    cells = results[label(inverse)]
    mean = sum(cell.carrier.key for cell in cells) / len(cells)
    return f"With logits divided by {row['value']:g} it is {mean:.2f}."


ITEM = Item(
    "table4", "Carrier and decay law across width, vocabulary, lengths and temperature, K = 2", __doc__, series, compare
)
