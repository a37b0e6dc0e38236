"""What every registered position regime must do: registering one is enough for it to be tested here."""

from __future__ import annotations

import functools
import json
from dataclasses import dataclass

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from farfield.encodings import Encoding, encodings
from farfield.errors import FarfieldError
from farfield.positions import regimes
from farfield.tasks.offset import FixedOffset
from support import CoupledPairs, double_precision, quick_jit

TRAINED, LONGEST = 16, 40

# Every registered regime with its defaults, and settings that change what it gives.
SPECS = [*regimes, "fixed:3", "random-start:64", "random-subset:40", "coupled:most=50", "rescale:nearest"]

pytestmark = pytest.mark.usefixtures("strict_dtypes")


def ready(spec: str):
    regime = regimes.parse(spec).resolved(TRAINED, LONGEST)
    regime.check(LONGEST, TRAINED, CoupledPairs(), encodings.get("rope"))
    return regime


def eager(spec: str, length, count: int = LONGEST, seed: int = 0):
    regime = ready(spec)
    key = jax.random.key(seed) if regime.random else None
    return regime.positions(key, length, count, TRAINED, CoupledPairs())


@functools.cache
def compiled(spec: str, count: int):
    return quick_jit(lambda length, seed: eager(spec, length, count, seed))


def positions(spec: str, length, count: int = LONGEST, seed: int = 0):
    return compiled(spec, count)(length, seed)


@pytest.mark.parametrize("spec", SPECS)
@given(length=st.integers(1, LONGEST), seed=st.integers(0, 99))
def test_places_from_the_length_on_repeat_the_last_position(spec, length, seed):
    found = np.asarray(positions(spec, length, seed=seed))
    assert found.shape == (LONGEST,)
    assert (found[length:] == found[length - 1]).all()


@pytest.mark.parametrize("spec", SPECS)
@given(length=st.integers(1, LONGEST), seed=st.integers(0, 99))
def test_positions_stay_inside_a_table_made_for_the_longest_length(spec, length, seed):
    found = np.asarray(positions(spec, length, seed=seed))
    assert (found >= 0).all()
    assert found.max() <= ready(spec).largest(LONGEST, TRAINED, CoupledPairs()) - 1
    assert isinstance(ready(spec).largest(LONGEST, TRAINED, CoupledPairs()), int)


@pytest.mark.parametrize("spec", SPECS)
@pytest.mark.parametrize("length", [1, 7, 17])
def test_positions_do_not_depend_on_what_the_batch_is_padded_to(spec, length):
    for seed in range(5):
        alone = positions(spec, length, count=length, seed=seed)
        np.testing.assert_array_equal(alone, positions(spec, length, seed=seed)[:length])
        np.testing.assert_array_equal(alone, positions(spec, length, count=100, seed=seed)[:length])


@pytest.mark.parametrize("spec", SPECS)
def test_one_compiled_program_serves_every_length_and_key(spec):
    regime = ready(spec)
    traces = []

    @quick_jit
    def program(regime, key, length):
        traces.append(length)
        return regime.positions(key, length, LONGEST, TRAINED, CoupledPairs())

    for length in (1, 2, TRAINED, TRAINED + 1, LONGEST):
        key = jax.random.key(length) if regime.random else None
        np.testing.assert_array_equal(program(regime, key, length), eager(spec, length, seed=length))
    assert len(traces) == 1


@pytest.mark.parametrize("spec", SPECS)
def test_a_batch_of_lengths_and_keys_equals_one_at_a_time(spec):
    regime = ready(spec)
    lengths = jnp.array([1, 7, 16, 17, 40])
    seeds = jnp.arange(5)

    def one(length, seed):
        key = jax.random.key(seed) if regime.random else None
        return regime.positions(key, length, LONGEST, TRAINED, CoupledPairs())

    together = jax.vmap(one)(lengths, seeds)
    for row, length, seed in zip(together, lengths, seeds, strict=True):
        np.testing.assert_array_equal(row, one(length, seed))


@pytest.mark.parametrize("spec", SPECS)
def test_random_positions_follow_from_the_key_and_differ_between_keys(spec):
    draws = [np.asarray(positions(spec, 5, count=5, seed=seed)) for seed in range(8)]
    np.testing.assert_array_equal(draws[0], positions(spec, 5, count=5, seed=0))
    assert (len({tuple(draw) for draw in draws}) > 1) == ready(spec).random


@pytest.mark.parametrize("spec", SPECS)
def test_positions_are_whole_numbers_of_one_type_unless_real_is_claimed(spec):
    kind = jnp.floating if regimes.parse(spec).real else jnp.integer
    assert jnp.issubdtype(positions(spec, 7).dtype, kind)
    single = positions(spec, 30)
    with double_precision():
        double = positions(spec, jnp.asarray(30))
    assert jnp.issubdtype(double.dtype, kind)
    if not regimes.parse(spec).random:
        np.testing.assert_allclose(double, single, rtol=1e-6)


@pytest.mark.parametrize("spec", SPECS)
def test_positions_never_fall_unless_the_task_couples_them(spec):
    if not spec.startswith("coupled"):
        assert (np.diff(positions(spec, LONGEST)) >= 0).all()


@pytest.mark.parametrize("spec", SPECS)
def test_the_configuration_survives_json(spec):
    regime = ready(spec)
    again = regimes.from_config(json.loads(json.dumps(regimes.config(regime))))
    assert again == regime
    assert hash(again) == hash(regime)


@pytest.mark.parametrize("spec", SPECS)
def test_resolving_again_changes_nothing(spec):
    assert ready(spec).resolved(99, 999) == ready(spec)


@dataclass(frozen=True)
class WholeOnly(Encoding):
    """An encoding by a table of whole distances."""

    real_positions = False


@pytest.mark.parametrize("spec", SPECS)
def test_real_positions_are_refused_for_an_encoding_that_has_no_values_for_them(spec):
    regime = regimes.parse(spec)
    if regime.real:
        with pytest.raises(
            FarfieldError, match=f"positions '{spec}' lie between whole numbers.*'WholeOnly' has no val"
        ):
            regime.check(LONGEST, TRAINED, CoupledPairs(), WholeOnly())
    else:
        regime.check(LONGEST, TRAINED, CoupledPairs(), WholeOnly())


@pytest.mark.parametrize("name", list(regimes))
def test_an_unknown_setting_is_refused(name):
    with pytest.raises(FarfieldError, match=f"unknown setting of position regime '{name}' 'nonsense'"):
        regimes.parse(f"{name}:nonsense=1")


@pytest.mark.parametrize(
    ("spec", "task", "reason"),
    [
        ("fixed:-1", None, "fixed:start=-1 must be from 0"),
        ("fixed:16777216", None, "fixed:start=16777216 must be from 0 to"),
        ("random-start:39", None, "40 different positions cannot be drawn from the 39 of random-start:size=39"),
        ("random-subset:39", None, "40 different positions cannot be drawn from the 39 of random-subset:size=39"),
        ("random-subset:0", None, "cannot be drawn from the 0 of"),
        ("random-subset:99999999", None, "size=99999999 must be at most"),
        ("coupled", None, "positions 'coupled' are those of a task: pass the task"),
        ("coupled", FixedOffset(1), "task 'offset' does not say which of its tokens correspond"),
        ("coupled:most=19", CoupledPairs(), "coupled:most=19 must be from 20, the largest position of sequences of"),
        ("coupled:most=-1", CoupledPairs(), "coupled:most=-1 must be from 20"),
        ("rescale:up", None, "rescale:rounding='up' is not one of floor, nearest"),
    ],
)
def test_a_setting_that_cannot_work_is_refused(spec, task, reason):
    with pytest.raises(FarfieldError, match=reason):
        regimes.parse(spec).check(LONGEST, TRAINED, task)
