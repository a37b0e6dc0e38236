"""What every registered encoding must do: registering one is enough for it to be tested here."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from conformance import FAR, LONGEST, WIDTH, as_arrays, assert_finite, logits_of, ready
from farfield.encodings import Content
from support import (
    ABSOLUTE_SPECS,
    ALL_SPECS,
    LENGTH_SPECS,
    RELATIVE_SPECS,
    UNREAD_ROWS,
    Parameters,
    double_precision,
    drawn_parameters,
    example,
    pair_logits,
    parsed,
    quick_jit,
    traced_fields,
    vectors,
)

# Enough positions in a row for every bucket, row and position vector of the specs to be read.
SPREAD = 160

pytestmark = pytest.mark.usefixtures("strict_dtypes")


@quick_jit
def value_and_gradient(encoding, parameters, query, key, positions):
    """A weighted sum of the logits of all pairs, and its gradient in everything real.

    Finite wherever the logits and their derivatives are, however large, as a square is not.
    """
    count = jnp.arange(len(positions), dtype=float)
    weights = jnp.cos(7 * count[:, None] + 3 * count[None])

    def loss(encoding, parameters, query, key):
        logits = pair_logits(encoding, parameters, query, key, positions, positions)
        return (weights * logits).sum()

    return jax.value_and_grad(loss, argnums=(0, 1, 2, 3))(encoding, parameters, query, key)


@pytest.mark.parametrize("spec", ALL_SPECS)
def test_hooks_keep_the_shapes_and_dtype_of_their_inputs(spec):
    encoding, parameters = ready(spec)
    query, key = vectors(0, 5, WIDTH)
    positions = jnp.arange(5)

    @quick_jit
    def shapes(encoding, parameters, query, key):
        added = encoding.embed(parameters.model, positions)
        # One query against a table of keys [position, vocabulary, width], as the heads call it.
        many = jnp.broadcast_to(key[:, None], (5, 3, WIDTH))
        turned = encoding.rotate(parameters.head, query, many, positions[:1], positions[:, None])
        bias = encoding.bias(parameters.head, positions[:2], positions, Content(query[:2], key))
        content = Content(query[:, None, None], many.swapaxes(0, 1)[None])
        return added, turned, bias, encoding.bias(parameters.head, positions[:1], positions, content)

    added, (turned_query, turned_key), bias, many = shapes(as_arrays(encoding), parameters, query, key)
    assert added is None or (added.shape == (5, WIDTH) and added.dtype == query.dtype)
    assert turned_query.shape == query.shape
    assert turned_key.shape == (5, 3, WIDTH)
    assert turned_query.dtype == turned_key.dtype == query.dtype
    assert (bias is None) == (many is None)
    if bias is not None:
        assert bias.shape == (2, 5)
        assert bias.dtype == many.dtype == query.dtype
        assert np.broadcast_shapes(many.shape, (5, 3, 1, 5)) == (5, 3, 1, 5)


@pytest.mark.parametrize("spec", ALL_SPECS)
def test_a_single_token_has_a_finite_logit_and_gradient(spec):
    encoding, parameters = ready(spec, longest=1)
    found = value_and_gradient(as_arrays(encoding), parameters, *vectors(1, 1, WIDTH), jnp.arange(1))
    assert_finite(found)


@pytest.mark.parametrize("spec", ALL_SPECS)
def test_logits_and_gradients_are_finite_at_positions_up_to_a_million(spec):
    """For keys after the query too: the mask hides their logits, but inf * 0 in a gradient would not be hidden."""
    encoding, parameters = ready(spec, longest=FAR, width=4)
    positions = jnp.array([0, 1, 1000, FAR])
    assert_finite(value_and_gradient(as_arrays(encoding), parameters, *vectors(2, 4, 4), positions))


@pytest.mark.parametrize("spec", RELATIVE_SPECS)
@given(shift=st.integers(0, FAR), seed=st.integers(0, 99))
def test_logits_of_a_relative_encoding_do_not_change_when_all_positions_shift(spec, shift, seed):
    with double_precision():
        encoding, parameters = ready(spec, seed=seed)
        encoding = as_arrays(encoding)
        query, key = vectors(seed, 6, WIDTH)
        positions = jnp.arange(6)
        here = logits_of(encoding, parameters, query, key, positions, positions)
        there = logits_of(encoding, parameters, query, key, positions + shift, positions + shift)
        np.testing.assert_allclose(there, here, atol=1e-8)


@pytest.mark.parametrize("spec", RELATIVE_SPECS)
def test_shifting_holds_in_float32_at_the_lengths_of_a_study(spec):
    encoding, parameters = ready(spec)
    encoding = as_arrays(encoding)
    query, key = vectors(3, 6, WIDTH)
    positions = jnp.arange(6)
    here = logits_of(encoding, parameters, query, key, positions, positions)
    for shift in (1, 1024, 4096):
        there = logits_of(encoding, parameters, query, key, positions + shift, positions + shift)
        # A float32 angle near 4096 radians is off by at most 2**-12.
        np.testing.assert_allclose(there, here, atol=2e-3)


@pytest.mark.parametrize("spec", ABSOLUTE_SPECS)
@given(seed=st.integers(0, 99))
def test_logits_of_an_absolute_encoding_change_when_all_positions_shift(spec, seed):
    """From within the training length to past it, where those that depend on the length in use must show it."""
    encoding, parameters = ready(spec, seed=seed)
    encoding = as_arrays(encoding)
    query, key = vectors(seed, 6, WIDTH)
    positions = jnp.arange(6)
    far = positions + LONGEST - 6
    here = logits_of(encoding, parameters, query, key, positions, positions)
    there = logits_of(encoding, parameters, query, key, far, far)
    # Rounding is a thousand times smaller.
    assert np.abs(there - here).max() > 1e-2


@pytest.mark.parametrize("spec", LENGTH_SPECS)
@given(shift=st.integers(1, LONGEST - 7), seed=st.integers(0, 99))
def test_logits_of_an_encoding_that_reads_the_length_are_relative_at_any_one_length(spec, shift, seed):
    with double_precision():
        encoding, parameters = ready(spec, seed=seed)
        query, key = vectors(seed, 7, WIDTH)
        here, there = (jnp.append(jnp.arange(6) + start, LONGEST - 1) for start in (0, shift))
        here = pair_logits(encoding, parameters, query, key, here, here)[:6, :6]
        there = pair_logits(encoding, parameters, query, key, there, there)[:6, :6]
        np.testing.assert_allclose(there, here, atol=1e-8)


@pytest.mark.parametrize("spec", LENGTH_SPECS)
def test_logits_of_an_encoding_that_reads_the_length_change_past_the_trained_one(spec):
    encoding, parameters = ready(spec)
    query, key = vectors(3, 6, WIDTH)
    short, still_short, long = (jnp.arange(6) + shift for shift in (0, 2, LONGEST - 6))
    here = pair_logits(encoding, parameters, query, key, short, short)
    np.testing.assert_allclose(
        pair_logits(encoding, parameters, query, key, still_short, still_short), here, rtol=1e-5, atol=1e-5
    )
    assert np.abs(pair_logits(encoding, parameters, query, key, long, long) - here).max() > 1e-3


@pytest.mark.parametrize("spec", ALL_SPECS)
def test_equal_keys_have_logits_that_differ_by_position_unless_the_encoding_has_none(spec):
    encoding, parameters = ready(spec)
    query, key = vectors(4, 1, WIDTH)
    keys = jnp.tile(key, (4, 1))
    logits = logits_of(as_arrays(encoding), parameters, query, keys, jnp.array([3]), jnp.arange(4))[0]
    different = len(np.unique(np.round(np.asarray(logits), 4)))
    assert (different > 1) == encoding.positional


@pytest.mark.parametrize("spec", ALL_SPECS)
def test_gradient_reaches_every_parameter(spec):
    # A table for one position fewer than are asked for, since `learned` keeps a spare row.
    encoding = as_arrays(example(spec, SPREAD - 1))
    reached = drawn_parameters(encoding, WIDTH, 0)
    reached = jax.tree.map(lambda leaf: np.zeros(leaf.shape, bool), reached)
    for name, row in UNREAD_ROWS.get(spec, {}).items():
        reached.head[name][row] = True
    # A unit of a network may be at rest for every position under one draw of its weights, not under all of them.
    for seed in range(12):
        parameters = drawn_parameters(encoding, WIDTH, seed)
        _, gradient = value_and_gradient(encoding, parameters, *vectors(seed, SPREAD, WIDTH), jnp.arange(SPREAD))
        assert_finite(gradient)
        reached = jax.tree.map(lambda seen, leaf: seen | (np.asarray(leaf) != 0), reached, gradient[1])
        if all(leaf.all() for leaf in jax.tree.leaves(reached)):
            return
    for path, leaf in jax.tree_util.tree_leaves_with_path(reached):
        assert leaf.all(), (path, np.argwhere(~leaf))


@pytest.mark.parametrize("spec", ALL_SPECS)
def test_gradient_reaches_every_traced_setting_in_the_logits_or_in_the_initialization(spec):
    encoding = as_arrays(example(spec, SPREAD))
    query, key = vectors(5, SPREAD, WIDTH)

    @quick_jit
    @jax.grad
    def by_setting(encoding):
        start = Parameters(
            *(draw(jax.random.key(0), WIDTH) for draw in (encoding.initialize, encoding.initialize_head))
        )
        # Some settings act within the training length, some beyond.
        counts = (7, SPREAD)
        return sum(
            jnp.square(pair_logits(encoding, start, query[:n], key[:n], jnp.arange(n), jnp.arange(n))).sum()
            for n in counts
        )

    gradient = by_setting(encoding) if traced_fields(encoding) else encoding
    for name in traced_fields(encoding):
        leaves = jax.tree.leaves(getattr(gradient, name))
        assert leaves, name
        for leaf in leaves:
            assert np.isfinite(leaf), name
            assert leaf != 0, name


@pytest.mark.parametrize("spec", ALL_SPECS)
def test_bfloat16_vectors_are_encoded_with_float32_phases(spec):
    """transformers issues 25681 and 29285: in bfloat16, positions past 256 are no longer whole numbers."""
    encoding, parameters = ready(spec, longest=4102)
    encoding = as_arrays(encoding)
    query, key = vectors(6, 3, WIDTH)
    queries, keys = jnp.array([4099, 4100, 4101]), jnp.array([4001, 4099, 4101])
    exact = np.asarray(logits_of(encoding, parameters, query, key, queries, keys))
    parameters, query, key = jax.tree.map(lambda leaf: leaf.astype(jnp.bfloat16), (parameters, query, key))
    with jax.numpy_dtype_promotion("standard"):
        rounded = logits_of(encoding, parameters, query, key, queries, keys)
    assert rounded.dtype == jnp.bfloat16
    # Inputs, products and sums keep 8 bits: hundredths of logits of size one to four.
    np.testing.assert_allclose(rounded.astype(jnp.float32), exact, atol=0.15, rtol=0.03)


@pytest.mark.parametrize("spec", ALL_SPECS)
def test_a_bias_of_bfloat16_vectors_is_the_float32_one_rounded_once(spec):
    encoding, parameters = ready(spec, longest=4200)
    encoding = as_arrays(encoding)
    positions = 4000 + jnp.arange(SPREAD)

    @quick_jit
    def bias_of(encoding, parameters, query, key):
        bias = encoding.bias(parameters, positions[-2:], positions, Content(query[-2:], key))
        return jnp.zeros((2, SPREAD), query.dtype) if bias is None else bias.astype(query.dtype)

    rounded = jax.tree.map(lambda leaf: leaf.astype(jnp.bfloat16), (parameters.head, *vectors(16, SPREAD, WIDTH)))
    exact = bias_of(encoding, *jax.tree.map(lambda leaf: leaf.astype(jnp.float32), rounded))
    found = bias_of(encoding, *rounded)
    assert found.dtype == jnp.bfloat16
    # One rounding to 8 bits is off by 2**-9 at most.
    np.testing.assert_allclose(found.astype(jnp.float32), exact, rtol=2**-8)


@pytest.mark.parametrize("spec", ALL_SPECS)
def test_the_tabulated_encoding_equals_the_original_in_value_and_dtype(spec):
    encoding, drawn = ready(spec)
    positions = jnp.arange(LONGEST)
    for dtype, tolerance in ((jnp.float32, 1e-6), (jnp.bfloat16, 0.05)):
        parameters = jax.tree.map(lambda leaf, dtype=dtype: leaf.astype(dtype), drawn)
        query, key = vectors(7, LONGEST, WIDTH, dtype)
        arguments = (parameters, query, key, positions, positions)
        with jax.numpy_dtype_promotion("standard"):
            table = encoding.tabulated(WIDTH, LONGEST)
            if table == encoding:
                return  # nothing to compare
            original = logits_of(encoding, *arguments)
            tabulated = logits_of(table, *arguments)
        assert tabulated.dtype == original.dtype
        np.testing.assert_allclose(tabulated.astype(float), original.astype(float), rtol=tolerance, atol=tolerance)


@pytest.mark.parametrize("spec", ALL_SPECS)
def test_compiled_logits_equal_eager_ones(spec):
    encoding, parameters = ready(spec)
    query, key = vectors(8, 6, WIDTH)
    arguments = (parameters, query, key, jnp.arange(6), jnp.arange(6) + 3)
    compiled = jax.jit(pair_logits)(encoding, *arguments)
    np.testing.assert_allclose(compiled, pair_logits(encoding, *arguments), rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("spec", ALL_SPECS)
def test_a_batch_of_settings_and_parameters_equals_one_at_a_time(spec):
    encoding, _ = ready(spec)
    variants = [jax.tree.map(lambda leaf, k=k: jnp.asarray(leaf * k, float), encoding) for k in (1.0, 1.5, 3.0)]
    parameters = [ready(spec, seed=k)[1] for k in range(3)]
    query, key = vectors(9, 6, WIDTH)
    arguments = (query, key, jnp.arange(6), jnp.arange(6))
    stacked = jax.tree.map(lambda *leaves: jnp.stack(leaves), *variants)
    tables = jax.tree.map(lambda *leaves: jnp.stack(leaves), *parameters)
    if not jax.tree.leaves((stacked, tables)):
        return
    together = quick_jit(jax.vmap(lambda one, table: pair_logits(one, table, *arguments)))(stacked, tables)
    for row, variant, table in zip(together, variants, parameters, strict=True):
        np.testing.assert_allclose(row, logits_of(variant, table, *arguments), rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("spec", ALL_SPECS)
def test_keys_after_the_query_change_nothing_before_it(spec):
    encoding, parameters = ready(spec)
    encoding = as_arrays(encoding)
    query, key = vectors(13, 9, WIDTH)
    other = key.at[5:].set(-3 * key[5:])
    positions = jnp.arange(9) * 2
    row, seen = slice(4, 5), slice(0, 5)
    alone = logits_of(encoding, parameters, query[row], key[seen], positions[row], positions[seen])
    for keys in (key, other):
        more = logits_of(encoding, parameters, query[row], keys, positions[row], positions)[:, seen]
        np.testing.assert_allclose(more, alone, rtol=1e-5, atol=1e-5)
        if not encoding.reads_length:
            # Nor do queries after it.
            every = logits_of(encoding, parameters, query, keys, positions, positions)[row, seen]
            np.testing.assert_allclose(every, alone, rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("spec", ALL_SPECS)
def test_a_key_between_changes_the_logits_of_other_keys_exactly_where_the_encoding_reads_context(spec):
    encoding, parameters = ready(spec)
    encoding = as_arrays(encoding)
    query, key = vectors(14, 6, WIDTH)
    positions = jnp.arange(6)
    here, changed = (
        np.delete(logits_of(encoding, parameters, query[5:], keys, positions[5:], positions)[0], 3)
        for keys in (key, key.at[3].set(-2 * key[3]))
    )
    assert (np.abs(here - changed).max() > 1e-3) == encoding.reads_context


@pytest.mark.parametrize("spec", [spec for spec in ALL_SPECS if parsed(spec).real_positions])
def test_real_positions_have_logits_and_whole_ones_those_of_the_whole_numbers(spec):
    encoding, parameters = ready(spec)
    encoding = as_arrays(encoding)
    query, key = vectors(15, 6, WIDTH)
    positions = jnp.arange(6)
    whole = logits_of(encoding, parameters, query, key, positions, positions)
    real = positions.astype(float)
    np.testing.assert_allclose(logits_of(encoding, parameters, query, key, real, real), whole, rtol=1e-5, atol=1e-5)
    between = logits_of(encoding, parameters, query, key, real * 1.5, real * 1.5)
    assert_finite(between)
