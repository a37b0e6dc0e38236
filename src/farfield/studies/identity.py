"""What a cell's name is made of: a content hash of its resolved configuration and of the code's data version."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from typing import Any

# Enters every cell's identity. Raise it when a change of code changes what a stored number means.
DATA_VERSION = 3


def identity_of(config: Mapping[str, Any], data_version: int = DATA_VERSION) -> str:
    """Content hash of a resolved configuration: 16 hexadecimal digits, the name of the cell's files."""
    return _hash({"data_version": data_version, **config})


def data_version_of(config: Mapping[str, Any], identity: str) -> int | None:
    """The data version under which a configuration has this identity; None if it never had it."""
    return next((v for v in range(DATA_VERSION, 0, -1) if identity_of(config, v) == identity), None)


def seeds_of(config: Mapping[str, Any]) -> dict[str, Any]:
    """Every seed of a configuration, by name."""
    return {name: value for name, value in config.items() if name == "seed" or name.endswith("_seed")}


def setting_of(config: Mapping[str, Any]) -> str:
    """Content hash of a configuration without its seeds: equal for cells that differ in nothing else."""
    seeds = seeds_of(config)
    return _hash({name: value for name, value in config.items() if name not in seeds})


def _hash(content: Mapping[str, Any]) -> str:
    return hashlib.sha256(json.dumps(content, sort_keys=True).encode()).hexdigest()[:16]
