"""Linear attention as a least-squares problem: what its solution of least norm is, on the support and off it."""

import dataclasses

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from farfield.models import Inputs, Mechanism
from farfield.models.head import Head
from farfield.normalizers.elementwise import Linear
from farfield.normalizers.softmax import Softmax
from farfield.papers.implicit_bias.setup import PUBLISHED
from farfield.papers.implicit_bias.table3 import TRUNCATED, full_band, full_band_rope, series, theta_of
from farfield.probes.carrier import fraction
from farfield.probes.linear_attention import axis, design, interpolant, rank, retrieval_accuracy
from helpers.support import encodings, quick_jit

TRAINED = np.arange(-15, 1)
BEYOND = np.arange(-47, -15)


@st.composite
def problems(draw):
    """Frequencies spread over (0, pi), with more coefficients than training offsets, and a target."""
    generator = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
    pairs = draw(st.integers(5, 24))
    offsets = np.arange(1 - draw(st.integers(2, 2 * pairs - 1)), 1)
    theta = (np.arange(pairs) + generator.uniform(0.3, 0.7, pairs)) * np.pi / pairs
    return theta, offsets, int(generator.choice(offsets)), generator


@given(problem=problems())
def test_the_interpolant_fits_the_training_offsets_with_least_norm(problem):
    theta, offsets, target, generator = problem
    solution = interpolant(theta, offsets, target)
    assert solution.residual < 1e-9
    assert solution.rank == len(offsets)
    np.testing.assert_allclose(solution.scores(offsets), offsets == target, atol=1e-9)
    matrix = design(theta, offsets)
    silent = generator.normal(size=matrix.shape[1])
    silent -= np.linalg.lstsq(matrix, matrix @ silent)[0]  # changes no score on the support
    assert abs(matrix @ silent).max() < 1e-9
    assert abs(silent @ solution.coefficients) < 1e-8 * np.linalg.norm(silent) * np.linalg.norm(solution.coefficients)


@given(problem=problems())
def test_scores_are_a_sum_of_cosines_with_an_amplitude_and_a_phase_a_pair(problem):
    """f(delta) = sum_j A_j cos(delta theta_j + psi_j), section 7 of arXiv 2607.18759."""
    theta, offsets, target, _ = problem
    solution = interpolant(theta, offsets, target)
    cosines, sines = np.split(solution.coefficients, 2)
    amplitude, phase = np.hypot(cosines, sines), np.arctan2(-sines, cosines)
    far = np.arange(-60, 5)
    expected = sum(a * np.cos(far * t + p) for a, t, p in zip(amplitude, theta, phase, strict=True))
    np.testing.assert_allclose(solution.scores(far), expected, atol=1e-9)
    assert solution.alignment(target) == pytest.approx(1 / amplitude.sum())
    assert solution.alignment(target) <= 1 + 1e-12


def test_fewer_coefficients_than_offsets_leave_a_residual_at_right_angles_to_the_fit():
    theta = theta_of(4)
    solution = interpolant(theta, TRAINED, -2)
    rest = (TRAINED == -2) - solution.scores(TRAINED)
    np.testing.assert_allclose(design(theta, TRAINED).T @ rest, 0, atol=1e-10)
    assert solution.residual > 0.5


def test_rotary_frequencies_bunch_so_that_the_count_of_coefficients_says_little():
    """16 constraints and 64 coefficients, but float32 tells 11 of them apart, and 9 are within a thousandth."""
    theta = theta_of(64)
    assert (rank(theta, TRAINED), rank(theta, TRAINED, np.float32)) == (16, 11)
    whole, cut = interpolant(theta, TRAINED, -2), interpolant(theta, TRAINED, -2, TRUNCATED)
    assert cut.rank == 9
    assert whole.residual < 1e-5 < 0.1 < cut.residual
    assert whole.off_support(BEYOND, -2) > 1e8, "an interpolant of order 1 would not be this one"
    assert 1 < cut.off_support(BEYOND, -2) < 20
    assert cut.alignment(-2) == pytest.approx(0.11, abs=0.01)


def test_over_the_full_band_the_interpolant_is_the_target_alone_everywhere():
    solution = interpolant(full_band(64), TRAINED, -2)
    np.testing.assert_allclose(solution.scores(np.arange(-60, 1)), np.arange(-60, 1) == -2, atol=1e-12)
    assert solution.alignment(-2) == pytest.approx(1)


def test_the_control_of_table_3_rotates_by_the_full_band_at_every_length():
    encoding = full_band_rope(64)
    for length in (None, 4, 48):
        np.testing.assert_allclose(encoding.frequencies(64, length), full_band(64), rtol=1e-5)
    assert encoding.gain(jnp.float32) == 1


def test_accuracy_counts_the_largest_sum_by_token():
    scores, target = np.array([0.3, -0.2, 0.9, 0.5]), -1
    accuracy = retrieval_accuracy(scores, target, 3, 200, np.random.default_rng(5))
    tokens = np.random.default_rng(5).integers(0, 3, (200, 4))
    right = 0
    for sequence in tokens:
        totals = [sum(score for score, token in zip(scores, sequence, strict=True) if token == c) for c in range(3)]
        right += int(np.argmax(totals)) == sequence[3 + target]
    assert accuracy == right / 200
    assert 0.3 < accuracy < 1


def test_only_the_target_scored_is_always_right_and_another_place_seldom():
    scores = np.zeros(16)
    scores[-3] = 1
    assert retrieval_accuracy(scores, -2, 20, 500, np.random.default_rng(0)) == 1
    assert retrieval_accuracy(scores, -3, 20, 500, np.random.default_rng(0)) < 0.12


@given(seed=st.integers(0, 2**32 - 1))
def test_the_axis_of_keys_does_not_change_with_their_signs(seed):
    generator = np.random.default_rng(seed)
    line = generator.normal(size=16)
    keys = np.outer(generator.uniform(1, 2, 40), line) + 0.1 * generator.normal(size=(40, 16))
    signs = generator.permutation(np.repeat([1, -1], 20))[:, None]
    direction, share = axis(keys)
    flipped, same = axis(signs * keys)
    assert share == pytest.approx(same)
    assert abs(direction @ flipped) == pytest.approx(1)
    assert abs(direction @ line) / np.linalg.norm(line) > 0.99
    assert fraction(keys) > 0.8 > 0.2 > fraction(signs * keys), "the mean is what signs destroy"


@pytest.mark.parametrize(("normalizer", "same"), [(Linear(), True), (Softmax(), False)])
def test_without_softmax_queries_and_values_of_the_other_sign_say_the_same(normalizer, same):
    """So a cosine between mean query and mean key has no sign of its own there."""
    model, mechanism = Head(width=8), Mechanism(encodings.parse("rope"), normalizer)
    parameters = model.initialize(jax.random.key(0), mechanism, 5)
    attention = parameters.attention
    turned = dataclasses.replace(attention, query=-attention.query, value=-attention.value)
    inputs = Inputs(jax.random.randint(jax.random.key(1), (6, 3), 0, 5), jnp.arange(6), jnp.asarray(6))

    @quick_jit
    def scores(heads):
        changed = dataclasses.replace(parameters, attention=heads)
        return model.forward(changed, mechanism, inputs, "last", "dense").class_scores

    here, there = scores(attention), scores(turned)
    assert bool(jnp.allclose(here, there, atol=1e-6)) is same


def test_table_3_runs_the_papers_width_with_and_without_softmax():
    cells = series()
    assert {cell.model.width for group in cells.values() for cell in group} == {
        PUBLISHED["table3_linear_attention"]["d"]
    }
    assert [type(group[0].normalizer) for group in cells.values()] == [Linear, Softmax, Linear]
    assert [group[0].encoding.relative for group in cells.values()] == [True, True, False]
