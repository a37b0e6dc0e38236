"""Statistics over seeds: nothing is left out in silence, and every interval says what it is."""

from __future__ import annotations

import dataclasses
import json
from statistics import NormalDist

import jax
import numpy as np
import pytest

from farfield.errors import FarfieldError
from farfield.intervals import bootstrap, over_seeds, wilson
from farfield.results.result import content_of
from farfield.seeds.scores import ModelScores
from farfield.seeds.summary import summarize
from farfield.store.reader import Store
from farfield.store.store import StoreWriter
from helpers.support import small_cell, untrained

LENGTHS = [12, 16, 48]


def outcome(
    seed: int, far: float, near: float = 1.0, *, diverged=False, content: str | None = None, **config
) -> ModelScores:
    """One seed with an accuracy within the trained lengths and one beyond."""
    config = {"encoding": {"name": "rope"}, "seed": seed, "shortest": 8, "longest": 16, "lengths": LENGTHS} | config
    values = {("chance", length): 0.05 for length in LENGTHS}
    for probe, less in (("accuracy", 0.0), ("sequence_accuracy", 0.1)):
        values |= {(probe, length): near - less if length <= 16 else far - less for length in LENGTHS}
    return ModelScores(config, values, diverged, content or str(seed))


# zoology issue 28: five seeds, one of which fails far out.
FAR = [0.98, 0.97, 0.31, 0.99, 0.12]


def test_every_seed_counts_and_is_named():
    (found,) = summarize([outcome(seed, far) for seed, far in enumerate(FAR)], wanted=8)
    row = found.at(48)
    assert (found.n, found.wanted, row.in_range) == (5, 8, False)
    assert row.mean.mean == pytest.approx(0.674)
    assert row.mean.high == 1.0  # .674 + .527, and a share ends at 1
    # sd .424417, t(.975, 4) = 2.776445: 2.776445 * .424417 / sqrt(5)
    assert row.mean.mean - row.mean.low == pytest.approx(0.526984, abs=1e-6)
    assert row.mean.kind == "Student t 95% over 5 seeds"
    assert (row.median, row.least, row.most) == (0.97, 0.12, 0.99)
    assert found.at(48, "sequence_accuracy").mean.mean == pytest.approx(0.574)
    with pytest.raises(FarfieldError, match="accuracy at 49"):
        found.at(49)


def test_a_length_shorter_than_training_is_named_and_tells_nothing_of_fitting():
    seeds = [outcome(seed, 0.2, shortest=14) for seed in range(3)]
    (found,) = summarize(seeds)
    assert [found.at(length).range for length in LENGTHS] == ["shorter", "trained", "longer"]
    assert [found.at(length).in_range for length in LENGTHS] == [False, True, False]
    rows = [row for row in found.to_json()["rows"] if row["probe"] == "accuracy"]
    assert [(row["range"], row["in_range"]) for row in rows] == [
        ("shorter", False),
        ("trained", True),
        ("longer", False),
    ]
    poor = [dataclasses.replace(one, values={**one.values, ("accuracy", 12): 0.0}) for one in seeds]
    assert summarize(poor)[0].fit == found.fit


@pytest.mark.parametrize(
    ("probe", "bounds"),
    [("selected_offset", (-15, 0)), ("selected_offset_without_first", (-14, 0)), ("pin", (0, 15))],
)
def test_the_interval_of_a_place_ends_where_places_end(probe, bounds):
    seeds = [
        dataclasses.replace(one, values={**one.values, (probe, 16): bounds[seed % 2]})
        for seed, one in enumerate(outcome(seed, 0.9) for seed in range(3))
    ]
    (found,) = summarize(seeds, probes=[probe])
    mean = found.at(16, probe).mean
    assert (mean.low, mean.high) == bounds


def test_fitting_is_told_within_the_trained_lengths_alone():
    near = [1.0, 0.96, 0.90, 0.05, 1.0]
    seeds = [outcome(seed, far, close) for seed, (far, close) in enumerate(zip(FAR, near, strict=True))]
    seeds[4] = dataclasses.replace(seeds[4], diverged=True)
    (found,) = summarize(seeds)
    # .90 is (.90 - .05) / .95 = .895 of the way.
    assert found.fit.fitted == ["0", "1"]
    assert (found.fit.rate, found.fit.n) == (0.4, 5)
    assert (found.fit.low, found.fit.high) == wilson(2, 5)
    assert found.fit.kind == "Wilson 95% over 5 seeds"
    assert "0.9 of the way from chance to 1" in found.fit.rule
    assert found.at(48).given_fit.mean == pytest.approx((0.98 + 0.97) / 2)
    assert found.at(48).given_fit.n == 2
    assert found.at(48).mean.mean == pytest.approx((0.98 + 0.97 + 0.31 + 0.99) / 4)
    assert (found.at(48).mean.n, found.at(48).left_out) == (4, ["4"]), "the diverged seed is named and not averaged"
    assert found.diverged == ["4"]
    (lower,) = summarize(seeds, fit=0.89)
    assert lower.fit.fitted == ["0", "1", "2"]
    (none,) = summarize(seeds[3:4])
    assert (none.fit.rate, none.at(48).given_fit) == (0.0, None)
    (unknown,) = summarize([dataclasses.replace(seeds[0], config=dict(seeds[0].config) | {"longest": 10})])
    assert unknown.fit is None


def test_one_seed_has_no_interval_and_equal_seeds_have_one_without_nan():
    (one,) = summarize([outcome(0, 0.5)])
    assert (one.at(48).mean.low, one.at(48).mean.high, one.at(48).mean.n) == (None, None, 1)
    for interval in ("t", "bootstrap"):
        (equal,) = summarize([outcome(seed, 0.7) for seed in range(4)], interval=interval)
        mean = equal.at(48).mean
        assert (mean.low, mean.high) == pytest.approx((0.7, 0.7))
        json.dumps(equal.to_json(), allow_nan=False)


def test_the_bootstrap_is_the_one_it_says_it_is():
    """Against all 5^5 resamples of five values, at the level that a normal sample would need."""
    values = np.array(FAR)
    found = bootstrap(values)
    # Student's 97.5% quantile at 4 degrees is 2.7764; times sqrt(5/4), a normal variable is beyond it with .00095.
    tail = NormalDist().cdf(-2.7764 * np.sqrt(5 / 4))
    every = values[np.stack(np.meshgrid(*[range(5)] * 5)).reshape(5, -1)].mean(axis=0)
    np.testing.assert_allclose([found.low, found.high], np.quantile(every, [tail, 1 - tail]), atol=0.02)
    assert found == bootstrap(values)
    assert found.kind == "expanded percentile bootstrap 95% over 5 seeds"
    many = np.random.default_rng(0).uniform(size=1200)
    np.testing.assert_allclose(bootstrap(many)[1:3], over_seeds(many)[1:3], atol=0.003)
    (summary,) = summarize([outcome(seed, far) for seed, far in enumerate(FAR)], interval="bootstrap")
    assert summary.at(48).mean == found


def test_seeds_asked_for_and_not_there_are_named_and_others_settings_kept_apart():
    seeds = [outcome(0, 0.5), outcome(2, 0.6), outcome(0, 0.1, encoding={"name": "alibi"})]
    rope, alibi = summarize(seeds, wanted=[0, 1, 2])
    assert (rope.seeds, rope.missing, rope.wanted) == (["0", "2"], ["1"], 3)
    assert (alibi.seeds, alibi.missing) == (["0"], ["1", "2"])
    assert rope.config["encoding"] == {"name": "rope"}
    assert "seed" not in rope.config


def test_seeds_that_computed_the_same_are_found():
    seeds = [outcome(seed, 0.5, content=content) for seed, content in enumerate(["a", "b", "a", "c", "b"])]
    (found,) = summarize(seeds)
    assert found.identical == [["0", "2"], ["1", "4"]]


def test_a_value_that_is_no_number_is_left_out_by_name():
    seeds = [outcome(seed, far) for seed, far in enumerate(FAR)]
    seeds[1] = dataclasses.replace(seeds[1], values=dict(seeds[1].values) | {("accuracy", 48): float("nan")})
    (found,) = summarize(seeds)
    assert found.at(48).left_out == ["1"]
    assert found.at(48).mean.n == 4
    assert found.at(12).left_out == []
    json.dumps(found.to_json(), allow_nan=False)


def test_tests_of_one_model_are_one_value():
    """A model tested three times is no three seeds: there is no interval, and nothing is identical."""
    far = [0.5, 0.6, 0.7]
    tests = [outcome(1, value, evaluation_seed=seed, content="w") for seed, value in enumerate(far)]
    (found,) = summarize(tests)
    row = found.at(48)
    assert (found.n, found.wanted, found.cells, found.seeds) == (1, 1, 3, ["1"])
    assert (row.mean.mean, row.mean.low, row.mean.n) == (pytest.approx(0.6), None, 1)
    assert (found.fit.n, found.identical, found.shared) == (1, [], "")


@pytest.mark.parametrize(
    ("seeds", "said"),
    [
        ([(0, 0), (1, 1), (2, 2)], ""),
        ([(0, 5), (1, 6)], ""),
        ([(0, 0), (1, 0)], "all models trained on the batches of data seed 0: the spread is that of weights alone"),
        ([(4, 0), (4, 1)], "all models began from the weights of seed 4: the spread is that of batches alone"),
        ([(0, 0), (0, 1), (1, 0), (1, 1)], "4 models of 2 seeds of weights and 2 of batches: those that share one are"),
    ],
)
def test_seeds_that_are_not_drawn_apart_are_told_of(seeds, said):
    models = [outcome(weights, 0.5, data_seed=batches) for weights, batches in seeds]
    (found,) = summarize(models)
    assert found.shared.startswith(said) and bool(found.shared) == bool(said)
    assert found.n == len(seeds)
    if said:
        assert found.seeds == [f"model {weights}, data {batches}" for weights, batches in seeds]


def test_seeds_that_keep_the_task_are_named_at_every_length():
    (found,) = summarize([outcome(seed, far) for seed, far in enumerate(FAR)])
    # .905 is nine tenths of the way from .05 to 1.
    assert found.at(48).kept == ["0", "1", "3"]
    assert found.at(12).kept == ["0", "1", "2", "3", "4"]
    assert found.at(48).chance == 0.05
    assert (found.at(48, "sequence_accuracy").kept, found.at(48, "sequence_accuracy").chance) == (None, None)


@pytest.mark.parametrize("settings", [{"fit": 0.0}, {"fit": 1.1}, {"fit": float("nan")}, {"interval": "normal"}])
def test_settings_that_make_no_sense_are_refused(settings):
    with pytest.raises(FarfieldError):
        summarize([outcome(0, 0.5)], **settings)


def scores_of(result) -> ModelScores:
    """What a result in memory measured."""
    values = {(found.probe, found.length): found.value for found in result.measurements() if found.length is not None}
    return ModelScores(json.loads(json.dumps(result.cell.config())), values, result.diverged, content_of(result))


def test_a_store_and_its_results_give_the_same_statistics(tmp_path):
    rope_result, learned_result = untrained(small_cell()), untrained(small_cell("learned"))
    again = dataclasses.replace(rope_result, cell=dataclasses.replace(rope_result.cell, seed=1))
    results = [rope_result, learned_result, again]
    store = StoreWriter(tmp_path)
    for result in results:
        store.write(result)
    in_memory = summarize([scores_of(result) for result in results], wanted=2)
    stored = {summary.setting: summary for summary in Store(tmp_path).summaries(wanted=2)}
    assert {summary.setting: summary for summary in in_memory} == stored
    rope = next(summary for summary in in_memory if summary.config["encoding"]["name"] == "rope")
    assert (rope.seeds, rope.identical) == (["0", "1"], [["0", "1"]])
    assert rope.at(16).mean.mean == rope_result.accuracy[1].value
    assert [summary.label for summary in Store(tmp_path).summaries()] == ["learned on offset:2", "rope on offset:2"]
    assert len(Store(tmp_path).summaries("encoding = 'rope'")) == 1
    with pytest.raises(FarfieldError, match="cannot run"):
        Store(tmp_path).summaries("encodng = 'rope'")


def test_a_model_of_which_nothing_is_a_number_is_stored_and_counted(tmp_path):
    """Every weight of a diverged model is NaN, and still its measurements are written."""
    learned_result = untrained(small_cell("learned"))

    def spoilt(tree):
        return jax.tree.map(lambda leaf: np.full_like(leaf, np.nan), tree)

    nothing = dataclasses.replace(
        learned_result,
        parameters=spoilt(learned_result.parameters),
        losses=spoilt(learned_result.losses),
        head_attention=spoilt(learned_result.head_attention),
        head_target_attention=spoilt(learned_result.head_target_attention),
        head_selected=np.zeros_like(learned_result.head_selected),
    )
    StoreWriter(tmp_path).write(nothing)
    store = Store(tmp_path)
    assert store.rows("SELECT diverged FROM cells").rows == [(True,)]
    (found,) = store.summaries()
    assert (found.diverged, found.fit.fitted) == (["0"], [])
    assert StoreWriter(tmp_path).read(learned_result.cell).diverged
