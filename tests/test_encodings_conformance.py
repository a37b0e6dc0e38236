"""What every registered encoding must do: registering one is enough for it to be tested here."""

from __future__ import annotations

import json

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from farfield.encodings import Content, encodings
from farfield.errors import FarfieldError
from farfield.studies.cells import Cell
from farfield.tasks.offset import FixedOffset
from support import (
    ABSOLUTE_SPECS,
    LENGTH_SPECS,
    RELATIVE_SPECS,
    SPECS,
    TRAINED,
    double_precision,
    drawn_parameters,
    example,
    pair_logits,
    traced_fields,
    vectors,
)

WIDTH = 8
LONGEST = 48
FAR = 10**6

pytestmark = pytest.mark.usefixtures("strict_dtypes")


def ready(spec: str, longest: int = LONGEST, width: int = WIDTH, seed: int = 0):
    """An encoding for positions 0 .. longest, and its parameters."""
    encoding = example(spec, longest)
    encoding.check(width, longest)
    return encoding, drawn_parameters(encoding, width, seed)


@pytest.mark.parametrize("spec", SPECS)
def test_hooks_keep_the_shapes_and_dtype_of_their_inputs(spec):
    encoding, parameters = ready(spec)
    query, key = vectors(0, 5, WIDTH)
    positions = jnp.arange(5)
    added = encoding.embed(parameters.model, positions)
    assert added is None or (added.shape == (5, WIDTH) and added.dtype == query.dtype)
    # One query against a table of keys [position, vocabulary, width], as the heads call it.
    many = jnp.broadcast_to(key[:, None], (5, 3, WIDTH))
    turned_query, turned_key = encoding.rotate(parameters.head, query, many, positions[:1], positions[:, None])
    assert turned_query.shape == query.shape
    assert turned_key.shape == many.shape
    assert turned_query.dtype == turned_key.dtype == query.dtype
    bias = encoding.bias(parameters.head, positions[:2], positions, Content(query[:2], key))
    assert bias is None or bias.shape == (2, 5)
    content = Content(query[:, None, None], many.swapaxes(0, 1)[None])
    many = encoding.bias(parameters.head, positions[:1], positions, content)
    assert bias is None or np.broadcast_shapes(many.shape, (5, 3, 1, 5)) == (5, 3, 1, 5)


@pytest.mark.parametrize("spec", SPECS)
def test_logits_are_finite_for_a_single_token(spec):
    encoding, parameters = ready(spec, longest=1)
    query, key = vectors(1, 1, WIDTH)
    logits = pair_logits(encoding, parameters, query, key, jnp.arange(1), jnp.arange(1))
    assert logits.shape == (1, 1)
    assert np.isfinite(logits).all()


@pytest.mark.parametrize("spec", SPECS)
def test_logits_are_finite_at_positions_up_to_a_million(spec):
    encoding, parameters = ready(spec, longest=FAR, width=4)
    query, key = vectors(2, 4, 4)
    positions = jnp.array([0, 1, 1000, FAR])
    assert np.isfinite(pair_logits(encoding, parameters, query, key, positions, positions)).all()


@pytest.mark.parametrize("spec", RELATIVE_SPECS)
@given(shift=st.integers(0, FAR), seed=st.integers(0, 99))
def test_logits_of_a_relative_encoding_do_not_change_when_all_positions_shift(spec, shift, seed):
    with double_precision():
        encoding, parameters = ready(spec, seed=seed)
        query, key = vectors(seed, 6, WIDTH)
        positions = jnp.arange(6)
        here = pair_logits(encoding, parameters, query, key, positions, positions)
        there = pair_logits(encoding, parameters, query, key, positions + shift, positions + shift)
        np.testing.assert_allclose(there, here, atol=1e-8)


@pytest.mark.parametrize("spec", RELATIVE_SPECS)
@pytest.mark.parametrize("shift", [1, 1024, 4096])
def test_shifting_holds_in_float32_at_the_lengths_of_a_study(spec, shift):
    encoding, parameters = ready(spec)
    query, key = vectors(3, 6, WIDTH)
    positions = jnp.arange(6)
    here = pair_logits(encoding, parameters, query, key, positions, positions)
    there = pair_logits(encoding, parameters, query, key, positions + shift, positions + shift)
    # A float32 angle near 4096 radians is off by at most 2**-12.
    np.testing.assert_allclose(there, here, atol=2e-3)


@pytest.mark.parametrize("spec", ABSOLUTE_SPECS)
@given(shift=st.integers(1, LONGEST - 6), seed=st.integers(0, 99))
def test_logits_of_an_absolute_encoding_change_when_all_positions_shift(spec, shift, seed):
    encoding, parameters = ready(spec, seed=seed)
    query, key = vectors(seed, 6, WIDTH)
    positions = jnp.arange(6)
    here = pair_logits(encoding, parameters, query, key, positions, positions)
    there = pair_logits(encoding, parameters, query, key, positions + shift, positions + shift)
    assert np.abs(there - here).max() > 0.1


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


@pytest.mark.parametrize("spec", SPECS)
def test_the_encoding_depends_on_position_unless_it_says_that_it_does_not(spec):
    encoding, parameters = ready(spec)
    query, key = vectors(4, 1, WIDTH)
    logits = pair_logits(encoding, parameters, query, jnp.tile(key, (4, 1)), jnp.array([3]), jnp.arange(4))[0]
    assert len(np.unique(np.round(np.asarray(logits), 4))) == (4 if encoding.positional else 1)


@pytest.mark.parametrize("spec", SPECS)
def test_gradient_reaches_every_parameter_and_every_traced_setting(spec):
    encoding, parameters = ready(spec, longest=7)
    query, key = vectors(5, 7, WIDTH)
    # Settings of an encoding that reads the length show at long ones.
    positions = jnp.arange(7) + (LONGEST if encoding.reads_length else 0)

    def loss(parameters, encoding):
        return jnp.square(pair_logits(encoding, parameters, query, key, positions, positions)).sum()

    by_parameter, by_setting = jax.grad(loss, argnums=(0, 1))(parameters, jax.tree.map(jnp.asarray, encoding))
    used = jax.tree.map(lambda leaf: leaf[:7] if leaf.shape[:1] == (8,) else leaf, by_parameter)
    for path, leaf in jax.tree_util.tree_leaves_with_path(used):
        rows = np.abs(leaf).reshape(len(leaf), -1) if leaf.ndim else np.abs(leaf).reshape(1, 1)
        assert (rows.sum(axis=1) > 0).all(), path
    assert len(jax.tree.leaves(by_setting)) == len(traced_fields(encoding))
    for path, leaf in jax.tree_util.tree_leaves_with_path(by_setting):
        assert np.isfinite(leaf), path
        assert leaf != 0, path


@pytest.mark.parametrize("spec", SPECS)
def test_bfloat16_vectors_are_encoded_with_float32_phases(spec):
    """transformers issues 25681 and 29285: in bfloat16, positions past 256 are no longer whole numbers."""
    encoding, parameters = ready(spec, longest=4102)
    query, key = vectors(6, 3, WIDTH)
    positions = jnp.array([4099, 4100, 4101])
    exact = pair_logits(encoding, parameters, query, key, positions, positions)
    parameters, query, key = jax.tree.map(lambda leaf: leaf.astype(jnp.bfloat16), (parameters, query, key))
    with jax.numpy_dtype_promotion("standard"):
        rounded = pair_logits(encoding, parameters, query, key, positions, positions)
    assert rounded.dtype == jnp.bfloat16
    # Inputs, products and sums keep 8 bits: hundredths of logits of size one to four.
    np.testing.assert_allclose(rounded.astype(jnp.float32), exact, atol=0.15)


@pytest.mark.parametrize("dtype", [jnp.float32, jnp.bfloat16])
@pytest.mark.parametrize("spec", SPECS)
def test_the_tabulated_encoding_equals_the_original_in_value_and_dtype(spec, dtype):
    encoding, parameters = ready(spec)
    parameters = jax.tree.map(lambda leaf: leaf.astype(dtype), parameters)
    query, key = vectors(7, LONGEST, WIDTH, dtype)
    positions = jnp.arange(LONGEST)
    arguments = (parameters, query, key, positions, positions)
    with jax.numpy_dtype_promotion("standard"):
        original = pair_logits(encoding, *arguments)
        tabulated = pair_logits(encoding.tabulated(WIDTH, LONGEST), *arguments)
    assert tabulated.dtype == original.dtype
    tolerance = 1e-6 if dtype == jnp.float32 else 0.05
    np.testing.assert_allclose(tabulated.astype(float), original.astype(float), rtol=tolerance, atol=tolerance)


@pytest.mark.parametrize("spec", SPECS)
def test_compiled_logits_equal_eager_ones(spec):
    encoding, parameters = ready(spec)
    query, key = vectors(8, 6, WIDTH)
    arguments = (parameters, query, key, jnp.arange(6), jnp.arange(6) + 3)
    compiled = jax.jit(pair_logits)(encoding, *arguments)
    np.testing.assert_allclose(compiled, pair_logits(encoding, *arguments), rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("spec", SPECS)
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
    together = jax.vmap(lambda encoding, table: pair_logits(encoding, table, *arguments))(stacked, tables)
    for row, variant, table in zip(together, variants, parameters, strict=True):
        np.testing.assert_allclose(row, pair_logits(variant, table, *arguments), rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("spec", SPECS)
def test_a_whole_number_given_for_a_real_setting_acts_as_the_real_number(spec):
    encoding, parameters = ready(spec)
    whole = jax.tree.map(int, encoding)
    query, key = vectors(10, LONGEST, WIDTH)
    arguments = (parameters, query, key, jnp.arange(LONGEST), jnp.arange(LONGEST))
    with jax.numpy_dtype_promotion("standard"):
        expected = pair_logits(encoding, *arguments)
        np.testing.assert_allclose(pair_logits(whole, *arguments), expected, atol=1e-6)
        np.testing.assert_allclose(pair_logits(whole.tabulated(WIDTH, LONGEST), *arguments), expected, atol=1e-6)


@pytest.mark.parametrize("spec", SPECS)
def test_a_whole_number_given_for_a_real_setting_names_the_same_cell(spec):
    encoding = example(spec, LONGEST)
    whole = jax.tree.map(int, encoding)
    cells = [Cell(entry, FixedOffset(2), width=WIDTH, lengths=(12,)).resolved() for entry in (whole, encoding)]
    assert cells[0].identity == cells[1].identity


@pytest.mark.parametrize("spec", SPECS)
def test_the_configuration_survives_json(spec):
    encoding = example(spec, LONGEST)
    again = encodings.from_config(json.loads(json.dumps(encodings.config(encoding))))
    assert again == encoding
    assert hash(again) == hash(encoding)


@pytest.mark.parametrize("spec", SPECS)
def test_resolving_again_changes_nothing(spec):
    encoding = example(spec, LONGEST)
    assert encoding.resolved(TRAINED, LONGEST) == encoding


@pytest.mark.parametrize("name", list(encodings))
def test_an_unknown_setting_is_refused(name):
    with pytest.raises(FarfieldError, match=f"unknown setting of encoding '{name}' 'nonsense'"):
        encodings.parse(f"{name}:nonsense=1")


@pytest.mark.parametrize(
    ("spec", "changes", "reason"),
    [
        ("rope", {"width": 7}, "d must be even: got d = 7"),
        ("rope:layout=diagonal", {}, "layout='diagonal' is not one of half, interleaved"),
        ("rope:base=1", {}, "rope:base=1 must be a number between 1 and"),
        ("rope:base=-5", {}, "rope:base=-5 must be"),
        ("rope:base=inf", {}, "rope:base=inf must be"),
        ("rope:base=nan", {}, "rope:base=nan must be"),
        ("rope:fraction=0.75", {"width": 4}, "rope:fraction=0.75 of d = 4 rotates 3 coordinates"),
        ("rope:fraction=0.01", {}, "rope:fraction=0.01 of d = 64 rotates 0 coordinates"),
        ("rope:fraction=1.5", {}, "rope:fraction=1.5 must be above 0 and at most 1"),
        ("rope:fraction=nan", {}, "rope:fraction=nan must be above 0"),
        ("p-rope:0", {}, "p-rope:share=0 must be above 0"),
        ("p-rope:0.01", {}, "p-rope:share=0.01 of d = 64 leaves no pair"),
        ("p-rope:base=0.5", {}, "p-rope:base=0.5 must be"),
        ("sinusoidal", {"width": 5}, "d must be even: got d = 5"),
        ("sinusoidal:diagonal", {}, "layout='diagonal' is not one of interleaved, concatenated"),
        ("sinusoidal:base=1", {}, "sinusoidal:base=1 must be a number between 1 and"),
        ("position-interpolation:0.5", {}, "position-interpolation:factor=0.5 must be a number from 1"),
        ("ntk:nan", {}, "ntk:factor=nan must be"),
        ("ntk", {"width": 2}, "d must be at least 4: got d = 2"),
        ("dynamic-ntk:original_length=16", {"width": 2}, "d must be at least 4: got d = 2"),
        ("dynamic-ntk:original_length=-1", {}, "dynamic-ntk:original_length=-1 must be a positive"),
        ("yarn:original_length=16,beta_fast=1", {}, "yarn:beta_slow=1 and beta_fast=1 must be"),
        ("yarn:original_length=16,attention_factor=-1", {}, "yarn:attention_factor=-1 must be"),
        ("llama3:low=4,high=1", {}, "llama3:low=4 and high=1 must be"),
        ("longrope:original_length=1", {}, "longrope:original_length=1 has no logarithm"),
        ("longrope:original_length=16,short_factor=1;2", {}, "short_factor has 2 numbers for the 32 pairs of d = 64"),
        ("longrope:original_length=16,long_factor=0;1", {"width": 4}, "long_factor must be positive numbers"),
        ("xpos:scale_base=0", {}, "xpos:scale_base=0 must be"),
        ("learned:-1", {}, "rows must be from 1 to"),
        ("learned:16", {"lengths": (12, 24)}, "length 24 .*learned position table of 16 rows"),
        ("learned:15", {"lengths": (12,)}, "length 16 .*learned position table of 15 rows"),
    ],
)
def test_a_setting_that_cannot_work_is_refused_before_anything_runs(spec, changes, reason):
    with pytest.raises(FarfieldError, match=reason):
        Cell(encodings.parse(spec), FixedOffset(2), **changes).resolved()
