"""Figure 5, left: accuracy at L = 48 with other relative encodings.

``farfield reproduce implicit-bias --only figure5``: 96 heads, about 25 s on two cores. The print gives neither the
ALiBi slope nor the T5 buckets. Slope 1/2 (the first of the reference's eight heads) gives its numbers; the
reference's slope of a single head, 2**-8, gives .13 at K = 1. T5 with 32 buckets up to distance 128 gives them where
its bias starts at zero; started from N(0, 1), never-trained far buckets win in about half of the seeds.
"""

import numpy as np

from farfield.encodings.alibi import Alibi
from farfield.encodings.t5 import T5
from farfield.papers.base import Item, Results, Series
from farfield.papers.implicit_bias.setup import EXACT, PUBLISHED, SEEDS, SWEEP, TWO_DIGITS, accuracies, rope
from farfield.papers.verdicts import Comparison
from farfield.report.figures import against_length
from farfield.studies.cells import Cell
from farfield.studies.results import CellResult
from farfield.tasks.offset import FixedOffset

SLOPE = 0.5
SHOWN = PUBLISHED["other_schemes"]


def series() -> Series:
    encodings = {"alibi": Alibi(slope=SLOPE), "t5": T5()}
    trained = {
        f"{name} K={offset}": [Cell(encoding, FixedOffset(offset), seed) for seed in range(SEEDS)]
        for name, encoding in encodings.items()
        for offset in (1, 2)
    }
    return trained | {"rope K=1": rope(1), "rope K=2": rope(2)}


def compare(results: Results) -> list[Comparison]:
    low, high = SHOWN["alibi"]["K2"]
    alibi, fails = results["alibi K=1"], results["alibi K=2"]
    first, last = SHOWN["t5"]["K1_or_K2_decay"]
    decays = "The print does not say whether this is K = 1 or K = 2."
    return [
        Comparison("alibi K=1 accuracy", SHOWN["alibi"]["K1"], TWO_DIGITS, at_the_end(alibi), SWEEP),
        Comparison("alibi K=2 accuracy, lowest length", low, TWO_DIGITS, _over_lengths(fails, np.min), SWEEP),
        Comparison("alibi K=2 accuracy, highest length", high, TWO_DIGITS, _over_lengths(fails, np.max), SWEEP),
        Comparison("alibi K=2 selected offset", SHOWN["alibi"]["K2_selected"], EXACT, _selected(fails), SWEEP),
        *(
            Comparison(f"t5 {K} accuracy L={length}", number, TWO_DIGITS, values, SWEEP, note=decays)
            for K in ("K=1", "K=2")
            for length, number, values in (
                (12, first, at_the_end(results[f"t5 {K}"], 0)),
                (48, last, at_the_end(results[f"t5 {K}"])),
            )
        ),
        *(
            Comparison(f"t5 {K} selected offset", -int(K[2:]), EXACT, _selected(results[f"t5 {K}"]), SWEEP)
            for K in ("K=1", "K=2")
        ),
        Comparison("rope K=2 accuracy", SHOWN["rope"]["K2"], TWO_DIGITS, at_the_end(results["rope K=2"]), SWEEP),
    ]


def at_the_end(results: list[CellResult], length: int = -1) -> list[float]:
    """Accuracy at the longest test, or the one numbered ``length``, of each seed."""
    return [row[length] for row in accuracies(results)]


def _over_lengths(results: list[CellResult], reduce: np.ufunc | object) -> list[float]:
    return [float(reduce(row)) for row in accuracies(results)]  # pyright: ignore[reportCallIssue]


def _selected(results: list[CellResult]) -> list[float]:
    return [float(result.selected_offset[-1]) for result in results]


ITEM = Item(
    "figure5",
    "Other relative encodings: ALiBi and T5 beside RoPE, K = 1 and 2",
    __doc__,
    series,
    compare,
    lambda results: against_length(results),
    "ALiBi prefers near keys and so cannot select K = 2 at any length. T5 selects every offset at every length, and "
    "loses accuracy because far keys share one bias and take the target's mass.",
)
