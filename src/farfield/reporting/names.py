"""How a report names settings: a value as it can stand alone, and what varies in one line."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import Any

from farfield.cell import PARTS
from farfield.errors import FarfieldError
from farfield.spec import value_text

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
    return ",".join(map(str, value)) or "none" if isinstance(value, list | tuple) else value_text(value)


def beside_each_other(name: str, values: Collection[str]) -> dict[str, str]:
    """Values of a setting as they are told apart: a default is written where another of the same kind differs in it.

    >>> beside_each_other("encoding", ["rope", "rope:base=100", "t5"])
    {'rope': 'rope:base=10000', 'rope:base=100': 'rope:base=100', 't5': 't5'}
    """
    configs = {value: _config(name, value) for value in values}
    known = [config for config in configs.values() if config]
    return {value: _told_apart(name, config, known) if config else value for value, config in configs.items()}


def _config(name: str, value: str) -> dict[str, Any]:
    """All settings of a part; empty for anything else, and for a part that this version does not know."""
    try:
        return PARTS[name].config(PARTS[name].parse(value))
    except (KeyError, FarfieldError):
        return {}


def _told_apart(name: str, config: Mapping[str, Any], known: Sequence[Mapping[str, Any]]) -> str:
    """One part, with every setting in which another of the same kind differs."""
    alike = [other for other in known if other["name"] == config["name"]]
    differing = [field for field in config if any(other[field] != config[field] for other in alike)]
    return PARTS[name].format_config(config, spelled=[field for field in differing if config[field] is not None])
