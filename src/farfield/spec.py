"""The settings of a configuration as a user writes them: ``rope:base=500000``."""

from __future__ import annotations

import dataclasses
import functools
import json
from collections.abc import Mapping
from typing import Any

from farfield.errors import FarfieldError
from farfield.identity import seeds_of


def written(config: Mapping[str, Any]) -> dict[str, str]:
    """Every part of a configuration as a user writes it: ``{"encoding": "rope:base=500000", ...}``."""
    return _texts(json.dumps({name: value for name, value in config.items() if name not in seeds_of(config)}))


def spec(entry: Mapping[str, Any], fields: Mapping[str, Any] | None = None) -> str:
    """One line that a registry parses into the entry of this configuration.

    Args:
        entry: as :meth:`farfield.registry.Registry.config` gives it.
        fields: defaults by setting, which are left out; ``dataclasses.MISSING`` for a setting without one.
    """
    fields = fields or {}
    first = next(iter(fields), None)
    parts = []
    for name, value in entry.items():
        if name == "name" or (name in fields and _same(value, fields[name])):
            continue
        bare = name == first and fields[name] is dataclasses.MISSING
        parts.append(_value(value) if bare else f"{name}={_value(value)}")
    return ":".join(filter(None, [str(entry["name"]), ",".join(parts)]))


@functools.lru_cache(maxsize=4096)
def _texts(setting: str) -> dict[str, str]:
    """Every part of a configuration without seeds, as a user writes it: what follows from the rest is left out.

    A part that this version of the code does not know, or that no longer fits, is written with all its settings.
    """
    from farfield.cell import PARTS, Cell

    config = json.loads(setting)
    parts = {name: value for name, value in config.items() if isinstance(value, dict) and "name" in value}
    try:
        whole = Cell.from_config(config).config()
        return {
            name: spec(_shortest(whole, name) if name in PARTS else part, _defaults(name, part))
            for name, part in parts.items()
        }
    except (FarfieldError, KeyError, TypeError, ValueError):
        return {name: spec(part, _defaults(name, part)) for name, part in parts.items()}


def _shortest(config: dict[str, Any], part: str) -> dict[str, Any]:
    """The settings of a part without those that the rest of the cell implies, as a table's rows from its lengths."""
    from farfield.cell import Cell

    kept = dict(config[part])
    for name, default in _defaults(part, kept).items():
        if name in kept and default is not dataclasses.MISSING and not _same(kept[name], default):
            fewer = {key: value for key, value in kept.items() if key != name}
            try:
                implied = Cell.from_config(config | {part: fewer}).resolved().config()
            except FarfieldError:
                continue
            if implied == config:
                kept = fewer
    return kept


def _defaults(part: str, entry: Mapping[str, Any]) -> dict[str, Any]:
    from farfield.cell import PARTS

    if part not in PARTS or entry["name"] not in set(PARTS[part]):
        return {}
    fields = dataclasses.fields(PARTS[part][entry["name"]])
    return {
        field.name: field.default if field.default_factory is dataclasses.MISSING else field.default_factory()
        for field in fields
    }


def _same(value: Any, default: Any) -> bool:
    return value == (list(default) if isinstance(default, tuple) and isinstance(value, list) else default)


def _value(value: Any) -> str:
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, list | tuple):
        return ";".join(map(_value, value))
    if isinstance(value, float) and value.is_integer() and abs(value) < 1e16:
        return str(int(value))
    return str(value)
