"""What a cell's name is made of: a content hash of its resolved configuration and of the code's data version."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from typing import Any

# Enters every cell's identity. Raise it when a change of code changes what a stored number means.
DATA_VERSION = 4


def identity_of(config: Mapping[str, Any], data_version: int = DATA_VERSION) -> str:
    """Content hash of a resolved configuration: 16 hexadecimal digits, the name of the cell's files.

    Seeds that are not told apart are left out: a cell with one seed has the name it had before there were three.
    """
    given = {name: value for name, value in config.items() if value is not None or not _is_seed(name)}
    return _hash({"data_version": data_version, **given})


def seeds_of(config: Mapping[str, Any]) -> dict[str, Any]:
    """Every seed that a configuration sets, by name."""
    return {name: value for name, value in config.items() if _is_seed(name) and value is not None}


def every_seed(config: Mapping[str, Any]) -> dict[str, Any]:
    """All three seeds of a configuration: of weights, of training batches, of tests. The first stands for the others
    where nothing tells them apart."""
    seed = config.get("seed")
    others = {name: config.get(name) for name in ("data_seed", "evaluation_seed")}
    return {"seed": seed} | {name: seed if value is None else value for name, value in others.items()}


def model_of(config: Mapping[str, Any]) -> tuple[Any, Any]:
    """Seeds of weights and of training batches: within a setting, cells that share both tested one trained model."""
    seeds = every_seed(config)
    return seeds["seed"], seeds["data_seed"]


def seeds_in_words(config: Mapping[str, Any]) -> str:
    """``3``, or ``model 3, data 4, evaluation 3`` where the seeds are told apart, as a study file names them."""
    model, data, evaluation = every_seed(config).values()
    return str(model) if model == data == evaluation else f"model {model}, data {data}, evaluation {evaluation}"


def setting_of(config: Mapping[str, Any]) -> str:
    """Content hash of a configuration without its seeds: equal for cells that differ in nothing else."""
    return _hash({name: value for name, value in config.items() if not _is_seed(name)})


def _is_seed(name: str) -> bool:
    return name == "seed" or name.endswith("_seed")


def _hash(content: Mapping[str, Any]) -> str:
    return hashlib.sha256(json.dumps(content, sort_keys=True).encode()).hexdigest()[:16]
