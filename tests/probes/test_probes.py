"""Probes and intervals on cases small enough to work out by hand."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from farfield.errors import FarfieldError
from farfield.intervals import over_seeds, t_halfwidth, wilson
from farfield.lengths import range_of
from farfield.probes import attention, carrier, dilution, kernel, kernel_dilution
from farfield.probes.accuracy import accuracy, range_means
from farfield.probes.linear_attention import interpolant, retrieval_accuracy
from farfield.probes.position_table import table_norms
from farfield.probes.spectrum import top_energy

LENGTHS = np.array([12, 16, 20, 24, 32, 40, 48])


def theta(width: int, base: float = 10000.0) -> np.ndarray:
    return base ** (-np.arange(0, width, 2) / width)


def test_the_selected_offset_is_given_with_and_without_the_sink_at_position_zero():
    """streaming-llm issue 54: query 4 attends to an attention sink, and to its neighbour."""
    row, lengths = np.array([[0.6, 0.05, 0.05, 0.25, 0.05]]), np.array([5])
    assert attention.selected_offset(row, lengths).tolist() == [-4]
    assert attention.selected_offset(row, lengths, skip_first=True).tolist() == [-1]
    assert attention.pin(row, lengths).tolist() == [0]
    assert attention.pin(row, lengths, skip_first=True).tolist() == [3]
    assert attention.peak_height(row, lengths).tolist() == [0.6]


def test_padding_past_a_length_is_never_selected():
    rows = np.array([[0.2, 0.5, 0.3, 0.9], [0.1, 0.2, 0.3, 0.4]])
    assert attention.pin(rows, np.array([3, 4])).tolist() == [1, 3]
    assert attention.selected_offset(rows, np.array([3, 4])).tolist() == [-1, 0]


def shifted_rows() -> tuple[np.ndarray, np.ndarray]:
    """One profile by offset, at three lengths, diluted by half at the last."""
    profile = np.array([0.1, 0.6, 0.3])
    rows = np.zeros((3, 6))
    for row, (length, share) in zip(rows, ((3, 1), (4, 1), (6, 0.5)), strict=True):
        row[length - 3 : length] = share * profile
    rows[2, :3] = 0.5 / 3
    return rows, np.array([3, 4, 6])


def test_equivariance_error_is_zero_for_shifted_copies_even_when_diluted():
    rows, lengths = shifted_rows()
    assert attention.equivariance_error(rows, lengths) == pytest.approx(0, abs=1e-15)
    assert attention.absolute_error(rows, lengths) > 0.3
    np.testing.assert_allclose(attention.relative_profiles(rows, lengths)[1], [0.1, 0.6, 0.3])


def test_equivariance_error_is_one_for_profiles_that_share_no_offset():
    rows, lengths = np.array([[1.0, 0, 0, 0], [0, 0, 0, 1.0]]), np.array([3, 4])
    assert attention.equivariance_error(rows, lengths) == 1
    pinned = np.array([[0, 1.0, 0, 0], [0, 1.0, 0, 0]])
    assert attention.equivariance_error(pinned, lengths) == 1
    assert attention.absolute_error(pinned, lengths) == 0


def test_distance_between_profiles_is_half_the_absolute_difference_of_shares():
    profiles = np.array([[1.0, 1.0], [3.0, 1.0], [0.0, 2.0]])
    np.testing.assert_allclose(attention.profile_distance(profiles), [[0, 0.25, 0.5], [0.25, 0, 0.75], [0.5, 0.75, 0]])


@pytest.mark.parametrize(
    ("rows", "value", "corrected"),
    [
        ([[1.0, 2.0]] * 4, 1, 1),
        ([[1.0, 2.0], [-1.0, -2.0]], 0, -1),
        ([[1.0, 1.0], [1.0, -1.0]], 0.5, 0),
    ],
)
def test_the_carrier_fraction_of_equal_opposite_and_half_equal_rows(rows, value, corrected):
    assert carrier.fraction(np.array(rows)) == pytest.approx(value, abs=1e-15)
    assert carrier.debiased(carrier.fraction(np.array(rows)), len(rows)) == pytest.approx(corrected, abs=1e-12)


def test_the_debiased_fraction_of_unrelated_directions_is_zero():
    assert carrier.fraction(np.eye(8)) == pytest.approx(1 / 8)
    assert carrier.debiased(1 / 8, 8) == 0


def test_a_fraction_taken_after_rotation_would_read_lower():
    """Ones over 64 positions are one direction; rotated, they are not."""
    after = carrier.rotate(np.ones(8), np.arange(64), theta(8))
    assert carrier.fraction(np.ones((64, 8))) == 1
    assert carrier.fraction(after) == pytest.approx(0.49166, abs=5e-6)


def test_the_profile_of_ones_turned_to_minus_three_peaks_there():
    ones, offsets = np.ones(8), np.arange(-6, 1)
    query = carrier.rotate(ones, np.array([-3]), theta(8))[0]
    profile = carrier.profile(query, ones, offsets, theta(8)) / 8
    np.testing.assert_allclose(profile, [0.49122, 0.64093, 0.88381, 1, 0.88381, 0.64093, 0.49122], atol=5e-6)


def test_rotation_is_of_half_split_pairs_by_offset_times_frequency():
    turned = carrier.rotate(np.array([1.0, 0.0, 0.0, 2.0]), np.array([0, 1]), np.array([math.pi / 2, math.pi]))
    np.testing.assert_allclose(turned, [[1, 0, 0, 2], [0, 0, 1, -2]], atol=1e-12)


def test_a_carrier_turned_exactly_to_the_target_has_cosine_one_and_its_peak_there():
    random, offsets = np.random.default_rng(0), np.arange(-15, 1)
    mean_key = random.normal(size=8)
    noise = random.normal(size=(10, 8))
    keys = mean_key + noise - noise.mean(axis=0)
    queries = np.tile(carrier.rotate(mean_key, np.array([-5]), theta(8))[0], (10, 1))
    found = carrier.carrier(queries, keys, offsets, 99, -5, theta(8))
    assert found.cos_rotated == pytest.approx(1)
    assert found.peak == -5
    assert found.query == pytest.approx(1)
    power = mean_key @ mean_key
    assert found.key == pytest.approx(power / (power + np.square(keys - mean_key).sum(axis=1).mean()))
    assert found.key_debiased == pytest.approx((10 * found.key - 1) / 9)
    assert found.cos_unrotated == pytest.approx(carrier.cosine(queries[0], mean_key))


def test_a_carrier_without_rotation_has_no_profile():
    found = carrier.carrier(np.eye(2) + 1, np.eye(2) + 1, np.arange(-3, 1), 3, -2, None)
    assert (found.cos_rotated, found.profile, found.peak) == (None, None, None)
    assert found.cos_unrotated == pytest.approx(1)


@pytest.mark.parametrize(("alpha", "c"), [(1.0, 0.02), (1.2, 0.5), (0.9, 0.0)])
def test_the_dilution_fit_recovers_the_law_that_made_the_heights(alpha, c):
    found = dilution.fit(1 / (alpha + c * (LENGTHS - 1)), LENGTHS)
    assert found.alpha == pytest.approx(alpha, abs=1e-12)
    assert found.c == pytest.approx(c, abs=1e-12)
    assert found.alpha_interval == pytest.approx((alpha, alpha), abs=1e-6)
    if c:
        assert found.r2 == pytest.approx(1)


def test_the_intervals_of_the_dilution_fit_are_students():
    lengths, inverse = np.array([1, 2, 3, 4]), np.array([1.0, 2.0, 2.0, 3.0])
    found = dilution.fit(1 / inverse, lengths)
    # Slope 0.6, residuals -.1 .3 -.3 .1, so s^2 = .2/2, error of the slope sqrt(.1/5), t(2) = 4.30265273.
    assert found.c == pytest.approx(0.6)
    assert found.alpha == pytest.approx(1.1)
    assert found.r2 == pytest.approx(0.9)
    half = 4.30265273 * math.sqrt(0.1 / 5)
    assert found.c_interval == pytest.approx((0.6 - half, 0.6 + half), rel=1e-6)
    half = 4.30265273 * math.sqrt(0.1 * (1 / 4 + 1.5**2 / 5))
    assert found.alpha_interval == pytest.approx((1.1 - half, 1.1 + half), rel=1e-6)


@pytest.mark.parametrize(
    ("heights", "lengths"), [([0.5, 0.4], [12, 16]), ([0.5, 0.0, 0.4], [1, 2, 3]), ([0.5, math.nan, 0.4], [1, 2, 3])]
)
def test_a_decay_that_cannot_be_fitted_is_nan(heights, lengths):
    found = dilution.fit(np.array(heights), np.array(lengths))
    assert np.isnan([found.alpha, found.c, found.r2, *found.alpha_interval, *found.c_interval]).all()


def test_the_bound_of_the_published_margin_gives_the_published_row():
    """arXiv 2607.18759, table 7, whose margin is itself rounded to 2.30."""
    published = np.array([0.48, 0.40, 0.35, 0.30, 0.24, 0.20, 0.18])
    assert (dilution.target_bound(2.295, LENGTHS) - 0.005 <= published).all()
    assert (dilution.target_bound(2.305, LENGTHS) + 0.005 >= published).all()
    assert dilution.target_bound(math.log(3), np.array([4]))[0] == pytest.approx(1 / 2)


def test_the_margin_is_the_gap_to_the_best_other_offset():
    offsets = np.arange(-3, 1)
    assert dilution.margin(np.array([0.0, 5.0, 2.0, 3.5]), offsets, -2) == 1.5
    assert dilution.margin(np.array([0.0, 5.0, 2.0, 3.5]), offsets, -1) == -3


def test_equal_logits_leave_the_target_one_over_the_length():
    assert dilution.target_weight(np.zeros(10), np.arange(-9, 1), -2, 4) == pytest.approx(1 / 4)
    assert dilution.target_bound(0.0, np.array([4]))[0] == pytest.approx(1 / 4)


@given(profile=st.lists(st.floats(-8, 8), min_size=6, max_size=40), target=st.integers(0, 4))
def test_the_exact_weight_respects_the_bound_and_falls_strictly_with_length(profile, target):
    """Corollary 2 of arXiv 2607.18759."""
    profile, offsets = np.array(profile), np.arange(1 - len(profile), 1)
    lengths = np.arange(target + 1, len(profile) + 1)
    exact = np.array([dilution.target_weight(profile, offsets, -target, int(length)) for length in lengths])
    bound = dilution.target_bound(dilution.margin(profile, offsets, -target), lengths)
    assert (exact >= bound * (1 - 1e-12)).all()
    assert (np.diff(exact) < 0).all()
    assert (np.diff(bound) < 0).all()
    for length, value in zip(lengths, exact, strict=True):
        present = np.exp(profile[len(profile) - length :])
        assert value == pytest.approx(present[-1 - target] / present.sum())


@pytest.mark.parametrize(("base", "breadth", "beyond"), [(1e3, 0.96, 0.67), (1e4, 0.97, 0.75), (1e5, 0.97, 0.79)])
def test_the_rotary_kernel_has_its_published_breadth_and_its_maximum_beyond_four_at_four(base, breadth, beyond):
    """arXiv 2607.18759, table 5."""
    g = kernel.kernel(theta(64, base), 64)
    shape = kernel.kernel_shape(g)
    assert g[0] == pytest.approx(1)
    assert round(shape.breadth, 2) == breadth
    assert round(shape.beyond_four, 2) == beyond
    assert shape.beyond_four == g[4]
    assert shape.realignment < shape.beyond_four


def test_the_far_realignment_is_the_largest_value_past_the_first_valley():
    ten = kernel.kernel_shape(kernel.kernel(np.array([2 * math.pi / 10]), 14))
    assert (ten.realignment, ten.realignment_at) == (pytest.approx(1), 10)
    assert ten.breadth == pytest.approx(math.cos(2 * math.pi / 10))
    falling = kernel.kernel_shape(np.array([2.0, 1.8, 1.6, 1.4, 1.2, 1.0]))
    assert falling[:2] == (pytest.approx(0.9), pytest.approx(0.6))
    assert math.isnan(falling.realignment)
    assert falling.realignment_at == 0


def test_kernel_weights_are_shares():
    frequencies = np.array([1.0, 0.1])
    expected = 0.75 * np.cos(np.arange(4)) + 0.25 * np.cos(0.1 * np.arange(4))
    np.testing.assert_allclose(kernel.kernel(frequencies, 3, np.array([6.0, 2.0])), expected)


def test_norms_inside_and_outside_the_trained_rows():
    table = np.array([[3.0, 4.0], [0.0, 1.0], [6.0, 8.0], [0.0, 0.0]])
    assert table_norms(table, 2) == (3.0, 5.0)
    assert table_norms(table, 4)[0] == 4.0
    assert math.isnan(table_norms(table, 4).outside)
    assert math.isnan(table_norms(table, 0).inside)


@pytest.mark.parametrize(
    ("correct", "total", "low", "high"), [(8, 10, 0.4902, 0.9433), (0, 10, 0, 0.2775), (10, 10, 0.7225, 1)]
)
def test_wilson_intervals_have_their_textbook_values(correct, total, low, high):
    assert wilson(correct, total) == pytest.approx((low, high), abs=5e-5)
    moments = np.array([total - correct, total - correct, total])
    found = accuracy(np.int32(correct), total, 0.05, clusters=total, wrong_moments=moments)
    assert found == pytest.approx((correct / total, *wilson(correct, total), 0.05))


def test_five_seeds_of_which_one_failed_give_their_mean_and_students_interval():
    """zoology issue 28: all seeds count, not the best."""
    values = [0.98, 0.97, 0.31, 0.99, 0.12]
    found = over_seeds(values)
    assert found.mean == pytest.approx(0.674)
    assert np.std(values, ddof=1) == pytest.approx(0.42442, abs=5e-6)
    # t(4) = 2.776445; rounded to 2.776 it would give .52690.
    assert t_halfwidth(0.42442, 5) == pytest.approx(0.52699, abs=5e-6)
    assert (found.high - found.mean, found.mean - found.low) == pytest.approx((0.52698, 0.52698), abs=5e-6)
    assert over_seeds(values, bounds=(0, 1))[1:3] == (pytest.approx(0.674 - 0.52698, abs=5e-6), 1)
    assert found.n == 5


@pytest.mark.parametrize("value", [0.0, 0.7, 1.0])
def test_equal_seeds_have_an_interval_of_no_width_rather_than_nan(value):
    found = over_seeds([value] * 5)
    assert found[:3] == pytest.approx((value, value, value), abs=1e-12)


def test_one_seed_has_no_interval_over_seeds_and_none_has_no_mean():
    assert over_seeds([0.8])[1:4] == (None, None, 1)
    nothing = over_seeds([])
    assert math.isnan(nothing.mean) and nothing[1:4] == (None, None, 0)


@pytest.mark.parametrize(("longest", "expected"), [(100, 0.62560), (500, 0.25770)])
def test_an_average_over_lengths_depends_on_which_lengths(longest, expected):
    """neural_networks_chomsky_hierarchy issue 9: accuracy that falls from length 40 on."""
    lengths = np.arange(1, longest + 1)
    falling = 0.05 + 0.95 * np.minimum(1, 40 / lengths)
    means = range_means(falling, lengths, 1, 40)
    assert means.trained == pytest.approx(1, abs=1e-12)
    assert means.longer == pytest.approx(expected, abs=5e-6)
    assert np.isnan(range_means(falling, lengths, 1, longest).longer)


def test_a_length_shorter_than_training_is_not_trained():
    lengths = np.array([2, 4, 12, 16, 24])
    assert [range_of(length, 12, 16) for length in lengths] == ["shorter"] * 2 + ["trained"] * 2 + ["longer"]
    assert range_means(np.array([0.1, 0.3, 0.8, 1.0, 0.5]), lengths, 12, 16) == pytest.approx((0.2, 0.9, 0.5))
    assert np.isnan(range_means(np.ones(5), lengths, 1, 24)[0])


@given(st.integers(1, 5), st.integers(0, 2**32 - 1))
def test_the_top_energy_of_a_product_of_equal_directions_is_one_over_their_number(rank, seed):
    directions = np.linalg.qr(np.random.default_rng(seed).normal(size=(6, 6)))[0][:rank]
    assert top_energy(2.0 * directions, directions) == pytest.approx(1 / rank)


def test_the_top_energy_weighs_squares_and_is_no_number_for_a_product_of_zeros():
    assert top_energy(np.diag([2.0, 1.0]), np.eye(2)) == pytest.approx(4 / 5)
    assert math.isnan(top_energy(np.zeros((2, 2)), np.eye(2)))


# What lies outside of a context or an array

ROWS = np.full((2, 4), 0.25)
OFFSETS = np.arange(-5, 1)


def test_a_target_outside_of_the_context_has_no_weight():
    profile = np.array([1.0, 2.0, 3.0, 0.0, 0.0, 0.0])
    assert dilution.target_weight(profile, OFFSETS, -3, length=2) == 0
    assert dilution.target_weight(profile, OFFSETS, 1, length=2) == 0
    assert dilution.target_weight(profile, OFFSETS, -3, length=0) == 0
    assert dilution.target_weight(profile, OFFSETS, -3, length=4) == pytest.approx(math.exp(3) / (math.exp(3) + 3))
    both = np.append(profile, 9.0), np.append(OFFSETS, 1)  # keys after the query are not in its context
    assert dilution.target_weight(*both, -3, length=4) == pytest.approx(math.exp(3) / (math.exp(3) + 3))
    rivals = kernel_dilution.rival_sums(np.ones(6), 1.0)
    np.testing.assert_allclose(kernel_dilution.target_masses(rivals, 2, [1, 2, 3, 4]), [0, 0, 1 / 3, 1 / 4])


@pytest.mark.parametrize(
    ("measure", "words"),
    [
        (lambda: dilution.margin(np.zeros(6), OFFSETS, -9), "target -9 is not among .* from -5 to 0"),
        (lambda: dilution.margin(np.zeros(1), np.array([-1]), -1), "target -1 is the only offset"),
        (lambda: dilution.target_weight(np.zeros(3), np.array([0, -1, -3]), -2, 4), "target -2 is not among"),
        (lambda: dilution.target_bound(1.0, [0, 4]), "length 0 holds no target"),
        (lambda: attention.pin(ROWS, [0, 4]), "length 0 is not one of attention over 4 positions: use 1 to 4"),
        (lambda: attention.pin(ROWS, [4, 5]), "length 5 is not one"),
        (lambda: attention.selected_offset(ROWS, [4, 9]), "length 9 is not one"),
        (lambda: attention.relative_profiles(ROWS, [0, 4]), "length 0 is not one"),
        (lambda: attention.equivariance_error(ROWS, [3, 9]), "length 9 is not one"),
        (lambda: attention.absolute_error(ROWS, [3, -1]), "length -1 is not one"),
        (lambda: attention.offset_profile(np.ones((1, 4, 4)), 5), "length 5 is not one"),
        (lambda: attention.offset_profile(np.ones((1, 4, 4)), 0), "length 0 is not one"),
        (lambda: accuracy(0, 0, 0.1, clusters=4, wrong_moments=np.zeros(3)), "0 rows of 4 draws were tested"),
        (lambda: kernel.kernel_shape(np.ones(4)), "a kernel at 4 offsets has no shape"),
        (lambda: kernel_dilution.target_masses(np.zeros(6), 2, [9]), "needs more than 6 offsets"),
        (lambda: kernel_dilution.target_masses(np.zeros(6), -1, [3]), "needs more than 6 offsets"),
        (lambda: kernel_dilution.target_dilution(np.ones(6), np.ones(6), 6, 4), "target 6 is not in a context of 6"),
        (lambda: interpolant(np.ones(2), np.arange(-3, 1), -4), "target -4 is not among the training offsets"),
        (lambda: retrieval_accuracy(np.ones(4), -4, 5, 2, np.random.default_rng(0)), "outside of sequences of 4"),
    ],
)
def test_what_is_outside_of_a_context_or_an_array_is_refused_by_name(measure, words):
    with pytest.raises(FarfieldError, match=words):
        measure()


def test_a_carrier_without_an_offset_in_reach_has_no_peak():
    found = carrier.carrier(np.ones((3, 4)), np.ones((3, 4)), np.arange(-9, -4), 2, None, np.array([1.0, 0.1]))
    assert found.peak is None


def test_of_a_single_key_nothing_is_left_without_the_first():
    found = attention.pin(np.array([[1.0, 0.0], [0.2, 0.8]]), np.array([1, 2]), skip_first=True)
    assert math.isnan(found[0]) and found[1] == 1
