"""Normalizers against reference values, exact solvers and the closed forms of their papers."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import scipy.special
from hypothesis import given
from hypothesis import strategies as st

from farfield.errors import FarfieldError
from farfield.models.masks import packed_mask
from farfield.normalizers import MASKED, normalizers
from helpers.support import double_precision, quick_jit


@quick_jit
def row_weights(normalizer, parameters, logits):
    return normalizer.weights(parameters, logits, jnp.ones(len(logits), bool), jnp.int32(len(logits)))


def weights(spec: str, logits) -> np.ndarray:
    """Weights of one row of visible keys, in float64."""
    with double_precision():
        normalizer = normalizers.parse(spec).resolved(16)
        return np.asarray(row_weights(normalizer, normalizer.initialize(jax.random.key(0)), jnp.asarray(logits, float)))


def exact(logits, power: int) -> np.ndarray:
    """Sparsemax (power 1) or 1.5-entmax (power 2), exactly, by sorting.

    With the k largest in the support, the threshold solves sum (x - tau)**power = 1 over them; k is the largest for
    which the k-th logit is above it.
    """
    x = (np.asarray(logits, np.float64) - np.max(logits)) / power
    ranked = np.sort(x)[::-1]
    size = np.arange(1, len(x) + 1)
    mean = np.cumsum(ranked) / size
    if power == 1:
        thresholds = mean - 1 / size
    else:
        scatter = np.cumsum(ranked**2) - size * mean**2
        thresholds = mean - np.sqrt(np.maximum((1 - scatter) / size, 0))
    threshold = thresholds[np.flatnonzero(thresholds <= ranked)[-1]]
    return np.maximum(x - threshold, 0) ** power


def plain_softmax(logits, visible):
    """Softmax as one writes it: maximum, exponential, sum, division."""
    logits = jnp.where(visible, logits, jnp.asarray(MASKED, logits.dtype))
    exponentials = jnp.exp(logits - jax.lax.stop_gradient(logits.max(axis=0, keepdims=True)))
    return exponentials / exponentials.sum(axis=0, keepdims=True)


SPARSE = {"sparsemax": 1, "entmax": 2}
HARD_ROWS = {
    "one key": [3.0],
    "all equal": [2.0] * 7,
    "two tied at the top": [1.0, 1.0, 0.9, -5.0],
    "ties inside the support": [1.0, 0.7, 0.7, 0.7, 0.2, 0.2],
    "a tie at the threshold of sparsemax": [1.0, 0.0, 0.0],
    "a huge range": [1e4, 0.0, -1e4, 9999.5, 9999.9],
    "far from zero": [1e4 + 0.1, 1e4 + 0.2, 1e4],
    "tiny differences": [1e-9, 0.0, 2e-9],
}


@given(seed=st.integers(0, 99), keys=st.sampled_from([1, 5, 64]), temperature=st.floats(0.1, 10))
def test_softmax_is_that_of_scipy(seed, keys, temperature):
    logits = np.random.default_rng(seed).normal(size=keys) * 5
    found = weights(f"softmax:{temperature}", logits)
    np.testing.assert_allclose(found, scipy.special.softmax(logits / temperature), rtol=1e-12, atol=1e-15)


@pytest.mark.parametrize("scale", [1.0, 30.0])
def test_softmax_is_bit_for_bit_the_plain_one_in_value_and_gradient(scale):
    logits = jnp.asarray(np.random.default_rng(0).normal(size=(16, 256)) * scale, jnp.float32)
    visible = (jnp.arange(16) < 11)[:, None]
    for plain, found in zip(*(function(logits, visible) for function in (plain_both, own_both)), strict=True):
        np.testing.assert_array_equal(found, plain)


def test_a_compiled_softmax_is_as_small_a_program_as_the_plain_one():
    logits, visible = jnp.zeros((16, 256)), jnp.ones((16, 1), bool)
    plain, own = (
        jax.jit(function).lower(logits, visible).compile().cost_analysis() for function in (plain_both, own_both)
    )
    assert own["transcendentals"] == plain["transcendentals"]
    # Beyond it, value and gradient have a few operations on each of 256 rows, none on each of their 4096 logits.
    assert own["flops"] - plain["flops"] < 4 * 256


def both(function, logits, visible):
    """Weights, and the gradient of the sum of their squares."""
    return function(logits, visible), jax.grad(lambda logits: jnp.square(function(logits, visible)).sum())(logits)


def plain_both(logits, visible):
    return both(plain_softmax, logits, visible)


def own_both(logits, visible):
    softmax = normalizers.get("softmax")
    return both(lambda *row: softmax.weights({}, *row, visible.sum()), logits, visible)


@pytest.mark.parametrize(("count", "scale"), [(256, 1), (512, 1), (1024, 1.11111), (4096, 1.33333)])
def test_log_n_scales_each_query_by_its_own_number_of_keys(count, scale):
    """CLEX issue 1."""
    found = normalizers.get("log-n").resolved(512).scale({}, jnp.int32(count))
    np.testing.assert_allclose(found, scale, rtol=1e-5)


def test_log_n_leaves_every_row_up_to_the_training_length_alone_to_the_last_bit():
    for trained in (2, 3, 16, 100, 512, 1000):
        scale = normalizers.get("log-n", trained=trained).scale({}, jnp.arange(2000))
        assert (np.asarray(scale)[: trained + 1] == 1).all()
        assert (np.diff(scale)[trained:] > 0).all()


def test_log_n_restarts_with_every_packed_document():
    visible = packed_mask([6, 3])
    scale = normalizers.get("log-n", trained=2).scale({}, visible.sum(axis=1))
    ratio = np.log([1, 2, 3, 4, 5, 6, 1, 2, 3]) / np.log(2)
    np.testing.assert_allclose(scale, np.maximum(1, ratio), rtol=1e-6)


def test_log_n_without_a_training_length_says_what_is_missing():
    with pytest.raises(FarfieldError, match="does not know the training length"):
        normalizers.get("log-n").scale({}, jnp.int32(3))


@pytest.mark.parametrize("keys", [1, 2, 10, 1000])
def test_ssmax_keeps_the_largest_weight_where_softmax_loses_it(keys):
    """Figure 1 of arXiv 2501.19399: all logits -2 but one of 3, s = 0.43; weights are n**(s z), normalized."""
    logits = np.full(keys, -2.0)
    logits[-1] = 3
    expected = 1 / (1 + (keys - 1) * float(keys) ** (-0.43 * 5))
    np.testing.assert_allclose(weights("ssmax", logits)[-1], expected, rtol=1e-9)
    power = keys ** (0.43 * logits)
    np.testing.assert_allclose(weights("ssmax", logits), power / power.sum(), rtol=1e-9)


def test_ssmax_reads_its_scale_from_the_parameters_of_the_head():
    ssmax = normalizers.get("ssmax", initial=7)
    np.testing.assert_array_equal(ssmax.initialize(jax.random.key(0))["scale"], 7)
    np.testing.assert_allclose(
        ssmax.scale({"scale": jnp.asarray(2.0)}, jnp.array([1, 8])), [0, 2 * np.log(8)], rtol=1e-6
    )


@pytest.mark.parametrize(
    ("spec", "logits", "expected"),
    [
        ("sparsemax", [1.0, 0.8, 0.1], [0.6, 0.4, 0.0]),
        ("sparsemax", [0.0, 0.0, 0.0, 0.0], [0.25] * 4),
        ("sparsemax", [2.0, 0.0], [1.0, 0.0]),
        ("entmax", [2.0, 0.0], [1.0, 0.0]),
        ("entmax", [0.0, 0.0, 0.0, 0.0], [0.25] * 4),
        # Of two keys t apart, t at most 2: 1/2 +- t sqrt(8 - t**2)/8, from w = (z/2 - tau)**2 and their sum.
        ("entmax", [1.0, 0.0], [0.5 + 7**0.5 / 8, 0.5 - 7**0.5 / 8]),
        ("linear", [2.0, -3.0, 0.5], [2.0, -3.0, 0.5]),
        ("linear-normalized", [2.0, 3.0, -1.0], [0.5, 0.75, -0.25]),
        ("linear-normalized", [-2.0, -3.0, 1.0], [-0.5, -0.75, 0.25]),  # weights sum to -1
        ("linear-normalized", [2.0, -2.0, 0.5], [2.0, -2.0, 0.5]),  # the sum is below the floor of 1
        ("linear-normalized:floor=0.1", [2.0, -2.0, 0.5], [4.0, -4.0, 1.0]),
        ("linear-normalized:count", [2.0, -2.0, 0.6, 0.0], [0.5, -0.5, 0.15, 0.0]),
        ("sigmoid", [0.0] * 3, [0.25] * 3),  # 1/(1 + n)
    ],
)
def test_small_rows_have_the_weights_worked_out_by_hand(spec, logits, expected):
    np.testing.assert_allclose(weights(spec, logits), expected, atol=1e-9)


def test_sigmoid_is_that_of_scipy_with_an_offset_of_minus_log_n():
    logits = np.random.default_rng(0).normal(size=9) * 5
    np.testing.assert_allclose(weights("sigmoid", logits), scipy.special.expit(logits - np.log(9)), rtol=1e-12)
    fixed = weights("sigmoid:offset=-10,log_n=0", logits)
    np.testing.assert_allclose(fixed, scipy.special.expit(logits - 10), rtol=1e-12)


@pytest.mark.parametrize("name", SPARSE)
@pytest.mark.parametrize("row", HARD_ROWS)
def test_sparse_weights_are_those_of_an_exact_solver_on_hard_rows(name, row):
    np.testing.assert_allclose(weights(name, HARD_ROWS[row]), exact(HARD_ROWS[row], SPARSE[name]), atol=1e-9)


@pytest.mark.parametrize("name", SPARSE)
@given(
    seed=st.integers(0, 999),
    keys=st.sampled_from([1, 2, 3, 17, 64, 512, 4096]),
    spread=st.sampled_from([1e-3, 0.03, 0.1, 0.3, 1.0, 10.0, 1e4]),
    digits=st.sampled_from([1, 12]),
)
def test_sparse_weights_are_those_of_an_exact_solver(name, seed, keys, spread, digits):
    logits = np.round(np.random.default_rng(seed).normal(size=keys) * spread, digits)  # one digit: many ties
    np.testing.assert_allclose(weights(name, logits), exact(logits, SPARSE[name]), atol=1e-8)


@pytest.mark.parametrize("name", SPARSE)
@pytest.mark.parametrize("power", [0.25, 0.5, 1.0, 2.0])
def test_the_number_of_rounds_suffices_for_a_million_keys(name, power):
    """The slowest rows found: each step drops the lowest part of a support that thins out towards the top."""
    rows = [-((np.arange(2**20) / 2**20) ** power), np.random.default_rng(0).normal(size=2**20) * 0.1 * power]
    for row in rows:
        assert weights(name, row).sum() == pytest.approx(1, abs=1e-6)


@pytest.mark.parametrize("name", SPARSE)
def test_float32_is_as_good_as_its_digits(name):
    for keys in (16, 4096):
        logits = np.random.default_rng(keys).normal(size=keys).astype(np.float32)
        found = normalizers.get(name).weights({}, jnp.asarray(logits), jnp.ones(keys, bool), jnp.int32(keys))
        np.testing.assert_allclose(found, exact(logits, SPARSE[name]), atol=2e-6)


@pytest.mark.parametrize("name", SPARSE)
@given(seed=st.integers(0, 999), keys=st.sampled_from([1, 2, 5, 40]), spread=st.sampled_from([0.1, 1.0, 100.0]))
def test_the_jacobian_of_sparse_weights_is_the_closed_form(name, seed, keys, spread):
    """diag(s) - s s^T / sum(s), s = w**(2 - alpha), arXiv 1905.05702."""
    with double_precision():
        logits = jnp.asarray(np.random.default_rng(seed).normal(size=keys) * spread)
        found = row_weights(normalizers.get(name), {}, logits)
        slope = np.where(found > 0, found ** (1 - 1 / SPARSE[name]), 0)
        expected = np.diag(slope) - np.outer(slope, slope) / slope.sum()
        np.testing.assert_allclose(row_jacobian(normalizers.get(name), logits), expected, atol=1e-9)


@quick_jit
def row_jacobian(normalizer, logits):
    def found(logits):
        return normalizer.weights({}, logits, jnp.ones(len(logits), bool), jnp.int32(len(logits)))

    return jax.jacobian(found)(logits)


def test_the_normalized_linear_weights_are_continuous_and_bounded_where_the_sum_is_zero():
    logits = np.array([3.0, -3.0])
    for offset in np.linspace(-2, 2, 41):
        found = weights("linear-normalized", logits + offset)
        np.testing.assert_allclose(found, (logits + offset) / max(1, abs(2 * offset)), rtol=1e-9)
