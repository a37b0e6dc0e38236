"""Dataclasses as JAX pytrees whose structure tells every class from every other."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Sequence
from typing import Any, TypeVar

import jax

Class = TypeVar("Class", bound=type)


def pytree(cls: Class) -> Class:
    """Class decorator: all fields of a dataclass are leaves, but for those with ``metadata={"static": True}``."""
    fields = dataclasses.fields(cls)
    static = [field.name for field in fields if field.metadata.get("static")]
    register_pytree(cls, [field.name for field in fields if field.name not in static], static)
    return cls


def register_pytree(cls: type, data: Sequence[str], meta: Sequence[str]) -> None:
    """Make ``cls`` a pytree with the fields ``data`` as children and ``meta`` as part of its structure.

    `jax.tree_util.register_dataclass` would not do: jaxlib 0.10 compares two dataclasses by their numbers of leaves
    and their static values alone, so that a compiled function, now and then, takes an object for one of another
    class with as many fields.
    """

    def flatten(entry: Any) -> tuple[tuple[Any, ...], tuple[Any, ...]]:
        return tuple(getattr(entry, name) for name in data), tuple(getattr(entry, name) for name in meta)

    def flatten_with_keys(entry: Any) -> tuple[tuple[Any, ...], tuple[Any, ...]]:
        leaves, static = flatten(entry)
        return tuple(zip(map(jax.tree_util.GetAttrKey, data), leaves, strict=True)), static

    def unflatten(static: tuple[Any, ...], leaves: Iterable[Any]) -> Any:
        # JAX rebuilds entries around tracers and placeholders, which __init__ and its checks are not meant for.
        entry = object.__new__(cls)
        for name, value in (*zip(data, leaves, strict=True), *zip(meta, static, strict=True)):
            object.__setattr__(entry, name, value)
        return entry

    jax.tree_util.register_pytree_with_keys(cls, flatten_with_keys, unflatten, flatten)
