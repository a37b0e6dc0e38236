"""A normalizer under test."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from farfield.normalizers import Normalizer, normalizers
from farfield.testing._programs import compiled
from farfield.testing._rules import Rules

TRAINED = 16
SEEDS = (0, 3, 11, 27, 38, 44, 56, 71, 85, 99)

NORMALIZER_RULES = Rules(normalizers)


@dataclass(frozen=True)
class NormalizerTrial:
    """A normalizer under test."""

    entry: Normalizer
    unread: tuple[str, ...]

    def ready(self) -> tuple[Normalizer, Any]:
        """The normalizer for the lengths of the rules, checked, and its parameters."""
        normalizer = self.entry.resolved(TRAINED)
        normalizer.check()
        return normalizer, normalizer.initialize(jax.random.key(0))

    def weights(self, logits: Any, visible: Any, count: Any) -> Any:
        """Compiled weights."""
        return weights_of(*self.ready(), logits, visible, count)


weights_of = compiled(lambda normalizer, parameters, *row: normalizer.weights(parameters, *row))


@compiled
def pulled_back(normalizer: Normalizer, parameters: Any, logits: Any, visible: Any, count: Any, pull: Any) -> Any:
    """Gradient of a weighted sum of the weights, in the parameters and the logits."""

    def loss(parameters: Any, logits: Any) -> Any:
        return (normalizer.weights(parameters, logits, visible, count) * pull).sum()

    return jax.grad(loss, (0, 1))(parameters, logits)


def rows(seed: int, keys: int, count: int = 5, *, spread: float = 2.0) -> tuple[Any, Any, Any]:
    """Normal logits [key, row], what is visible of them, at least one key a row, and how many keys that is."""
    random = np.random.default_rng(seed)
    visible = random.random((keys, count)) < 0.7
    visible[random.integers(keys, size=count), np.arange(count)] = True
    logits = jnp.asarray(random.normal(size=(keys, count)) * spread, float)
    return logits, jnp.asarray(visible), jnp.asarray(visible.sum(axis=0))


def by_blocks(
    normalizer: Normalizer, parameters: Any, logits: Any, visible: Any, count: Any, ends: Sequence[int]
) -> Any:
    """Weights of rows that come in blocks ending at ``ends``."""
    scale = jnp.broadcast_to(normalizer.scale(parameters, count), count.shape).astype(logits.dtype)
    parts = zip(*(np.split(np.asarray(part), ends) for part in (logits, visible)), strict=True)
    blocks: list[Any] = [(part * scale[None], seen) for part, seen in parts]
    known = None
    for round in range(normalizer.rounds):
        summary = normalizer.summarize(round, known, *blocks[0])
        for block in blocks[1:]:
            summary = normalizer.merge(round, summary, normalizer.summarize(round, known, *block))
        known = normalizer.conclude(round, known, summary, count)
    return np.concatenate([normalizer.weigh(known, part, seen, count) for part, seen in blocks])
