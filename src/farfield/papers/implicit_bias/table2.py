"""Table 2: the carrier, and the decay law, for offsets 1, 2 and 3.

``farfield reproduce implicit-bias --only table2``: 48 rotary heads, about 12 s on two cores. Keys and queries
share a direction that holds four fifths of their energy, turned to the target for K = 2 and 3; peak height
falls as 1/(alpha + c (L - 1)).
"""

from farfield.papers.base import Item, Results, Series
from farfield.papers.implicit_bias.setup import EXACT, PUBLISHED, TWO_DIGITS, VALIDATION, rope, share_on_target
from farfield.papers.verdicts import Comparison

# Columns of the print: key in the published data, unit of the last digit, and the measurement.
COLUMNS = (
    ("key_fraction", TWO_DIGITS, lambda result: result.carrier.key),
    ("query_fraction", TWO_DIGITS, lambda result: result.carrier.query),
    ("carrier_peak", EXACT, lambda result: result.carrier.peak),
    ("cos_rotated", TWO_DIGITS, lambda result: result.carrier.cos_rotated),
    ("cos_unrotated", TWO_DIGITS, lambda result: result.carrier.cos_unrotated),
    ("alpha", TWO_DIGITS, lambda result: result.dilution.alpha),
    ("c", 0.0001, lambda result: result.dilution.c),
    ("r2", 0.001, lambda result: result.dilution.r2),
)


def series() -> Series:
    return {f"K={row['K']}": rope(row["K"]) for row in PUBLISHED["table2"]["rows"]}


def compare(results: Results) -> list[Comparison]:
    comparisons = []
    for row in PUBLISHED["table2"]["rows"]:
        name = f"K={row['K']}"
        cells = results[name]
        comparisons += [
            Comparison(
                f"{name} {column.replace('_', ' ')}", row[column], unit, [measure(cell) for cell in cells], VALIDATION
            )
            for column, unit, measure in COLUMNS
        ]
        comparisons.append(
            Comparison(f"{name} share of lengths selecting -K", 1.0, EXACT, share_on_target(cells), VALIDATION)
        )
    width = next(iter(results.values()))[0].cell.model.width
    comparisons.append(Comparison("baseline 1/d", PUBLISHED["table2"]["baseline"], 0.001, [1 / width], 0))
    return comparisons


ITEM = Item("table2", "Carrier and decay law across offsets", __doc__, series, compare)
