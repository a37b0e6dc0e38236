"""What is said of a cell in the columns of every table: its settings as a user writes them, and where it ran."""

from __future__ import annotations

import dataclasses
import functools
import json
from collections.abc import Iterable, Mapping
from typing import Any

from farfield.errors import FarfieldError
from farfield.studies.identity import data_version_of, every_seed, seeds_of, setting_of

TEXT, WHOLE, REAL, TRUTH, WHOLES = "VARCHAR", "BIGINT", "DOUBLE", "BOOLEAN", "BIGINT[]"

# Columns that every table of cells has, in this order, with DuckDB's types; a configuration may add more.
COLUMNS = {
    "identity": TEXT,
    "setting": TEXT,
    "data_version": WHOLE,
    "encoding": TEXT,
    "task": TEXT,
    "model": TEXT,
    "normalizer": TEXT,
    "positions": TEXT,
    "test_positions": TEXT,
    "seed": WHOLE,
    "data_seed": WHOLE,
    "evaluation_seed": WHOLE,
    "vocabulary": WHOLE,
    "shortest": WHOLE,
    "longest": WHOLE,
    "steps": WHOLE,
    "batch": WHOLE,
    "learning_rate": REAL,
    "weight_decay": REAL,
    "path": TEXT,
    "lengths": WHOLES,
    "sequences": WHOLE,
    "snapshots": WHOLES,
    "platform": TEXT,
    "config": TEXT,
    "versions": TEXT,
}


def describe(
    identity: str, config: Mapping[str, Any], versions: Mapping[str, str], parts: Mapping[str, str] | None = None
) -> dict[str, Any]:
    """The columns of one cell.

    Args:
        identity: name of its files.
        config: its resolved configuration, as stored.
        versions: of what its numbers depend on, as stored.
        parts: :func:`written` of the configuration, where that is known; to find out takes importing JAX.
    """
    texts = written(config) if parts is None else parts
    settings = {name: texts.get(name, _plain(value)) for name, value in config.items()}
    about = {
        "identity": identity,
        "setting": setting_of(config),
        "data_version": data_version_of(config, identity),
        "platform": versions.get("platform"),
        "config": json.dumps(config),
        "versions": json.dumps(versions),
    }
    return dict.fromkeys(COLUMNS) | settings | every_seed(config) | about


def written(config: Mapping[str, Any]) -> dict[str, str]:
    """Every part of a configuration as a user writes it: ``{"encoding": "rope:base=500000", ...}``."""
    return _texts(json.dumps({name: value for name, value in config.items() if name not in seeds_of(config)}))


def types_of(rows: Iterable[Mapping[str, Any]]) -> dict[str, str]:
    """DuckDB's types of the columns of rows, those of :data:`COLUMNS` first."""
    types = dict(COLUMNS)
    for row in rows:
        for name, value in row.items():
            if name not in COLUMNS and value is not None:
                types[name] = _wider(types.get(name), value)
    return types


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
    from farfield.studies.cells import PARTS, Cell

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
    from farfield.studies.cells import Cell

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
    from farfield.studies.cells import PARTS

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


def _plain(value: Any) -> Any:
    """A setting as one value of a column."""
    if isinstance(value, dict):
        return spec(value) if "name" in value else json.dumps(value)
    if isinstance(value, list) and not all(isinstance(entry, int) for entry in value):
        return json.dumps(value)
    return value


def _wider(known: str | None, value: Any) -> str:
    kinds = {bool: TRUTH, int: WHOLE, float: REAL, list: WHOLES}
    found = kinds.get(type(value), TEXT)
    if known in (None, found):
        return found
    return REAL if {known, found} == {WHOLE, REAL} else TEXT
