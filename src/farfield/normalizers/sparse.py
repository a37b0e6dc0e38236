"""Sparsemax and 1.5-entmax: weights that are exactly zero below a threshold."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar, NamedTuple

import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float, Int

from farfield.normalizers.base import Normalizer, masked, normalizers


class Threshold(NamedTuple):
    """A row's largest logit, and the threshold of logits counted from it and multiplied by alpha - 1."""

    peak: Float[Array, "..."]
    threshold: Float[Array, "..."]


class Excess(NamedTuple):
    """Sums over keys of u**power and of u**(power - 1), u being what a key exceeds the threshold by."""

    mass: Float[Array, "..."]
    slope: Float[Array, "..."]


class Sparse(Normalizer):
    """w_t = u_t**p, u_t = max((alpha - 1)(z_t - max z) - tau, 0), p = 1/(alpha - 1), tau such that weights sum to 1.

    The first pass finds the maximum. Each other is one step of Newton's method on the p-norm of u less 1, convex and
    decreasing in tau, from tau = -1 where it is at least 0: so tau rises to the solution and never passes it, and
    what a step needs is two sums over keys. At every step, norm and slope, as parts of what they were, add up to at
    most 1; their product therefore falls to a fourth, or faster, and near the solution convergence is quadratic
    (for sparsemax exact after finitely many steps, where it is the algorithm of Michelot, 1986).

    The gradient is that of the last step with the threshold before it held fixed: the derivative of the solution by
    the implicit function theorem, exact where the steps have converged.
    """

    power: ClassVar[int]

    def summarize(
        self, round: Any, known: Threshold | None, logits: Float[Array, "key ..."], visible: Bool[Array, "key ..."]
    ) -> Excess | Float[Array, "..."]:
        del round
        if known is None:
            return jax.lax.stop_gradient(masked(logits, visible).max(axis=0))
        fixed = known._replace(threshold=jax.lax.stop_gradient(known.threshold))
        excess = self._excess(fixed, logits, visible)
        slope = (excess > 0).astype(excess.dtype) if self.power == 1 else excess
        return Excess((excess**self.power).sum(axis=0), jax.lax.stop_gradient(slope.sum(axis=0)))

    def merge(self, round: Any, a: Any, b: Any) -> Any:
        del round
        return Excess(a.mass + b.mass, a.slope + b.slope) if isinstance(a, Excess) else jnp.maximum(a, b)

    def conclude(self, round: Any, known: Threshold | None, summary: Any, count: Int[Array, "..."]) -> Threshold:
        del round, count
        if known is None:
            return Threshold(summary, jnp.full_like(summary, -1.0))
        # The step of the p-norm, (norm - 1) over its slope, in sums: (mass - mass**(1 - 1/p)) / slope. A row without
        # a visible key has neither, and stays where it is.
        mass = jnp.maximum(summary.mass, jnp.asarray(jnp.finfo(summary.mass.dtype).tiny, summary.mass.dtype))
        beyond = mass - (jnp.ones_like(mass) if self.power == 1 else jnp.sqrt(mass))
        somewhere = summary.slope > 0
        step = jnp.where(somewhere, beyond / jnp.where(somewhere, summary.slope, jnp.ones_like(mass)), 0.0)
        return Threshold(known.peak, jax.lax.stop_gradient(known.threshold) + step)

    def weigh(
        self,
        known: Threshold,
        logits: Float[Array, "key ..."],
        visible: Bool[Array, "key ..."],
        count: Int[Array, "..."],
    ) -> Float[Array, "key ..."]:
        del count
        return (self._excess(known, logits, visible) ** self.power).astype(logits.dtype)

    def _excess(
        self, known: Threshold, logits: Float[Array, "key ..."], visible: Bool[Array, "key ..."]
    ) -> Float[Array, "key ..."]:
        excess = (masked(logits, visible) - known.peak[None]) / self.power - known.threshold[None]
        return jnp.where(visible & (excess > 0), excess, jnp.zeros_like(excess))


@normalizers.register("sparsemax")
@dataclass(frozen=True)
class Sparsemax(Sparse):
    """w_t = max(z_t - tau, 0), tau such that weights sum to 1: the point of the simplex nearest to z.

    Source: Martins and Astudillo, arXiv 1602.02068, equation 2 and proposition 1.
    """

    # Steps after which no row of normal logits of any deviation, of clusters or of powers had weights whose sum was
    # off 1 by more than 1e-6, in float64: 5 for 16 keys, 7 for 64, 9 for 4096, 15 for 2**20.
    rounds = 1 + 16
    power = 1


@normalizers.register("entmax")
@dataclass(frozen=True)
class Entmax(Sparse):
    """1.5-entmax: w_t = max(z_t / 2 - tau, 0)**2, tau such that weights sum to 1; between softmax and sparsemax.

    Source: Peters, Niculae and Martins, arXiv 1905.05702, with alpha = 1.5.
    """

    # As for sparsemax: 5 steps for 16 keys, 6 for 64, 8 for 4096, 9 for 2**20.
    rounds = 1 + 10
    power = 2
