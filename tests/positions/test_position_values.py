"""Position regimes: reference values, and the distribution of what is drawn."""

from __future__ import annotations

import collections
import itertools

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import scipy.stats
from hypothesis import given
from hypothesis import strategies as st

from farfield.encodings.learned import Learned
from farfield.errors import FarfieldError
from farfield.positions import regimes
from farfield.positions.compressed import multiply_divide
from farfield.positions.subset import FEW, ordered_subset
from helpers.support import CoupledPairs

DRAWS = 20_000


def positions(spec: str, length: int, trained: int = 16, seed: int = 0, count: int | None = None) -> np.ndarray:
    key = jax.random.key(seed)
    return np.asarray(regimes.parse(spec).positions(key, length, count or length, trained, CoupledPairs()))


def many(spec: str, length: int) -> np.ndarray:
    """Positions of many batches, one a row."""
    regime = regimes.parse(spec)
    draw = jax.jit(jax.vmap(lambda key: regime.positions(key, jnp.int32(length), length, 16, CoupledPairs())))
    return np.asarray(draw(jax.random.split(jax.random.key(0), DRAWS)))


@pytest.mark.parametrize(
    ("spec", "length", "trained", "expected"),
    [
        ("fixed", 4, 16, [0, 1, 2, 3]),
        ("fixed:5", 4, 16, [5, 6, 7, 8]),
        ("clamp", 8, 4, [0, 1, 2, 3, 3, 3, 3, 3]),
        ("clamp", 3, 4, [0, 1, 2]),
        ("rescale", 8, 4, [0, 0, 1, 1, 2, 2, 3, 3]),
        ("rescale", 5, 4, [0, 0, 1, 2, 3]),
        ("rescale", 4, 4, [0, 1, 2, 3]),
        ("rescale:nearest", 8, 4, [0, 0, 1, 1, 2, 2, 3, 3]),
        ("rescale:nearest", 7, 4, [0, 1, 1, 2, 2, 3, 3]),  # p/2, halves up
        ("rescale:nearest", 5, 4, [0, 1, 2, 2, 3]),
        ("rescale", 3, 1, [0, 0, 0]),
        ("interpolate", 7, 4, [0, 0.5, 1, 1.5, 2, 2.5, 3]),
        ("interpolate", 5, 4, [0, 0.75, 1.5, 2.25, 3]),
        ("interpolate", 3, 4, [0, 1, 2]),
        ("interpolate", 3, 1, [0, 0, 0]),
        ("coupled", 6, 16, [1, 2, 3, 1, 2, 3]),
        ("coupled", 5, 16, [1, 2, 1, 2, 0]),
    ],
)
def test_positions_have_the_values_worked_out_by_hand(spec, length, trained, expected):
    np.testing.assert_allclose(positions(spec, length, trained), expected, rtol=1e-6)


@pytest.mark.parametrize("spec", ["clamp", "rescale", "rescale:nearest", "interpolate"])
def test_a_long_sequence_ends_exactly_at_the_last_trained_position(spec):
    for length in (17, 48, 1000, 1009, 2**20):
        found = positions(spec, length)
        assert found[0] == 0
        assert found[-1] == found.max() == 15


@given(factor=st.integers(0, 2**20), divisor=st.integers(1, 2**20), seed=st.integers(0, 99))
def test_rescaling_is_exact_where_the_product_does_not_fit_32_bits(factor, divisor, seed):
    value = np.random.default_rng(seed).integers(divisor + 1, size=20)
    quotient, rest = multiply_divide(jnp.asarray(value, jnp.int32), factor, jnp.int32(divisor))
    for found, remaining, exact in zip(quotient, rest, value.tolist(), strict=True):
        assert (int(found), int(remaining)) == divmod(exact * factor, divisor)


def test_a_random_start_is_uniform_up_to_the_last_that_fits():
    found = many("random-start:20", 5)
    assert (np.diff(found, axis=1) == 1).all()
    counts = np.bincount(found[:, 0], minlength=16)
    assert len(counts) == 16
    assert scipy.stats.chisquare(counts).pvalue > 1e-3


@pytest.mark.parametrize(("size", "length"), [(5, 2), (6, 3), (4, 4), (5, 1), (7, 5)])
def test_every_ordered_subset_is_equally_likely(size, length):
    counts = collections.Counter(map(tuple, many(f"random-subset:{size}", length).tolist()))
    subsets = list(itertools.combinations(range(size), length))
    assert set(counts) == set(subsets)
    if len(subsets) > 1:
        assert scipy.stats.chisquare([counts[subset] for subset in subsets]).pvalue > 1e-3


@given(seed=st.integers(0, 999))
def test_a_random_subset_rises_strictly_and_stays_below_its_range(seed):
    """randomized_positional_encodings issue 1."""
    found = positions("random-subset:16", 8, seed=seed)
    assert (np.diff(found) > 0).all()
    assert found[0] >= 0
    assert found[-1] < 16
    assert regimes.parse("random-subset:16").largest(8, 8) == 16
    # Distances from -15 to 15: a relative table of 2N - 1 = 31 rows holds them.
    assert np.abs(found[:, None] - found[None]).max() <= 15


@pytest.mark.parametrize("name", ["random-start", "random-subset"])
def test_more_tokens_than_positions_is_an_error_naming_both(name):
    regime = regimes.parse(f"{name}:8")
    for refused in (lambda: regime.check(9, 9), lambda: regime.positions(jax.random.key(0), 9, 9, 9)):
        with pytest.raises(FarfieldError, match=f"9 different positions .* the 8 of {name}:size=8: use {name}:size=9"):
            refused()
    regime.check(8, 8)


@pytest.mark.parametrize(("count", "size"), [(16, 16), (16, 20), (FEW, FEW), (FEW + 1, FEW + 3), (300, 1000)])
def test_the_subset_is_that_of_the_sequential_algorithm(count, size):
    """Floyd's algorithm, one draw after the other."""
    for seed, length in ((0, 1), (1, count // 2), (2, count)):
        key = jax.random.key(seed)
        limits = size - length + np.arange(length)
        keys = jax.vmap(lambda place, key=key: jax.random.fold_in(key, place))(jnp.arange(length))
        draw = jax.vmap(lambda key, limit: jax.random.randint(key, (), 0, limit + 1))
        chosen: set[int] = set()
        for value, limit in zip(np.asarray(draw(keys, jnp.asarray(limits))).tolist(), limits.tolist(), strict=True):
            chosen.add(limit if value in chosen else value)
        found = np.asarray(ordered_subset(key, jnp.int32(length), count, size))
        assert found[:length].tolist() == sorted(chosen)
        assert (found[length:] == size).all()


@pytest.mark.parametrize("size", [16_384, 16_500, 100_000])
def test_a_subset_of_many_thousands_is_one(size):
    found = positions(f"random-subset:{size}", 16_300, count=16_384)
    assert (np.diff(found[:16_300]) > 0).all()
    assert 0 <= found[0] <= found[-1] < size
    # The middle of a uniform subset is near the middle of the range: the deviation of its rank is below half a percent.
    assert found[8150] / size == pytest.approx(0.5, abs=0.02)


def test_shifted_coupled_positions_stay_coupled_up_to_the_most_and_leave_zeros():
    found = many("coupled:most=9", 7)  # three pairs and a token without a role
    shift = found[:, :1] - 1
    np.testing.assert_array_equal(found, np.array([1, 2, 3, 1, 2, 3, 0]) + shift * np.array([1, 1, 1, 1, 1, 1, 0]))
    counts = np.bincount(shift[:, 0], minlength=7)
    assert len(counts) == 7
    assert scipy.stats.chisquare(counts).pvalue > 1e-3
    assert found.max() == 9
    assert regimes.parse("coupled:most=9").largest(7, 7, CoupledPairs()) == 10


def test_interpolated_positions_read_a_learned_table_between_its_rows():
    table = {"table": jnp.asarray(np.random.default_rng(0).normal(size=(4, 3)), jnp.float32)}
    found = Learned(4).embed(table, jnp.asarray(positions("interpolate", 7, 4)))
    np.testing.assert_array_equal(found[::2], table["table"])
    np.testing.assert_allclose(found[1::2], (table["table"][1:] + table["table"][:-1]) / 2, rtol=1e-6)
