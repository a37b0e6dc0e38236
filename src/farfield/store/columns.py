"""What is said of a cell in the columns of every table: its settings as a user writes them, and where it ran."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from typing import Any

from farfield.cell_text import parts_text
from farfield.identity import data_version_of, every_seed, setting_of
from farfield.spec import format_spec

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
        parts: :func:`farfield.cell_text.parts_text` of the configuration, where that is known; to find out takes
            importing JAX.
    """
    texts = parts_text(config) if parts is None else parts
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


def types_of(rows: Iterable[Mapping[str, Any]]) -> dict[str, str]:
    """DuckDB's types of the columns of rows, those of :data:`COLUMNS` first."""
    types = dict(COLUMNS)
    for row in rows:
        for name, value in row.items():
            if name not in COLUMNS and value is not None:
                types[name] = _wider(types.get(name), value)
    return types


def _plain(value: Any) -> Any:
    """A setting as one value of a column."""
    if isinstance(value, dict):
        return format_spec(value, {}) if "name" in value else json.dumps(value)
    if isinstance(value, list) and not all(isinstance(entry, int) for entry in value):
        return json.dumps(value)
    return value


def _wider(known: str | None, value: Any) -> str:
    kinds = {bool: TRUTH, int: WHOLE, float: REAL, list: WHOLES}
    found = kinds.get(type(value), TEXT)
    if known in (None, found):
        return found
    return REAL if {known, found} == {WHOLE, REAL} else TEXT
