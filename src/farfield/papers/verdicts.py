"""One rule for every published number.

A published number is the mean of ``published_n`` seeds, printed to a unit; ours is the mean of n seeds whose
spread we measure. If both come from the same set-up, the published mean lies in

    measured ± ( t(99%, n - 1) · sd · sqrt(1/n + 1/published_n) + unit/2 )

in 99 of 100 cases: Student's prediction interval, the seed noise of both sides, plus the rounding of the print.
Inside it a number is ``reproduced``, outside it ``differs``. There is no other tolerance, and none per item. A
number without seeds (a formula) has no spread, so only the rounding is left. 99% and not 95%, as one table
holds dozens of numbers: at 95%, one correct number in twenty would be called different.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any, Literal

import numpy as np

from farfield.statistics import t_halfwidth

Outcome = Literal["reproduced", "differs", "not-comparable"]
LEVEL = 0.99
# Slack for numbers that sit exactly on a rounding boundary in decimal but not in binary.
EPSILON = 1e-9


@dataclass(frozen=True)
class Comparison:
    """A published number and what was measured for it.

    Attributes:
        cell: which number of the item, for example ``"rope accuracy L=48"``.
        published: the number as printed, None for a claim without one.
        unit: unit of the last printed digit.
        values: measured, one a seed; a single value for a formula.
        published_n: seeds behind the published number; 0 for a formula.
        incomparable: why no verdict can be given, empty if one can.
        note: added to the reason of the verdict.
    """

    cell: str
    published: float | None
    unit: float
    values: Sequence[float]
    published_n: int
    incomparable: str = ""
    note: str = ""


@dataclass(frozen=True)
class Verdict:
    """One line of ``verdicts.json``.

    Attributes:
        item, cell: which published number.
        published, measured: the two numbers.
        low, high: where the published number should lie if both come from the same set-up.
        n: seeds measured.
        verdict: the outcome.
        why: the outcome in words, with the numbers it rests on.
    """

    item: str
    cell: str
    published: float | None
    measured: float | None
    low: float | None
    high: float | None
    n: int
    verdict: Outcome
    why: str

    def to_json(self) -> dict[str, Any]:
        """The verdict as a JSON object."""
        return asdict(self)


def judge(item: str, comparison: Comparison) -> Verdict:
    """Apply the rule to one number."""
    values = np.asarray(comparison.values, float)
    n = len(values)
    measured = float(values.mean()) if n else math.nan

    def verdict(outcome: Outcome, why: str, low: float | None = None, high: float | None = None) -> Verdict:
        why = " ".join(filter(None, (why, comparison.note)))
        number = measured if math.isfinite(measured) else None
        return Verdict(item, comparison.cell, comparison.published, number, low, high, n, outcome, why)

    if comparison.incomparable:
        return verdict("not-comparable", comparison.incomparable)
    if comparison.published is None:
        return verdict("not-comparable", "The paper prints no number for this claim.")
    if not math.isfinite(measured):
        diverged = int((~np.isfinite(values)).sum())
        return verdict("differs", f"{diverged} of {n} seeds gave no finite number.")
    half = comparison.unit / 2
    if comparison.published_n:
        if n < 2:
            return verdict("not-comparable", "One seed shows no seed noise to compare with.")
        deviation = float(values.std(ddof=1))
        half += t_halfwidth(deviation, n, LEVEL) * math.sqrt(1 + n / comparison.published_n)
        basis = f"mean of {n} seeds, sd {deviation:.2g}; the paper's {comparison.published_n}"
        if comparison.published_n == 1:
            basis += ", and one seed says little"
    else:
        basis = "a formula, no seeds"
    low, high = measured - half, measured + half
    inside = low - EPSILON <= comparison.published <= high + EPSILON
    where = "inside" if inside else "outside"
    why = f"{comparison.published:g} lies {where} {low:.4g} to {high:.4g} ({basis})."
    return verdict("reproduced" if inside else "differs", why, low, high)
