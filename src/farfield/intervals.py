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


def clustered(
    count: int, total: int, clusters: int, moments: Sequence[float] | np.ndarray, level: float = LEVEL
) -> tuple[float, float]:
    """Interval of a proportion whose ``total`` trials come in independent clusters, alike within each.

    Wilson's interval for as many independent trials as would have the variance found between clusters, with Student's
    quantile for it (Korn and Graubard, Survey Methodology 24, 1998, give the effective number). Where every trial is a
    cluster, it is Wilson's own. Where all clusters agree on 0 or 1, the trials count as one a cluster: the variance
    that they might have had cannot be told.

    Args:
        count: trials that succeed.
        clusters: how many.
        moments: sums over clusters of y y, y m and m m, where m trials of a cluster have y successes.
    """
    if clusters >= total or clusters < 2:
        return wilson(count, total, level)
    share = count / total
    yy, ym, mm = map(float, moments)
    variance = clusters / (clusters - 1) * max(yy - 2 * share * ym + share**2 * mm, 0.0) / total**2
    effective = min(share * (1 - share) / variance, total) if variance > 0 and 0 < share < 1 else clusters
    z = float(stats.t.ppf(0.5 + level / 2, clusters - 1))
    centre = (share + z * z / (2 * effective)) / (1 + z * z / effective)
    half = z / (1 + z * z / effective) * math.sqrt(share * (1 - share) / effective + (z / effective) ** 2 / 4)
    return max(0.0, centre - half), min(1.0, centre + half)


def t_halfwidth(deviation: float, n: int, level: float = LEVEL) -> float:
    """Half width of Student's interval of a mean of n values with the given sample standard deviation."""
    return float(stats.t.ppf(0.5 + level / 2, n - 1)) * deviation / math.sqrt(n)


def over_seeds(values: Sequence[float] | np.ndarray, *, bounds: tuple[float, float] | None = None) -> Estimate:
    """Mean over seeds with Student's 95% interval; NaN over none.

    Args:
        values: one number a seed.
        bounds: clip the interval to this range, for proportions.
    """
    array = np.asarray(values, float)
    n = len(array)
    if n == 0:
        return Estimate(math.nan, None, None, 0, "no seed")
    mean = float(array.mean())
    if n == 1:
        return Estimate(mean, None, None, 1, "one seed, no interval")
    half = t_halfwidth(float(array.std(ddof=1)), n)
    low, high = mean - half, mean + half
    if bounds is not None:
        low, high = float(max(low, bounds[0])), float(min(high, bounds[1]))
    return Estimate(mean, low, high, n, f"Student t 95% over {n} seeds")


RESAMPLES = 10_000


def bootstrap(values: Sequence[float] | np.ndarray) -> Estimate:
    """Mean over seeds with the expanded percentile bootstrap's 95% interval.

    Plain percentiles are too narrow for few values: of 8, they hold the mean 88% of the time. So the percentiles are
    moved outwards to where a normal sample would need them (Hesterberg, The American Statistician 69, 2015, section
    5.2: the level whose normal quantile is Student's, times the root of n/(n - 1)). Below 5 values no resampling
    reaches far enough.

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
    tail = float(stats.norm.sf(math.sqrt(n / (n - 1)) * stats.t.ppf(0.5 + LEVEL / 2, n - 1)))
    low, high = np.quantile(means, [tail, 1 - tail])
    return Estimate(mean, float(low), float(high), n, f"expanded percentile bootstrap 95% over {n} seeds")
