"""The parts of a cell's configuration as a user writes them."""

from __future__ import annotations

import dataclasses
import functools
import json
from collections.abc import Mapping
from typing import Any

from farfield.errors import FarfieldError
from farfield.identity import seeds_of
from farfield.spec import format_spec, same_value

# Whoever reads a store, where these texts are kept, does not wait for JAX: the cell is imported where it is built.


def parts_text(config: Mapping[str, Any]) -> dict[str, str]:
    """Write every part of a configuration as a user does: ``{"encoding": "rope:base=500000", ...}``."""
    return _texts(json.dumps({name: value for name, value in config.items() if name not in seeds_of(config)}))


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
        parts |= {name: _shortest(whole, name) for name in parts if name in PARTS}
    except (FarfieldError, KeyError, TypeError, ValueError):
        pass  # a part of another version of the code
    return {
        name: PARTS[name].format_config(part) if name in PARTS else format_spec(part, {})
        for name, part in parts.items()
    }


def _shortest(config: dict[str, Any], part: str) -> dict[str, Any]:
    """The settings of a part without those that the rest of the cell implies, as a table's rows from its lengths."""
    from farfield.cell import PARTS, Cell

    kept = dict(config[part])
    for name, default in PARTS[part].defaults(kept["name"]).items():
        if name in kept and default is not dataclasses.MISSING and not same_value(kept[name], default):
            fewer = {key: value for key, value in kept.items() if key != name}
            try:
                implied = Cell.from_config(config | {part: fewer}).resolved().config()
            except FarfieldError:
                continue
            if implied == config:
                kept = fewer
    return kept
