"""How every setting of a study fails, by length: the stacked charts of a report."""

from __future__ import annotations

from collections import defaultdict

import numpy as np
from matplotlib.figure import Figure

from farfield.plotting.ways import WaysPanel, ways_figure
from farfield.probes.failure import WAYS
from farfield.reporting.model import Content, Setting

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
    return WaysPanel(setting.place.label, lengths, shares, (config["shortest"], config["longest"]))
