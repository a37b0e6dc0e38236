"""Rotary embedding against printed values, and Lemma 1 of arXiv 2607.18759 as an identity."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from farfield.cell import Cell
from farfield.encodings.rope import Rope, frequencies, rotate_pairs
from farfield.errors import FarfieldError
from farfield.models import Mechanism, lookup
from farfield.models.head import Head
from farfield.normalizers.softmax import Softmax
from farfield.tasks.offset import FixedOffset
from helpers.support import double_precision, drawn_head, quick_jit, vectors

# The coordinates of the interleaved layout in the order of the half-split one, d = 8.
PERMUTATION = [0, 2, 4, 6, 1, 3, 5, 7]

pytestmark = pytest.mark.usefixtures("strict_dtypes")


def rotated(x, position: int, layout: str, base: float = 10000.0):
    """One vector rotated to a position."""
    return np.asarray(quick_rotate(Rope(base, layout), x, x, position, position)[1])


@quick_jit
def quick_rotate(rope: Rope, query, key, query_position, key_position):
    """One query and one key at their positions."""
    a, b = rope.rotate({}, query[None], key[None], query_position[None], key_position[None])
    return a[0], b[0]


def rotation_matrix(offset: int, width: int, base: float, layout: str) -> np.ndarray:
    """R_offset, written out by hand."""
    matrix = np.zeros((width, width))
    for pair in range(width // 2):
        angle = offset * base ** (-2 * pair / width)
        i, j = (pair, pair + width // 2) if layout == "half" else (2 * pair, 2 * pair + 1)
        matrix[i, i] = matrix[j, j] = np.cos(angle)
        matrix[i, j], matrix[j, i] = -np.sin(angle), np.sin(angle)
    return matrix


@pytest.mark.parametrize("dtype", [jnp.bfloat16, jnp.float32])
@pytest.mark.parametrize("layout", ["half", "interleaved"])
@pytest.mark.parametrize(("query", "key"), [(5, 2), (1027, 1024), (4101, 4098)])
def test_the_logit_of_ones_at_offset_minus_three_is_the_same_at_any_position(query, key, layout, dtype):
    """transformers issue 25681: with bfloat16 phases the last two read 64."""
    ones = jnp.ones((1, 64), dtype)
    with jax.numpy_dtype_promotion("standard"):
        a, b = Rope(layout=layout).rotate({}, ones, ones, jnp.array([query]), jnp.array([key]))
    assert a.dtype == b.dtype == dtype
    logit = float((a.astype(jnp.float32) * b.astype(jnp.float32)).sum())
    # Rounding 64 coordinates to bfloat16 moves their products by up to 64 * 2 * 2**-9 in the worst case.
    assert logit == pytest.approx(51.1741, abs=0.25 if dtype == jnp.bfloat16 else 2e-2)


@pytest.mark.parametrize("position", [5, 1027, 4101])
def test_the_logit_of_ones_is_exact_in_float64(position, float64):
    ones = jnp.ones((1, 64))
    a, b = Rope().rotate({}, ones, ones, jnp.array([position]), jnp.array([position - 3]))
    assert float((a * b).sum()) == pytest.approx(51.1741, abs=5e-5)


@pytest.mark.parametrize(
    ("layout", "expected"),
    [
        ("interleaved", [-1.27223, -1.83887, 1.68393, 4.70791, 4.81778, 6.14728, 6.97597, 8.02096]),
        ("half", [-1.69559, 0.13755, 2.78868, 3.97598, -4.80884, 6.32306, 7.08684, 8.01196]),
    ],
)
def test_each_layout_rotates_one_to_eight_at_position_three_to_its_values(layout, expected):
    np.testing.assert_allclose(rotated(np.arange(1.0, 9.0, dtype=np.float32), 3, layout), expected, atol=1e-5)


def test_permuting_coordinates_turns_one_layout_into_the_other():
    """transformers issue 25199."""
    x = np.arange(1.0, 9.0, dtype=np.float32)
    np.testing.assert_array_equal(rotated(x[PERMUTATION], 3, "half"), rotated(x, 3, "interleaved")[PERMUTATION])


def test_frequencies_fall_by_powers_of_the_base_over_the_width():
    """LLMs-from-scratch issue 410."""
    np.testing.assert_allclose(frequencies(8, 10000.0), [1, 0.1, 0.01, 0.001], rtol=1e-6)
    np.testing.assert_allclose(frequencies(4, 100.0), [1, 0.1], rtol=1e-6)


@pytest.mark.parametrize("width", [3, 7, 63])
def test_an_odd_width_is_refused_before_training_with_the_width_named(width):
    """transformers issue 35233."""
    with pytest.raises(FarfieldError, match=f"must be even: got d = {width}"):
        Cell(Rope(), FixedOffset(2), model=Head(width)).resolved()


@given(
    seed=st.integers(0, 2**31), half=st.sampled_from([1, 3, 8]), query=st.integers(0, 4000), key=st.integers(0, 4000),
    base=st.floats(1.5, 1e6), layout=st.sampled_from(["half", "interleaved"]),
)  # fmt: skip
def test_lemma_1_the_logit_is_a_bilinear_form_in_the_offset_alone(seed, half, query, key, base, layout):
    with double_precision():
        width = 2 * half
        random = np.random.default_rng(seed)
        w_query, w_key = random.normal(size=(2, width, width))
        x, y = random.normal(size=(2, width))
        a, b = quick_rotate(Rope(base, layout), w_query @ x, w_key @ y, query, key)
        expected = x @ w_query.T @ rotation_matrix(key - query, width, base, layout) @ w_key @ y
        # Angles up to 4000 radians carry 4000 * 2**-52.
        scale = np.linalg.norm(w_query @ x) * np.linalg.norm(w_key @ y)
        assert abs(float(a @ b) - expected) <= 1e-11 * scale


@pytest.mark.parametrize("layout", ["half", "interleaved"])
def test_lemma_1_holds_for_the_logits_of_a_whole_head(layout, float64):
    rope = Rope(layout=layout)
    parameters = drawn_head(rope, 5, 6, seed=0)
    (view,) = lookup.head_views(parameters, Mechanism(rope, Softmax()))
    table = lookup.tables(view, jnp.asarray(0.5), jnp.asarray(9), jnp.arange(10))
    head = parameters.attention.head(0)
    embedding, query, key = (np.asarray(p) for p in (parameters.embedding, head.query, head.key))
    for position in range(10):
        form = query.T @ rotation_matrix(position - 9, 6, 10000.0, layout) @ key
        expected = embedding @ form @ embedding.T / (np.sqrt(6) * 2)
        np.testing.assert_allclose(table.logits[:, position], expected, atol=1e-13)


@given(position=st.integers(0, 10**6), seed=st.integers(0, 999), layout=st.sampled_from(["half", "interleaved"]))
def test_rotation_keeps_the_length_of_a_vector(position, seed, layout):
    x = np.asarray(vectors(seed, 1, 8)[0][0])
    assert np.linalg.norm(rotated(x, position, layout)) == pytest.approx(np.linalg.norm(x), rel=1e-5)


def test_position_zero_is_left_alone():
    x = np.arange(1.0, 9.0, dtype=np.float32)
    np.testing.assert_array_equal(rotated(x, 0, "half"), x)


def test_pairs_rotate_with_tables_that_broadcast_over_leading_axes():
    x = jnp.asarray(np.random.default_rng(0).normal(size=(3, 5, 4)).astype(np.float32))
    cos, sin = Rope().phase(jnp.arange(3)[:, None], 4, jnp.float32)
    together = rotate_pairs(x, cos, sin, "half")
    for position in range(3):
        alone = rotate_pairs(x[position], cos[position], sin[position], "half")
        np.testing.assert_allclose(together[position], alone, rtol=1e-6)
