"""Table 5: the rotary base, K = 2.

``farfield reproduce implicit-bias --only table5``: 48 rotary heads, about 12 s on two cores. The print's
"maximum over s >= 4" is attained at s = 4 itself and so measures local breadth again; the true far
re-alignment, the largest value past the kernel's first valley, stands beside it.
"""

import numpy as np

from farfield.encodings.rope import frequencies
from farfield.papers.base import Item, Results, Series
from farfield.papers.implicit_bias.setup import EXACT, PUBLISHED, SWEEP, TWO_DIGITS, rope
from farfield.papers.verdicts import Comparison
from farfield.probes.kernel import KernelShape, kernel, kernel_shape

REACH = 47  # offsets that occur at the longest test length, 48


def shape_of(base: float, width: int) -> KernelShape:
    """Kernel of one base with every frequency weighted alike, as the paper's g."""
    return kernel_shape(kernel(np.asarray(frequencies(width, np.float64(base))), REACH))


def series() -> Series:
    return {f"base={row['base']:g}": rope(2, row["base"]) for row in PUBLISHED["table5"]["rows"]}


def compare(results: Results) -> list[Comparison]:
    comparisons = []
    for row in PUBLISHED["table5"]["rows"]:
        name = f"base={row['base']:g}"
        cells = results[name]
        shape = shape_of(row["base"], cells[0].cell.model.width)
        last = cells[0].cell.lengths.index(48)
        middle = cells[0].cell.lengths.index(32)
        comparisons += [
            Comparison(f"{name} g(1)/g(0)", row["g1_over_g0"], TWO_DIGITS, [shape.breadth], 0),
            Comparison(
                f"{name} max g(s>=4)/g(0)",
                row["max_s_ge_4"],
                TWO_DIGITS,
                [shape.beyond_four],
                0,
                note="Attained at s = 4 itself, so it measures local breadth.",
            ),
            Comparison(
                f"{name} far re-alignment",
                None,
                TWO_DIGITS,
                [shape.realignment],
                0,
                incomparable="Not in the paper: largest g(s)/g(0) past the first valley for s <= 47, "
                f"at s = {shape.realignment_at}."
                if shape.realignment_at
                else "Not in the paper: the kernel falls all the way to s = 47, so nothing re-aligns.",
            ),
            Comparison(
                f"{name} accuracy L=48",
                row["ood48"],
                TWO_DIGITS,
                [cell.accuracy[last].value for cell in cells],
                SWEEP,
            ),
            Comparison(
                f"{name} selected offset L=32",
                row["selected_at_L32"],
                EXACT,
                [float(cell.selected_offset[middle]) for cell in cells],
                SWEEP,
            ),
        ]
    return comparisons


ITEM = Item("table5", "Rotary base and the kernel's shape, K = 2", __doc__, series, compare)
