"""What stands behind the length of a batch reaches no class score and no gradient (pytorch issue 101967)."""

from __future__ import annotations

import itertools

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from farfield.encodings import encodings
from farfield.models import Inputs, models
from farfield.models.base import Mechanism
from farfield.models.head import cross_entropy
from farfield.normalizers.softmax import Softmax
from helpers.support import assert_same_bits, quick_jit

MODELS = ["head:8", "head:8,heads=2", "positional:8", "transformer:width=8,layers=2"]
# Rows from 24 on are NaN, as after a training that diverged; the places that count have positions 20 to 23.
NEAR_END = jnp.arange(20, 28)
# Positions so far apart that xpos has NaN for them, were they encoded together.
APART = jnp.array([0, 1, 2, 3, 10**6, 2 * 10**6, 3 * 10**6, 4 * 10**6])


def spoiled(parameters):
    """The same with NaN for every table's rows from 24 on."""

    def spoil(path, leaf):
        name = jax.tree_util.keystr(path)
        if "table" in name:
            return leaf.at[24:].set(jnp.nan)
        return leaf.at[:, 24:].set(jnp.nan) if "bias'" in name else leaf

    return jax.tree_util.tree_map_with_path(spoil, parameters)


SPECS = {"learned:rows=32": NEAR_END, "key-only:rows=32": NEAR_END, "xpos:scale_base=1": APART}
CASES = list(itertools.product(SPECS, MODELS, ["last", "all"]))
QUICK = [("learned:rows=32", "head:8", "last"), ("learned:rows=32", "transformer:width=8,layers=2", "last")]


@pytest.mark.parametrize(
    ("spec", "model", "rows"), [pytest.param(*case, marks=() if case in QUICK else pytest.mark.slow) for case in CASES]
)
def test_nan_behind_the_length_reaches_no_class_score_weight_or_gradient(spec, model, rows):
    model, positions = models.parse(model), SPECS[spec]
    mechanism = Mechanism(encodings.parse(spec), Softmax())
    whole = model.initialize(jax.random.key(0), mechanism, 5)
    tokens = jnp.arange(24).reshape(8, 3) % 5
    paths = ("lookup", "dense") if model.lookup_obstacle(mechanism.encoding) is None else ("dense",)

    def of(path):
        def loss(parameters, positions):
            inputs = Inputs(tokens, positions, jnp.int32(4))
            found = model.forward(parameters, mechanism, inputs, rows, path)
            scores = found.class_scores[:4]
            return cross_entropy(scores, tokens[: len(scores)]), (scores, found.weights[:, :4])

        return quick_jit(jax.value_and_grad(loss, has_aux=True))

    # The last position that counts, in place of those behind it, is what a model should see.
    settled = jnp.where(jnp.arange(8) < 4, positions, positions[3])
    for path in paths:
        found, expected = of(path)(spoiled(whole), positions), of(path)(whole, settled)
        assert_same_bits(found, expected)
        assert all(np.isfinite(leaf).all() for leaf in jax.tree.leaves(found))
    for inside in model.observe(spoiled(whole), mechanism, Inputs(tokens, positions, jnp.int32(4)), rows):
        assert np.isfinite(inside.weights).all()
