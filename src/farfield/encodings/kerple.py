"""KERPLE: trained conditionally positive definite kernels of the distance."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float

from farfield._types import Key, Positions, PyTree
from farfield.encodings.base import Encoding, HeadContent, encodings
from farfield.encodings.parts import LARGEST, distances, precise, require_real
from farfield.registry import traced

# No initial value is nearer to 0, whose logarithm is stored.
SMALLEST = 1e-12
# The power for which a**p is still conditionally positive definite.
LARGEST_POWER = 2.0


@encodings.register("kerple-log")
@dataclass(frozen=True)
class KerpleLog(Encoding):
    """KERPLE, logarithmic: add -p log(1 + a |query - key|) to the logit; p and a are trained in each head.

    They stay above 0 because their logarithms are what is trained; the published code clamps them instead, which
    leaves a head that reaches the bound without a gradient. It draws them at random; here they start from the
    settings. Source: Chi et al., arXiv 2205.09921, section 4, the logarithmic variant.

    Attributes:
        weight: p at the start, in logits.
        rate: a at the start, per position.
    """

    weight: float = traced(1.0)
    rate: float = traced(1.0)

    def check(self, width: int, longest: int) -> None:
        require_real("kerple-log:weight", self.weight, SMALLEST, LARGEST)
        require_real("kerple-log:rate", self.rate, SMALLEST, LARGEST)

    def initialize_head(self, key: Key, width: int) -> PyTree:
        return {"log_weight": _log(self.weight), "log_rate": _log(self.rate)}

    def bias(
        self, parameters: PyTree, query_positions: Positions, key_positions: Positions, content: HeadContent
    ) -> Float[Array, "query key"]:
        dtype = precise(content.query.dtype)
        weight, rate = (jnp.exp(jnp.asarray(parameters[name]).astype(dtype)) for name in ("log_weight", "log_rate"))
        bias = -weight * jnp.log1p(rate * distances(query_positions, key_positions, dtype))
        return bias.astype(content.query.dtype)


@encodings.register("kerple-power")
@dataclass(frozen=True)
class KerplePower(Encoding):
    """KERPLE, power: add -a |query - key|**p to the logit, 0 < p < 2; a and p are trained in each head.

    a is the exponential of what is trained and p twice its logistic function, so both keep their ranges with a
    gradient everywhere; the published code clamps (and so allows p = 2 itself) and draws them at random. At p = 1
    this is ALiBi with a trained slope. Source: Chi et al., arXiv 2205.09921, section 4, the power variant.

    Attributes:
        weight: a at the start, in logits.
        power: p at the start.
    """

    weight: float = traced(1.0)
    power: float = traced(1.0)

    def check(self, width: int, longest: int) -> None:
        require_real("kerple-power:weight", self.weight, SMALLEST, LARGEST)
        require_real("kerple-power:power", self.power, 0, LARGEST_POWER)

    def initialize_head(self, key: Key, width: int) -> PyTree:
        share = jnp.asarray(self.power, float) / LARGEST_POWER
        return {"log_weight": _log(self.weight), "power_logit": jnp.log(share) - jnp.log1p(-share)}

    def bias(
        self, parameters: PyTree, query_positions: Positions, key_positions: Positions, content: HeadContent
    ) -> Float[Array, "query key"]:
        dtype = precise(content.query.dtype)
        weight = jnp.exp(jnp.asarray(parameters["log_weight"]).astype(dtype))
        power = LARGEST_POWER * jax.nn.sigmoid(jnp.asarray(parameters["power_logit"]).astype(dtype))
        distance = distances(query_positions, key_positions, dtype)
        return (-weight * distance**power).astype(content.query.dtype)


def _log(value: Any) -> Float[Array, ""]:
    return jnp.log(jnp.asarray(value, float))
