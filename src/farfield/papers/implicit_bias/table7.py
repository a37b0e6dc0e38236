"""Table 7: the margin's lower bound on the target's weight, and the peak height observed (K = 2).

``farfield reproduce implicit-bias --only table7``: 16 rotary heads, about 8 s on two cores. The margin is that
of the carrier-only profile in logit units, which is what gives the print's 2.30 and its bounds.
"""

import math

from farfield.papers.base import Item, Results, Series
from farfield.papers.implicit_bias.setup import EXACT, PUBLISHED, SWEEP, TWO_DIGITS, by_length, rope
from farfield.papers.verdicts import Comparison
from farfield.probes.dilution import target_bound


def series() -> Series:
    return {"rope": rope(2)}


def compare(results: Results) -> list[Comparison]:
    published = PUBLISHED["table7"]
    cells = results["rope"]
    margins = [math.nan if cell.margin is None else cell.margin for cell in cells]
    bounds = [target_bound(margin, cell.lengths) for margin, cell in zip(margins, cells, strict=True)]
    holds = [float((cell.peak_height >= bound).mean()) for cell, bound in zip(cells, bounds, strict=True)]
    return [
        Comparison("margin (logit units)", published["margin"], TWO_DIGITS, margins, SWEEP),
        *by_length("bound", published["L"], published["bound"], bounds, SWEEP),
        *by_length("peak height", published["L"], published["observed"], [cell.peak_height for cell in cells], SWEEP),
        Comparison("share of lengths where observed >= bound", 1.0, EXACT, holds, SWEEP),
    ]


ITEM = Item("table7", "Measured margin, its bound, and the peak height, K = 2", __doc__, series, compare)
