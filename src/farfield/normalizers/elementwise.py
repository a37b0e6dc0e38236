"""Weights that need no softmax: linear attention, plain and normalized, and sigmoid attention."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float, Int

from farfield._types import PyTree
from farfield.errors import FarfieldError
from farfield.normalizers.base import Normalizer, normalizers, precise
from farfield.normalizers.softmax import natural_log
from farfield.registry import traced

# The smallest divisor of retention.
RETENTION = 1.0
DIVISORS = ("sum", "count")
LARGEST = 1e6


class Elementwise(Normalizer):
    """A weight depends on its own logit and the number of keys alone, so nothing has to be gathered first."""

    rounds = 0
    sums_to_one = False
    shift_invariant = False

    def summarize(self, round: Any, known: PyTree, logits: Array, visible: Array) -> None:
        del round, known, logits, visible

    def merge(self, round: Any, a: PyTree, b: PyTree) -> None:
        del round, a, b

    def conclude(self, round: Any, known: PyTree, summary: PyTree, count: Array) -> None:
        del round, known, summary, count


@normalizers.register("linear")
@dataclass(frozen=True)
class Linear(Elementwise):
    """w_t = z_t: linear attention without normalization. Weights may be negative and sum to anything.

    Source: the linear-attention control of arXiv 2607.18759, section 7.
    """

    nonnegative = False

    def weigh(
        self, known: None, logits: Float[Array, "key ..."], visible: Bool[Array, "key ..."], count: Int[Array, "..."]
    ) -> Float[Array, "key ..."]:
        del known, count
        return jnp.where(visible, logits, jnp.zeros_like(logits))


@normalizers.register("linear-normalized")
@dataclass(frozen=True)
class LinearNormalized(Normalizer):
    """w_t = z_t / max(|sum_j z_j|, floor), or w_t = z_t / n for n visible keys.

    Linear attention divides by the sum of its scores (Katharopoulos et al., arXiv 2006.16236, equation 4), where a
    feature map makes all of them positive. Logits here have either sign, so their sum passes through zero, and a
    plain division would have a pole there: weights and gradients without bound (Qin et al., arXiv 2210.10340, on the
    gradients). The floor is how retention avoids it for scores of either sign (Sun et al., arXiv 2307.08621:
    max(|sum|, 1)). What remains of the fault: weights sum to 1 where the sum is above the floor, to -1 where it
    is below -floor, and to anything between where it is small; the gradient is of order 1/floor there.

    Division by n (the 1/n of the theory of in-context learning, for example arXiv 2306.09927) has no such place, and
    no coupling of keys either: it is linear attention with a rate that follows the length.

    Attributes:
        by: ``sum`` or ``count``.
        floor: smallest divisor of ``sum``, above 0; 1 as in retention.
    """

    rounds = 1
    sums_to_one = False
    nonnegative = False
    shift_invariant = False

    by: str = "sum"
    floor: float = traced(RETENTION)

    def summarize(
        self, round: Any, known: PyTree, logits: Float[Array, "key ..."], visible: Bool[Array, "key ..."]
    ) -> Float[Array, "..."]:
        del round, known
        logits = precise(logits)
        return jnp.where(visible, logits, jnp.zeros_like(logits)).sum(axis=0)

    def merge(self, round: Any, a: Float[Array, "..."], b: Float[Array, "..."]) -> Float[Array, "..."]:
        del round
        return a + b

    def conclude(
        self, round: Any, known: PyTree, summary: Float[Array, "..."], count: Int[Array, "..."]
    ) -> Float[Array, "..."]:
        del round, known
        if self.by == "count":
            return jnp.broadcast_to(jnp.maximum(count, 1), summary.shape).astype(summary.dtype)
        return jnp.maximum(jnp.abs(summary), jnp.asarray(self.floor).astype(summary.dtype))

    def weigh(
        self,
        known: Float[Array, "..."],
        logits: Float[Array, "key ..."],
        visible: Bool[Array, "key ..."],
        count: Int[Array, "..."],
    ) -> Float[Array, "key ..."]:
        del count
        logits, dtype = precise(logits), logits.dtype
        return (jnp.where(visible, logits, jnp.zeros_like(logits)) / known[None]).astype(dtype)

    def check(self) -> None:
        if self.by not in DIVISORS:
            raise FarfieldError(f"linear-normalized:by={self.by!r} is not one of {', '.join(DIVISORS)}")
        if self.by == "count" and self.floor != RETENTION:
            raise FarfieldError(
                f"linear-normalized:floor={self.floor:g} does nothing with by=count, which divides by the number of "
                "keys: leave it out, or use by=sum"
            )
        if not 1 / LARGEST <= self.floor <= LARGEST:
            raise FarfieldError(
                f"linear-normalized:floor={self.floor:g} must be from {1 / LARGEST:g} to {LARGEST:g}: "
                "it is the smallest number that logits are divided by"
            )


@normalizers.register("sigmoid")
@dataclass(frozen=True)
class Sigmoid(Elementwise):
    """w_t = sigmoid(z_t + offset - log_n ln n), n the number of keys that this query sees.

    Weights lie between 0 and 1 and compete for nothing; -ln n makes their sum close to 1 for logits near 0. A row of
    another length is thus weighted otherwise; ``sigmoid:offset=-2.8,log_n=0`` fixes the offset instead.
    Source: Ramapuram et al., arXiv 2409.04431, with b = -log n.

    Attributes:
        offset: added to every logit.
        log_n: how much of ln n is subtracted.
    """

    offset: float = traced(0.0)
    log_n: float = traced(1.0)

    def weigh(
        self, known: None, logits: Float[Array, "key ..."], visible: Bool[Array, "key ..."], count: Int[Array, "..."]
    ) -> Float[Array, "key ..."]:
        del known
        shift = jnp.asarray(self.offset, float) - jnp.asarray(self.log_n, float) * natural_log(jnp.asarray(count))
        shifted = precise(jnp.where(visible, logits, jnp.zeros_like(logits)))
        shift = shift.astype(shifted.dtype)
        weights = jax.nn.sigmoid(shifted + (shift[None] if shift.ndim else shift)).astype(logits.dtype)
        return jnp.where(visible, weights, jnp.zeros_like(weights))

    def check(self) -> None:
        for name in ("offset", "log_n"):
            if not abs(getattr(self, name)) <= LARGEST:
                raise FarfieldError(f"sigmoid:{name}={getattr(self, name):g} must be a number within ±{LARGEST:g}")
