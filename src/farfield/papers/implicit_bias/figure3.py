"""Figure 3: the carrier-only profile and the decay fit (K = 3).

``farfield reproduce implicit-bias --only figure3``: the K = 3 heads of table 2. The profile peaks at -3; the
inverse of the peak height grows linearly with length.
"""

from farfield.papers.base import Item, Results, Series
from farfield.papers.implicit_bias import table2
from farfield.papers.implicit_bias.setup import PUBLISHED, VALIDATION, rope
from farfield.papers.verdicts import Comparison
from farfield.plotting.figures import carrier_and_decay

OFFSET = 3
SHOWN = ("carrier_peak", "alpha", "c", "r2")


def series() -> Series:
    return {"rope": rope(OFFSET)}


def compare(results: Results) -> list[Comparison]:
    row = next(row for row in PUBLISHED["table2"]["rows"] if row["K"] == OFFSET)
    return [
        Comparison(column.replace("_", " "), row[column], unit, [measure(cell) for cell in results["rope"]], VALIDATION)
        for column, unit, measure in table2.COLUMNS
        if column in SHOWN
    ]


ITEM = Item(
    "figure3",
    "Carrier-only profile and decay fit, K = 3",
    __doc__,
    series,
    compare,
    lambda results: carrier_and_decay(results["rope"]),
    "Left: what the mean key and query alone would select, by offset: it peaks at the target, -3. "
    "Right: peak height by length with the fitted law 1/(alpha + c (L - 1)).",
)
