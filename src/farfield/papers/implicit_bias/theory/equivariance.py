"""Lemma 1: logits of a rotary head depend on positions through key - query alone; and of any relative encoding."""

from __future__ import annotations

from functools import partial

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool

from farfield.encodings.alibi import Alibi
from farfield.encodings.base import Encoding
from farfield.encodings.learned import Learned
from farfield.encodings.rope import Rope
from farfield.encodings.t5 import T5
from farfield.models.base import Inputs, Mechanism
from farfield.models.head import Head
from farfield.normalizers.softmax import Softmax
from farfield.papers.implicit_bias.theory.lines import CASES, double_precision
from farfield.papers.verdicts import Comparison, statement

FARTHEST = 10**6
LENGTH, VOCABULARY = 24, 20
MODEL = Head()
TABLE = 4096  # rows of the learned positions, the control


def compare() -> list[Comparison]:
    why = f"Drawn weights, tokens, starts and shifts up to {FARTHEST:,}, {LENGTH} keys each, in float64."
    relative = {"rope": Rope(), "alibi": Alibi(slope=0.5), "t5": T5(deviation=1.0)}
    lines = [
        statement(f"Lemma 1, {name}: share of shifts that leave every logit alone", unmoved(encoding), note=why)
        for name, encoding in relative.items()
    ]
    control = "A control that has to fail: positions of a drawn table are not relative."
    moved = unmoved(Learned(rows=TABLE), farthest=(TABLE - LENGTH) // 2)
    return [*lines, statement("Lemma 1, learned: share of shifts that do", moved, share=0.0, note=control)]


def unmoved(encoding: Encoding, farthest: int = FARTHEST, cases: int = CASES) -> Bool[np.ndarray, " case"]:
    """Whether shifting all positions leaves every logit of a drawn head as it was, to float64's rounding.

    Rounding an angle p theta by half a unit in the last place moves a logit by up to eps p theta |q||k| / (2 sqrt(d)),
    and the dot product by up to eps d |q||k| / sqrt(d): the tolerance is that of both queries and keys at both starts.
    """
    with double_precision():
        return np.asarray(_unmoved(encoding, farthest, cases))


# Run once or twice, so what costs is compiling it.
@partial(jax.jit, static_argnums=(0, 1, 2), compiler_options={"xla_backend_optimization_level": 0})
def _unmoved(encoding: Encoding, farthest: int, cases: int) -> Bool[Array, " case"]:
    def one(case: Array) -> Array:
        keys = jax.random.split(jax.random.fold_in(jax.random.key(1), case), 4)
        mechanism = Mechanism(encoding, Softmax())
        parameters = MODEL.initialize(keys[0], mechanism, VOCABULARY)
        tokens = jax.random.randint(keys[1], (LENGTH, 1), 0, VOCABULARY)
        start = jax.random.randint(keys[2], (), 0, farthest + 1)
        shift = jax.random.randint(keys[3], (), 1, farthest + 1)
        places, length = jnp.arange(LENGTH), jnp.asarray(LENGTH)
        here, there = (
            MODEL.observe(parameters, mechanism, Inputs(tokens, first + places, length), "last")[0]
            for first in (start, start + shift)
        )
        norms = jnp.linalg.norm(here.query) * jnp.linalg.norm(here.key, axis=-1).max() / MODEL.width**0.5
        angles = (2 * start + shift + 2 * LENGTH).astype(norms.dtype)
        tolerance = jnp.finfo(norms.dtype).eps * norms * (angles + 4 * MODEL.width)
        return jnp.abs(here.logits - there.logits).max() <= tolerance

    return jax.vmap(one)(jnp.arange(cases))
