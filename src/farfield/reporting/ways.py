"""How every setting of a study fails, by tested length: the stacked bars of a report."""

from __future__ import annotations

from collections import defaultdict

import numpy as np
from matplotlib.figure import Figure

from farfield.plotting.ways import WaysPanel, ways_figure
from farfield.probes.failure import WAYS
from farfield.reporting.model import Content, Setting
from farfield.reporting.sentences import MOST_NAMES

# Charts that a figure holds.
MOST_CHARTS = 12


def charts_of(content: Content) -> list[WaysPanel]:
    """One chart for every setting whose task has positional targets and of which a seed has finished."""
    found = (_chart(setting) for setting in content.settings)
    return [chart for chart in found if chart is not None]


def failure_figure(content: Content) -> Figure | None:
    """The first charts as one figure; None if there are none."""
    charts = charts_of(content)
    return ways_figure(charts[:MOST_CHARTS]) if charts else None


def left_out_of(content: Content) -> int:
    """How many charts a figure does not hold."""
    return max(0, len(charts_of(content)) - MOST_CHARTS)


def notes_on_charts(content: Content) -> list[str]:
    """What is to be known of the charts: what "not learned" means, and which settings have none and why."""
    notes, names = [], defaultdict(list)
    if any(not chart.learned for chart in charts_of(content)):
        notes.append(
            "Not learned: fewer than half of the seeds fit within the trained lengths; no rule was there to move."
        )
    for setting in content.settings:
        if _chart(setting) is None:
            names[_why(setting)].append(setting.place.label)
    return notes + [f"Left out, since {why}: {'; '.join(_few(some))}." for why, some in names.items()]


def _why(setting: Setting) -> str:
    """Why a setting has no chart."""
    if setting.summary is None:
        return "no seed has finished"
    if setting.outcome == "diverged":
        return "every seed diverged"
    return "more than the last token is asked for, or the right key is elsewhere in every sequence"


def _few(names: list[str]) -> list[str]:
    left = len(names) - MOST_NAMES
    return names if left <= 1 else [*names[:MOST_NAMES], f"and {left} more"]


def _chart(setting: Setting) -> WaysPanel | None:
    if setting.summary is None:
        return None
    means: dict[str, dict[int, float]] = defaultdict(dict)
    for row in setting.summary.rows:
        if row.probe in ("accuracy", *WAYS) and row.mean is not None:
            means[row.probe][row.length] = row.mean.mean
    lengths = [length for length in means["accuracy"] if all(length in means[way] for way in WAYS)]
    if not lengths:
        return None
    shares = {name: np.array([means[name][length] for length in lengths]) for name in WAYS}
    shares["right"] = np.array([means["accuracy"][length] for length in lengths])
    config = setting.summary.config
    trained = config["shortest"], config["longest"]
    return WaysPanel(setting.place.label, lengths, shares, trained, setting.outcome != "not learned")
