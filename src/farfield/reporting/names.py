"""How a report names settings: a value as it can stand alone, and what varies in one line."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import Any

from farfield.cell import PARTS
from farfield.errors import FarfieldError
from farfield.spec import spec

# Settings whose values speak for themselves; those of others are given with their name.
PLAIN = ("encoding", "task", "model", "normalizer")


def label_of(values: Mapping[str, str]) -> str:
    """Settings in one line, the encoding first.

    >>> label_of({"normalizer": "sparsemax", "batch": "4", "task": "copy", "encoding": "t5"})
    't5 on copy with sparsemax, batch 4'
    """
    first = [name for name in ("encoding", "task") if name in values]
    rest = ", ".join(_said(name, value) for name, value in values.items() if name not in first)
    return " with ".join(filter(None, [" on ".join(values[name] for name in first), rest]))


def _said(name: str, value: str) -> str:
    """A value as it can stand beside others."""
    if name in PLAIN:
        return value
    if name == "positions":
        return "fixed positions" if value == "fixed" else value
    return f"{value} in tests" if name == "test_positions" else f"{name} {value}"


def listed(names: Sequence[object], between: str = "and") -> str:
    """Names as a sentence has them.

    >>> listed(["a", "b", "c"])
    'a, b and c'
    """
    *first, last = map(str, names)
    return f"{', '.join(first)} {between} {last}" if first else last


def span(values: Sequence[int]) -> str:
    """Numbers in order, by their ends."""
    return f"{values[0]}" if len(values) == 1 else f"{values[0]} to {values[-1]}"


def counted(count: int, thing: str) -> str:
    """So many of a thing."""
    return f"{count} {thing}{'' if count == 1 else 's'}"


def text_of(value: Any) -> str:
    """A value of a configuration as a study file has it."""
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, list | tuple):
        return ",".join(map(str, value)) or "none"
    if isinstance(value, float) and value.is_integer() and abs(value) < 1e16:
        return str(int(value))
    return str(value)


def beside_each_other(name: str, values: Collection[str]) -> dict[str, str]:
    """Values of a setting as they are told apart: a default is written where another of the same kind differs in it.

    >>> beside_each_other("encoding", ["rope", "rope:base=100", "t5"])
    {'rope': 'rope:base=10000', 'rope:base=100': 'rope:base=100', 't5': 't5'}
    """
    configs = {value: _config(name, value) for value in values}
    return {value: _with_defaults(value, config, [*configs.values()]) for value, config in configs.items()}


def _config(name: str, value: str) -> dict[str, Any]:
    """All settings of a part; empty for anything else, and for a part that this version does not know."""
    try:
        return PARTS[name].config(PARTS[name].parse(value))
    except (KeyError, FarfieldError):
        return {}


def _with_defaults(value: str, config: Mapping[str, Any], all_configs: Sequence[Mapping[str, Any]]) -> str:
    kind, _, given = value.partition(":")
    fields = [field for field in config if field != "name"]
    # A bare value is that of the first field.
    written = {part.partition("=")[0] if "=" in part else fields[0] for part in given.split(",") if part and fields}
    alike = [other for other in all_configs if other and other["name"] == config.get("name")]
    unsaid = {
        field: config[field]
        for field in fields
        if field not in written and config[field] is not None and any(other[field] != config[field] for other in alike)
    }
    added = spec({"name": kind, **unsaid}).partition(":")[2]
    return ":".join(filter(None, [kind, ",".join(filter(None, [given, added]))]))
