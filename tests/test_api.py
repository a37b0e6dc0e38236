"""The Python interface: three lines from question to answer."""

import dataclasses
import json
import re

import jax
import numpy as np
import pytest

import farfield as ff
from farfield.api import TrainResult
from farfield.cli.render.train import train_tables
from farfield.probes.dilution import fit
from farfield.results.result import to_arrays
from helpers.support import small_cell, untrained

SMALL = {"steps": 60, "sequences": 256, "model": "head:16", "vocabulary": 8, "test": (12, 16, 24)}


@pytest.fixture(scope="module")
def result():
    return ff.train("rope", "offset:2", seeds=3, **SMALL)


def test_train_returns_what_it_promises(result):
    assert set(result.accuracy) == {12, 16, 24}
    assert all(0 <= estimate.low <= estimate.mean <= estimate.high <= 1 for estimate in result.accuracy.values())
    assert all(estimate.n == 3 for estimate in result.peak.values())
    assert len(result.selected_offset[24]) == 3
    assert result.carrier.peak in range(-23, 1)
    assert np.isfinite(result.dilution.c)


def test_json_holds_every_documented_key_and_no_nan(result):
    content = json.loads(json.dumps(result.to_json(), allow_nan=False))
    assert {"accuracy", "selected_offset", "peak", "carrier", "dilution", "seconds", "versions", "config"} <= set(
        content
    )
    assert set(content["accuracy"]["24"]) == {"mean", "low", "high", "n", "kind"}
    assert {"key", "query", "peak"} <= set(content["carrier"])
    assert {"alpha", "c", "r2"} <= set(content["dilution"])
    assert content["config"]["encoding"] == {"name": "rope", "base": 10000.0, "layout": "half", "fraction": 1.0}
    assert content["in_range"] == {"12": True, "16": True, "24": False}
    assert content["range"] == {"12": "trained", "16": "trained", "24": "longer"}
    assert content["range_means"]["shorter"] is None
    assert content["chance"] == {"12": 1 / 8, "16": 1 / 8, "24": 1 / 8}
    assert len(content["selected_offset"]["24"]) == 3


def words_of(result: TrainResult) -> list[str]:
    """The lines that are printed beside tables."""
    return [part for part in train_tables(result) if isinstance(part, str)]


def test_where_every_seed_diverged_that_is_said_first_and_no_mean_of_nothing():
    found = [dataclasses.replace(untrained(small_cell(seed=seed)), losses=np.array([np.nan])) for seed in range(2)]
    parts = [*train_tables(TrainResult(tuple(found), 1.0))]
    assert parts[0] == "Diverged (loss is not a number): seeds 0, 1; nothing is left to average."
    assert parts == words_of(TrainResult(tuple(found), 1.0)), "no table of what is not there"
    assert not [part for part in parts if "nan" in part.split() or ": ." in part or "add up" in part]
    some = TrainResult((found[0], untrained(small_cell(seed=1))), 1.0)
    assert words_of(some)[0] == "Diverged (loss is not a number): seeds 0; means are over the other 1."
    assert len([*train_tables(some)]) > len(parts)


@pytest.mark.parametrize(
    ("task", "why"),
    [
        ("shift:2", "told apart where only the last token is asked for, unlike here"),
        ("marker", "told apart where the target is at the same place in all sequences, unlike here"),
        ("offset:2", "Right, rule moved, outcompeted and diluted add up to one"),
    ],
)
def test_why_the_ways_to_fail_are_left_out_is_said_in_a_line(task, why):
    found = words_of(TrainResult((untrained(small_cell(task=task)),), 1.0))
    assert len([line for line in found if why in line]) == 1


def test_columns_of_different_tokens_say_so():
    """Mass is a mean over all tokens asked for, which may exceed the peak of the last token's attention."""
    (line,) = [line for line in words_of(TrainResult((untrained(small_cell(task="shift:2")),), 1.0)) if "mass" in line]
    assert "means over all tokens asked for" in line and "of the last token alone" in line
    assert not [line for line in words_of(TrainResult((untrained(small_cell()),), 1.0)) if "mass" in line]


@pytest.mark.parametrize(
    ("heights", "line"),
    [
        ([0.5, 0.4, 0.3, 0.2], "Dilution: peak height ≈ 1/("),
        ([0.48, 0.49, 0.47, 0.49], "Dilution: no law fits (R² = 0."),
        ([0.2, 0.3, 0.4, 0.5], "Dilution: no law fits (R² = 0."),
    ],
)
def test_a_decay_law_is_printed_only_where_it_holds(heights, line):
    found = TrainResult((untrained(small_cell()),), 1.0)
    found.__dict__["dilution"] = fit(np.array(heights), np.array(found.lengths))  # instead of what it would compute
    (said,) = [one for one in words_of(found) if one.startswith("Dilution")]
    assert said.startswith(line)
    assert "+ -" not in said


def test_a_test_shorter_than_training_is_called_so():
    cell = small_cell(shortest=12, lengths=(4, 12, 16, 24), vocabulary=8)
    short = TrainResult((untrained(cell),), 0.0)
    content = json.loads(json.dumps(short.to_json()))
    assert content["in_range"] == {"4": False, "12": True, "16": True, "24": False}
    assert content["range"] == {"4": "shorter", "12": "trained", "16": "trained", "24": "longer"}
    means = {name: content["accuracy"][name]["mean"] for name in ("4", "12", "16", "24")}
    expected = {"shorter": means["4"], "trained": (means["12"] + means["16"]) / 2, "longer": means["24"]}
    assert content["range_means"] == pytest.approx(expected)
    tables = [*train_tables(short)]
    assert list(tables[0].columns[1].cells) == ["shorter", "trained", "trained", "longer"]
    assert tables[0].columns[2].header == "sequences right (chance 0.12)"
    said = [text for text in tables if isinstance(text, str) and text.startswith("Mean share of sequences right")]
    assert [re.findall("[a-z]+(?= [0-9.]+)", text) for text in said] == [["shorter", "trained", "longer"]]


def test_an_offset_that_is_not_selected_is_printed_as_none():
    some = TrainResult(tuple(untrained(small_cell(seed=seed, lengths=(12, 16, 24))) for seed in range(3)), 0.0)
    some.__dict__["selected_offset"] = {12: [-2, None, None], 16: [-2, -2, -2], 24: [None, None, None]}
    table = next(iter(train_tables(some)))
    assert list(table.columns[-1].cells) == ["none (2), -2 (1)", "-2 (3)", "none (3)"]


def test_dynamics_show_the_head_at_its_snapshots_and_at_the_end(tmp_path):
    assert ff.train("rope", "offset:2", seeds=1, **SMALL).dynamics == []
    grown = ff.train("rope", "offset:2", seeds=2, snapshots=[0, 20, 60], out=tmp_path, **SMALL)
    assert [moment.step for moment in grown.dynamics] == [0, 20, 60]
    start, _, end = grown.dynamics
    assert start.key.mean == pytest.approx(np.mean([cell.at(0).carrier.key for cell in grown.cells]))
    assert (end.key, end.query) == (grown.carrier.key, grown.carrier.query)
    assert end.key.mean != start.key.mean
    content = json.loads(json.dumps(grown.to_json(), allow_nan=False))
    assert [moment["step"] for moment in content["dynamics"]] == [0, 20, 60]
    assert content["dynamics"][2]["top_energy"]["n"] == 2
    again = ff.train("rope", "offset:2", seeds=2, snapshots=[0, 20, 60], out=tmp_path, **SMALL)
    assert again.dynamics == grown.dynamics


def test_json_of_one_seed_and_two_lengths_has_null_for_what_does_not_exist():
    one = ff.train("learned", "offset:1", seeds=1, **SMALL | {"test": (12, 16)})
    content = json.loads(json.dumps(one.to_json(), allow_nan=False))
    assert content["dilution"]["c"] is None
    assert content["carrier"]["peak"] is None
    assert content["accuracy"]["12"]["kind"].startswith("Wilson")


def test_a_diverged_seed_is_named_and_not_averaged_away():
    wild = ff.train("rope", "offset:1", seeds=1, **SMALL | {"learning_rate": 1e30})
    assert wild.diverged == [0]
    content = json.loads(json.dumps(wild.to_json(), allow_nan=False))
    assert content["diverged"] == [0]


def test_one_diverged_seed_does_not_spoil_the_others():
    results = [untrained(small_cell(seed=seed)) for seed in range(8)]
    for seed in (6, 7):
        steps = results[seed].cell.steps
        results[seed] = dataclasses.replace(
            results[seed],
            losses=np.full(steps, np.nan, np.float32),
            unanswered=results[seed].tested,
            head_attention=np.full_like(results[seed].head_attention, np.nan),
            head_target_attention=np.full_like(results[seed].head_target_attention, np.nan),
        )
    found = TrainResult(tuple(results), 1.0)
    assert found.diverged == [6, 7]
    kept = TrainResult(tuple(results[:6]), 1.0)
    for name in (
        "accuracy",
        "sequence_accuracy",
        "selected",
        "target_attention",
        "peak",
        "carrier",
        "dilution",
        "ways",
    ):
        assert getattr(found, name) == getattr(kept, name), name
    assert all(estimate.n == 6 for estimate in found.accuracy.values())
    content = json.loads(json.dumps(found.to_json(), allow_nan=False))
    assert content["diverged"] == [6, 7] and content["selected_offset"]["12"][6:] == [None, None]
    assert set(content["unanswered"]["12"]) == {6, 7}


def test_large_finite_weights_have_a_carrier():
    """Squares of weights beyond 1e19 overflow float32."""
    result = untrained(small_cell())
    large = dataclasses.replace(
        result, parameters=jax.tree.map(lambda leaf: leaf * np.float32(1e10), result.parameters)
    )
    assert large.carrier.key == pytest.approx(result.carrier.key, rel=1e-4)


def test_seeds_may_be_named_and_keep_their_results(result):
    again = ff.train("rope", "offset:2", seeds=[2, 0], **SMALL)
    by_seed = {cell.cell.seed: cell for cell in result.cells}
    for cell in again.cells:
        ours, theirs = to_arrays(cell), to_arrays(by_seed[cell.cell.seed])
        assert all(np.array_equal(ours[name], theirs[name]) for name in ours)


def test_a_folder_keeps_results_and_a_changed_setting_is_not_mistaken_for_done(tmp_path):
    first = ff.train("rope", "offset:1", seeds=2, out=tmp_path, **SMALL)
    files = sorted(path.name for path in tmp_path.iterdir())
    assert len(files) == 4
    again = ff.train("rope", "offset:1", seeds=2, out=tmp_path, **SMALL)
    assert sorted(path.name for path in tmp_path.iterdir()) == files
    assert again.accuracy == first.accuracy
    ff.train("rope", "offset:1", seeds=2, out=tmp_path, **SMALL | {"learning_rate": 2e-3})
    assert len(list(tmp_path.iterdir())) == 8


def test_plot_writes_a_figure_without_a_display(result, tmp_path, monkeypatch):
    monkeypatch.setenv("MPLBACKEND", "TkAgg")
    monkeypatch.delenv("DISPLAY", raising=False)
    result.plot(tmp_path / "curves.png")
    assert (tmp_path / "curves.png").read_bytes()[:4] == b"\x89PNG"


@pytest.mark.parametrize(
    ("arguments", "settings", "words"),
    [
        (("roep", "offset:1"), {}, ["roep", "rope"]),
        (("rope", "ofset:1"), {}, ["ofset", "offset"]),
        (("rope", "offset:9"), {}, ["9", "8", "at most 7"]),
        (("rope", "offset:1"), {"model": "head:63"}, ["even", "63"]),
        (("rope", "offset:1"), {"steps": 0}, ["steps", "from 1"]),
        (("rope", "offset:1"), {"lerning_rate": 1}, ["lerning_rate", "learning_rate"]),
        (("learned:rows=16", "offset:1"), {}, ["48", "16 rows", "rows=48"]),
        (("rope", "offset:1"), {"seeds": 0}, ["seeds = 0", "from 1"]),
        (("rope", "offset:1"), {"seeds": []}, ["at least one"]),
        (("rope", "offset:1"), {"seeds": [1, 1]}, ["none twice"]),
        (("rope", "offset:1"), {"seeds": 1.5}, ["1.5", "list of seeds"]),
        (("rope", "offset:1"), {"seed": 4}, ["seed", "unknown setting"]),
        (("rope", "offset:1"), {"seeds": 10**9}, ["seeds", "from 1 to"]),
        (("rope", "offset:1"), {"test": ()}, ["test lengths"]),
        (("rope", "offset:1"), {"test": (16, 16)}, ["twice"]),
        (("rope", "offset:1"), {"learning_rate": float("nan")}, ["learning_rate"]),
        (("rope", "offset:1"), {"weight_decay": -1.0}, ["weight_decay"]),
        (("rope", "offset:1"), {"vocabulary": 5000}, ["vocabulary", "1024"]),
    ],
)
def test_bad_settings_are_refused_with_the_input_the_reason_and_the_mend(arguments, settings, words):
    with pytest.raises(ff.FarfieldError) as caught:
        ff.train(*arguments, **settings)
    for word in words:
        assert word in str(caught.value)


@pytest.mark.parametrize(
    ("settings", "words"),
    [
        ({"out": ""}, "out = '' must name a folder"),
        ({"out": 3}, "out = 3 must name a folder"),
        ({"test": 16}, "test = 16 must be a list"),
        ({"test": "16"}, "test = '16' must be a list"),
        ({"lengths": 16}, "lengths = 16 must be the shortest and longest"),
        ({"lengths": (8,)}, "must be the shortest and longest"),
        ({"lengths": "8:16"}, "must be the shortest and longest"),
        ({"workers": 0}, "workers = 0 must be"),
        ({"seeds": True}, "seeds = True must be"),
        ({"task": 3}, "task = 3 is no registered task"),
        ({"encoding": None}, "encoding = None is no registered encoding"),
    ],
)
def test_arguments_of_the_wrong_kind_are_refused_by_name(settings, words):
    with pytest.raises(ff.FarfieldError, match=words):
        ff.train(**settings)


@pytest.mark.parametrize("settings", [{"dim": "64"}, {"length": 0}, {"length": 2.5}, {"seed": -1}, {"trained": 0}])
def test_show_refuses_numbers_of_the_wrong_kind_by_name(settings):
    with pytest.raises(ff.FarfieldError, match=f"{next(iter(settings))} = "):
        ff.show("rope", **settings)
