"""Programs, settings and random parameters of the entries under test."""

from __future__ import annotations

import contextlib
import dataclasses
import functools
from collections.abc import Callable, Iterator, Mapping
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

# For small arithmetic in many shapes: what costs is compiling it.
quick_jit = functools.partial(jax.jit, compiler_options={"xla_backend_optimization_level": 0})


@contextlib.contextmanager
def double_precision() -> Iterator[None]:
    """float64 by default. Promotion is implicit here: `jnp.promote_types` itself raises where it is strict."""
    with jax.enable_x64(True), jax.numpy_dtype_promotion("standard"):
        yield


def traced_fields(entry: Any) -> list[str]:
    """Names of the fields that are data to a compiled program."""
    return [field.name for field in dataclasses.fields(entry) if field.metadata.get("traced")]


def settings_of(entry: Any) -> dict[str, Any]:
    """Traced settings of an entry by name."""
    return {name: getattr(entry, name) for name in traced_fields(entry)}


def with_settings(entry: Any, settings: Mapping[str, Any]) -> Any:
    """An entry with other traced settings."""
    return dataclasses.replace(entry, **settings) if settings else entry


def mapped(change: Callable[[Any], Any], entry: Any) -> Any:
    """An entry with each number among its traced settings changed."""
    return with_settings(entry, jax.tree.map(change, settings_of(entry)))


def as_arrays(entry: Any, kind: Any = None) -> Any:
    """An entry with its traced settings as a compiled program has them, so that one program serves all of them.

    Args:
        kind: the type of the arrays, by default that of the settings.
    """
    return mapped(lambda leaf: jnp.asarray(leaf, kind), entry)


@jax.tree_util.register_pytree_node_class
class Held:
    """An entry whose class is not registered, as data of a compiled program.

    Registering the class with JAX here would stand in the way of a later `register`.
    """

    def __init__(self, entry: Any) -> None:
        self.entry = entry

    def tree_flatten(self) -> tuple[tuple[Any, ...], Any]:
        settings = settings_of(self.entry)
        names = [field.name for field in dataclasses.fields(self.entry) if field.name not in settings]
        fixed = tuple((name, getattr(self.entry, name)) for name in names)
        return tuple(settings.values()), (type(self.entry), tuple(settings), fixed)

    @classmethod
    def tree_unflatten(cls, static: Any, leaves: Any) -> Held:
        kind, names, fixed = static
        return cls(kind(**dict(zip(names, leaves, strict=True)), **dict(fixed)))


def held(value: Any) -> Any:
    """What a compiled program takes in the place of ``value``."""
    own = dataclasses.is_dataclass(value) and jax.tree_util.all_leaves([value])
    return Held(value) if own else value


def _opened(value: Any) -> Any:
    return value.entry if isinstance(value, Held) else value


def compiled(function: Callable[..., Any], jit: Any = quick_jit, **options: Any) -> Callable[..., Any]:
    """A compiled function that takes entries of any class, registered or not.

    Args:
        jit: what compiles it.
        options: of ``jit``.
    """
    run = jit(lambda *given, **static: function(*map(_opened, given), **static), **options)
    return lambda *given, **static: run(*map(held, given), **static)


def drawn(initialize: Any, seed: int) -> Any:
    """Parameters of the shapes that ``initialize`` gives, from N(0, 1), without compiling its draws."""
    random = np.random.default_rng(seed)
    shapes = jax.eval_shape(initialize, jax.random.key(0))
    return jax.tree.map(lambda leaf: jnp.asarray(random.normal(size=leaf.shape), leaf.dtype), shapes)
