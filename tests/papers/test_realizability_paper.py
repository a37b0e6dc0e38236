"""The second paper's items: what they run, and that each of their claims can fail."""

import dataclasses
import functools
import math

import numpy as np
import pytest

from farfield.encodings import encodings
from farfield.engine.programs import chunks
from farfield.papers import PAPERS
from farfield.papers.base import Effort
from farfield.papers.realizability import atlas, initialization, separation, theorems
from farfield.papers.realizability.picture import grid_figure
from farfield.papers.realizability.setup import ENCODINGS, LENGTHS, SEEDS, TASKS, score, scores_of, series_of
from farfield.papers.verdicts import judge
from farfield.plotting.style import save
from helpers.support import untrained

PAPER = PAPERS["realizability"]
ITEMS = {item.name: item for item in PAPER.items}
TWO_SEEDS = Effort(most_seeds=2, sequences=64)
ROWS = ("rope", "learned", "none")


@functools.cache
def small_grid():
    """Untrained heads of three encodings on all tasks, two seeds."""
    series = TWO_SEEDS.apply(series_of(ROWS, TASKS, 2))
    return {name: [untrained(cell) for cell in cells] for name, cells in series.items()}


def obeying(results):
    """The same heads, as if they did what was predicted of them."""

    def head(found, predicted):
        lengths = np.array(found.cell.lengths)
        selected = np.where(lengths <= found.cell.longest, 1.0, 0.0)
        selected[lengths > found.cell.longest] = predicted
        right = np.where(selected == 1, found.cell.sequences, 3)
        return dataclasses.replace(found, head_selected=selected[:, None], correct=right)

    return {name: [head(found, score(name, heads).predicted) for found in heads] for name, heads in results.items()}


def judged(results):
    return {verdict.cell: verdict for verdict in (judge("separation", line) for line in separation.compare(results))}


def test_the_regime_has_the_abstracts_count_of_measurements():
    for item in (separation.ITEM, separation.LARGER):
        cells = [cell for group in item.series().values() for cell in group]
        assert sum(len(cell.lengths) for cell in cells) == separation.MEASUREMENTS == 2625
    assert (len(ENCODINGS), len(TASKS), SEEDS, len(LENGTHS)) == (7, 5, 5, 15)
    larger = next(iter(separation.LARGER.series().values()))[0]
    assert (larger.vocabulary, larger.model.head_width) == (64, 128)


def test_the_atlas_holds_every_encoding_and_task_with_ten_seeds_at_the_full_budget():
    planned = atlas.series()
    assert len(planned) == 9 * (len(list(encodings)) - 1)  # cope counts keys by content
    assert all(len(cells) == 10 for cells in planned.values())
    assert PAPER.budgets["full"].of(atlas.ITEM) == Effort()
    assert PAPER.budgets["standard"].of(atlas.ITEM) == Effort(most_seeds=2)


def test_tasks_of_one_encoding_share_a_program():
    cells = [cell for name, group in TWO_SEEDS.apply(series_of(["rope"], TASKS[2:], 2)).items() for cell in group]
    found = chunks(cells)
    assert [len(chunk) for chunk in found] == [4, 2]
    assert len({cell.task for lane in found[0] for cell in lane}) == 2


def test_heads_that_obey_are_separated_and_the_gap_is_whole():
    lines = judged(obeying(small_grid()))
    assert lines["alpha = 1 separates generalizing from other cells exactly, seed by seed"].verdict == "reproduced"
    assert lines["gap in selection between the classes, mean over seeds"].measured == 1
    assert lines["alpha = 1: share of heads that generalize"].measured == 1
    assert lines["alpha < 1: share of heads that generalize"].measured == 0
    assert lines["share of (head, longer length) pairs on which prediction and head agree"].measured == 1
    assert not any(name.startswith("exception") for name in lines)
    assert lines["measurements: encodings x tasks x seeds x lengths"].measured == 3 * 5 * 2 * 15


@pytest.mark.parametrize("name", ["rope on offset:1", "learned on position:3"])
def test_one_head_that_parts_from_its_prediction_is_named(name):
    results = obeying(small_grid())
    first, second = results[name]
    other = np.full_like(first.head_selected, 1.0 if name.startswith("learned") else 0.0)
    results[name] = [dataclasses.replace(first, head_selected=other), second]
    lines = judged(results)
    separated = lines["alpha = 1 separates generalizing from other cells exactly, seed by seed"]
    assert separated.verdict == "differs"
    assert name in separated.explanation
    assert lines[f"exception: {name}, share of heads that generalize"].measured == 0.5


def test_a_class_without_cells_has_no_gap():
    assert math.isnan(separation.gap([(True, 1.0)]))
    assert separation.gap([(True, 0.8), (True, 1.0), (False, 0.1), (False, 0.3)]) == pytest.approx(0.5)


def test_untrained_heads_break_the_claims_that_rest_on_training():
    results = small_grid()
    assert (
        judged(results)["alpha = 1 separates generalizing from other cells exactly, seed by seed"].verdict == "differs"
    )


def test_the_mass_bound_is_broken_by_too_little_mass():
    heads = [
        dataclasses.replace(head, head_target_attention=np.zeros_like(head.head_target_attention))
        for head in small_grid()["rope on offset:1"]
    ]
    bound, *_ = theorems.sufficiency([heads])
    assert bound.values == [0.0]


@pytest.mark.slow
def test_theorems_hold():
    for line in (*theorems.deep_rows(), *theorems.duality(), *theorems.underdetermined(), *theorems.span()):
        assert line.values == [1.0], line.cell


def test_starts_are_compared_with_predictions(monkeypatch):
    monkeypatch.setattr(initialization, "DRAWS", 4)
    series = TWO_SEEDS.apply(initialization.series())
    name = "t5:deviation=1 on offset:2"
    heads = [dataclasses.replace(head, parameters=moved(head.parameters)) for head in map(untrained, series[name])]
    assert initialization.own_rise(heads[0]) == pytest.approx(0.75)
    lines = initialization.predictions(name, heads)
    assert [line.cell.split(", ")[1] for line in lines] == ["default logit scale", "the heads' own logit scale"]
    assert lines[1].values[0] < lines[0].values[0]


def moved(parameters):
    """The bias of offset 2 up, those of 0 and 1 down by a third as much."""
    bias = np.array(parameters.attention.encoding["bias"])
    bias.reshape(-1)[:3] += (-0.25, -0.25, 0.75)
    encoding = {**parameters.attention.encoding, "bias": bias}
    return dataclasses.replace(parameters, attention=dataclasses.replace(parameters.attention, encoding=encoding))


def test_the_picture_is_drawn(tmp_path):
    save(grid_figure(scores_of(small_grid())), tmp_path / "grid.png")
    assert (tmp_path / "grid.png").stat().st_size > 20_000


def test_every_item_names_the_command_that_runs_it():
    for item in PAPER.items:
        name = "separation" if item.name == "separation-64" else item.name
        assert f"--only {name}" in (item.about or "")
