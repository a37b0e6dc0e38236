"""Tables indexed by offset, against printed values and plain loops: T5's buckets, clipped biases, Shaw's keys."""

from __future__ import annotations

import itertools
import math

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from farfield.encodings import HeadContent, get
from farfield.encodings.shaw import row_of
from farfield.encodings.t5 import bucket_edges, bucket_of
from helpers.support import drawn_parameters, vectors


def published_bucket(offset: int, buckets: int, distance: int, bidirectional: bool) -> int:
    """The formula of T5's code in real numbers: a quotient of logarithms within 1e-9 of a whole number is it."""
    first = 0
    if bidirectional:
        buckets //= 2
        first = buckets if offset > 0 else 0
        offset = -abs(offset)
    far = max(-offset, 0)
    exact = buckets // 2
    if far < exact:
        return first + far
    steps = math.log(far / exact) / math.log(distance / exact) * (buckets - exact)
    return first + min(exact + math.floor(steps + 1e-9), buckets - 1)


@pytest.mark.parametrize(
    ("bidirectional", "expected"),
    [
        (False, {0: 0, -15: 15, -16: 16, -18: 16, -19: 17, -31: 21, -32: 21, -64: 26, -112: 30, -113: 31, -1000: 31,
                 1: 0, 1000: 0}),
        (True, {-1: 1, 1: 17, -8: 8, 8: 24, -12: 9, -16: 10, 16: 26, -64: 14, -91: 15, 1000: 31, 0: 0}),
    ],
)  # fmt: skip
def test_t5_buckets_of_32_to_128(bidirectional, expected):
    """candle issue 1312, transformers issue 8518."""
    found = bucket_of(jnp.array(list(expected)), 32, 128, bidirectional=bidirectional)
    np.testing.assert_array_equal(found, list(expected.values()))


@pytest.mark.parametrize(
    ("buckets", "distance", "bidirectional"),
    [
        (32, 128, False), (32, 128, True), (8, 20, False), (8, 16, False), (16, 1000, True), (33, 5000, False),
        (64, 4096, False), (2, 4000, False), (4, 3, True), (32, 17, False),
    ],
)  # fmt: skip
def test_t5_buckets_equal_the_published_formula_in_real_numbers(buckets, distance, bidirectional):
    offsets = np.arange(-5000, 5001)
    expected = [published_bucket(offset, buckets, distance, bidirectional) for offset in offsets.tolist()]
    found = bucket_of(jnp.asarray(offsets), buckets, distance, bidirectional=bidirectional)
    np.testing.assert_array_equal(found, expected)


@given(buckets=st.integers(2, 200), factor=st.integers(2, 50))
def test_t5_bucket_edges_rise_to_the_last_distance(buckets, factor):
    edges = bucket_edges(buckets, factor * buckets)
    assert len(edges) == buckets - 1
    assert all(a <= b for a, b in itertools.pairwise(edges))
    assert edges[-1] <= factor * buckets


def test_a_t5_edge_that_is_a_whole_number_belongs_to_the_farther_bucket():
    """4 (2500 / 4)**(2/4) = 100 exactly; so is 4 (4 * 10**8 / 4)**(s/4) for every s."""
    assert bucket_edges(8, 2500)[3:] == (4, 20, 100, 500)
    assert bucket_edges(8, 4 * 10**8)[3:] == (4, 400, 40_000, 4_000_000)


def test_t5_adds_the_number_of_the_offsets_bucket():
    t5 = get("t5", dim=64, buckets=8, distance=20, deviation=1)
    table = t5.initialize_head(jax.random.key(0), 64)
    queries, keys = [0, 3, 40], [0, 2, 3, 19, 41]
    found = t5.bias(table, jnp.array(queries), jnp.array(keys), HeadContent(jnp.zeros((3, 64)), jnp.zeros((5, 64))))
    expected = [[float(table["bias"][published_bucket(t - n, 8, 20, False)]) for t in keys] for n in queries]
    np.testing.assert_array_equal(found, np.float32(expected))


@pytest.mark.parametrize(
    ("name", "size"), [("t5", {"buckets": 2000}), ("clipped", {"reach": 2000}), ("shaw", {}), ("cope", {})]
)
@pytest.mark.parametrize("deviation", [0.0, 0.5])
def test_tables_start_from_a_normal_of_the_deviation_asked_for(name, size, deviation):
    start = get(name, deviation=deviation, **size)
    (table,) = start.initialize_head(jax.random.key(1), 64).values()
    assert np.std(table) == pytest.approx(deviation, rel=0.1)
    assert abs(np.mean(table)) <= 0.1 * deviation


def test_a_far_t5_bucket_that_training_does_not_reach_keeps_its_start():
    """What `deviation` decides: heads trained to 16 positions read buckets 0 .. 15 alone."""
    t5 = get("t5", deviation=1)
    start = t5.initialize_head(jax.random.key(0), 4)
    content = HeadContent(jnp.zeros((16, 4)), jnp.zeros((16, 4)))
    gradient = jax.grad(lambda table: t5.bias(table, jnp.arange(16), jnp.arange(16), content).sum())(start)["bias"]
    np.testing.assert_array_equal(np.asarray(gradient) != 0, np.arange(32) < 16)


def test_a_clipped_bias_has_a_row_for_each_offset_to_its_reach():
    clipped = get("clipped", reach=3)
    table = {"bias": jnp.array([10.0, 11.0, 12.0, 13.0])}
    content = HeadContent(jnp.zeros((1, 4)), jnp.zeros((8, 4)))
    found = clipped.bias(table, jnp.array([5]), jnp.arange(8), content)
    np.testing.assert_array_equal(found, [[13, 13, 13, 12, 11, 10, 10, 10]])


def test_shaw_clips_offsets_on_both_sides():
    """transformers issue 9164: past the training length too."""
    np.testing.assert_array_equal(row_of(jnp.arange(-4, 5), 2), [0, 0, 0, 1, 2, 3, 4, 4, 4])
    np.testing.assert_array_equal(row_of(jnp.array([-(10**6), 10**6]), 2), [0, 4])


def test_shaw_equals_its_formula_by_a_loop():
    shaw = get("shaw", dim=6, reach=2)
    table = drawn_parameters(shaw, 6, 0).head
    query, key = vectors(0, 5, 6)
    positions = np.array([0, 1, 3, 4, 100])
    found = shaw.bias(table, jnp.asarray(positions), jnp.asarray(positions), HeadContent(query, key))
    for i, n in enumerate(positions):
        for j, t in enumerate(positions):
            row = np.asarray(table["table"])[max(-2, min(t - n, 2)) + 2]
            assert float(found[i, j]) == pytest.approx(float(np.asarray(query)[i] @ row) / math.sqrt(6), rel=1e-5)
