"""What every registered normalizer must do: registering one is enough for it to be tested here."""

from __future__ import annotations

import functools
import json

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from farfield.errors import FarfieldError
from farfield.normalizers import Normalizer, normalizers
from support import double_precision, quick_jit, traced_fields

TRAINED = 16

# Every registered normalizer with its defaults, and settings that change what it computes.
SPECS = [
    *normalizers,
    "softmax:0.5",
    "log-n:4",
    "ssmax:1.5",
    "linear-normalized:count",
    "linear-normalized:floor=0.01",
    "sigmoid:offset=-2,log_n=0",
]

pytestmark = pytest.mark.usefixtures("strict_dtypes")


def ready(spec: str):
    """A normalizer and its parameters."""
    normalizer = normalizers.parse(spec).resolved(TRAINED)
    normalizer.check()
    return normalizer, normalizer.initialize(jax.random.key(0))


def rows(seed: int, keys: int, count: int = 5, *, spread: float = 2.0):
    """Normal logits [key, row], what is visible of them, at least one key a row, and how many keys that is."""
    random = np.random.default_rng(seed)
    visible = random.random((keys, count)) < 0.7
    visible[random.integers(keys, size=count), np.arange(count)] = True
    logits = jnp.asarray(random.normal(size=(keys, count)) * spread, float)
    return logits, jnp.asarray(visible), jnp.asarray(visible.sum(axis=0))


@functools.cache
def compiled(spec: str):
    return quick_jit(lambda parameters, *row: ready(spec)[0].weights(parameters, *row))


@functools.cache
def pulled_back(spec: str):
    def loss(parameters, logits, visible, count, pull):
        return (ready(spec)[0].weights(parameters, logits, visible, count) * pull).sum()

    return quick_jit(jax.grad(loss, (0, 1)))


def weights(spec: str, logits, visible, count):
    return compiled(spec)(ready(spec)[1], logits, visible, count)


def by_blocks(normalizer: Normalizer, parameters, logits, visible, count, ends):
    """Weights of rows that come in blocks ending at ``ends``."""
    scale = jnp.broadcast_to(normalizer.scale(parameters, count), count.shape).astype(logits.dtype)
    blocks = [
        (part * scale[None], seen)
        for part, seen in zip(*(np.split(part, ends) for part in (logits, visible)), strict=True)
    ]
    known = None
    for round in range(normalizer.rounds):
        summary = normalizer.summarize(round, known, *blocks[0])
        for block in blocks[1:]:
            summary = normalizer.merge(round, summary, normalizer.summarize(round, known, *block))
        known = normalizer.conclude(round, known, summary, count)
    return np.concatenate([normalizer.weigh(known, *block, count) for block in blocks])


@pytest.mark.parametrize("spec", SPECS)
@given(seed=st.integers(0, 99), keys=st.sampled_from([1, 2, 7, 40]), spread=st.sampled_from([0.01, 1.0, 30.0]))
def test_weights_are_nonnegative_and_sum_to_one_where_claimed(spec, seed, keys, spread):
    with double_precision():
        found = np.asarray(weights(spec, *rows(seed, keys, spread=spread)))
    if normalizers.parse(spec).nonnegative:
        assert (found >= 0).all()
    if normalizers.parse(spec).sums_to_one:
        np.testing.assert_allclose(found.sum(axis=0), 1, atol=1e-6)


@pytest.mark.parametrize("spec", SPECS)
def test_what_is_not_claimed_does_not_hold(spec):
    normalizer = normalizers.parse(spec)
    logits, visible, count = rows(0, 20)
    found = np.asarray(weights(spec, logits, visible, count))
    shifted = np.asarray(weights(spec, logits + 3, visible, count))
    assert normalizer.nonnegative or (found < 0).any()
    assert normalizer.sums_to_one or (np.abs(found.sum(axis=0) - 1) > 0.01).any()
    assert normalizer.shift_invariant or (np.abs(shifted - found) > 0.01).any()


@pytest.mark.parametrize("spec", SPECS)
@given(seed=st.integers(0, 99), shift=st.floats(-100, 100))
def test_a_common_shift_of_the_logits_changes_nothing_where_claimed(spec, seed, shift):
    if not normalizers.parse(spec).shift_invariant:
        return
    with double_precision():
        logits, visible, count = rows(seed, 12)
        moved = weights(spec, logits + shift, visible, count)
        np.testing.assert_allclose(moved, weights(spec, logits, visible, count), atol=1e-9)


@pytest.mark.parametrize("spec", SPECS)
@given(seed=st.integers(0, 99), keys=st.sampled_from([2, 7, 30]))
def test_a_larger_logit_never_has_a_smaller_weight(spec, seed, keys):
    logits, _, _ = rows(seed, keys)
    everything = jnp.ones_like(logits, bool)
    found = np.asarray(weights(spec, logits, everything, jnp.full(5, keys)))
    ranked = np.take_along_axis(found, np.argsort(logits, axis=0), axis=0)
    assert (np.diff(ranked, axis=0) >= 0).all()
    assert (ranked[-1] > ranked[0]).all()


@pytest.mark.parametrize("spec", SPECS)
def test_keys_that_are_not_visible_have_no_weight_and_no_influence_whatever_they_hold(spec):
    logits, visible, count = rows(1, 9)
    normalizer, _ = ready(spec)

    @quick_jit
    def outcome(logits):
        def loss(logits):
            found = normalizer.attend(logits, visible, count)
            return jnp.square(found).sum(), found

        gradient, found = jax.grad(loss, has_aux=True)(logits)
        return found, gradient

    found, gradient = outcome(logits)
    assert (np.asarray(found)[~visible] == 0).all()
    for junk in (1e4, -1e4, np.inf, -np.inf, np.nan):
        dirty = outcome(jnp.where(visible, logits, jnp.full_like(logits, junk)))
        np.testing.assert_array_equal(dirty[0], found)
        np.testing.assert_array_equal(dirty[1], gradient)


@pytest.mark.parametrize("spec", SPECS)
def test_keys_that_are_not_visible_do_not_reach_the_gradient_of_parameters_and_settings(spec):
    logits, visible, count = rows(1, 9)
    normalizer, parameters = ready(spec)

    @quick_jit
    @functools.partial(jax.grad, argnums=(0, 1))
    def gradient(normalizer, parameters, logits):
        return jnp.square(normalizer.weights(parameters, logits, visible, count)).sum()

    entry = jax.tree.map(jnp.asarray, normalizer)
    clean = jax.tree.leaves(gradient(entry, parameters, logits))
    dirty = jax.tree.leaves(gradient(entry, parameters, jnp.where(visible, logits, jnp.full_like(logits, 1e4))))
    for one, other in zip(clean, dirty, strict=True):
        np.testing.assert_array_equal(one, other)


@pytest.mark.parametrize("spec", SPECS)
def test_a_row_without_a_visible_key_has_zero_weights_and_zero_gradients(spec):
    logits, visible, _ = rows(2, 6)
    visible = visible.at[:, 1].set(False)
    count = visible.sum(axis=0)
    normalizer, parameters = ready(spec)
    entry = jax.tree.map(jnp.asarray, normalizer)

    def row(parameters, entry, logits):
        return entry.weights(parameters, logits, visible, count)[:, 1]

    np.testing.assert_array_equal(row(parameters, entry, logits), np.zeros(6))
    for leaf in jax.tree.leaves(jax.jacobian(row, (0, 1, 2))(parameters, entry, logits)):
        np.testing.assert_array_equal(leaf, np.zeros_like(leaf))


@pytest.mark.parametrize("spec", SPECS)
@settings(max_examples=8)
@given(ends=st.sets(st.sampled_from([1, 2, 5, 8])).map(sorted), seed=st.integers(0, 99))
def test_any_split_into_blocks_gives_the_weights_of_the_whole_row(spec, ends, seed):
    with double_precision():
        logits, visible, count = rows(seed, 9)
        normalizer, parameters = ready(spec)
        whole = normalizer.weights(parameters, logits, visible, count)
        found = by_blocks(normalizer, parameters, np.asarray(logits), np.asarray(visible), count, ends)
        np.testing.assert_allclose(found, whole, atol=1e-12)


@pytest.mark.parametrize("spec", SPECS)
def test_a_compiled_stream_of_blocks_gives_the_weights_of_the_whole_row(spec):
    logits, visible, count = rows(3, 32)
    normalizer, parameters = ready(spec)
    whole = normalizer.weights(parameters, logits, visible, count)
    scaled = logits * jnp.broadcast_to(normalizer.scale(parameters, count), count.shape)[None]

    @quick_jit
    def streamed(blocks):
        def block(index):
            return tuple(jax.lax.dynamic_slice_in_dim(part, index * 8, 8) for part in (scaled, visible))

        known = normalizer.stream(block, blocks, count)
        return jnp.concatenate([normalizer.weigh(known, *block(index), count) for index in range(4)])

    np.testing.assert_allclose(streamed(jnp.int32(4)), whole, atol=1e-5)


@pytest.mark.parametrize("spec", SPECS)
def test_padding_changes_nothing(spec):
    logits, visible, count = rows(4, 11)
    padding = jnp.full((21, 5), 7.0), jnp.zeros((21, 5), bool)
    padded = weights(spec, jnp.concatenate([logits, padding[0]]), jnp.concatenate([visible, padding[1]]), count)
    np.testing.assert_allclose(padded[:11], weights(spec, logits, visible, count), rtol=1e-6, atol=1e-7)
    assert (np.asarray(padded[11:]) == 0).all()


@pytest.mark.parametrize("spec", SPECS)
def test_one_mask_and_one_count_serve_all_rows_of_any_number_of_axes(spec):
    logits, _, _ = rows(5, 8, 6)
    normalizer, parameters = ready(spec)
    visible = jnp.arange(8) < 5
    each = normalizer.weights(parameters, logits, jnp.broadcast_to(visible[:, None], (8, 6)), jnp.full(6, 5))
    shared = normalizer.weights(parameters, logits, visible[:, None], jnp.int32(5))
    many = normalizer.weights(parameters, logits.reshape(8, 2, 3), visible[:, None, None], jnp.full((1, 3), 5))
    none = normalizer.weights(parameters, logits[:, 0], visible, jnp.int32(5))
    np.testing.assert_array_equal(shared, each)
    np.testing.assert_array_equal(many.reshape(8, 6), each)
    np.testing.assert_allclose(none, each[:, 0], rtol=1e-6)


@pytest.mark.parametrize("spec", SPECS)
@pytest.mark.parametrize("scale", [1e4, -1e4, 1e-30])
def test_extreme_logits_give_finite_weights_and_gradients(spec, scale):
    logits, visible, count = rows(6, 10)
    normalizer, parameters = ready(spec)

    def loss(parameters, logits):
        found = normalizer.weights(parameters, logits, visible, count)
        return (found * jnp.sin(jnp.arange(10.0))[:, None]).sum()

    found = np.asarray(normalizer.weights(parameters, logits * scale, visible, count))
    assert np.isfinite(found).all()
    if normalizer.sums_to_one:
        np.testing.assert_allclose(found.sum(axis=0), 1, atol=1e-5)
    for leaf in jax.tree.leaves(jax.grad(loss, (0, 1))(parameters, logits * scale)):
        assert np.isfinite(leaf).all()


@pytest.mark.parametrize("spec", SPECS)
@pytest.mark.parametrize("dtype", [jnp.float32, jnp.bfloat16, jnp.float64])
def test_weights_keep_the_type_of_the_logits_and_are_right_to_its_precision(spec, dtype):
    with double_precision():
        logits, visible, count = rows(7, 12)
        logits = logits.astype(dtype)
        exact = weights(spec, logits.astype(float), visible, count)
        found = weights(spec, logits, visible, count)
        assert found.dtype == dtype
        tolerance = 10 * float(jnp.finfo(dtype).eps)
        np.testing.assert_allclose(found.astype(float), exact, rtol=tolerance, atol=tolerance)


@pytest.mark.parametrize("spec", SPECS)
def test_bfloat16_logits_pass_where_promotion_is_strict(spec):
    logits, visible, count = rows(7, 12)
    assert weights(spec, logits.astype(jnp.bfloat16), visible, count).dtype == jnp.bfloat16


@pytest.mark.parametrize("spec", SPECS)
def test_sums_over_many_blocks_of_bfloat16_logits_keep_their_small_terms(spec):
    """In bfloat16, 256 + 1 is 256."""
    normalizer, _ = ready(spec)

    @functools.partial(quick_jit, static_argnums=0)
    def weight(dtype):
        block = jnp.full((8, 1), 0.5, dtype), jnp.ones((8, 1), bool)
        known = normalizer.stream(lambda index: block, jnp.int32(512), jnp.int32(4096))
        return normalizer.weigh(known, *block, jnp.int32(4096))[0, 0].astype(jnp.float32)

    np.testing.assert_allclose(weight(jnp.bfloat16), weight(jnp.float32), rtol=0.01)


@pytest.mark.parametrize("spec", SPECS)
def test_compiled_weights_equal_eager_ones(spec):
    logits, visible, count = rows(8, 12)
    normalizer, parameters = ready(spec)
    found = jax.jit(lambda entry, *rest: entry.weights(*rest))(normalizer, parameters, logits, visible, count)
    np.testing.assert_allclose(found, normalizer.weights(parameters, logits, visible, count), rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("spec", SPECS)
def test_a_batch_of_settings_and_parameters_equals_one_at_a_time(spec):
    logits, visible, count = rows(9, 12)
    normalizer, parameters = ready(spec)
    variants = [jax.tree.map(lambda x, k=k: jnp.asarray(x * k, float), (normalizer, parameters)) for k in (1.0, 1.5, 3)]
    if not jax.tree.leaves(variants):
        return
    stacked = jax.tree.map(lambda *leaves: jnp.stack(leaves), *variants)
    together = jax.vmap(lambda entry, parameters: entry.weights(parameters, logits, visible, count))(*stacked)
    for row, (entry, one) in zip(together, variants, strict=True):
        np.testing.assert_allclose(row, entry.weights(one, logits, visible, count), rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("spec", SPECS)
def test_gradient_reaches_every_parameter_and_every_traced_setting(spec):
    logits, visible, count = rows(10, 12)
    normalizer, parameters = ready(spec)
    if spec.startswith("linear-normalized"):
        logits = logits / 100  # so that the floor is the divisor
    if spec.startswith("ssmax"):  # its setting acts through the parameter that it starts

        def loss(parameters, entry):
            parameters = jax.tree.map(lambda a, b: a + b, parameters, entry.initialize(jax.random.key(0)))
            return jnp.square(entry.weights(parameters, logits, visible, count)).sum()
    else:

        def loss(parameters, entry):
            return jnp.square(entry.weights(parameters, logits, visible, count)).sum()

    by_parameter, by_setting = jax.grad(loss, (0, 1))(parameters, jax.tree.map(jnp.asarray, normalizer))
    unused = spec == "linear-normalized:count"
    assert len(jax.tree.leaves(by_setting)) == len(traced_fields(normalizer))
    for leaf in jax.tree.leaves((by_parameter, by_setting)):
        assert np.isfinite(leaf).all()
        assert unused or (np.abs(leaf) > 0).all()


@pytest.mark.parametrize("spec", SPECS)
@given(seed=st.integers(0, 99))
def test_the_gradient_is_that_of_finite_differences(spec, seed):
    with double_precision():
        logits, visible, count = rows(seed, 9)
        _, parameters = ready(spec)
        random = np.random.default_rng(seed)
        pull, direction = random.normal(size=(2, 9, 5))

        def moved(by):
            parameters_there = jax.tree.map(lambda leaf: leaf + by, parameters)
            return (compiled(spec)(parameters_there, logits + by * direction, visible, count) * pull).sum()

        by_parameter, by_logit = pulled_back(spec)(parameters, logits, visible, count, jnp.asarray(pull))
        slope = (by_logit * direction).sum() + sum(leaf.sum() for leaf in jax.tree.leaves(by_parameter))
        np.testing.assert_allclose(slope, (moved(1e-6) - moved(-1e-6)) / 2e-6, rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("spec", SPECS)
def test_a_whole_number_given_for_a_real_setting_acts_as_the_real_number(spec):
    logits, visible, count = rows(11, 12)
    normalizer, parameters = ready(spec)
    whole = jax.tree.map(lambda value: int(2 * value) or 1, normalizer)
    real = jax.tree.map(float, whole)
    assert normalizers.normalized(whole) == real
    np.testing.assert_array_equal(
        whole.weights(parameters, logits, visible, count), real.weights(parameters, logits, visible, count)
    )


@pytest.mark.parametrize("spec", SPECS)
def test_the_configuration_survives_json(spec):
    normalizer, _ = ready(spec)
    again = normalizers.from_config(json.loads(json.dumps(normalizers.config(normalizer))))
    assert again == normalizer
    assert hash(again) == hash(normalizer)


@pytest.mark.parametrize("spec", SPECS)
def test_resolving_again_changes_nothing(spec):
    normalizer, _ = ready(spec)
    assert normalizer.resolved(99) == normalizer


@pytest.mark.parametrize("name", list(normalizers))
def test_an_unknown_setting_is_refused(name):
    with pytest.raises(FarfieldError, match=f"unknown setting of normalizer '{name}' 'nonsense'"):
        normalizers.parse(f"{name}:nonsense=1")


@pytest.mark.parametrize(
    ("spec", "reason"),
    [
        ("softmax:0", "softmax:temperature=0 must be from 1e-06 to 1e"),
        ("softmax:-1", "softmax:temperature=-1 must be"),
        ("softmax:nan", "softmax:temperature=nan must be"),
        ("softmax:inf", "softmax:temperature=inf must be"),
        ("log-n:1", "log-n:trained=1 must be at least 2"),
        ("log-n:-3", "log-n:trained=-3 must be at least 2"),
        ("ssmax:0", "ssmax:initial=0 must be a number other than 0"),
        ("ssmax:nan", "ssmax:initial=nan must be"),
        ("linear-normalized:mean", "by='mean' is not one of sum, count"),
        ("linear-normalized:floor=0", "floor=0 must be from"),
        ("sigmoid:nan", "sigmoid:offset=nan must be"),
        ("sigmoid:log_n=inf", "sigmoid:log_n=inf must be"),
    ],
)
def test_a_setting_that_cannot_work_is_refused(spec, reason):
    with pytest.raises(FarfieldError, match=reason):
        normalizers.parse(spec).check()
