"""stub until the real one is merged"""

from __future__ import annotations

import abc
from dataclasses import dataclass
from typing import ClassVar

import jax
import jax.numpy as jnp

from farfield.registry import Registry, traced

MASKED = -1e30


@dataclass(frozen=True)
class Normalizer(abc.ABC):
    rounds: ClassVar[int] = 1

    def initialize(self, key):
        return {}

    def resolved(self, trained):
        return self

    def check(self):
        pass

    def scale(self, parameters, count):
        return 1.0

    def weights(self, parameters, logits, visible, count):
        return self.attend(logits * self.scale(parameters, count), visible, count)

    def attend(self, logits, visible, count):
        known = None
        for r in range(self.rounds):
            known = self.conclude(r, known, self.summarize(r, known, logits, visible), count)
        return self.weigh(known, logits, visible, count)


normalizers: Registry[Normalizer] = Registry("normalizer")


@normalizers.register("softmax")
@dataclass(frozen=True)
class Softmax(Normalizer):
    """softmax"""

    temperature: float = traced(1.0)

    def scale(self, parameters, count):
        return 1.0 / self.temperature

    def summarize(self, r, known, logits, visible):
        logits = jnp.where(visible, logits, jnp.asarray(MASKED, logits.dtype))
        peak = jax.lax.stop_gradient(logits.max(axis=0))
        peak = jnp.maximum(peak, jnp.asarray(MASKED / 2, peak.dtype))
        return peak, jnp.exp(logits - peak[None]).sum(axis=0)

    def merge(self, r, a, b):
        peak = jnp.maximum(a[0], b[0])
        return peak, a[1] * jnp.exp(a[0] - peak) + b[1] * jnp.exp(b[0] - peak)

    def conclude(self, r, known, summary, count):
        return summary

    def weigh(self, known, logits, visible, count):
        logits = jnp.where(visible, logits, jnp.asarray(MASKED, logits.dtype))
        return jnp.exp(logits - known[0][None]) / jnp.maximum(known[1], jnp.asarray(1e-30, logits.dtype))[None]
