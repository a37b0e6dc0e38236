"""What a report says in its first sentences: what was run, and what became of every setting's task."""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Iterator
from typing import TYPE_CHECKING, Literal, NamedTuple, get_args

if TYPE_CHECKING:
    from farfield.report.study_content import Content, Setting

# What may become of a task at the longest test; of these, it is lost in some.
Kind = Literal["keeps", "selection", "dilution", "fails", "not learned", "not tested", "unfinished"]
LOST = ("selection", "dilution", "fails")


class Became(NamedTuple):
    """Settings that share an outcome: its word, what it means, and their names."""

    outcome: str
    said: str
    names: str


def what_ran(content: Content) -> str:
    found = [setting.summary for setting in content.settings if setting.summary]
    parts = [f"{content.finished} of {content.wanted} cells are finished"]
    # How many seeds a setting has, not which.
    seeds = sorted({setting.wanted for setting in content.settings})
    of_seeds = f"{_span(seeds)} {'seed' if seeds == [1] else 'seeds'} {'each' if len(content.settings) > 1 else ''}"
    parts.append(", ".join(filter(None, [_grid(content), of_seeds.strip()])))
    if found:
        trained = sorted({(one.config["shortest"], one.config["longest"]) for one in found})
        tested = sorted({one.config["lengths"][-1] for one in found})
        how = f"lengths {trained[0][0]} to {trained[0][1]}" if len(trained) == 1 else "lengths that differ"
        parts[1] += f"; trained on {how}, tested up to {_span(tested)}"
    return ": ".join(parts) + "."


def _grid(content: Content) -> str:
    """What varies: as a product where every combination is there, else by the number of settings."""
    axes = content.layout.axes
    if math.prod(len(axis.values) for axis in axes) == len(content.settings):
        return " x ".join(axis.counted for axis in axes)
    return f"{len(content.settings)} settings, which differ in {'; '.join(axis.name for axis in axes)}"


SAID: dict[str, str] = {
    "keeps": "Kept to the longest test",
    "selection": "Lost by selection (attention picks another key)",
    "dilution": "Lost by dilution (attention picks the right key and gives it too little weight)",
    "fails": "Lost (the task has no single right key, so how cannot be told)",
    "not learned": "Not learned within the trained lengths",
    "not tested": "Not tested beyond the trained lengths",
}


def what_became(content: Content) -> Iterator[Became]:
    for outcome in get_args(Kind):
        if outcome in SAID and (names := _named(content, outcome)):
            yield Became(outcome, SAID[outcome], "; ".join(names))
        elif outcome == "keeps" and any(one.outcome in LOST for one in content.settings):
            yield Became(outcome, SAID[outcome], "none")


# Names of settings that a sentence holds.
MOST_NAMES = 6


def _named(content: Content, outcome: str) -> list[str]:
    """Settings of an outcome; a row of which all settings share it has one name."""
    rows: dict[int, list[Setting]] = defaultdict(list)
    for setting in content.settings:
        rows[setting.place.row].append(setting)
    names = []
    for row, settings in rows.items():
        there = [setting for setting in settings if setting.outcome == outcome]
        value = content.layout.rows.values[row]
        whole = len(there) == len(settings) > 1
        names += (
            [content.layout.rows.said(value) + _kept_to(there)]
            if whole and value
            else [one.place.label + _kept_to([one]) for one in there]
        )
    left = len(names) - MOST_NAMES
    return names if left <= 1 else [*names[:MOST_NAMES], f"and {left} more"]


def _kept_to(settings: list[Setting]) -> str:
    """How far settings that lose their task keep it, where that is beyond training."""
    lost = [one for one in settings if one.summary and one.outcome in LOST]
    reached = sorted(
        {one.reach for one in lost if one.reach and one.summary and one.reach > one.summary.config["longest"]}
    )
    if not lost or not reached:
        return ""
    far = all(one.reach in reached for one in lost)
    return f" (kept to {'' if far else 'at most '}{_span(reached) if far else reached[-1]})"


def _span(values: list[int]) -> str:
    return f"{values[0]}" if len(values) == 1 else f"{values[0]} to {values[-1]}"
