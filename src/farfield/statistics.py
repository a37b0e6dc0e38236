"""Intervals over seeds and over sequences; the few formulas every table and figure shares."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from scipy import stats

LEVEL = 0.95


class Estimate(NamedTuple):
    """A mean with its interval.

    Attributes:
        mean: mean over the n values.
        low, high: ends of the 95% interval; None when one value leaves nothing to estimate it from.
        n: number of values, usually seeds.
        kind: how the interval was made, for labels.
    """

    mean: float
    low: float | None
    high: float | None
    n: int
    kind: str


def wilson(correct: int, total: int, level: float = LEVEL) -> tuple[float, float]:
    """Wilson score interval of a proportion.

    Source: Wilson (1927); Brown, Cai and DasGupta (2001) for why not the normal interval near 0 and 1.
    """
    low, high = stats.binomtest(int(correct), int(total)).proportion_ci(level, method="wilson")
    return float(low), float(high)


def t_halfwidth(deviation: float, n: int, level: float = LEVEL) -> float:
    """Half width of Student's interval of a mean of n values with the given sample standard deviation."""
    return float(stats.t.ppf(0.5 + level / 2, n - 1)) * deviation / math.sqrt(n)


def over_seeds(
    values: Sequence[float] | np.ndarray, *, bounds: tuple[float, float] | None = None, trials: int | None = None
) -> Estimate:
    """Mean over seeds with Student's 95% interval.

    Args:
        values: one number a seed.
        bounds: clip the interval to this range, for proportions.
        trials: for one seed only, the sequences behind its proportion, for a Wilson interval instead.
    """
    array = np.asarray(values, float)
    n = len(array)
    mean = float(array.mean())
    if n == 1:
        if trials is None or not math.isfinite(mean):
            return Estimate(mean, None, None, 1, "one seed, no interval")
        return Estimate(mean, *wilson(round(mean * trials), trials), 1, f"Wilson 95% over {trials} sequences")
    half = t_halfwidth(float(array.std(ddof=1)), n)
    low, high = mean - half, mean + half
    if bounds is not None:
        low, high = float(max(low, bounds[0])), float(min(high, bounds[1]))
    return Estimate(mean, low, high, n, f"Student t 95% over {n} seeds")


RESAMPLES = 10_000


def bootstrap(values: Sequence[float] | np.ndarray) -> Estimate:
    """Mean over seeds with the percentile bootstrap's 95% interval.

    The resamples are fixed, so that equal values give equal intervals. Where all values agree, or there is one, nothing
    can be resampled: the interval is that point, or none.
    """
    array = np.asarray(values, float)
    n, mean = len(array), float(array.mean())
    if n == 1:
        return Estimate(mean, None, None, 1, "one seed, no interval")
    random = np.random.default_rng(0)
    means = (
        [array[random.integers(n, size=n)].mean() for _ in range(RESAMPLES)]
        if n > 1000
        else (array[random.integers(n, size=(RESAMPLES, n))].mean(axis=1))
    )
    low, high = np.quantile(means, [0.5 - LEVEL / 2, 0.5 + LEVEL / 2])
    return Estimate(mean, float(low), float(high), n, f"percentile bootstrap 95% over {n} seeds")
