"""The configurations of a study: its axes multiplied out, each combination checked as a cell."""

from __future__ import annotations

import itertools
import math
import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NamedTuple

from farfield.cell import PARTS, Cell
from farfield.cell_settings import SETTINGS
from farfield.errors import FarfieldError
from farfield.study.problems import Problem
from farfield.study.settings import text_of
from farfield.study.toml_lines import KeyPlace

MOST_CELLS = 1_000_000
# Fewer, since each configuration is checked whole; seeds cost nothing to check.
MOST_POINTS = 100_000
# Configurations named in one message.
MOST_NAMED = 3
NEEDED = {"encoding": "rope", "task": "offset:2"}


class Configuration(NamedTuple):
    """One configuration of a study: its cells differ in their seeds alone.

    Attributes:
        values: each axis's value in a few words, ``{"encoding": "rope:base=500000.0"}``.
        cell: resolved, with seed 0.
    """

    values: dict[str, str]
    cell: Cell

    @property
    def label(self) -> str:
        """The axis values in one line."""
        return _label(self.values)


class Varied(NamedTuple):
    """What varies in a study, read and checked value by value.

    Attributes:
        grid, zip: values by setting.
        cell: settings of the listed cells.
    """

    grid: Mapping[str, Sequence[Any]]
    zip: Mapping[str, Sequence[Any]]
    cell: Sequence[Mapping[str, Any]]

    @property
    def axes(self) -> tuple[str, ...]:
        """Names of the settings that vary."""
        return (*self.grid, *self.zip, *(self.cell[0] if self.cell else ()))

    @property
    def factors(self) -> list[list[dict[str, Any]]]:
        """What is multiplied: lists of settings that belong together."""
        factors = [[{name: value} for value in values] for name, values in self.grid.items()]
        if self.zip:
            factors.append([dict(zip(self.zip, row, strict=True)) for row in zip(*self.zip.values(), strict=True)])
        if self.cell:
            factors.append([dict(row) for row in self.cell])
        return factors

    def combinations(self) -> Iterator[dict[str, Any]]:
        """Every combination, that of the last factor moving fastest."""
        for parts in itertools.product(*self.factors):
            yield {name: value for part in parts for name, value in part.items()}


def structure_problems(
    varied: Varied, common: Mapping[str, Any], tiers: Mapping[str, Mapping[str, Any]]
) -> list[Problem]:
    """What is wrong with how the axes stand beside each other, whatever their values mean."""
    problems = [*_lengths(varied), *_repeated(varied), *_rows(varied), *_twice(varied, common)]
    for tier, settings in tiers.items():
        for name in settings:
            if name in varied.axes:
                message = f"{name} is an axis of the study: a budget can only change what all cells share"
                problems.append(Problem(("budget", tier, name), message))
    for name, example in NEEDED.items():
        if name not in varied.axes and name not in common:
            message = f"{name} is set nowhere: write {name} = '{example}' in [common], or a list of them in [grid]"
            problems.append(Problem((), message))
    return problems


def size_problems(varied: Varied, seeds: int, place: tuple[str, ...] = ()) -> list[Problem]:
    """Whether there are more cells than can be meant."""
    points = math.prod(map(len, varied.factors))
    if points > MOST_POINTS:
        said = f"{points} combinations of axis values are more than {MOST_POINTS}: leave out values, or split the study"
        return [Problem(place, said)]
    if points * seeds > MOST_CELLS:
        said = f"{points} combinations with {seeds} seeds are {points * seeds} cells, more than {MOST_CELLS}"
        return [Problem(place or ("seeds",), said)]
    return []


def resolve(
    varied: Varied, shared: Mapping[str, Any], tier: str | None
) -> tuple[tuple[Configuration, ...], list[Problem]]:
    """Every configuration as a resolved cell, and the problems of those that cannot run."""
    points: list[Configuration] = []
    refused: dict[str, list[dict[str, Any]]] = {}
    seen: dict[Cell, str] = {}
    for settings in varied.combinations():
        point = _in_words(varied, settings)
        try:
            cell = Cell(**_fields({**shared, **settings})).resolved()
        except FarfieldError as reason:
            refused.setdefault(str(reason), []).append(settings)
            continue
        if cell in seen:
            same = f"the same cell as that with {seen[cell]}, once defaults are filled in: leave one of them out"
            refused.setdefault(same, []).append(settings)
        seen.setdefault(cell, _label(point))
        points.append(Configuration(point, cell))
    problems = []
    for reason, found in refused.items():
        said = reason + _named([_label(_in_words(varied, settings)) for settings in found])
        if tier is None:
            problems.append(Problem(_place(reason, varied, shared, found[0]), said))
        else:
            problems.append(Problem(("budget", tier), f"with --budget {tier}: {said}"))
    return tuple(points), problems


def _in_words(varied: Varied, settings: Mapping[str, Any]) -> dict[str, str]:
    return {name: text_of(name, settings[name]) for name in varied.axes}


def _place(reason: str, varied: Varied, shared: Mapping[str, Any], settings: dict[str, Any]) -> KeyPlace:
    """Where the setting stands that a cell's refusal begins with, by its own name or that of its entry."""
    word = re.split(r"[^\w-]", reason, maxsplit=1)[0]
    for name, value in {**shared, **settings}.items():
        entry = PARTS[name].name_of(value) if name in PARTS and value is not None else None
        if word in (name, entry):
            for section, axes in (("grid", varied.grid), ("zip", varied.zip)):
                if name in axes:
                    return section, name, list(axes[name]).index(value)
            rows = [index for index, row in enumerate(varied.cell) if row.items() <= settings.items()]
            return ("cell", rows[0], name) if name in settings else ("common", name)
    return ()


def _fields(settings: dict[str, Any]) -> dict[str, Any]:
    """Settings as fields of a cell."""
    fields = {name: value for name, value in settings.items() if name not in ("lengths", "test")}
    if "lengths" in settings:
        fields["shortest"], fields["longest"] = settings["lengths"]
    if "test" in settings:
        fields["lengths"] = settings["test"]
    return fields


def _label(values: Mapping[str, str]) -> str:
    return ", ".join(f"{name} = {value}" for name, value in values.items())


def _named(labels: Sequence[str]) -> str:
    """The configurations that a message is about; empty where there is only one in the study."""
    more = f"; and {len(labels) - MOST_NAMED} more" if len(labels) > MOST_NAMED else ""
    named = "; ".join(labels[:MOST_NAMED])
    return f" ({named}{more})" if named else ""


def _lengths(varied: Varied) -> Iterator[Problem]:
    for section, axes in (("grid", varied.grid), ("zip", varied.zip)):
        for name, values in axes.items():
            if not values:
                yield Problem((section, name), f"{name} = [] has no values: name at least one, or leave it out")
    lengths = {name: len(values) for name, values in varied.zip.items()}
    if len(set(lengths.values())) > 1:
        counts = ", ".join(f"{name} has {count}" for name, count in lengths.items())
        yield Problem(("zip",), f"lists in [zip] go along side by side and must be of one length: {counts}")


def _repeated(varied: Varied) -> Iterator[Problem]:
    for name, values in varied.grid.items():
        for index in _repetitions(values):
            yield Problem(("grid", name, index), f"{name} = {text_of(name, values[index])} is listed twice in [grid]")
    if len(set(map(len, varied.zip.values()))) == 1:
        for index in _repetitions(list(zip(*varied.zip.values(), strict=True))):
            row = {name: text_of(name, values[index]) for name, values in varied.zip.items()}
            place = ("zip", next(iter(varied.zip)), index)
            yield Problem(place, f"[zip] has {_label(row)} twice")
    for index in _repetitions([tuple(sorted(row.items(), key=lambda item: item[0])) for row in varied.cell]):
        row = {name: text_of(name, value) for name, value in varied.cell[index].items()}
        yield Problem(("cell", index), f"[[cell]] with {_label(row)} is listed twice")


def _repetitions(values: Sequence[Any]) -> Iterator[int]:
    """Where an equal value stands further ahead."""
    seen = set()
    for index, value in enumerate(values):
        if value in seen:
            yield index
        seen.add(value)


def _rows(varied: Varied) -> Iterator[Problem]:
    for index, row in enumerate(varied.cell):
        if not row:
            yield Problem(("cell", index), "[[cell]] sets nothing: write its settings below it")
        for name in SETTINGS:
            if (name in row) != (name in varied.cell[0]):
                lacks, has = (index, 0) if name in varied.cell[0] else (0, index)
                said = f"[[cell]] number {lacks + 1} sets no {name}, number {has + 1} does: name the same ones in each"
                yield Problem(("cell", index), said)


def _twice(varied: Varied, common: Mapping[str, Any]) -> Iterator[Problem]:
    """Settings that stand in two sections."""
    sections = {"common": common, "grid": varied.grid, "zip": varied.zip, "cell": varied.cell[0] if varied.cell else {}}
    for name in SETTINGS:
        places = [section for section, settings in sections.items() if name in settings]
        if len(places) > 1:
            where = " and ".join("[[cell]]" if section == "cell" else f"[{section}]" for section in places)
            place = ("cell", 0, name) if places[-1] == "cell" else (places[-1], name)
            yield Problem(place, f"{name} is set in {where}: keep one of them")
