"""The rotary family against published values and its own formulas: partial, scaled and fading variants."""

from __future__ import annotations

import dataclasses
import math

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import farfield.encodings
from farfield.analysis.kernels import kernel
from farfield.encodings import encodings
from farfield.encodings.longrope import LongRope
from farfield.encodings.p_rope import PRope
from farfield.encodings.rope import Rope, frequencies
from farfield.encodings.rotary import Rotary, RotaryFamily
from farfield.encodings.scaled_rope import NTK, DynamicNTK, PositionInterpolation
from farfield.encodings.xpos import XPos
from farfield.encodings.yarn import Yarn
from farfield.errors import FarfieldError
from helpers.support import SPECS, TRAINED, double_precision, example, quick_jit, vectors

ROTARY_SPECS = [spec for spec in SPECS if isinstance(encodings.parse(spec), Rotary)]
# The distances over which pair i of eight coordinates fades by one e-fold, at the default scale_base.
FADING = 512 / -np.log((np.arange(0, 8, 2) / 8 + 0.4) / 1.4)

pytestmark = pytest.mark.usefixtures("strict_dtypes")


def theta(encoding: Rotary, width: int, length: int | None = None) -> np.ndarray:
    """Frequencies in float64."""
    with double_precision():
        return np.asarray(encoding.frequencies(width, length))


def base_of(encoding: Rotary, width: int, length: int | None = None) -> float:
    """The base whose second frequency is the encoding's."""
    return float(theta(encoding, width, length)[1] ** (-width / 2))


@quick_jit
def rotated(encoding: Rotary, query, key, query_positions, key_positions):
    return encoding.rotate({}, query, key, query_positions, key_positions)


@pytest.mark.parametrize("spec", ROTARY_SPECS)
@pytest.mark.parametrize("width", [8, 64])
def test_frequencies_are_finite_fall_and_start_at_one_before_scaling(spec, width):
    """transformers issue 34234: frequencies come from the settings and nothing else."""
    encoding = encodings.from_config(encodings.config(example(spec, 48)))
    found = theta(encoding, width)
    assert found.shape == (width // 2,)
    assert np.isfinite(found).all()
    # Interpolation slows every pair; sixteen positions are but 2.5 turns of the fastest one, within Llama's ramp.
    if spec not in ("position-interpolation", "position-interpolation:layout=interleaved", "llama3:original_length=0"):
        assert found[0] == 1
    moving = found[found > 0]
    assert (np.diff(moving) < 0).all()
    assert (found[len(moving) :] == 0).all()


@pytest.mark.parametrize("spec", ROTARY_SPECS)
def test_order_frequencies_and_gain_give_any_rotary_head_back(spec):
    """What a measurement needs to know of a rotary encoding."""
    encoding = example(spec, 48)
    x = vectors(0, 5, 8)[0]
    positions = jnp.arange(5)
    expected = rotated(encoding, x, x, positions, positions)[0][:, encoding.order(8)]
    a, b = np.split(np.asarray(x)[:, encoding.order(8)], 2, axis=1)
    angle = np.arange(5)[:, None] * np.asarray(encoding.frequencies(8))
    turned = np.concatenate([a * np.cos(angle) - b * np.sin(angle), a * np.sin(angle) + b * np.cos(angle)], axis=1)
    assert sorted(encoding.order(8)) == list(range(8))
    # xpos: five positions apart its fading is within a few percent, and is tested by itself.
    tolerance = 0.4 if spec.startswith("xpos") else 1e-5
    np.testing.assert_allclose(expected, turned * float(encoding.gain(jnp.float32)), atol=tolerance)


@pytest.mark.parametrize("spec", ROTARY_SPECS)
def test_every_rotary_encoding_has_a_table_for_training(spec):
    encoding = example(spec, 48)
    table = encoding.tabulated(8, 8 if encoding.reads_length else TRAINED)
    assert not isinstance(table, RotaryFamily)
    # Past the original length no one table holds.
    assert (encoding.tabulated(8, TRAINED + 1) is encoding) == encoding.reads_length
    np.testing.assert_array_equal(table.frequencies(8), encoding.frequencies(8))


# Partial rotary and p-RoPE


def test_partial_rotary_turns_the_first_half_and_leaves_the_rest(float64):
    """vllm issue 30384."""
    x = jnp.arange(1.0, 9.0)[None]
    encoding = Rope(fraction=0.5)
    expected = [-1.41335, 1.87912, -2.82886, 4.05819, 5, 6, 7, 8]
    np.testing.assert_allclose(encoding.rotate({}, x, x, jnp.array([3]), jnp.array([3]))[1][0], expected, atol=5e-6)


@pytest.mark.parametrize("layout", ["half", "interleaved"])
@pytest.mark.parametrize(("width", "fraction", "turning"), [(8, 0.5, 4), (8, 0.3, 2), (64, 0.25, 16), (10, 0.6, 6)])
def test_partial_rotary_is_rope_of_the_smaller_width_on_the_first_coordinates(width, fraction, turning, layout):
    query, key = vectors(1, 6, width)
    positions = jnp.arange(6)
    partial = rotated(Rope(layout=layout, fraction=fraction), query, key, positions, positions)
    small = rotated(Rope(layout=layout), query[:, :turning], key[:, :turning], positions, positions)
    for found, expected, before in zip(partial, small, (query, key), strict=True):
        np.testing.assert_array_equal(found[:, :turning], expected)
        np.testing.assert_array_equal(found[:, turning:], before[:, turning:])
    found = np.asarray(Rope(fraction=fraction).frequencies(width))
    np.testing.assert_array_equal(found[: turning // 2], frequencies(turning, 10000.0))
    assert (found[turning // 2 :] == 0).all()


FAMILY = [name for name in encodings if issubclass(encodings[name], RotaryFamily)]


@pytest.mark.parametrize("name", FAMILY)
def test_part_of_a_head_rotates_as_a_head_of_that_width_and_the_rest_passes_through(name):
    """vllm issue 12718: scaled rotary encodings too."""
    settings = {"original_length": 16} if "original_length" in vars(encodings.get(name)) else {}
    part, whole = (farfield.encodings.get(name, dim=16, fraction=fraction, **settings) for fraction in (0.5, 1.0))
    query, key = vectors(1, 40, 16)
    positions = jnp.arange(40)
    found = rotated(part, query, key, positions, positions)
    small = rotated(whole, query[:, :8], key[:, :8], positions, positions)
    for turned, expected, before in zip(found, small, (query, key), strict=True):
        np.testing.assert_allclose(turned[:, :8], expected, rtol=1e-6, atol=1e-6)
        np.testing.assert_array_equal(turned[:, 8:], before[:, 8:])
    np.testing.assert_array_equal(theta(part, 16, 40), np.append(theta(whole, 8, 40), np.zeros(4)))
    np.testing.assert_array_equal(part.gains(16), np.append(whole.gains(8), np.ones(4)))
    with pytest.raises(FarfieldError, match=f"{name}:fraction=0.3 of d = 10 rotates 3 coordinates"):
        farfield.encodings.get(name, dim=10, fraction=0.3, **settings)


def test_longrope_takes_a_factor_for_each_rotating_pair():
    settings = {"original_length": 64, "fraction": 0.75, "short_factor": [2.0] * 48, "attention_factor": 1}
    found = theta(farfield.encodings.get("longrope", dim=128, **settings), 128)
    np.testing.assert_array_equal(found[:48], theta(Rope(), 96) / 2)
    assert (found[48:] == 0).all()
    with pytest.raises(FarfieldError, match="short_factor has 64 numbers for the 48 pairs of d = 128 that rotate"):
        farfield.encodings.get("longrope", dim=128, **settings | {"short_factor": [2.0] * 64})


@pytest.mark.parametrize(("share", "kept"), [(0.58, 29), (0.29, 14), (0.31, 15), (0.57, 28), (0.01, 0), (0.011, 1)])
def test_the_share_of_p_rope_is_rounded_to_the_nearest_pair(share, kept):
    assert (theta(PRope(share), 100) > 0).sum() == kept


@pytest.mark.parametrize("count", range(2, 101, 2))
def test_a_fraction_written_with_two_digits_rotates_what_it_says(count):
    """.58 * 100 is 57.99999999999999 in floating point."""
    assert Rope(fraction=count / 100).rotated(100) == count
    assert Rope(fraction=count / 100).rotated(200) == 2 * count
    with pytest.raises(FarfieldError, match=f"rotates {count - 1} coordinates"):
        farfield.encodings.get("rope", dim=100, fraction=(count - 1) / 100)


def test_the_attention_factor_of_a_partial_head_reaches_its_rotating_pairs_alone():
    spec = "yarn:factor=8,original_length=32,fraction=0.5"
    ones, positions = jnp.ones((64, 16)), jnp.arange(64)
    query, key = rotated(encodings.parse(spec), ones[-1:], ones, positions[-1:], positions)
    by_offset = np.asarray(key @ query[0])[::-1] / 16
    entry = kernel(spec, dim=16, length=64).entries[0]
    assert entry.logit_scale / 8 == pytest.approx(by_offset[0], abs=1e-6)
    assert entry.breadth == pytest.approx(by_offset[1] / by_offset[0], abs=1e-6)


def test_an_odd_rotary_width_is_refused_with_the_width_and_the_fraction_named():
    """transformers issue 35233."""
    with pytest.raises(FarfieldError, match=r"rope:fraction=0.75 of d = 4 rotates 3 coordinates.* such as 0.5"):
        farfield.encodings.get("rope", dim=4, fraction=0.75)
    assert farfield.encodings.get("rope", dim=8, fraction=0.75) == Rope(fraction=0.75)


@pytest.mark.parametrize(("share", "kept"), [(1.0, 4), (0.75, 3), (0.5, 2), (0.25, 1), (0.7, 3), (0.6, 2), (0.375, 1)])
def test_p_rope_keeps_the_highest_frequencies_of_full_rope(share, kept):
    found, full = theta(PRope(share), 8), theta(Rope(), 8)
    np.testing.assert_array_equal(found[:kept], full[:kept])
    assert (found[kept:] == 0).all()


# Scaled variants


def test_a_position_interpolated_fourfold_acts_as_a_quarter_of_it():
    query, key = vectors(2, 1, 64)
    eight, two = jnp.array([8]), jnp.array([2])
    stretched = rotated(PositionInterpolation(4.0), query, key, eight, eight)
    np.testing.assert_allclose(stretched[0], rotated(Rope(), query, key, two, two)[0], rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize(("width", "base"), [(8, 63496.04), (64, 41829.37)])
def test_static_ntk_raises_the_base_to_its_values(width, base):
    assert base_of(NTK(4.0), width) == pytest.approx(base, abs=5e-3)


@given(factor=st.floats(1, 100), half=st.sampled_from([2, 3, 32]), base=st.floats(2, 1e6))
def test_static_ntk_slows_the_slowest_pair_by_the_factor_and_the_fastest_not_at_all(factor, half, base):
    plain, slowed = theta(Rope(base), 2 * half), theta(NTK(factor, base), 2 * half)
    assert slowed[0] == plain[0] == 1
    assert plain[-1] / slowed[-1] == pytest.approx(factor, rel=1e-9)


@pytest.mark.parametrize(
    ("length", "base"), [(None, 10000), (1, 10000), (2048, 10000), (4096, 31082.24), (8192, 74534.83)]
)
def test_dynamic_ntk_raises_the_base_with_the_length_in_use(length, base):
    """transformers issue 25104."""
    assert base_of(DynamicNTK(2.0, 2048), 64, length) == pytest.approx(base, abs=5e-3)


@pytest.mark.parametrize(
    "spec", ["dynamic-ntk:4,original_length=16", "longrope:4,original_length=16,attention_factor=1"]
)
def test_the_length_in_use_is_one_more_than_the_largest_query_position(spec):
    key = vectors(3, 1, 8)[1]
    fits, exceeds = (
        rotated(encodings.parse(spec), key, key, jnp.array([last]), jnp.array([9]))[1] for last in (15, 16)
    )
    np.testing.assert_array_equal(fits, rotated(Rope(), key, key, jnp.array([0]), jnp.array([9]))[1])
    assert np.abs(exceeds - fits).max() > 1e-3


@pytest.mark.parametrize("spec", ["dynamic-ntk:4,original_length=16", "longrope:4,original_length=16"])
def test_a_short_run_after_a_long_one_equals_a_fresh_short_run(spec):
    """vllm issue 5093: a cache of the longer run's frequencies must not outlive it."""
    query, key = vectors(3, 32, 8)
    short, long = jnp.arange(16), jnp.arange(32)
    used, fresh = encodings.parse(spec), encodings.parse(spec)
    run = jax.jit(lambda encoding, x, y, positions: encoding.rotate({}, x, y, positions, positions))
    stretched = run(used, query, key, long)
    after = run(used, query[:16], key[:16], short)
    for found, expected in zip(after, run(fresh, query[:16], key[:16], short), strict=True):
        np.testing.assert_array_equal(found, expected)
    assert np.abs(stretched[1][:16] - after[1]).max() > 0.1


@pytest.mark.parametrize("spec", ["dynamic-ntk:4,original_length=8", "longrope:4,original_length=8"])
@pytest.mark.parametrize("length", [1, 7, 8, 9, 20])
def test_padded_keys_past_the_query_do_not_count_as_length(spec, length):
    encoding = encodings.parse(spec)
    query, key = vectors(4, 24, 8)
    last = jnp.array([length - 1])
    alone = encoding.rotate({}, query[:1], key, last, jnp.minimum(jnp.arange(24), last))[1]
    padded = encoding.rotate({}, query[:1], key, last, jnp.arange(24))[1]
    np.testing.assert_array_equal(padded[:length], alone[:length])


YARN_RATIOS = {0: 1, 8: 1, 9: 1.06122, 15: 1.67742, 16: 1.85714, 20: 3.25, 24: 4}


def test_yarn_divides_each_pair_by_its_value():
    """transformers issue 38224: d = 64, four times 2048; the ramp runs from pair 8 to pair 21."""
    ratio = theta(Rope(), 64) / theta(Yarn(4.0, 2048), 64)
    np.testing.assert_allclose(ratio[list(YARN_RATIOS)], list(YARN_RATIOS.values()), atol=5e-6)
    assert (ratio[21:] == pytest.approx(4)) and ratio[20] < 3.9


def test_the_ramp_of_yarn_ends_between_pairs_unless_truncated():
    """c(32) = 8.066 and c(1) = 20.107, by hand from the formula of arXiv 2309.00071."""
    ratio = theta(Rope(), 64) / theta(Yarn(4.0, 2048, truncate=False), 64)
    ramp = (14 - 8.0661) / (20.1064 - 8.0661)
    assert ratio[14] == pytest.approx(1 / (1 - 0.75 * ramp), rel=1e-3)
    assert ratio[8] == 1
    assert ratio[21] == pytest.approx(4)


@pytest.mark.parametrize(("setting", "gain"), [(0.0, 1.138629), (1.0, 1.0), (1.5, 1.5)])
def test_the_attention_factor_of_yarn_multiplies_logits_by_its_square(setting, gain):
    """0.1 ln 4 + 1 = 1.138629 where it is not given."""
    query, key = vectors(5, 4, 16)
    zero = jnp.zeros(4, int)
    turned_query, turned_key = Yarn(4.0, 2048, attention_factor=setting).rotate({}, query, key, zero, zero)
    np.testing.assert_allclose(turned_query @ turned_key.T, gain**2 * query @ key.T, rtol=1e-5, atol=1e-5)


@given(
    original=st.integers(1, 10**6), factor=st.floats(1, 100), half=st.sampled_from([1, 2, 32]), base=st.floats(2, 1e6)
)
def test_yarn_stays_between_rope_and_interpolation(original, factor, half, base):
    found, plain = theta(Yarn(factor, original, base=base), 2 * half), theta(Rope(base), 2 * half)
    assert (found <= plain * (1 + 1e-12)).all()
    assert (found >= plain / factor * (1 - 1e-12)).all()


@given(
    original=st.sampled_from([2048, 4096, 8192, 32768, 131072]), width=st.sampled_from([32, 64, 80, 128]),
    base=st.sampled_from([1e4, 1e5, 5e5, 1e6, 1e7]),
)  # fmt: skip
def test_the_ramp_of_yarn_in_float32_has_the_bounds_of_float64(original, width, base):
    """A bound is rounded to a whole pair, so an inexact logarithm could move it by one."""
    c = [width * math.log(original / (2 * math.pi * turns)) / (2 * math.log(base)) for turns in (32, 1)]
    low, high = math.floor(c[0]), math.ceil(c[1])
    expected = np.clip((np.arange(width // 2) - low) / (high - low), 0, 1)
    found = Yarn(4.0, original).ramp(width, jnp.asarray(base, jnp.float32))
    np.testing.assert_allclose(found, expected, atol=1e-6)


def test_yarn_interpolates_all_but_the_fastest_pair_where_none_turns_once():
    """The reference, with the end of its ramp before its start, would interpolate no pair."""
    np.testing.assert_allclose(theta(Rope(), 64) / theta(Yarn(4.0, 2), 64), [1, *[4] * 31])


LLAMA_RATIOS = {28: 1, 29: 1.20748, 30: 1.55341, 31: 2.02631, 32: 2.69453, 33: 3.68425, 34: 5.25733, 35: 8, 63: 8}


def test_llama3_divides_each_pair_by_its_value():
    """litgpt issue 1745: d = 128 and Llama 3.1's settings, which are the defaults."""
    llama = farfield.encodings.get("llama3", dim=128)
    assert encodings.config(llama) == {
        "name": "llama3", "factor": 8, "low": 1, "high": 4, "original_length": 8192, "base": 5e5, "layout": "half",
        "fraction": 1,
    }  # fmt: skip
    ratio = theta(Rope(5e5), 128) / theta(llama, 128)
    np.testing.assert_allclose(ratio[list(LLAMA_RATIOS)], list(LLAMA_RATIOS.values()), atol=5e-6)
    assert (ratio[:29] == 1).all()
    np.testing.assert_allclose(ratio[35:], 8)


def test_longrope_divides_by_the_factors_of_the_length_in_use():
    long = LongRope(4.0, 16, (1.0, 1.1, 1.2, 1.3), (2.0, 3.0, 5.0, 7.0))
    plain = theta(Rope(), 8)
    for length, factors in [(None, long.short_factor), (16, long.short_factor), (17, long.long_factor)]:
        np.testing.assert_allclose(plain / theta(long, 8, length), factors)


def test_longrope_without_factors_interpolates_past_the_original_length_only():
    np.testing.assert_array_equal(theta(LongRope(4.0, 16), 8, 16), theta(Rope(), 8))
    np.testing.assert_allclose(theta(LongRope(4.0, 16), 8, 17), theta(PositionInterpolation(4.0), 8))


@pytest.mark.parametrize(("factor", "original", "gain"), [(32.0, 4096, 1.190238), (1.0, 16, 1.0), (4.0, 16, 1.224745)])
def test_the_attention_factor_of_longrope_is_its_value(factor, original, gain):
    """Phi-3-mini-128k: sqrt(1 + ln 32 / ln 4096) = sqrt(17/12)."""
    assert float(LongRope(factor, original).gain(jnp.float32)) == pytest.approx(gain, abs=1e-6)
    assert LongRope(factor, original, attention_factor=1.5).gain(jnp.float32) == 1.5


@pytest.mark.parametrize("name", ["dynamic-ntk", "yarn", "llama3", "longrope"])
def test_an_original_length_of_zero_is_the_longest_training_length_and_an_error_until_known(name):
    encoding = encodings.get(name, original_length=0)
    with pytest.raises(FarfieldError, match=f"{name}:original_length=0 stands for the longest training length"):
        farfield.encodings.get(name, dim=64, original_length=0)
    assert encoding.resolved(24, 48) == dataclasses.replace(encoding, original_length=24)
    encoding.resolved(24, 48).check(64, 48)
    given_length = encodings.get(name, original_length=2048)
    assert given_length.resolved(24, 48) == given_length


def test_a_scaled_encoding_is_built_alone_by_name():
    assert farfield.encodings.get("yarn", dim=64, factor=4, original_length=2048) == Yarn(4.0, 2048)


# xPos


def xpos_logits(query: np.ndarray, key: np.ndarray, n: np.ndarray, m: np.ndarray) -> np.ndarray:
    """The formula of arXiv 2212.10554, pair by pair: rotation by m - n, fading over n - m."""
    distance = (n[:, None] - m[None])[..., None]
    angle = -distance * 10000.0 ** (-np.arange(0, 8, 2) / 8)
    (a, b), (c, d) = np.split(query, 2, axis=1), np.split(key, 2, axis=1)
    a, b = a[:, None], b[:, None]
    pairs = np.cos(angle) * (a * c + b * d) + np.sin(angle) * (b * c - a * d)
    with np.errstate(over="ignore", invalid="ignore"):
        return (np.exp(-distance / FADING) * pairs).sum(axis=-1)


def test_xpos_fades_pairs_at_the_paper_s_rates():
    """zeta_i = (2i/d + 0.4)/1.4: 2/7, 0.4643, 0.6429, 0.8214 over 512 positions at d = 8."""
    rates = np.asarray(XPos().rates(8, jnp.float32))
    np.testing.assert_allclose(np.exp(-512 * rates), [0.285714, 0.464286, 0.642857, 0.821429], rtol=1e-5)


@pytest.mark.parametrize(
    "positions",
    [range(40), [0, 1, 500, 20_000], [0, 3, 10**6 - 5, 10**6], range(10**6, 10**6 + 30), [7, 0, 30_000, 7]],
)
def test_xpos_of_causal_pairs_follows_its_formula_wherever_they_are(positions, float64):
    places = np.array(positions)
    query, key = vectors(6, len(places), 8)
    a, b = XPos().rotate({}, query, key, jnp.asarray(places), jnp.asarray(places))
    expected = xpos_logits(np.asarray(query), np.asarray(key), places, places)
    causal = places[:, None] >= places[None]
    np.testing.assert_allclose(np.asarray(a @ b.T)[causal], expected[causal], rtol=1e-9, atol=2e-8)
    assert np.isfinite(a @ b.T).all()


@pytest.mark.parametrize("query_position", [0, 20_000, 10**6])
def test_xpos_of_one_query_measures_from_it_and_stays_finite_towards_later_keys(query_position):
    places = np.array([0, 1, 19_999, 20_000, 999_000, 10**6])
    query, key = vectors(7, 6, 8)
    at = jnp.array([query_position])
    a, b = XPos().rotate({}, query[:1], key, at, jnp.asarray(places))
    found = np.asarray(a @ b.T)[0]
    assert np.isfinite(found).all()
    angles_exact = Rope().rotate({}, query[:1], key, at, jnp.asarray(places))
    near = np.array([place == query_position for place in places])
    np.testing.assert_allclose(found[near], np.asarray(angles_exact[0] @ angles_exact[1].T)[0][near], rtol=1e-5)
    far = places < query_position - 600_000
    assert np.abs(found[far]).max(initial=0) < 1e-2


def test_xpos_says_not_a_number_where_float32_cannot_hold_its_factors():
    """The exponents of 600 neighbours spread over 599 times 1.2528/16, more than 42, at the scale_base of 16."""
    xpos = XPos(scale_base=16.0)
    query, key = vectors(8, 600, 2)
    positions = jnp.arange(600)
    assert np.isnan(rotated(xpos, query, key, positions, positions)[0]).all()
    closer = positions // 2
    a, b = rotated(xpos, query, key, closer, closer)
    assert np.isfinite(a @ b.T).all()


@given(shift=st.integers(0, 10**6), seed=st.integers(0, 99), count=st.sampled_from([1, 6]))
def test_xpos_depends_on_the_offset_alone_for_one_query_and_for_many(shift, seed, count):
    with double_precision():
        query, key = vectors(seed, 6, 8)
        n, m = jnp.arange(6 - count, 6), jnp.arange(6)
        here = rotated(XPos(scale_base=16.0), query[:count], key, n, m)
        there = rotated(XPos(scale_base=16.0), query[:count], key, n + shift, m + shift)
        np.testing.assert_allclose(there[0] @ there[1].T, here[0] @ here[1].T, atol=1e-8)
