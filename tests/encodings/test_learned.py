"""The learned position table: what it refuses, and what training does to rows it never sees."""

from __future__ import annotations

import functools

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from farfield import training
from farfield.cell import Cell
from farfield.encodings.learned import Learned
from farfield.errors import FarfieldError
from farfield.models.head import Head
from farfield.results.measures import MEASURES
from farfield.tasks.offset import FixedOffset
from farfield.training import Shape
from helpers.support import double_precision, make_knobs, quick_jit, train_at_once

ROWS, TRAINED, RATE, STEPS = 12, 8, 0.01, 30
SHAPE = Shape(Head(6), vocabulary=5, longest=TRAINED, batch=16, steps=STEPS, largest=TRAINED)


@pytest.fixture
def table():
    return {"table": jnp.asarray(np.random.default_rng(0).normal(size=(16, 4)), jnp.float32)}


@functools.cache
def trained_tables(weight_decay: float) -> tuple[np.ndarray, np.ndarray]:
    """The table before and after training at lengths 4 .. 8, in float64."""
    with double_precision():
        # The same program at learning rate zero gives its start, to the last bit.
        tables = []
        for rate in (0.0, RATE):
            knobs = make_knobs(Learned(ROWS), learning_rate=rate, weight_decay=weight_decay)
            trained = compiled_training()(knobs)
            tables.append(np.asarray(trained.parameters.encoding["table"]))
        return tables[0], tables[1]


@functools.cache
def compiled_training():
    return quick_jit(functools.partial(train_at_once, SHAPE))


@pytest.mark.parametrize("lengths", [(24,), (12, 24)])
def test_a_table_too_short_for_a_test_length_is_refused_by_name_size_and_length(lengths):
    """transformers issue 8077."""
    with pytest.raises(FarfieldError, match=r"length 24 .*learned position table of 16 rows.*learned:rows=24"):
        Cell(Learned(16), FixedOffset(2), lengths=lengths).resolved()


def test_a_table_too_short_for_a_training_length_is_refused():
    with pytest.raises(FarfieldError, match=r"length 32 .*16 rows"):
        Cell(Learned(16), FixedOffset(2), longest=32, lengths=(12,)).resolved()


def test_a_table_of_exactly_the_longest_length_is_accepted_unchanged():
    assert Cell(Learned(16), FixedOffset(2), lengths=(12, 16)).resolved().encoding == Learned(16)


def test_an_unset_table_has_room_for_the_longest_length_of_training_or_test():
    assert Cell(Learned(), FixedOffset(2), lengths=(12, 48)).resolved().encoding == Learned(49)
    assert Cell(Learned(), FixedOffset(2), lengths=(12,)).resolved().encoding == Learned(17)


@pytest.mark.parametrize("positions", [[-1], [16], [3, 24], [0, -7, 2]])
def test_a_known_position_outside_the_table_raises_rather_than_clamps(table, positions):
    """jax issue 4455: an index past the end silently reads the last row."""
    outside = next(p for p in positions if not 0 <= p < 16)
    with pytest.raises(FarfieldError, match=rf"position {outside} is outside the learned position table of 16 rows"):
        Learned(16).embed(table, jnp.array(positions))


def test_a_traced_position_outside_the_table_reads_nan(table):
    embed = jax.jit(lambda positions: Learned(16).embed(table, positions))
    found = np.asarray(embed(jnp.array([-1, 0, 15, 16, 24, -16, 7])))
    assert np.isnan(found[[0, 3, 4, 5]]).all()
    np.testing.assert_array_equal(found[[1, 2, 6]], np.asarray(table["table"])[[0, 15, 7]])


def test_each_known_position_reads_its_own_row(table):
    found = Learned(16).embed(table, jnp.array([15, 0, 3, 3]))
    np.testing.assert_array_equal(found, np.asarray(table["table"])[[15, 0, 3, 3]])


def test_a_whole_number_reads_its_row_to_the_last_bit_whatever_its_type(table):
    whole = jnp.arange(16)
    for compile in (lambda embed: embed, jax.jit):
        embed = compile(lambda positions: Learned(16).embed(table, positions))
        np.testing.assert_array_equal(embed(whole.astype(jnp.float32)), embed(whole))


def test_a_position_between_two_rows_reads_what_lies_between_them(table):
    rows = np.asarray(table["table"], np.float64)
    found = Learned(16).embed(table, jnp.array([0.25, 14.5, 3.0]))
    expected = [0.75 * rows[0] + 0.25 * rows[1], (rows[14] + rows[15]) / 2, rows[3]]
    np.testing.assert_allclose(found, expected, rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("outside", [-0.5, 15.001, 16.0, np.nan, np.inf])
def test_a_position_between_rows_that_are_not_there_is_an_error_or_nan(table, outside):
    with pytest.raises(FarfieldError, match=r"position -?[\w.]+ is outside the learned position table of 16 rows"):
        Learned(16).embed(table, jnp.array([3.5, outside]))
    found = np.asarray(jax.jit(lambda positions: Learned(16).embed(table, positions))(jnp.array([3.5, outside])))
    assert np.isnan(found[1]).all()
    assert np.isfinite(found[0]).all()


def test_a_row_beside_a_whole_position_has_no_part_in_it(table):
    rows = table["table"].at[4].set(jnp.nan)
    found = Learned(16).embed({"table": rows}, jnp.array([3.0, 5.0]))
    np.testing.assert_array_equal(found, rows[jnp.array([3, 5])])


def test_the_gradient_of_a_position_between_rows_is_shared_by_both(table):
    def first(rows):
        return Learned(16).embed({"table": rows}, jnp.array([2.25]))[0, 0]

    gradient = np.asarray(jax.grad(first)(table["table"]))
    np.testing.assert_allclose(gradient[[2, 3], 0], [0.75, 0.25])
    assert np.count_nonzero(gradient) == 2


def test_the_table_starts_from_a_standard_normal():
    rows = np.asarray(Learned(500).initialize(jax.random.key(0), 64)["table"])
    assert rows.shape == (500, 64)
    # 32,000 draws: the mean's standard error is 0.0056, the deviation's 0.004.
    assert abs(rows.mean()) < 0.03
    assert rows.std() == pytest.approx(1, abs=0.02)


def test_rows_past_the_longest_training_length_get_exactly_zero_gradient():
    @quick_jit
    def first_gradient(knobs):
        parameters = training.initial_parameters(SHAPE, knobs)
        draw = training.draw(SHAPE, knobs, jnp.asarray(0))
        return jax.grad(training.loss_on_batch)(parameters, SHAPE, knobs, draw).encoding["table"], draw.length

    rows, length = (np.asarray(part) for part in first_gradient(make_knobs(Learned(ROWS))))
    assert length <= TRAINED
    assert (rows[length:] == 0).all()
    assert (np.abs(rows[:length]).sum(axis=1) > 0).all()


def test_without_decay_rows_never_trained_stay_bit_identical_and_trained_rows_move():
    """Proposition 2 of arXiv 2607.18759."""
    before, after = trained_tables(0.0)
    np.testing.assert_array_equal(after[TRAINED:], before[TRAINED:])
    assert (np.abs(after[:TRAINED] - before[:TRAINED]).max(axis=1) > RATE).all()


def test_with_decay_rows_never_trained_follow_adam_on_the_penalty_alone():
    before, after = trained_tables(0.1)
    value = before[TRAINED:].copy()
    first, second = np.zeros_like(value), np.zeros_like(value)
    for step in range(1, STEPS + 1):
        gradient = 0.1 * value
        first = 0.9 * first + 0.1 * gradient
        second = 0.999 * second + 0.001 * gradient**2
        value -= RATE * (first / (1 - 0.9**step)) / (np.sqrt(second / (1 - 0.999**step)) + 1e-8)
    np.testing.assert_allclose(after[TRAINED:], value, rtol=1e-9, atol=1e-12)


def test_with_decay_every_row_never_trained_shrinks():
    before, after = trained_tables(0.1)
    norms = [np.linalg.norm(table[TRAINED:], axis=1) for table in (before, after)]
    assert (norms[1] < norms[0]).all()
    # Coupled with Adam, the decay moves each coordinate by about the learning rate a step, whatever its coefficient.
    large = np.abs(before[TRAINED:]) > 2 * STEPS * RATE
    moved = (np.abs(before) - np.abs(after))[TRAINED:][large]
    np.testing.assert_allclose(moved, STEPS * RATE, rtol=0.3)


@pytest.mark.slow
def test_the_trained_head_of_a_study_shows_the_shrunken_outside(learned_result):
    norms = learned_result.table_norms
    # A standard normal row of 64 coordinates starts at a norm of about 8.
    assert norms.outside < 5
    assert learned_result.parameters.encoding["table"].shape == (49, 64)


def test_the_probes_that_a_study_can_name_are_those_that_are_stored(learned_result):
    stored = {row.probe for row in learned_result.measurements()}
    assert set(MEASURES) == stored | {"carrier_cos_rotated", "carrier_peak"}  # these two where vectors are rotated
