"""Softmax, and softmax whose logits grow with the number of keys."""

from __future__ import annotations

import abc
import math
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float, Int

from farfield._types import Key, PyTree
from farfield.errors import FarfieldError
from farfield.normalizers.base import Normalizer, masked, normalizers
from farfield.registry import traced

UNSET = 0
LARGEST_SCALE = 1e6


class Mass(NamedTuple):
    """Largest logit of the keys seen, and the sum of exp(logit - largest)."""

    peak: Float[Array, "..."]
    total: Float[Array, "..."]


class Exponential(Normalizer):
    """w_t = exp(z_t) / sum_j exp(z_j), in one pass; subclasses say how z follows from the logits.

    Blocks merge as in the online softmax of Milakov and Gimelshein, arXiv 1805.02867.
    """

    rounds = 1

    @abc.abstractmethod
    def scale(self, parameters: PyTree, count: Int[Array, "..."]) -> Float[Array, "..."]: ...

    def attend(
        self, logits: Float[Array, "key ..."], visible: Bool[Array, "key ..."], count: Int[Array, "..."]
    ) -> Float[Array, "key ..."]:
        # The same as the passes below, with one exponential for both: so a gradient too is, to the last bit, that of
        # softmax as one writes it.
        shown = masked(logits, visible)
        peak = jax.lax.stop_gradient(shown.max(axis=0))
        exponentials = jnp.exp(shown - peak[None])
        known = self.conclude(0, None, Mass(peak, exponentials.sum(axis=0)), count)
        return (exponentials / known.total[None]).astype(logits.dtype)

    def summarize(
        self, round: Any, known: PyTree, logits: Float[Array, "key ..."], visible: Bool[Array, "key ..."]
    ) -> Mass:
        del round, known
        logits = masked(logits, visible)
        peak = jax.lax.stop_gradient(logits.max(axis=0))
        return Mass(peak, jnp.exp(logits - peak[None]).sum(axis=0))

    def merge(self, round: Any, a: Mass, b: Mass) -> Mass:
        del round
        peak = jnp.maximum(a.peak, b.peak)
        return Mass(peak, a.total * jnp.exp(a.peak - peak) + b.total * jnp.exp(b.peak - peak))

    def conclude(self, round: Any, known: PyTree, summary: Mass, count: Int[Array, "..."]) -> Mass:
        # Among masked keys alone every exponential is 1: an infinite total makes their weights zero. The test reads
        # `count`, since reading the peak here would keep XLA from computing the exponentials where it finds the peak.
        del round, known
        empty = jnp.broadcast_to(jnp.asarray(count) == 0, summary.total.shape)
        return summary._replace(total=jnp.where(empty, jnp.full_like(summary.total, jnp.inf), summary.total))

    def weigh(
        self, known: Mass, logits: Float[Array, "key ..."], visible: Bool[Array, "key ..."], count: Int[Array, "..."]
    ) -> Float[Array, "key ..."]:
        del count
        weights = jnp.exp(masked(logits, visible) - known.peak[None]) / known.total[None]
        return weights.astype(logits.dtype)


@normalizers.register("softmax")
@dataclass(frozen=True)
class Softmax(Exponential):
    """w = softmax(z / temperature).

    Attributes:
        temperature: above 0; a large one spreads the weights.
    """

    temperature: float = traced(1.0)

    def scale(self, parameters: PyTree, count: Int[Array, "..."]) -> Float[Array, ""]:
        del parameters, count
        return 1.0 / jnp.asarray(self.temperature, float)

    def check(self) -> None:
        if not 1 / LARGEST_SCALE <= self.temperature <= LARGEST_SCALE:
            raise FarfieldError(
                f"softmax:temperature={self.temperature:g} must be from {1 / LARGEST_SCALE:g} to {LARGEST_SCALE:g}, "
                "since it divides the logits"
            )


@normalizers.register("log-n")
@dataclass(frozen=True)
class LogN(Exponential):
    """w = softmax(z max(1, ln n / ln trained)), n the number of keys that this query sees.

    Up to the longest training length this is softmax; beyond it a lead of one key over the others grows as fast as
    their number takes mass from it. n belongs to a query, not to a batch: it restarts with every packed document.
    Source: Chiang and Cholak, arXiv 2202.12172; with the training length as the base and the floor of 1
    as in the published code of Qwen (arXiv 2309.16609).

    Attributes:
        trained: the length from which logits grow, at least 2. 0 means the longest training length.
    """

    trained: int = UNSET

    def resolved(self, trained: int) -> LogN:
        return self if self.trained else replace(self, trained=trained)

    def scale(self, parameters: PyTree, count: Int[Array, "..."]) -> Float[Array, "..."]:
        del parameters
        if not self.trained:
            raise FarfieldError("log-n does not know the training length: set log-n:trained=16, or call resolved(16)")
        count = jnp.asarray(count)
        # Compared as whole numbers, so that rounding of a logarithm never scales a row of the training length.
        longer = count > self.trained
        return jnp.where(longer, natural_log(count) / math.log(max(self.trained, 2)), jnp.ones(count.shape))

    def check(self) -> None:
        if self.trained < 2 and self.trained != UNSET:
            raise FarfieldError(
                f"log-n:trained={self.trained} must be at least 2, since logits are divided by its logarithm: "
                "train on longer sequences, or give 0 for the longest training length"
            )


@normalizers.register("ssmax")
@dataclass(frozen=True)
class ScalableSoftmax(Exponential):
    """w = softmax(s ln(n) z), n the number of keys that this query sees and s a trained number of each head.

    One key alone has s ln 1 = 0 and the weight 1, which no s changes.
    Source: Nakanishi, arXiv 2501.19399.

    Attributes:
        initial: s at the start. The default is that of the paper's Figure 1; times ln n it is 1 at ten keys, so a
            head for short sequences starts close to softmax.
    """

    initial: float = traced(0.43)

    def initialize(self, key: Key) -> PyTree:
        del key
        return {"scale": jnp.asarray(self.initial, float)}

    def scale(self, parameters: PyTree, count: Int[Array, "..."]) -> Float[Array, "..."]:
        logarithm = natural_log(jnp.asarray(count))
        return jnp.asarray(parameters["scale"]).astype(logarithm.dtype) * logarithm

    def check(self) -> None:
        if not 0 < abs(self.initial) <= LARGEST_SCALE:
            raise FarfieldError(
                f"ssmax:initial={self.initial:g} must be a number other than 0 of at most {LARGEST_SCALE:g}: "
                "at 0 every key has the same weight and no gradient reaches queries and keys"
            )


def natural_log(count: Int[Array, "*shape"]) -> Float[Array, "*shape"]:
    """ln of a number of keys; 0 where there are none."""
    return jnp.log(jnp.maximum(count, 1).astype(float))
