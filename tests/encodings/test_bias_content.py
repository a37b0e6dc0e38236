"""Biases that read queries and keys, against plain loops of their papers' formulas: Transformer-XL and CoPE."""

from __future__ import annotations

import math

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from farfield.encodings import HeadContent, get
from farfield.encodings.cope import interpolated
from farfield.encodings.transformer_xl import sinusoid
from helpers.support import double_precision, drawn_parameters, vectors


def shifted_rows(x: np.ndarray) -> np.ndarray:
    """The shift of Transformer-XL's code: a column of zeros before, the rows read anew one entry later."""
    queries, keys = x.shape
    padded = np.concatenate([np.zeros((queries, 1)), x], axis=1)
    return padded.reshape(keys + 1, queries)[1:].reshape(queries, keys)


def test_the_shift_of_the_published_code_moves_each_row_to_its_place():
    """transformer-xl issue 132: what lies above the diagonal is left over from other rows, and masked."""
    shifted = shifted_rows(np.arange(1.0, 10.0).reshape(3, 3))
    np.testing.assert_array_equal(shifted, [[3, 0, 4], [5, 6, 0], [7, 8, 9]])


def test_taking_r_at_the_offset_equals_shifting_the_products_with_every_distance(float64):
    width, count = 6, 5
    encoding = get("transformer-xl", dim=width)
    parameters = drawn_parameters(encoding, width, 0).head
    parameters["u"] = jnp.zeros(width)
    query, key = vectors(0, count, width)
    positions = jnp.arange(count)
    found = np.asarray(encoding.bias(parameters, positions, positions, HeadContent(query, key)))
    by_distance = sinusoid(jnp.arange(count - 1, -1, -1), width, jnp.asarray(10000.0)) @ parameters["map"].T
    shifted = shifted_rows(np.asarray((query + parameters["v"][None]) @ by_distance.T)) / math.sqrt(width)
    causal = np.tril(np.ones((count, count), bool))
    np.testing.assert_allclose(found[causal], shifted[causal], rtol=1e-12)


def test_the_sinusoid_of_transformer_xl_has_sines_first_then_cosines():
    """transformer-xl issue 119."""
    np.testing.assert_allclose(
        sinusoid(jnp.asarray(1), 4, jnp.asarray(10000.0)), [0.84147, 0.01, 0.54030, 0.99995], atol=1e-5
    )


def test_transformer_xl_equals_its_formula_by_a_loop(float64):
    width = 4
    encoding = get("transformer-xl", base=50)
    parameters = drawn_parameters(encoding, width, 1).head
    query, key = vectors(1, 4, width)
    queries, keys = [3, 4, 90, 7], [0, 4, 6, 1000]
    found = np.asarray(encoding.bias(parameters, jnp.array(queries), jnp.array(keys), HeadContent(query, key)))
    p = jax.tree.map(np.asarray, parameters)
    for i, n in enumerate(queries):
        for j, t in enumerate(keys):
            angles = [(n - t) * 50 ** (-2 * pair / width) for pair in range(width // 2)]
            r = np.array([*map(math.sin, angles), *map(math.cos, angles)])
            q, k = np.asarray(query)[i], np.asarray(key)[j]
            expected = ((q + p["v"]) @ p["map"] @ r + p["u"] @ k) / math.sqrt(width)
            assert found[i, j] == pytest.approx(expected, rel=1e-9)


def cope_by_loop(table, query, key, visible):
    """Section 4 of the paper, one number at a time, with the scales of its listing."""
    width = query.shape[1]
    bias = np.empty((len(query), len(key)))
    for i, q in enumerate(query):
        gates = [
            1 / (1 + math.exp(-(q @ k) / math.sqrt(width))) if seen else 0.0
            for k, seen in zip(key, visible[i], strict=True)
        ]
        for j in range(len(key)):
            p = min(sum(gates[j:]), len(table) - 1)
            low, high = math.floor(p), math.ceil(p)
            bias[i, j] = (p - low) * (q @ table[high]) + (1 - p + low) * (q @ table[low])
    return bias


@given(seed=st.integers(0, 99), rows=st.sampled_from([2, 3, 64]))
def test_cope_equals_its_formula_by_a_loop(seed, rows):
    with double_precision():
        cope = get("cope", dim=4, rows=rows)
        parameters = drawn_parameters(cope, 4, seed).head
        query, key = vectors(seed, 7, 4)
        positions = np.array([0, 2, 3, 4, 8, 9, 20])
        found = cope.bias(parameters, jnp.asarray(positions), jnp.asarray(positions), HeadContent(query, key))
        visible = positions[None] <= positions[:, None]
        expected = cope_by_loop(*map(np.asarray, (parameters["table"], query, key)), visible)
        np.testing.assert_allclose(found, expected, rtol=1e-9, atol=1e-12)


def test_cope_counts_the_keys_that_are_visible_where_positions_do_not_say_it(float64):
    """Padding that repeats the last position must not be counted; nor keys of a later place at an equal position."""
    cope = get("cope", rows=6)
    parameters = drawn_parameters(cope, 4, 0).head
    query, key = vectors(2, 6, 4)
    positions = jnp.array([0, 1, 2, 3, 3, 3])
    visible = jnp.tril(jnp.ones((6, 6), bool))
    told = cope.bias(parameters, positions[3:4], positions, HeadContent(query[3:4], key, visible[3:4]))
    alone = cope.bias(parameters, positions[3:4], positions[:4], HeadContent(query[3:4], key[:4]))
    np.testing.assert_allclose(told[:, :4], alone, rtol=1e-12)
    untold = cope.bias(parameters, positions[3:4], positions, HeadContent(query[3:4], key))
    assert np.abs(untold[:, :4] - alone).max() > 0.01


def test_cope_counts_each_sequence_of_a_batch_alone():
    cope = get("cope", rows=6)
    parameters = drawn_parameters(cope, 4, 0).head
    query, key = vectors(3, 10, 4)
    query, key, positions = query.reshape(2, 5, 4), key.reshape(2, 5, 4), jnp.arange(5)
    together = cope.bias(parameters, positions, positions, HeadContent(query, key))
    assert together.shape == (2, 5, 5)
    for one, q, k in zip(together, query, key, strict=True):
        np.testing.assert_allclose(one, cope.bias(parameters, positions, positions, HeadContent(q, k)), rtol=1e-5)


def test_cope_reads_between_rows_and_its_last_row_beyond_them():
    found = interpolated(jnp.array([[0.0, 10.0, 40.0]]), jnp.array([[0.0, 0.5, 1.0, 1.25, 2.0, 7.0]]))
    np.testing.assert_allclose(found, [[0, 5, 10, 17.5, 40, 40]])
