"""The set-up that the paper's items share, and its published numbers."""

from __future__ import annotations

import json
from importlib import resources
from typing import Any

import numpy as np

from farfield.cell import Cell
from farfield.encodings.learned import Learned
from farfield.encodings.rope import Rope
from farfield.intervals import over_seeds
from farfield.papers.verdicts import Comparison
from farfield.probes.accuracy import range_means
from farfield.results.result import CellResult
from farfield.tasks.offset import FixedOffset

PUBLISHED: dict[str, Any] = json.loads(
    resources.files("farfield.papers.implicit_bias").joinpath("published.json").read_text()
)

# Seeds behind the paper's numbers: the phenomenon (table 1, figure 1), the validation study (table 2, figures 2
# and 3), and the sweeps (tables 5 and 7).
PHENOMENON = int(PUBLISHED["setup"]["seeds"]["phenomenon"])
VALIDATION = int(PUBLISHED["setup"]["seeds"]["validation"])
SWEEP = int(PUBLISHED["setup"]["seeds"]["sweeps"])
# Seeds run for every setting, the paper's 0 .. n-1 among them. The paper's own five leave the spread uncertain by
# a third: for the K = 1 cosines, seeds 0-4 happen to show a fifth of the spread that 128 seeds have.
SEEDS = 16
# Seeds of the sweeps that the print shows with one seed a row.
SWEEP_SEEDS = 8

TWO_DIGITS = 0.01
# "-K in 100% of cells", and a peak's offset, are statements without rounding.
EXACT = 0.0


# Steps at which figure 4's heads keep their weights.
SNAPSHOTS = (0, 25, 50, 75, 100, 150, 200, 300, 500, 1000, 2000)


def rope(offset: int, base: float = 10000.0, seeds: int = SEEDS, **settings: Any) -> list[Cell]:
    """Rotary heads on offset K, one a seed; those of the reference setting for K = 2 keep weights on the way."""
    if (offset, base, settings) == (2, 10000.0, {}):
        settings = {"snapshots": SNAPSHOTS}
    return [Cell(Rope(base=base), FixedOffset(offset), seed, **settings) for seed in range(seeds)]


def learned(offset: int, seeds: int = SEEDS, **settings: Any) -> list[Cell]:
    """Learned absolute heads on offset K, one a seed."""
    return [Cell(Learned(), FixedOffset(offset), seed, **settings) for seed in range(seeds)]


def by_length(
    name: str,
    lengths: list[int],
    published: list[float],
    rows: list[Any],
    published_n: int,
) -> list[Comparison]:
    """One comparison a length; ``rows`` holds one array over all tested lengths a seed, in ascending order."""
    return [
        Comparison(f"{name} L={length}", number, TWO_DIGITS, [float(row[index]) for row in rows], published_n)
        for index, (length, number) in enumerate(zip(lengths, published, strict=True))
    ]


def accuracies(results: list[CellResult]) -> list[list[float]]:
    """Accuracy by length, one row a seed."""
    return [[right.value for right in result.accuracy] for result in results]


def share_on_target(results: list[CellResult]) -> list[float]:
    """Share of test lengths at which each seed selects its target offset."""
    return [float((result.selected_offset == result.target_offset).mean()) for result in results]


def at_length(results: list[CellResult], length: int) -> list[float]:
    """Accuracy at one test length, of each seed."""
    return [result.accuracy[result.cell.lengths.index(length)].value for result in results]


def in_distribution(results: list[CellResult]) -> list[float]:
    """Mean accuracy over the test lengths within the trained range, of each seed."""
    return [
        range_means(np.array(row), result.lengths, result.cell.shortest, result.cell.longest).trained
        for row, result in zip(accuracies(results), results, strict=True)
    ]


def survivors(comparisons: list[Comparison]) -> Comparison:
    """Share of numbers printed from one seed that lie in the 95% interval of our mean, rounding allowed for."""
    inside = []
    for comparison in comparisons:
        estimate, half = over_seeds(comparison.values), comparison.unit / 2
        if comparison.published is None or estimate.low is None or estimate.high is None:
            continue  # one seed has no interval
        inside.append(float(estimate.low - half <= comparison.published <= estimate.high + half))
    return Comparison(
        "share of one-seed numbers within the 95% interval of our mean",
        None,
        EXACT,
        inside,
        SWEEP,
        incomparable=f"Not in the paper: whether its one seed stands for the mean of more ({len(inside)} numbers).",
    )
