"""What varies between the settings of a study, and along which two axes they are laid out."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from farfield.studies.identity import seeds_of

# Settings that follow from others unless someone says otherwise: no axis if the rest tells all settings apart.
FOLLOW = ("path", "test_positions")
# Values that speak for themselves; those of other settings are given with their name.
PLAIN = {"encoding", "task", "model", "normalizer"}
# Written in a study as one setting each: training lengths, and test lengths.
LENGTHS = {"shortest", "longest", "lengths"}


class Axis(NamedTuple):
    """What varies.

    Attributes:
        names: of the settings that vary together, none where nothing does.
        values: in order.
    """

    names: tuple[str, ...]
    values: list[str]

    @property
    def name(self) -> str:
        """Of all, in one line."""
        return ", ".join(self.names)

    @property
    def counted(self) -> str:
        """How many values there are, in words."""
        if len(self.names) == 1 and self.names[0] in PLAIN:
            return f"{len(self.values)} {self.names[0]}s"
        return f"{len(self.values)} values of {self.name}"

    def said(self, value: str) -> str:
        """A value as it can stand alone."""
        return value if PLAIN & {*self.names} or not self.names else f"{self.name} {value}"


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


def settings_of(columns: Mapping[str, Any], config: Mapping[str, Any]) -> dict[str, str]:
    """A configuration without its seeds, as a study file names and writes it.

    Args:
        columns: of :func:`farfield.studies.columns.describe`.
        config: of the cell.
    """
    lengths = {"lengths": f"{config['shortest']}:{config['longest']}", "test": _text(config["lengths"])}
    seeds = seeds_of(config)
    plain = {
        name: _text(columns.get(name, config[name]))
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
    axes = _axes(settings, in_order)
    by_name = {name: axis for axis, _ in axes for name in axis.names}
    ranked = sorted((axis for axis, _ in axes), key=lambda axis: -len(axis.values))
    if "encoding" in by_name and "task" in by_name and by_name["encoding"] is not by_name["task"]:
        ranked.sort(key=lambda axis: ("encoding" not in axis.names, "task" not in axis.names))
    nothing = Axis((), [""])
    rows, columns, *others = [*ranked, nothing, nothing]
    others = [axis for axis in others if axis.names]
    values = {axis.names: found for axis, found in axes}
    varied = {name for axis, _ in axes for name in axis.names}
    shared = {name: value for name, value in settings[0].items() if name not in varied}
    places = [
        _place(rows, columns, others, {names: found[index] for names, found in values.items()}, shared)
        for index in range(len(settings))
    ]
    return Layout(rows, columns, others, places, shared)


def _axes(settings: Sequence[Mapping[str, str]], in_order: bool) -> list[tuple[Axis, list[str]]]:
    """Every axis with the value of each setting."""
    names = dict.fromkeys(name for setting in settings for name in setting)
    values = {name: [setting.get(name, "none") for setting in settings] for name in names}
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
        joined = [", ".join(row) for row in zip(*(values[name] for name in names), strict=True)]
        distinct = list(dict.fromkeys(joined))
        axes.append((Axis(tuple(names), distinct if in_order else sorted(distinct, key=_natural)), joined))
    return axes


def _place(
    rows: Axis, columns: Axis, others: list[Axis], values: Mapping[tuple[str, ...], str], shared: Mapping[str, str]
) -> Place:
    row, column = (values.get(axis.names, "") for axis in (rows, columns))
    rest = ", ".join(axis.said(values[axis.names]) for axis in others)
    first = rows.said(row) if rows.names else f"{shared['encoding']} on {shared['task']}"
    series = ", ".join(filter(None, [first, rest]))
    between = " on " if columns.names == ("task",) else ", "
    label = first + (between + columns.said(column) if columns.names else "") + (f", {rest}" if rest else "")
    return Place(rows.values.index(row), columns.values.index(column), rest, label, series)


def _text(value: Any) -> str:
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, list | tuple):
        return ",".join(map(str, value)) or "none"
    return str(value)


def _natural(text: str) -> list[tuple[int, float, str]]:
    """Orders 2 before 10, and numbers before words."""
    parts = re.findall(r"\d+(?:\.\d+)?(?:e-?\d+)?|\D+", text)
    return [(0, float(part), "") if part[0].isdigit() else (1, 0.0, part) for part in parts]
