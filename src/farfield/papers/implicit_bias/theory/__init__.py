"""The lemmas, propositions and corollaries of section 4 and appendix A, checked with this package's own code.

``farfield reproduce implicit-bias --only theory``: 128 heads, those of tables 2, 5 and 6, about 35 s on two
cores, and 15 s of checks. A statement that holds for all weights is one line, the share of drawn cases in which it
holds, against 1. Beside them stands what the text says of trained heads and does not measure.
"""

from farfield.cell import Cell
from farfield.encodings.learned import Learned
from farfield.papers.base import Item, Results, Series
from farfield.papers.implicit_bias.setup import PUBLISHED, SEEDS, learned, rope
from farfield.papers.implicit_bias.theory import carrier, dilution, equivariance, pinning, realignment
from farfield.papers.verdicts import Comparison
from farfield.tasks.offset import FixedOffset

OFFSETS = (1, 2, 3)
DECAYED = 2  # the offset of the position tables


def series() -> Series:
    rotary = {f"rope K={offset}": rope(offset) for offset in OFFSETS}
    bases = {f"base={row['base']:g}": rope(2, row["base"]) for row in PUBLISHED["table5"]["rows"]}
    tables = {
        f"learned decay={row['weight_decay']:g}": [
            Cell(Learned(), FixedOffset(DECAYED), seed, weight_decay=row["weight_decay"]) for seed in range(SEEDS)
        ]
        for row in PUBLISHED["table6"]["rows"]
        if row["weight_decay"] > 0
    }
    return rotary | bases | {"learned decay=0": learned(DECAYED)} | tables


def compare(results: Results) -> list[Comparison]:
    rotary = {offset: results[f"rope K={offset}"] for offset in OFFSETS}
    bases = {float(name[5:]): cells for name, cells in results.items() if name.startswith("base=")}
    tables = {float(name[14:]): cells for name, cells in results.items() if name.startswith("learned decay=")}
    return [
        *equivariance.compare(),
        *carrier.compare(rotary),
        *realignment.compare(bases),
        *dilution.compare(rotary[2]),
        *pinning.compare(tables),
    ]


ITEM = Item("theory", "Lemmas, propositions and corollaries", __doc__, series, compare, theorems=True)
