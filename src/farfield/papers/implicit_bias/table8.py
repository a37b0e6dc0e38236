"""Table 8: one head against four of a quarter of the width, K = 2.

``farfield reproduce implicit-bias --only table8``: 16 heads of width 64 and 8 models of four heads of width 16, about
20 s on two cores. Energy is the largest squared singular value's share of all of W = W_Q^T W_K, a head; the print's
0.39-0.57 is taken as the smallest and the largest of four heads. The peak is the largest mean attention after
averaging over sequences and heads.
"""

import numpy as np

from farfield.cell import Cell
from farfield.models.head import Head
from farfield.papers.base import Item, Results, Series
from farfield.papers.implicit_bias.setup import PUBLISHED, SWEEP, SWEEP_SEEDS, TWO_DIGITS, rope
from farfield.papers.verdicts import Comparison
from farfield.probes.attention import peak_height
from farfield.results.result import CellResult

OFFSET = 2
ROWS = PUBLISHED["table8"]["rows"]
WIDTH = int(PUBLISHED["setup"]["head"]["d"])


def label(heads: int) -> str:
    """Name of the series with so many heads."""
    return f"H={heads}"


def series() -> Series:
    return {label(row["heads"]): _cells(row["heads"]) for row in ROWS}


def _cells(heads: int) -> list[Cell]:
    return rope(OFFSET) if heads == 1 else rope(OFFSET, seeds=SWEEP_SEEDS, model=Head(WIDTH, heads))


def compare(results: Results) -> list[Comparison]:
    comparisons = []
    for row in ROWS:
        name, cells = label(row["heads"]), results[label(row["heads"])]
        low, high = row["top1_energy"]
        if low == high:
            energies = [("top-1 energy", low, np.mean)]
        else:
            energies = [("top-1 energy, least head", low, np.min), ("top-1 energy, most head", high, np.max)]
        comparisons += [
            Comparison(f"{name} {what}", number, TWO_DIGITS, [float(reduce(cell.top_energy)) for cell in cells], SWEEP)
            for what, number, reduce in energies
        ]
        comparisons += [
            Comparison(
                f"{name} peak height L={length}", number, TWO_DIGITS, [_peak(cell, length) for cell in cells], SWEEP
            )
            for length, number in zip(PUBLISHED["table8"]["L"], row["peak_attention"], strict=True)
        ]
    return comparisons


def _peak(cell: CellResult, length: int) -> float:
    """Largest mean attention over sequences and heads at one length."""
    return float(peak_height(cell.head_attention.mean(axis=1), cell.lengths)[cell.cell.lengths.index(length)])


ITEM = Item("table8", "Heads, the spectrum of W, and dilution, K = 2", __doc__, series, compare)
