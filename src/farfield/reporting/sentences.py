"""What a report says in its first sentences: what was run, and what became of every setting's task."""

from __future__ import annotations

import math
from collections import defaultdict
from typing import Any, NamedTuple, get_args

from farfield.reporting.model import Content, Fate, Setting
from farfield.reporting.names import counted, listed, span

# Outcomes of a task that is lost.
LOST = ("rule moved", "outcompeted", "diluted", "fails")


class Became(NamedTuple):
    """Settings that share an outcome: its word, what it means, and their names."""

    outcome: str
    said: str
    names: list[str]

    def __str__(self) -> str:
        return f"{self.said}: {'; '.join(self.names)}." if self.names else f"{self.said}."


def sentences(content: Content) -> list[str]:
    """What was run and what became of it."""
    return [what_ran(content), *map(str, what_became(content))]


def to_json(content: Content) -> dict[str, Any]:
    """What it comes to, as a JSON-able object; the statistics are in the files beside a report."""
    settings = [
        {
            "setting": one.place.label,
            "outcome": one.outcome,
            "kept_up_to": one.reach,
            "seeds_that_keep": one.keeping,
            "finished": one.n,
            "wanted": one.wanted,
            "cells": one.cells,
        }
        for one in content.settings
    ]
    return {
        "name": content.name,
        "summary": " ".join(sentences(content)),
        "finished": content.finished,
        "wanted": content.wanted,
        "problems": [one._asdict() for one in content.problems],
        "settings": settings,
    }


def what_ran(content: Content) -> str:
    """What was run, in a sentence."""
    found = [setting.summary for setting in content.settings if setting.summary]
    parts = [f"{content.finished} of {content.wanted} cells are finished"]
    # How many seeds a setting has, not which.
    seeds = sorted({setting.wanted for setting in content.settings})
    of_seeds = f"{span(seeds)} {'seed' if seeds == [1] else 'seeds'} {'each' if len(content.settings) > 1 else ''}"
    parts.append(", ".join([_grid(content), of_seeds.strip()]))
    if found:
        trained = sorted({(one.config["shortest"], one.config["longest"]) for one in found})
        tested = sorted({one.config["lengths"][-1] for one in found})
        how = f"lengths {trained[0][0]} to {trained[0][1]}" if len(trained) == 1 else "lengths that differ"
        parts[1] += f"; trained on {how}, {_tested(tested)}"
    return ": ".join(parts) + "."


def _grid(content: Content) -> str:
    """What varies, and the encoding and task that do not: as a product where every combination is there."""
    layout = content.layout
    encoding, task = (layout.shared.get(name, "") for name in ("encoding", "task"))
    on = f" on {task}" if task else ""
    if math.prod(len(axis.choices) for axis in layout.axes) != len(content.settings):
        of = f" of {encoding}" if encoding else ""
        names = [name for axis in layout.axes for name in axis.names]
        return f"{len(content.settings)} settings{of}{on}, which differ in {listed(names)}"
    # The encoding first, then the task, as a setting is named.
    axes = sorted(layout.axes, key=lambda axis: ("encoding" not in axis.names, "task" not in axis.names))
    product = " x ".join(axis.counted for axis in axes)
    if not encoding:
        return product + on
    return ", ".join(filter(None, [encoding + on, product])) if task else f"{encoding} on {product}"


SAID: dict[str, str] = {
    "keeps": "Kept to the longest test",
    "rule moved": "Lost because the rule moves (mean attention picks another key)",
    "outcompeted": "Lost to competition (mean attention keeps the right key; in single sequences another is larger)",
    "diluted": "Lost to dilution (the right key has the largest weight, and too little of it)",
    "fails": "Lost (how is told only where one token a sequence is asked for, its right key at one place in all)",
    "not learned": "Not learned within the trained lengths",
    "not tested": "Not tested beyond the trained lengths",
    "diverged": "Diverged in every seed",
}


def what_became(content: Content) -> list[Became]:
    """What became of the settings, by outcome."""
    found = []
    for outcome in get_args(Fate):
        if outcome in SAID and (names := _named(content, outcome)):
            found.append(Became(outcome, SAID[outcome], names))
        elif outcome == "keeps" and any(one.outcome in LOST for one in content.settings):
            found.append(Became(outcome, "No setting keeps its task to the longest test", []))
    return found


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
        whole = len(there) == len(settings) > 1
        names += (
            [content.layout.rows.said(row) + _notes(content, there)]
            if whole and content.layout.rows.names
            else [one.place.label + _notes(content, [one]) for one in there]
        )
    left = len(names) - MOST_NAMES
    return names if left <= 1 else [*names[:MOST_NAMES], f"and {left} more"]


def _notes(content: Content, settings: list[Setting]) -> str:
    """What is to be said of settings beside their name, in brackets."""
    kept, by = _kept_to(content, settings), _kept_by(settings)
    first = f"kept {by}" if by and not kept and settings[0].outcome != "keeps" else "; ".join(filter(None, [kept, by]))
    notes = "; ".join(filter(None, [first, _lost_by(settings), _unfinished(settings)]))
    return f" ({notes})" if notes else ""


def _kept_by(settings: list[Setting]) -> str:
    """How many seeds keep the task at the longest test, where some but not all of a setting do."""
    there = [one for one in settings if one.summary and one.outcome != "not tested"]
    if not any(0 < one.keeping < one.n for one in there):
        return ""
    keeping, seeds, longest = ({one.keeping for one in there}, {one.n for one in there}, {one.longest for one in there})
    by = f"by {span(sorted(keeping))} of {span(sorted(seeds))} seeds"
    if settings[0].outcome == "keeps":
        return by
    return f"to {longest.pop() if len(longest) == 1 else 'the longest test'} {by}"


def _lost_by(settings: list[Setting]) -> str:
    """How many of several seeds are lost in the way that their setting is; empty where that cannot be told."""
    there = [one for one in settings if one.summary and one.outcome in LOST and one.summary.lost]
    if not there:
        return ""
    losing, seeds = (sorted({number(one) for one in there}) for number in (lambda one: one.losing, lambda one: one.n))
    return "" if seeds == [1] else f"lost so by {span(losing)} of {span(seeds)} seeds"


def _kept_to(content: Content, settings: list[Setting]) -> str:
    """How far settings that lose their task keep it, where that is beyond training."""
    lost = [one for one in settings if one.summary and one.outcome in LOST]
    reached = sorted(
        {one.reach for one in lost if one.reach and one.summary and one.summary.at(one.reach).range == "longer"}
    )
    if not reached:
        return ""
    if any(one.reach not in reached for one in lost):
        return f"kept to at most {reached[-1]}"
    axes = [content.layout.columns, *content.layout.others]
    by = f", by {listed([name for axis in axes for name in axis.names])}" if len(reached) > 1 else ""
    return f"kept to {listed(reached, 'or')}{by}"


def _unfinished(settings: list[Setting]) -> str:
    """How many seeds the settings have, where some are not finished."""
    finished, wanted = (sum(numbers) for numbers in zip(*((one.n, one.wanted) for one in settings), strict=True))
    return "" if finished == wanted else f"{finished} of {counted(wanted, 'seed')} finished"


def _tested(longest: list[int]) -> str:
    return f"tested up to {longest[0]}" if len(longest) == 1 else f"longest tests {span(longest)}"
