"""One rule for every published number.

A published number is the mean of ``published_n`` seeds, printed to a unit; ours is the mean of n seeds whose
spread we measure. If both come from the same set-up, the published mean lies in

    measured ± ( t(99%, n - 1) · sd · sqrt(1/n + 1/published_n) + unit/2 )

in 99 of 100 cases: Student's prediction interval, the seed noise of both sides, plus the rounding of the print.
Inside it a number is ``reproduced``, outside it ``differs``. There is no other tolerance, and none per item. A
number without seeds (a formula) has no spread, so only the rounding is left. A printed standard deviation of
published_n seeds is held to the F interval of the ratio of two variances, at the same level. 99% and not 95%, as
one table holds dozens of numbers: at 95%, one correct number in twenty would be called different.

A statement without rounding, "-K in 100% of cells", has the unit 0 and no interval: it is reproduced if it holds in
every seed, and one seed in which it does not makes it differ.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any, Literal

import numpy as np
from scipy import stats

from farfield.intervals import over_seeds, t_halfwidth

VerdictKind = Literal["reproduced", "differs", "not-comparable"]
LEVEL = 0.99
# Slack for numbers that sit exactly on a rounding boundary in decimal but not in binary.
EPSILON = 1e-9


@dataclass(frozen=True)
class Comparison:
    """A published number and what was measured for it.

    Attributes:
        cell: which number of the item, for example ``"rope accuracy L=48"``.
        published: the number as printed, None for a claim without one.
        unit: unit of the last printed digit; 0 for a statement that has to hold in every seed.
        values: measured, one a seed; a single value for a formula.
        published_n: seeds behind the published number; 0 for a formula.
        incomparable: why no verdict can be given, empty if one can.
        note: added to the reason of the verdict.
        statistic: what the paper prints of its seeds; a ``deviation`` divides by published_n, as numpy does.
        explanation: shown if the number differs: settings tried, values got, likeliest cause.
    """

    cell: str
    published: float | None
    unit: float
    values: Sequence[float]
    published_n: int
    incomparable: str = ""
    note: str = ""
    statistic: Literal["mean", "deviation"] = "mean"
    explanation: str = ""


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
        mean_low, mean_high: 95% interval of our mean over seeds, None without one: what the number most likely is.
        explanation: of a number that differs: settings tried, values got, likeliest cause.
    """

    item: str
    cell: str
    published: float | None
    measured: float | None
    low: float | None
    high: float | None
    n: int
    verdict: VerdictKind
    why: str
    mean_low: float | None = None
    mean_high: float | None = None
    explanation: str = ""

    def to_json(self) -> dict[str, Any]:
        """The verdict as a JSON object."""
        return asdict(self)


def judge(item: str, comparison: Comparison) -> Verdict:
    """Apply the rule to one number."""
    values = np.asarray(comparison.values, float)
    n = len(values)
    measured = _measured(comparison, values)
    mean = over_seeds(values) if comparison.statistic == "mean" and n > 1 and np.isfinite(values).all() else None

    def verdict(outcome: VerdictKind, why: str, low: float | None = None, high: float | None = None) -> Verdict:
        return Verdict(
            item,
            comparison.cell,
            comparison.published,
            measured if math.isfinite(measured) else None,
            low,
            high,
            n,
            outcome,
            why=" ".join(filter(None, (why, comparison.note))),
            mean_low=mean.low if mean else None,
            mean_high=mean.high if mean else None,
            explanation=comparison.explanation if outcome == "differs" else "",
        )

    if comparison.incomparable:
        return verdict("not-comparable", comparison.incomparable)
    if comparison.published is None:
        return verdict("not-comparable", "The paper prints no number for this claim.")
    if not math.isfinite(measured):
        diverged = int((~np.isfinite(values)).sum())
        return verdict("differs", f"{diverged} of {n} seeds gave no finite number.")
    if comparison.published_n and n < 2:
        return verdict("not-comparable", "One seed shows no seed noise to compare with.")
    low, high = _interval(comparison, measured, values)
    inside = low - EPSILON <= comparison.published <= high + EPSILON
    if comparison.unit == 0:
        inside = bool((np.abs(values - comparison.published) <= EPSILON).all())
    where = "inside" if inside else "outside"
    why = f"{comparison.published:g} lies {where} {low:.4g} to {high:.4g} ({_basis(comparison, values)})."
    if comparison.unit == 0:
        held = int((np.abs(values - comparison.published) <= EPSILON).sum())
        why = f"{comparison.published:g} in {held} of {n} seeds." if comparison.published_n else why
    return verdict("reproduced" if inside else "differs", why, low, high)


def _measured(comparison: Comparison, values: np.ndarray) -> float:
    if not len(values):
        return math.nan
    if comparison.statistic == "mean":
        return float(values.mean())
    n = comparison.published_n
    return float(values.std(ddof=1)) * math.sqrt((n - 1) / n) if len(values) > 1 else math.nan


def _interval(comparison: Comparison, measured: float, values: np.ndarray) -> tuple[float, float]:
    """Where the published number should lie."""
    half, n = comparison.unit / 2, len(values)
    if comparison.unit == 0:
        return float(values.min()), float(values.max())
    if comparison.statistic == "deviation":
        ratio = stats.f(comparison.published_n - 1, n - 1)
        low, high = (measured * math.sqrt(ratio.ppf(tail)) for tail in ((1 - LEVEL) / 2, (1 + LEVEL) / 2))
        return low - half, high + half
    if comparison.published_n:
        half += t_halfwidth(float(values.std(ddof=1)), n, LEVEL) * math.sqrt(1 + n / comparison.published_n)
    return measured - half, measured + half


def _basis(comparison: Comparison, values: np.ndarray) -> str:
    """What the interval rests on."""
    if not comparison.published_n:
        return "a formula, no seeds"
    statistic = "standard deviation" if comparison.statistic == "deviation" else "mean"
    basis = f"{statistic} of {len(values)} seeds"
    if statistic == "mean":
        basis += f", sd {values.std(ddof=1):.2g}"
    basis += f"; the paper's {comparison.published_n}"
    return basis + (", and one seed says little" if comparison.published_n == 1 else "")


def statement(name: str, holds: Sequence[bool] | np.ndarray, *, share: float = 1.0, note: str = "") -> Comparison:
    """A theorem's line: the share of cases in which it holds, which has to be ``share``."""
    return Comparison(name, share, 0.0, [float(np.mean(holds))], 0, note=note)
