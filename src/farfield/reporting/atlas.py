"""The atlas of a report: a square for every row and column, with a number, a colour and a word."""

from __future__ import annotations

from collections import defaultdict
from typing import Any, NamedTuple

import matplotlib as mpl
import numpy as np
from matplotlib.colors import to_hex

from farfield.reporting.model import Content, Setting
from farfield.reporting.names import counted, span
from farfield.results.measures import kind_of, title_of

# Steps of the atlas's colours, 0 to 1.
LEVELS = 20


class Square(NamedTuple):
    """Settings of one row and column.

    Attributes:
        outcome: what became of the task at their longest test, in a word; where some seeds keep it and others do not,
            with their number.
        longest: that length, the greatest of them; None if no cell is finished.
        last: mean token accuracy there, each setting at its own longest test.
        values: means by measurement and length.
    """

    outcome: str
    longest: int | None
    last: float | None
    values: dict[str, dict[int, float]]

    def word(self, measurement: str, length: int) -> str:
        """The outcome beside a value of a measurement; where that is of something else, with the outcome's length."""
        own = self.longest is None or (measurement, length) == ("accuracy", self.longest)
        return self.outcome if own else f"{self.outcome} at {self.longest}"


def squares_of(content: Content) -> dict[tuple[int, int], Square]:
    """Every square that holds a setting, by row and column."""
    groups: dict[tuple[int, int], list[Setting]] = defaultdict(list)
    for setting in content.settings:
        groups[setting.place.row, setting.place.column].append(setting)
    return {place: _square(group) for place, group in groups.items()}


def _square(group: list[Setting]) -> Square:
    outcomes = {setting.outcome for setting in group}
    values: dict[str, dict[int, list[float]]] = defaultdict(lambda: defaultdict(list))
    for setting in group:
        for row in setting.summary.rows if setting.summary else ():
            if row.mean is not None and kind_of(row.probe) == "share":
                values[row.probe][row.length].append(row.mean.mean)
    means = {
        probe: {length: round(float(np.mean(found)), 4) for length, found in by_length.items()}
        for probe, by_length in values.items()
    }
    last = [mean.mean for one in group if one.summary and (mean := one.summary.at(one.longest).mean)]
    keeping, seeds = sum(one.keeping for one in group), sum(one.n for one in group)
    some = f" · {keeping} of {seeds}" if 0 < keeping < seeds else ""
    return Square(
        outcome=(outcomes.pop() if len(outcomes) == 1 else "mixed") + some,
        longest=max((one.longest for one in group if one.summary), default=None),
        last=float(np.mean(last)) if last else None,
        values=means,
    )


def atlas_of(content: Content, squares: dict[tuple[int, int], Square]) -> dict[str, Any]:
    """What the page's script needs to show another measurement or length."""
    lengths = sorted({n for square in squares.values() for found in square.values.values() for n in found})
    measured = {probe for square in squares.values() for probe in square.values}
    return {
        "measures": [[name, title_of(name, content.counted)] for name in content.panels if name in measured],
        "lengths": lengths,
        "values": {f"{row},{column}": square.values for (row, column), square in squares.items()},
        "levels": LEVELS,
        "over": over_what(content),
    }


def heading(content: Content) -> str:
    """What the atlas of a figure shows, in a line."""
    lengths = {setting.longest for setting in content.settings if setting.summary}
    at = f"length {lengths.pop()}" if len(lengths) == 1 else "each setting's longest test"
    return f"{title_of('accuracy', content.counted)} at {at}, {over_what(content)}"


def over_what(content: Content) -> str:
    """How many seeds the numbers of the atlas are means of."""
    seeds = sorted({setting.n for setting in content.settings if setting.summary})
    if not seeds:
        return "no seed"
    return counted(1, "seed") if seeds == [1] else f"mean of {span(seeds)} seeds"


def level_of(value: float) -> int:
    """The step of a value's colour."""
    return round(LEVELS * min(max(value, 0.0), 1.0))


def palette() -> list[tuple[str, str]]:
    """Ground and ink of every level."""
    colours = [mpl.colormaps["cividis"](level / LEVELS) for level in range(LEVELS + 1)]
    return [
        (to_hex(colour), "#fff" if np.dot(colour[:3], (0.2126, 0.7152, 0.0722)) < 0.45 else "#000")
        for colour in colours
    ]
