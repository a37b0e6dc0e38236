"""Predictions without training: the atlas, what is left open, and the limits of what can be asked."""

import math

import numpy as np
import pytest

from farfield.errors import FarfieldError
from farfield.positions import regimes
from farfield.prediction import Prediction, predict
from farfield.prediction.atlas import atlas_encodings
from farfield.prediction.grid import grid, targets
from farfield.prediction.sensitivity import BUDGET
from farfield.rng import Purpose
from farfield.tasks import tasks
from helpers.support import the_rest_slow

OFFSETS, FIXED = ("offset:1", "offset:2", "offset:3"), ("position:0", "position:3")
GROWING = ("fraction:2", "fraction:3", "root", "logarithm")
TWO_INDICES = ("learned", "sinusoidal")


def predicted(encoding: str, task: str, **settings) -> Prediction:
    return predict(encoding, task, **{"trained": 16, "tested": 64, "with_openness": False} | settings)


@pytest.mark.parametrize("encoding", ["rope", "t5", "shaw", "clipped", "transformer-xl", "xpos", "ntk", "yarn"])
def test_relative_encodings_carry_fixed_offsets(encoding):
    for task in OFFSETS:
        prediction = predicted(encoding, task)
        assert prediction.alpha == 1
        assert prediction.verdict == "carries over"
        assert prediction.realizable_at_trained and prediction.realizable_at_tested
        assert prediction.witness is not None
        assert prediction.witness.argmax() == int(task[-1])
        assert len(prediction.witness) == 64


def test_one_score_a_key_carries_fixed_positions():
    for task in FIXED:
        prediction = predicted("key-only", task)
        assert prediction.alpha == 1
        assert prediction.margin == pytest.approx(math.sqrt(16 / 15))  # one against fifteen
    for task in OFFSETS:
        assert predicted("key-only", task).realizable_at_trained is False


@pytest.mark.parametrize("task", GROWING)
def test_no_encoding_carries_growing_offsets(task):
    """Those of one number cannot even learn them; those of two can, and do not select them further out."""
    for encoding in ("rope", "t5", "shaw", "clipped", "alibi:learned=true", "none", "key-only", "xpos", "longrope"):
        prediction = predicted(encoding, task)
        assert prediction.realizable_at_trained is False
        assert prediction.realizable_at_tested is False
        assert prediction.alpha is None and prediction.margin is None
        assert prediction.verdict == "not realizable" and prediction.reason
    learned, sinusoidal = (predicted(encoding, task) for encoding in TWO_INDICES)
    assert learned.realizable_at_tested and sinusoidal.realizable_at_tested
    assert learned.alpha == 0
    # One deep row of 48, the first or so, may still go right.
    assert sinusoidal.alpha is not None and sinusoidal.alpha <= 1 / 48


def test_sinusoidal_positions_carry_a_position_and_not_an_offset():
    """The share of offsets depends on the width; at twice the 16 trained positions it is nearly all of them."""
    assert predicted("sinusoidal", "position:3").alpha == 1
    shares = {width: predicted("sinusoidal", "offset:1", width=width).alpha for width in (32, 64, 128)}
    assert shares == pytest.approx({32: 47 / 48, 64: 17 / 48, 128: 3 / 48})
    assert [predicted("sinusoidal", task).alpha for task in OFFSETS] == pytest.approx([17 / 48, 13 / 48, 12 / 48])


def test_one_number_of_either_sign():
    """ALiBi's slope decides which end wins, and no slope selects anything between."""
    assert predicted("alibi:learned=true", "position:0").alpha == 1
    assert predicted("alibi:slope=-1", "position:0").alpha == 1
    assert predicted("alibi:slope=1", "position:0").realizable_at_trained is False
    for encoding in ("alibi", "alibi:learned=true", "kerple-log", "kerple-power", "none"):
        for task in OFFSETS:
            assert predicted(encoding, task).realizable_at_trained is False
    assert predicted("kerple-log", "position:0").realizable_at_trained is False


def test_encodings_that_change_with_the_length_in_use():
    """Heads trained with LongRoPE lose offsets at its switch and keep the first position (docs/encodings.md)."""
    assert predicted("longrope", "offset:1").alpha == 0
    assert predicted("longrope", "offset:1").realizable_at_tested
    assert predicted("longrope", "position:0").alpha == 1
    assert predicted("dynamic-ntk", "offset:1").alpha == 1


def test_fire_carries_the_first_position_and_not_an_offset():
    assert predicted("fire", "position:0").alpha == 1
    offset = predicted("fire", "offset:1")
    assert offset.alpha is not None and offset.alpha < 0.1
    assert "piecewise linear" in offset.note


def test_rows_that_tie_are_told_apart_from_rows_that_are_lost():
    """One rotary plane: offset 8 is the mirror image of the target, so rows 8 to 13 tie, and trained heads win them."""
    found = predict("rope", "offset:1", width=2, trained=8, tested=14, with_openness=False)
    assert (found.alpha, found.tied) == (0, 1)
    assert found.to_json()["tied"] == 1
    assert predict("sinusoidal", "offset:1", with_openness=False).tied == 0


def test_learned_positions_are_undetermined_out_of_range():
    for task in ("offset:2", "position:3", "fraction:2"):
        prediction = predicted("learned", task, with_openness=True, draws=4)
        assert prediction.alpha == 0
        assert prediction.interval == (0, 1)
        assert prediction.verdict == "underdetermined"
        assert prediction.open is not None
        assert (prediction.open.unseen == 1).all() and (prediction.open.flip == 1).all()
        assert prediction.initial is not None and prediction.initial.mean < 0.2


@pytest.mark.parametrize("task", ["offset:1", "position:0", "fraction:2"])
@pytest.mark.parametrize("encoding", the_rest_slow(atlas_encodings(), ["learned", "key-only", "t5", "rope", "alibi"]))
def test_a_verdict_does_not_depend_on_whether_openness_is_wanted(encoding, task):
    full, short = (
        predict(encoding, task, trained=8, tested=24, draws=2, with_openness=wanted) for wanted in (True, False)
    )
    assert (short.verdict, short.start_decides) == (full.verdict, full.start_decides)
    known = {
        key: value for key, value in full.to_json().items() if key not in ("interval", "alpha_under_initialization")
    }
    assert short.to_json() == known | {"interval": None, "alpha_under_initialization": None}
    if encoding == "learned":
        assert short.verdict == "underdetermined"


def test_at_a_budget_of_one_nothing_is_open():
    prediction = predicted("t5", "position:0", with_openness=True, budget=1.0, draws=2)
    assert prediction.interval == (0, 0)


def test_far_buckets_of_t5_are_open():
    """Offsets from 16 on are never trained. To lose a row, one of their buckets must rise to the target's.

    That leaves two entries at 15/17 against fifteen at -2/17, where the selected kernel has one at 15/16.
    """
    prediction = predicted("t5", "offset:2", with_openness=True, draws=4)
    assert prediction.open is not None and prediction.open.entries is not None
    np.testing.assert_array_equal(prediction.open.entries, np.arange(64) >= 16)
    assert prediction.open.unseen[-1] == pytest.approx(48 / 64)
    norms = math.sqrt((2 * 15**2 + 15 * 2**2) / 17**2), math.sqrt(15 / 16)
    np.testing.assert_allclose(prediction.open.flip, norms[0] / norms[1], rtol=1e-9)
    assert prediction.interval == (1, 1)
    assert predicted("t5", "offset:2", with_openness=True, budget=1.38, draws=4).interval == (0, 1)


def test_far_buckets_keep_their_start():
    """Started at zero they stay below the target; N(0, 1) outweighs weak training, and strong training outweighs it."""

    def started(spec, scale):
        initial = predicted(spec, "offset:2", with_openness=True, logit_scale=scale).initial
        assert initial is not None and initial.logit_scale == scale
        return initial

    for scale in (0.5, 5.0):
        assert started("t5", scale)[:4] == (1, 0, 1, 1)
    weak, strong = started("t5:deviation=1", 1.0), started("t5:deviation=1", 5.0)
    assert weak.mean < 0.6 and weak.deviation > 0.2
    assert strong.mean > 0.95
    assert started("clipped:deviation=1", 0.5).mean == 1  # no bucket of it is unseen


def test_rows_of_lengths_never_trained_may_be_left_out():
    """Offsets ask the same of every row, so nothing changes but for encodings of two positions."""
    assert predicted("rope", "offset:2", shortest=8).alpha == 1
    one, all_rows = (predicted("sinusoidal", "offset:1", shortest=shortest) for shortest in (8, 1))
    assert one.margin is not None and all_rows.margin is not None
    assert one.margin > all_rows.margin  # fewer rows ask for less
    assert one.alpha != all_rows.alpha


def test_the_curve_counts_rows_up_to_each_length():
    prediction = predicted("sinusoidal", "offset:1")
    assert prediction.curve is not None and prediction.lead is not None
    np.testing.assert_array_equal(prediction.curve.lengths, np.arange(17, 65))
    assert prediction.curve.at(64) == prediction.alpha
    won = prediction.lead > 0
    for length in (17, 30, 64):
        assert prediction.curve.at(length) == pytest.approx(won[: length - 16].mean())
    assert math.isnan(prediction.curve.at(16))


def test_mass_falls_with_length_for_buckets_and_not_for_rotations():
    t5, rope = predicted("t5", "offset:2"), predicted("rope", "offset:2")
    logits = t5.logit_scale * np.array([15 / 16] + [-1 / 16] * 15 + [0] * 48)
    assert t5.mass_at(64) == pytest.approx(np.exp(logits[0]) / np.exp(logits).sum())
    assert t5.mass_at(17) > 1.3 * t5.mass_at(64)
    assert rope.mass_at(64) > 0.95
    assert math.isnan(rope.mass_at(12))


def test_random_positions_train_every_row_of_a_table():
    """A random start puts deep rows where training was, and learned vectors still do not count from the query."""
    prediction = predicted("learned", "position:0", positions="random-start:64", tested=24)
    assert prediction.realizable_at_trained
    assert prediction.alpha is not None and prediction.alpha < 0.5
    assert predicted("shaw:reach=4", "offset:1", positions="random-subset:64", tested=24).alpha is None


def test_test_positions_may_differ_from_those_of_training():
    """Clamped, all later tokens share a position; interpolated, an offset of 1 is a fraction of one."""
    assert predicted("rope", "offset:1", test_positions="clamp").alpha == 0
    assert predicted("rope", "position:0", test_positions="clamp").alpha == 1
    offset = predicted("rope", "offset:1", test_positions="interpolate")
    assert offset.alpha is not None and offset.alpha < 0.3


def test_grids_of_random_positions_repeat_and_differ_by_row():
    regime, task = regimes.parse("random-subset:64"), tasks.parse("offset:1")
    one, same, other = (grid(task, 4, 8, regime, 8, draws=3, seed=seed) for seed in (0, 0, 1))
    np.testing.assert_array_equal(one.keys, same.keys)
    assert (one.keys != other.keys).any()
    np.testing.assert_array_equal(one.rows, np.repeat(np.arange(3, 8), 3))
    assert len({tuple(line[:4]) for line in one.keys}) > 10
    tested = grid(task, 4, 8, regime, 8, draws=3, purpose=Purpose.EVALUATE_POSITIONS)
    assert (one.keys != tested.keys).any()


def test_targets_are_those_of_the_tasks():
    np.testing.assert_array_equal(targets(tasks.parse("offset:2"), 5), [-1, -1, 0, 1, 2])
    np.testing.assert_array_equal(targets(tasks.parse("position:1"), 4), [-1, 1, 1, 1])
    np.testing.assert_array_equal(targets(tasks.parse("fraction:2"), 5), [0, 0, 1, 1, 2])
    np.testing.assert_array_equal(targets(tasks.parse("root"), 10), [0, 0, 1, 2, 2, 3, 4, 5, 6, 6])
    with pytest.raises(FarfieldError, match="Marker has no target that the query's position alone decides"):
        targets(tasks.parse("marker"), 5)


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"tested": 16}, "tested = 16 must be a whole number from 17"),
        ({"trained": 1}, "trained = 1 must be"),
        ({"shortest": 17}, "shortest = 17 must be a whole number from 1 to 16"),
        ({"budget": 0.5}, "budget = 0.5 must be"),
        ({"draws": 1}, "draws = 1 must be"),
        ({"task": "offset:20"}, "offset:20 reaches outside sequences of length 16"),
        ({"encoding": "cope"}, "cope has no positional kernel"),
        ({"encoding": "ropes"}, "did you mean 'rope'"),
        ({"encoding": "learned:rows=20"}, "does not fit the learned position table"),
        ({"width": 7}, "d must be even"),
        ({"test_positions": "interpolate", "encoding": "learned"}, "no entry for a position between whole numbers"),
        ({"test_positions": "interpolate", "encoding": "t5"}, "has no values for"),
    ],
)
def test_what_cannot_be_asked_is_refused(settings, message):
    given = {"encoding": "rope", "task": "offset:1"} | settings
    with pytest.raises(FarfieldError, match=message):
        predicted(given.pop("encoding"), given.pop("task"), **given)


@pytest.mark.slow
def test_long_grids_are_quick_and_small():
    """L0 = 64 and L = 4,096 for RoPE, everything included, in a process of its own."""
    import json
    import subprocess
    import sys

    code = """
import json, resource, time
from farfield.prediction import predict
start = time.perf_counter()
found = {task: predict("rope", task, trained=64, tested=4096) for task in ("offset:2", "position:0")}
seconds = time.perf_counter() - start
megabytes = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
print(json.dumps([seconds, megabytes, {task: p.alpha for task, p in found.items()}]))
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    seconds, megabytes, alpha = json.loads(done.stdout)
    print(f"{seconds:.1f} s, {megabytes:.0f} MB, {alpha}")
    assert alpha["offset:2"] == 1
    assert alpha["position:0"] < 1e-3
    assert megabytes < 1024
    assert seconds < 20  # of two predictions, on a machine that may be busy


def test_the_budget_is_that_of_the_documentation():
    assert BUDGET == 1.25
