"""Larger offsets: the carrier's peak for K = 2 .. 7.

``farfield reproduce implicit-bias --only offsets``: 32 heads beyond those of table 2, about 15 s on two cores. The
print goes to K = 5; 7 is the last offset that the shortest training sequence, of 8 tokens, holds.
"""

import math

from farfield.papers.base import Item, Results, Series
from farfield.papers.implicit_bias.setup import EXACT, PUBLISHED, SWEEP, SWEEP_SEEDS, rope, share_on_target
from farfield.papers.verdicts import Comparison

PEAKS = {int(offset): peak for offset, peak in PUBLISHED["larger_offsets"]["carrier_peak"].items()}
OFFSETS = (2, 3, 4, 5, 6, 7)
BEYOND = "Not in the paper, which ends at K = 5."


def series() -> Series:
    return {f"K={offset}": rope(offset) if offset <= 3 else rope(offset, seeds=SWEEP_SEEDS) for offset in OFFSETS}


def compare(results: Results) -> list[Comparison]:
    comparisons = []
    for offset in OFFSETS:
        cells = results[f"K={offset}"]
        peaks = [math.nan if cell.carrier.peak is None else cell.carrier.peak for cell in cells]
        comparisons += [
            Comparison(
                f"K={offset} carrier peak", PEAKS.get(offset), EXACT, peaks, SWEEP, "" if offset in PEAKS else BEYOND
            ),
            Comparison(
                f"K={offset} share of lengths selecting -K",
                None,
                EXACT,
                share_on_target(cells),
                SWEEP,
                "The paper prints it for K = 1, 2 and 3.",
            ),
        ]
    return comparisons


ITEM = Item("offsets", "Larger offsets: where the carrier peaks, K = 2 .. 7", __doc__, series, compare)
