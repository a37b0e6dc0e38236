"""What varies between the settings of a study, and along which two axes they are laid out."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from farfield.identity import seeds_of
from farfield.reporting.names import PLAIN, beside_each_other, label_of, listed, text_of

# Settings that follow from others unless someone says otherwise: no axis if the rest tells all settings apart.
FOLLOW = ("path", "test_positions")
# Written in a study as one setting each: training lengths, and test lengths.
LENGTHS = {"shortest", "longest", "lengths"}
# Stands where a setting has no value.
NONE = "none"


class Axis(NamedTuple):
    """What varies.

    Attributes:
        names: of the settings that vary together, none where nothing does.
        choices: what they are, in order, a value of each.
    """

    names: tuple[str, ...]
    choices: list[tuple[str, ...]]

    @property
    def name(self) -> str:
        """Of all, in one line; empty where nothing varies."""
        return listed(self.names) if self.names else ""

    @property
    def values(self) -> list[str]:
        """The choices, each in one line."""
        return [", ".join(choice) for choice in self.choices]

    @property
    def counted(self) -> str:
        """How many values there are, in words."""
        if len(self.names) == 1 and self.names[0] in PLAIN:
            return f"{len(self.choices)} {self.names[0]}s"
        return f"{len(self.choices)} values of {self.name}"

    def at(self, number: int) -> dict[str, str]:
        """Settings of a choice."""
        return dict(zip(self.names, self.choices[number], strict=True))

    def said(self, number: int) -> str:
        """A choice as it can stand alone."""
        return label_of(self.at(number))


class Place(NamedTuple):
    """Where a setting stands.

    Attributes:
        row, column: along the first and second axis.
        rest: values along all others, as they can stand alone.
        label: of the setting.
        series: the same without the column.
    """

    row: int
    column: int
    rest: str
    label: str
    series: str


class Layout(NamedTuple):
    """Settings laid out.

    Attributes:
        rows, columns: the first two axes.
        others: more of them.
        places: of every setting.
        shared: what all settings share.
    """

    rows: Axis
    columns: Axis
    others: list[Axis]
    places: list[Place]
    shared: dict[str, str]

    @property
    def axes(self) -> list[Axis]:
        """All along which anything varies."""
        return [axis for axis in (self.rows, self.columns, *self.others) if axis.names]

    def name_of(self, row: int, column: int) -> str:
        """Of a row and a column together."""
        return label_of(self.rows.at(row) | self.columns.at(column)) or "the only setting"


def settings_of(columns: Mapping[str, Any], config: Mapping[str, Any]) -> dict[str, str]:
    """A configuration without its seeds, as a study file names and writes it.

    Args:
        columns: of a store's cell, or its parts as a user writes them.
        config: of the cell.
    """
    lengths = {"lengths": f"{config['shortest']}:{config['longest']}", "test": text_of(config["lengths"])}
    seeds = seeds_of(config)
    plain = {
        name: text_of(columns.get(name, config[name]))
        for name in config
        if name not in LENGTHS and name not in seeds and config[name] is not None
    }
    first = {name: plain[name] for name in ("encoding", "task") if name in plain}
    return first | plain | lengths


def lay_out(settings: Sequence[Mapping[str, str]], in_order: bool) -> Layout:
    """Lay settings out along two axes: encodings and tasks if both vary, else those of the most values.

    Args:
        settings: of every configuration, at least one, all different.
        in_order: whether the order of the settings is meant; values are sorted otherwise.
    """
    settings = _told_apart(settings)
    axes = _axes(settings, in_order)
    by_name = {name: axis for axis in axes for name in axis.names}
    ranked = sorted(axes, key=lambda axis: -len(axis.choices))
    if "encoding" in by_name and "task" in by_name and by_name["encoding"] is not by_name["task"]:
        ranked.sort(key=lambda axis: ("encoding" not in axis.names, "task" not in axis.names))
    nothing = Axis((), [()])
    rows, columns, *others = [*ranked, nothing, nothing]
    others = [axis for axis in others if axis.names]
    shared = {name: value for name, value in settings[0].items() if name not in by_name}
    layout = Layout(rows, columns, others, [], shared)
    return layout._replace(places=[_place(layout, setting) for setting in settings])


def _told_apart(settings: Sequence[Mapping[str, str]]) -> list[dict[str, str]]:
    """Settings with every default written in which another value of the same kind differs."""
    names = dict.fromkeys(name for setting in settings for name in setting)
    written = {
        name: beside_each_other(name, {setting[name]: None for setting in settings if name in setting})
        for name in names
    }
    return [{name: written[name][value] for name, value in setting.items()} for setting in settings]


def _axes(settings: Sequence[Mapping[str, str]], in_order: bool) -> list[Axis]:
    """Everything along which settings differ."""
    names = dict.fromkeys(name for setting in settings for name in setting)
    values = {name: [setting.get(name, NONE) for setting in settings] for name in names}
    values = {name: found for name, found in values.items() if len({*found}) > 1}
    for name in FOLLOW:
        rest = [found for other, found in values.items() if other != name]
        if name in values and len({*zip(*rest, strict=True)}) == len(settings):
            del values[name]
    together: dict[tuple[int, ...], list[str]] = {}
    for name, found in values.items():
        together.setdefault(tuple(map(found.index, found)), []).append(name)
    axes = []
    for names in together.values():
        distinct = list(dict.fromkeys(zip(*(values[name] for name in names), strict=True)))
        order = distinct if in_order else sorted(distinct, key=lambda choice: _natural(", ".join(choice)))
        axes.append(Axis(tuple(names), order))
    return axes


def _place(layout: Layout, setting: Mapping[str, str]) -> Place:
    def along(*axes: Axis) -> str:
        return label_of({name: setting.get(name, NONE) for axis in axes for name in axis.names})

    def number(axis: Axis) -> int:
        return axis.choices.index(tuple(setting.get(name, NONE) for name in axis.names))

    rows, columns, others = layout.rows, layout.columns, layout.others
    only = "" if rows.names else f"{layout.shared['encoding']} on {layout.shared['task']}"
    label, series = along(rows, columns, *others) or only, along(rows, *others) or only
    return Place(number(rows), number(columns), along(*others), label, series)


def _natural(text: str) -> list[tuple[int, float, str]]:
    """Orders 2 before 10, and numbers before words."""
    parts = re.findall(r"\d+(?:\.\d+)?(?:e-?\d+)?|\D+", text)
    return [(0, float(part), "") if part[0].isdigit() else (1, 0.0, part) for part in parts]
