"""Biases that are functions of distance, against printed values and plain loops: ALiBi, KERPLE, FIRE."""

from __future__ import annotations

import math

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from farfield.encodings import HeadContent, encodings, get
from farfield.encodings.alibi import RULES
from farfield.encodings.fire import progress
from helpers.support import double_precision, drawn_parameters

QUERIES, KEYS = (0, 1, 5, 40), (0, 1, 3, 4, 39, 41)


def bias_of(encoding, parameters, queries=QUERIES, keys=KEYS, width=4):
    """The bias of queries and keys at these positions, whose content is zero."""
    content = HeadContent(jnp.zeros((len(queries), width)), jnp.zeros((len(keys), width)))
    return np.asarray(encoding.bias(parameters, jnp.array(queries), jnp.array(keys), content))


def by_loop(function, queries=QUERIES, keys=KEYS):
    """``function(query position, key position)`` for all pairs."""
    return np.array([[function(n, t) for t in keys] for n in queries])


def slopes(spec: str, heads: int) -> list[float]:
    """The slope of each head, as its bias between neighbours shows it."""
    encoding = encodings.parse(spec)
    return [-float(bias_of(encoding.of_head(i, heads), {}, (1,), (0,))[0, 0]) for i in range(heads)]


@pytest.mark.parametrize(
    ("heads", "expected"),
    [
        (1, [2**-8]),
        (3, [1 / 16, 1 / 256, 1 / 4]),
        (6, [0.25, 0.0625, 0.015625, 0.00390625, 0.5, 0.125]),
        (8, [2.0**-k for k in range(1, 9)]),
        (12, [*(2.0**-k for k in range(1, 9)), 0.70711, 0.35355, 0.17678, 0.08839]),
    ],
)
def test_alibi_slopes_are_those_of_the_papers_code_for_any_number_of_heads(heads, expected):
    """transformers pull request 28380, mlx issue 343."""
    np.testing.assert_allclose(slopes("alibi", heads), expected, rtol=2e-5)


@given(heads=st.integers(1, 200))
def test_the_papers_code_gives_the_slopes_of_its_recursion(heads):
    def recursion(n):
        if math.log2(n).is_integer():
            start = 2 ** (-(2 ** -(math.log2(n) - 3)))
            return [start * start**i for i in range(n)]
        below = 2 ** math.floor(math.log2(n))
        return recursion(below) + recursion(2 * below)[0::2][: n - below]

    np.testing.assert_allclose(RULES["reference"](heads), recursion(heads), rtol=1e-12)


def test_other_slope_rules_go_by_their_own_names():
    np.testing.assert_allclose(slopes("alibi:rule=geometric", 3), [2 ** (-8 / 3), 2 ** (-16 / 3), 2**-8], rtol=1e-6)
    np.testing.assert_allclose(slopes("alibi:rule=zero-based", 4), [1, 1 / 4, 1 / 16, 1 / 64], rtol=1e-6)
    np.testing.assert_allclose(slopes("alibi:rule=same", 3), [1, 1, 1])
    assert RULES["geometric"](16) == RULES["reference"](16)


def test_a_slope_is_the_slope_of_every_head_or_multiplies_those_of_a_named_rule():
    np.testing.assert_allclose(slopes("alibi:slope=0.25", 3), [0.25] * 3)
    np.testing.assert_allclose(slopes("alibi:-2", 2), [-2, -2])
    np.testing.assert_allclose(slopes("alibi:slope=0", 2), [0, 0])
    np.testing.assert_allclose(slopes("alibi:slope=2,rule=reference", 2), [2 * 2**-4, 2 * 2**-8])


@pytest.mark.parametrize("slope", [0.5, -0.5])
def test_alibi_equals_its_formula_by_a_loop(slope):
    causal, symmetric = (get("alibi", slope=slope, symmetric=answer) for answer in (False, True))
    np.testing.assert_allclose(bias_of(causal, {}), by_loop(lambda n, t: -slope * (n - t)))
    np.testing.assert_allclose(bias_of(symmetric, {}), by_loop(lambda n, t: -slope * abs(n - t)))


def test_alibi_is_added_after_the_scaling_unless_told_otherwise():
    """Model-Connect issue 32: slope .5, distance 8, a head of 64."""
    after, before = (get("alibi", slope=0.5, before_scaling=answer) for answer in (False, True))
    assert bias_of(after, {}, (8,), (0,), width=64) == -4
    assert bias_of(before, {}, (8,), (0,), width=64) == -0.5


@pytest.mark.parametrize("sign", [1, -1])
def test_a_trained_alibi_slope_starts_from_its_setting_and_may_have_either_sign(sign):
    learned = get("alibi", learned=True, slope=sign * 0.75)
    start = learned.initialize_head(jax.random.key(0), 4)
    assert start["slope"] == sign * 0.75
    np.testing.assert_allclose(
        bias_of(learned, {"slope": jnp.asarray(-sign * 2.0)}, (3,), (0, 1)), [[sign * 6, sign * 4]]
    )
    of_third = get("alibi", learned=True).of_head(2, 3).initialize_head(jax.random.key(0), 4)
    assert of_third["slope"] == 0.25


def test_kerple_log_of_ones_is_minus_the_logarithm_of_one_more_than_the_distance():
    """KERPLE issue 2."""
    kerple = get("kerple-log", weight=1, rate=1)
    found = bias_of(kerple, kerple.initialize_head(jax.random.key(0), 4), (3,), (3, 2, 1, 0))
    np.testing.assert_allclose(found, [[0, -0.69315, -1.09861, -1.38629]], atol=1e-5)


@pytest.mark.parametrize(
    ("name", "settings", "formula"),
    [
        ("kerple-log", {"weight": 2.5, "rate": 0.3}, lambda r: -2.5 * math.log(1 + 0.3 * r)),
        ("kerple-power", {"weight": 0.4, "power": 0.5}, lambda r: -0.4 * r**0.5),
        ("kerple-power", {"weight": 0.1, "power": 1.9}, lambda r: -0.1 * r**1.9),
    ],
)
def test_kerple_equals_its_formula_by_a_loop_from_its_settings(name, settings, formula):
    kerple = get(name, **settings)
    found = bias_of(kerple, kerple.initialize_head(jax.random.key(0), 4))
    np.testing.assert_allclose(found, by_loop(lambda n, t: formula(abs(n - t))), rtol=1e-5)


@given(seed=st.integers(0, 999), scale=st.sampled_from([1.0, 30.0]))
def test_kerple_falls_with_distance_whatever_training_does_to_its_parameters(seed, scale):
    """Its parameters stay above 0, and so the kernel stays conditionally positive definite."""
    for name in ("kerple-log", "kerple-power"):
        kerple = encodings.parse(name)
        parameters = jax.tree.map(lambda leaf: leaf * scale, drawn_parameters(kerple, 4, seed).head)
        found = bias_of(kerple, parameters, (20,), tuple(range(21)))[0]
        assert (np.diff(found) >= 0).all()
        assert found[-1] == 0
    assert (-found <= np.exp(float(parameters["log_weight"])) * 20.0**2 * 1.001).all()


@pytest.mark.parametrize(
    ("query", "key", "expected"),
    [(1, 0, 0.430677), (8, 4, 0.732487), (8, 0, 1), (100, 99, 0.150190), (0, 0, 0)],
)
def test_fire_normalizes_distance_by_the_query_position_above_the_threshold(query, key, expected):
    """c = 1, L = 4; the threshold keeps the first row from 0/0."""
    found = progress(jnp.array([[query - key]], float), jnp.array([query], float), 1.0, 4.0)
    np.testing.assert_allclose(found, [[expected]], atol=1e-6)


def test_fire_equals_its_formula_by_a_loop():
    with double_precision():
        fire = get("fire", hidden=5)
        parameters = drawn_parameters(fire, 4, 3).head
        p = jax.tree.map(np.asarray, parameters)
        scale, threshold = np.exp(p["log_scale"]), np.exp(p["log_threshold"])

        def formula(n, t):
            share = math.log(scale * abs(n - t) + 1) / math.log(scale * max(threshold, n) + 1)
            units = [max(0.0, a * share + b) for a, b in zip(p["input"], p["shift"], strict=True)]
            return sum(u * v for u, v in zip(units, p["output"], strict=True)) + p["constant"]

        np.testing.assert_allclose(bias_of(fire, parameters), by_loop(formula), rtol=1e-10)


@pytest.mark.parametrize(("fire", "threshold"), [("fire", 512), ("fire:threshold=3", 3)])
def test_fire_starts_from_its_settings(fire, threshold):
    start = encodings.parse(fire).initialize_head(jax.random.key(0), 4)
    assert float(jnp.exp(start["log_scale"])) == pytest.approx(0.1)
    assert float(jnp.exp(start["log_threshold"])) == pytest.approx(threshold)
    assert {name: leaf.shape for name, leaf in start.items()} == {
        "input": (32,), "shift": (32,), "output": (32,), "constant": (), "log_scale": (), "log_threshold": (),
    }  # fmt: skip


def test_an_unset_fire_threshold_becomes_a_quarter_of_the_training_length():
    assert encodings.parse("fire").resolved(2048, 4096).threshold == 512
    assert encodings.parse("fire").resolved(2, 64).threshold == 1
    assert encodings.parse("fire:threshold=7").resolved(2048, 4096).threshold == 7
