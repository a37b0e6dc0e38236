"""The one rule: what it accepts, what it refuses, and that it can fail."""

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

from farfield.papers.verdicts import Comparison, judge


def verdict(published, values, published_n=5, unit=0.01, **more):
    return judge("table9", Comparison("some number", published, unit, values, published_n, **more))


def test_the_interval_is_students_prediction_interval_of_both_sides_plus_half_a_unit():
    values = [0.80, 0.82, 0.81, 0.79, 0.83, 0.80]
    result = verdict(0.81, values, published_n=4)
    half = stats.t.ppf(0.995, 5) * np.std(values, ddof=1) * math.sqrt(1 / 6 + 1 / 4) + 0.005
    assert result.low == pytest.approx(np.mean(values) - half)
    assert result.high == pytest.approx(np.mean(values) + half)
    assert (result.verdict, result.n) == ("reproduced", 6)


def test_a_number_outside_the_interval_differs_and_the_reason_names_both():
    result = verdict(0.62, [0.80, 0.82, 0.81, 0.79])
    assert result.verdict == "differs"
    assert "0.62 lies outside" in result.why
    assert "mean of 4 seeds" in result.why


def test_a_formula_has_only_the_rounding():
    assert verdict(0.97, [0.9662], published_n=0).verdict == "reproduced"
    assert verdict(0.97, [0.9649], published_n=0).verdict == "differs"
    assert verdict(0.97, [0.965], published_n=0).verdict == "reproduced"  # on the boundary


def test_an_exact_statement_fails_on_a_single_deviating_seed():
    assert verdict(1.0, [1.0] * 8, unit=0.0).verdict == "reproduced"
    off_by_one = verdict(-2, [-2] * 8, unit=0.0)
    assert (off_by_one.low, off_by_one.high) == (-2, -2)
    assert verdict(-3, [-2] * 8, unit=0.0).verdict == "differs"
    for deviating in (1, 4, 7):
        result = verdict(1.0, [1.0] * (8 - deviating) + [4 / 7] * deviating, unit=0.0)
        assert result.verdict == "differs"
        assert f"1 in {8 - deviating} of 8 seeds" in result.why
    assert verdict(-2, [-1, -2, -3, -2], published_n=1, unit=0.0).verdict == "differs", "a mean of -2 is not enough"


def test_one_seed_against_one_seed_cannot_be_judged():
    assert verdict(0.5, [0.5], published_n=1).verdict == "not-comparable"


def test_a_seed_without_a_finite_number_is_never_averaged_away():
    result = verdict(0.5, [0.5, math.nan, 0.5])
    assert result.verdict == "differs"
    assert result.measured is None
    assert "1 of 3 seeds" in result.why


def test_a_claim_without_a_number_is_not_comparable_and_still_shows_the_measurement():
    result = verdict(None, [0.2, 0.4])
    assert (result.verdict, result.measured) == ("not-comparable", pytest.approx(0.3))


@given(
    st.lists(st.floats(-10, 10), min_size=3, max_size=20, unique=True),
    st.integers(1, 20),
    st.floats(0.1, 100),
)
def test_the_verdict_does_not_depend_on_the_unit_of_measurement(values, published_n, scale):
    published = float(np.mean(values)) + 0.3
    plain = verdict(published, values, published_n)
    scaled = verdict(published * scale, [value * scale for value in values], published_n, unit=0.01 * scale)
    assert plain.low is not None and scaled.low is not None
    assert scaled.low == pytest.approx(plain.low * scale, abs=1e-6)


def test_same_source_is_called_different_once_in_a_hundred():
    """The rule's promise, simulated: 99% of numbers from one and the same set-up are reproduced."""
    draws = np.random.default_rng(0)
    outcomes = []
    for _ in range(4000):
        published = round(float(draws.normal(0.5, 0.1, 5).mean()), 2)
        outcomes.append(verdict(published, draws.normal(0.5, 0.1, 16)).verdict == "differs")
    assert 0.003 < np.mean(outcomes) < 0.015


def test_another_source_is_called_different():
    draws = np.random.default_rng(1)
    outcomes = [
        verdict(round(float(draws.normal(0.8, 0.1, 5).mean()), 2), draws.normal(0.5, 0.1, 16)).verdict
        for _ in range(200)
    ]
    assert np.mean([outcome == "differs" for outcome in outcomes]) > 0.9


def test_a_printed_deviation_is_held_to_the_f_interval_of_two_variances():
    values = [9.0, 13, 10, 11, 10, 9, 8, 13]
    result = verdict(1.7, values, published_n=3, unit=0.1, statistic="deviation")
    shown = np.std(values, ddof=1) * math.sqrt(2 / 3)
    assert result.measured == pytest.approx(shown)
    assert result.low == pytest.approx(shown * math.sqrt(stats.f.ppf(0.005, 2, 7)) - 0.05)
    assert result.high == pytest.approx(shown * math.sqrt(stats.f.ppf(0.995, 2, 7)) + 0.05)
    assert (result.mean_low, result.verdict) == (None, "reproduced")
    assert verdict(9.0, values, published_n=3, unit=0.1, statistic="deviation").verdict == "differs"


def test_a_difference_carries_its_explanation_and_an_agreement_does_not():
    assert verdict(0.62, [0.80, 0.82, 0.81], explanation="tried").explanation == "tried"
    assert verdict(0.81, [0.80, 0.82, 0.81], explanation="tried").explanation == ""
