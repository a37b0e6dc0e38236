"""The theorems as properties: deep rows, duality, sufficiency, underdetermination, and what is no argument."""

import dataclasses
import math
from typing import Any

import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from scipy.optimize import linprog
from scipy.sparse import csr_array
from scipy.sparse.csgraph import connected_components
from scipy.special import softmax

from farfield.positions import regimes
from farfield.prediction import feature_map, predict
from farfield.prediction.feature_maps import named
from farfield.prediction.features import FARTHEST, OneHot, OneNumber, Pairs
from farfield.prediction.grid import Grid, differences, grid, targets
from farfield.prediction.least_norm import shortest
from farfield.prediction.line import in_order, line_of
from farfield.prediction.selection import Selected, _by_pairs, ordered, rows_of, select, static_bound
from farfield.prediction.sensitivity import Deep, Sensitivity, openness
from farfield.prediction.transfer import curve, deep_row_count, dual, dual_targets, sufficient_mass
from farfield.tasks import tasks

WIDTH = 8
RELATIVE = [
    "rope", "rope:base=100", "rope:fraction=0.5", "p-rope:share=0.5", "ntk", "yarn", "xpos:scale_base=16",
    "transformer-xl", "t5", "t5:buckets=8,distance=20", "shaw", "clipped:reach=3", "alibi:learned=true",
]  # fmt: skip
TASKS = ["offset:1", "offset:3", "position:0", "position:2", "fraction:2", "root", "logarithm"]
FIXED = regimes.parse("fixed")

relative = st.sampled_from(RELATIVE)
named_tasks = st.sampled_from(TASKS)
seeds = st.integers(0, 2**32 - 1)


def map_of(spec, trained=8, tested=24):
    return feature_map(named(spec, trained, tested), WIDTH)


def rows_for(wanted, first, longest):
    """A grid of rows first - 1 .. longest - 1 with given targets."""
    rows = np.arange(first - 1, longest)
    rows = rows[wanted[rows] >= 0]
    return Grid(rows, wanted[rows], np.arange(longest))


def norm_of(prediction):
    return math.inf if prediction.kernel is None else prediction.norm


# Theorem 2: deep rows


@settings(max_examples=40)
@given(spec=relative, task=named_tasks, seed=seeds, whole=st.booleans())
def test_counting_deep_rows_gives_the_transfer_operators_share(spec, task, seed, whole):
    """For random profiles of every relative encoding; whole numbers make ties."""
    trained, tested = 8, 24
    features, generator = map_of(spec), np.random.default_rng(seed)
    kernel = generator.normal(size=features.size)
    if whole and isinstance(features, OneHot):
        kernel = np.round(kernel)
    wanted = targets(tasks.parse(task), tested)
    deep = rows_for(wanted, trained + 1, tested)
    found = rows_of(features, kernel, deep)
    profile = features.scores(kernel, np.array([tested - 1]), np.arange(tested))[0][::-1]
    gaps = np.abs(np.subtract.outer(profile, profile))
    assume(((gaps < 1e-13) | (gaps > 1e-9)).all())
    assert deep_row_count(profile, wanted, trained, tolerance=1e-11) == found.won.mean()


@given(seed=seeds, at=st.integers(0, 7))
def test_a_strict_global_maximum_selects_its_offset_on_every_row_that_reaches_it(seed, at):
    generator = np.random.default_rng(seed)
    profile = generator.normal(size=24)
    profile[at] = profile.max() + generator.exponential()
    for offset in range(8):
        wanted = np.where(np.arange(24) >= offset, np.arange(24) - offset, -1)
        assert deep_row_count(profile, wanted, 8) == (1 if offset == at else 0)


def test_a_second_maximum_undoes_the_first():
    profile, wanted = np.array([0, 1, 0, 0, 0, 1, 0, 0.0]), np.arange(8) - 1
    assert deep_row_count(profile, wanted, 3) == 2 / 5  # rows 3 and 4; from 5 on two offsets tie
    assert deep_row_count(profile, wanted, 5) == 0


# Proposition 4: duality


@settings(max_examples=30)
@given(spec=relative, task=named_tasks)
def test_reflection_changes_no_norm_and_no_alpha(spec, task):
    """j -> n - j: a relative map with a task, against the key-only map of the same features with the mirrored task."""
    trained, tested = 8, 24
    features, wanted = map_of(spec), targets(tasks.parse(task), tested)
    mirrored, mirror = dual(features), dual_targets(wanted)
    assert mirrored.reads == "key" and dual(mirrored).reads == "offset"
    one = select(features, rows_for(wanted, 1, trained))
    other = select(mirrored, rows_for(mirror, 1, trained))
    assert one.realizes == other.realizes
    if not one.realizes:
        return
    assert one.solution.norm == pytest.approx(other.solution.norm, rel=1e-9)
    here = one.on(rows_for(wanted, trained + 1, tested), 2.0)
    there = other.on(rows_for(mirror, trained + 1, tested), 2.0)
    np.testing.assert_array_equal(here.won, there.won)
    np.testing.assert_allclose(here.mass, there.mass, rtol=1e-6)


def test_fixed_offsets_and_fixed_positions_are_mirror_images():
    for number in (0, 2):
        offset = np.where(np.arange(9) >= number, np.arange(9) - number, -1)
        np.testing.assert_array_equal(dual_targets(offset), targets(tasks.parse(f"position:{number}"), 9))
    pairs = [predict("key-only", "position:3", with_openness=True, draws=2)]
    pairs += [predict("shaw:reach=63", "offset:3", with_openness=True, draws=2)]
    assert pairs[0].alpha == pairs[1].alpha == 1
    assert pairs[0].margin == pytest.approx(pairs[1].margin)
    open_of: Any = [pair.open for pair in pairs]
    for one, other in zip(open_of[0][1:4], open_of[1][1:4], strict=True):  # unseen shares and flip costs
        np.testing.assert_allclose(one, other)


# Theorem 1: sufficiency


@settings(max_examples=30)
@given(spec=relative, offset=st.integers(1, 4), scale=st.floats(0.1, 30))
def test_a_margin_leaves_the_mass_that_it_promises(spec, offset, scale):
    """Where alpha is 1, the softmax of the scores themselves is no less than the bound; one margin says it all."""
    features, wanted = map_of(spec), targets(tasks.parse(f"offset:{offset}"), 24)
    selected = select(features, rows_for(wanted, 1, 8))
    assume(selected.realizes)
    deep = rows_for(wanted, 9, 24)
    found = selected.on(deep, scale)
    assume(found.won.all())
    for row, n in enumerate(deep.rows):
        scores = features.scores(selected.kernel, np.array([n]), np.arange(n + 1))[0]
        mass = softmax(scale * scores)[wanted[n]]
        assert mass == pytest.approx(found.mass[row], rel=1e-9)
        assert mass >= sufficient_mass(found.margin.min(), n + 1, scale) * (1 - 1e-9)


def test_the_bound_is_attained_where_all_others_tie():
    features = OneHot(lambda query, key: key.astype(np.int64), np.arange(20), reads="key")
    kernel = np.where(np.arange(20) == 3, 2.0, 0.5)
    deep = rows_for(targets(tasks.parse("position:3"), 20), 20, 20)
    found = rows_of(features, kernel, deep, logit_scale=3.0)
    assert found.mass[0] == pytest.approx(sufficient_mass(1.5, 20, 3.0), rel=1e-12)


def test_a_predictions_bound_is_below_its_mass_and_0_once_a_row_is_lost():
    for spec, task in (("rope", "offset:2"), ("t5", "offset:1"), ("sinusoidal", "offset:1"), ("fire", "position:0")):
        prediction = predict(spec, task, width=16, with_openness=False)
        assert prediction.bound is not None and prediction.mass is not None and prediction.lead is not None
        assert (prediction.bound <= prediction.mass * (1 + 1e-9)).all()
        lost = np.flatnonzero(prediction.lead <= 0)
        if len(lost):
            assert (prediction.bound[lost[0] :] == 0).all() and prediction.alpha < 1  # pyright: ignore
        else:
            assert (prediction.bound > 0).all() and prediction.alpha == 1


# Underdetermination


@settings(max_examples=12)
@given(
    spec=st.sampled_from([*RELATIVE, "learned", "sinusoidal", "longrope", "fire"]),
    task=st.sampled_from(TASKS[:4]),
    budget=st.floats(1.0, 2.0),
)
def test_the_interval_contains_alpha_and_grows_with_the_budget(spec, task, budget):
    selected = select(map_of(spec, tested=16), grid(tasks.parse(task), 1, 8, FIXED, 8))
    assume(selected.realizes)
    deep = grid(tasks.parse(task), 9, 16, FIXED, 8)
    found = selected.on(deep)
    one, more = (openness(selected, deep, found, size) for size in (budget, budget + 0.5))
    assert one.interval[0] <= found.won.mean() <= one.interval[1]
    assert more.interval[0] <= one.interval[0] and one.interval[1] <= more.interval[1]
    assert (one.flip >= 1).all() and (one.win >= 1).all()
    assert ((one.unseen >= 0) & (one.unseen <= 1)).all()


def opened(spec, task, budget=1.25) -> tuple[Sensitivity, np.ndarray, Selected, Grid]:
    features, trained = map_of(spec, 5, 9), grid(tasks.parse(task), 1, 5, FIXED, 5)
    deep = grid(tasks.parse(task), 6, 9, FIXED, 5)
    selected = select(features, trained)
    return openness(selected, deep, selected.on(deep), budget), selected.on(deep).won, selected, deep


@pytest.mark.parametrize(
    ("spec", "task"),
    [("rope", "offset:1"), ("rope:base=100", "position:0"), ("t5:buckets=8,distance=20", "offset:2"),
     ("sinusoidal", "position:1"), ("sinusoidal", "offset:1"), ("longrope", "offset:1"), ("key-only", "position:1")],
)  # fmt: skip
def test_costs_are_those_of_every_single_program(spec, task):
    """All rows and rivals one by one, without pruning, shared answers or cuts; all trained pairs as constraints."""
    found, won, selected, deep = opened(spec, task, budget=50.0)
    features, trained = selected.features, selected.grid
    if isinstance(features, OneHot):
        cells = features.cells(np.arange(9)[:, None], np.arange(9))
        features = features.holding(cells)
    base = differences(features, trained, *trained.pairs())
    for row in range(len(deep)):
        places = np.delete(np.arange(deep.rows[row] + 1), deep.targets[row])
        every = differences(features, deep, np.full(len(places), row), places)
        ones = np.ones(len(base))
        lose = [shortest(np.concatenate([base, -one[None]]), np.append(ones, 0.0)).norm for one in every]
        win = shortest(np.concatenate([base, every]), np.append(ones, np.full(len(every), 1e-6))).norm
        norm = selected.solution.norm
        # What is skipped without solving is no cheaper than was thought.
        bounds = Deep(selected, deep).view(row).least
        if won[row]:
            assert (bounds <= np.array(lose) / norm * (1 + 1e-9)).all()
            assert found.flip[row] == pytest.approx(min(lose) / norm, rel=1e-6)
            assert found.win[row] == 1
        else:
            assert found.flip[row] == 1
            assert found.win[row] == pytest.approx(win / norm, rel=1e-6) or (win / norm > 50 and found.win[row] > 50)


@settings(max_examples=6)
@given(task=st.sampled_from(TASKS), excess=st.floats(1e-6, 1.0))
def test_learned_positions_attain_both_ends_out_of_range(task, excess):
    """The selected kernel loses every deep row; a touch on each deep target's own cell wins them all."""
    trained, deep = (grid(tasks.parse(task), *lengths, FIXED, 8) for lengths in ((1, 8), (9, 20)))
    selected = select(map_of("learned"), trained)
    budget = 1 + excess
    found = openness(selected, deep, selected.on(deep), budget)
    assert found.interval == (0.0, 1.0)
    assert (found.unseen == 1).all()
    assert selected.on(deep).won.mean() == 0
    features: Any = selected.features
    wider = features.holding(np.concatenate([features.support, features.cells(deep.rows, deep.targets)]))
    winning = np.zeros(wider.size)
    winning[np.searchsorted(wider.support, features.support)] = selected.kernel
    winning[np.searchsorted(wider.support, features.cells(deep.rows, deep.targets))] = 1e-3 * math.sqrt(excess)
    assert np.linalg.norm(winning) <= budget * selected.solution.norm
    assert rows_of(wider, winning, trained).margin.min() > 1 - 1e-9
    assert rows_of(wider, winning, deep).won.all()


@given(reach=st.integers(1, 6), offset=st.integers(1, 6))
def test_a_clipped_table_has_no_unseen_share(reach, offset):
    """Whatever training lengths exceed the reach have shown every row."""
    assume(offset <= reach)
    selected = select(map_of(f"clipped:reach={reach}"), grid(tasks.parse(f"offset:{offset}"), 1, 8, FIXED, 8))
    deep = grid(tasks.parse(f"offset:{offset}"), 9, 30, FIXED, 8)
    assert selected.realizes == (offset < reach or reach == 7)
    if selected.realizes:
        found = openness(selected, deep, selected.on(deep))
        assert not found.unseen.any()
        assert found.entries is not None and not found.entries.any()
        assert found.interval == (1, 1) and math.isinf(found.cheapest)


def test_rope_with_more_coordinates_than_positions_leaves_a_part_unseen():
    """With d <= L0 the trained offsets span everything; beyond, part of a far offset's features is new."""
    deep, task = grid(tasks.parse("offset:1"), 9, 30, FIXED, 8), tasks.parse("offset:1")
    shares = {}
    for width in (4, 8, 32):
        features = feature_map(named("rope", 8, 30), width)
        selected = select(features, grid(task, 1, 8, FIXED, 8))
        shares[width] = openness(selected, deep, selected.on(deep)).unseen.max()
    assert shares[4] == 0
    assert shares[8] < 1e-3 < shares[32] < 1


# What is no argument


def test_outside_the_column_span_is_no_argument():
    """RoPE selects an offset on 256 positions, where no kernel comes near the one-hot scores of that offset.

    A head needs the order of scores, not their values.
    """
    features = feature_map(named("rope", 16, 256), 64)
    columns = features.features(np.full(256, 255), np.arange(256))
    for offset in (1, 3):
        one_hot = (255 - np.arange(256) == offset).astype(float)
        nearest = columns @ np.linalg.lstsq(columns, one_hot)[0]
        assert np.linalg.norm(nearest - one_hot) > 0.8  # of a vector of norm 1
        assert predict("rope", f"offset:{offset}", width=64, tested=256, with_openness=False).alpha == 1


def test_few_frequencies_may_not_carry_an_offset():
    """The relative form alone is no guarantee: a narrow head's profile rises again beyond what it was trained on."""
    alphas = {d: predict("rope", "offset:1", width=d, tested=256, with_openness=False).alpha for d in (8, 64)}
    assert alphas[64] == 1
    assert alphas[8] < 0.2  # pyright: ignore


# The static bound, and the two ways of everything that has two


def feasible(features, of):
    """A margin of 1 on every row, by linear programming."""
    matrix = differences(features, of, *of.pairs())
    size = matrix.shape[1]
    return linprog(np.zeros(size), A_ub=-matrix, b_ub=-np.ones(len(matrix)), bounds=[(None, None)] * size).status == 0


@settings(max_examples=40)
@given(
    task=named_tasks, seed=seeds, size=st.integers(1, 6), kind=st.sampled_from(["offset", "key", "pair"]),
    trained=st.integers(2, 6),
)  # fmt: skip
def test_the_static_bound_is_that_of_linear_programming(task, seed, size, kind, trained):
    table = np.random.default_rng(seed).normal(size=(10, 10, size))
    if kind == "pair":
        features = Pairs(lambda query, key: table[query, key], size)
    else:
        features = OneNumber(lambda x: table[0][x], size, reads=kind)
    one = grid(tasks.parse(task), 1, trained, FIXED, trained)
    both = grid(tasks.parse(task), 1, 9, FIXED, trained)
    assume(len(one) and len(one.pairs()[0]))
    selected = select(features, one)
    assert selected.realizes == feasible(features, one)
    assert static_bound(selected, both).realizable == feasible(features, both)


@settings(max_examples=60)
@given(seed=seeds, cells=st.integers(1, 12))
def test_the_order_of_cells_on_a_line_is_that_of_the_graph(seed, cells):
    """Targets drawn at random, or from a scored table that makes them agree."""
    generator = np.random.default_rng(seed)
    cell, length = generator.integers(0, cells, 12), 12
    rows = np.sort(generator.choice(length, generator.integers(1, length), replace=False))
    values = generator.normal(size=cells)[cell]
    wanted = np.array([values[: n + 1].argmax() if seed % 2 else generator.integers(0, n + 1) for n in rows])
    alone = all((cell[: n + 1] == cell[t]).sum() == 1 for n, t in zip(rows, wanted, strict=True))
    edges = np.zeros((cells, cells), bool)
    for n, t in zip(rows, wanted, strict=True):
        edges[cell[t], cell[: n + 1]] = True
    np.fill_diagonal(edges, False)
    acyclic = connected_components(csr_array(edges), connection="strong")[0] == cells
    assert in_order(cell, rows, wanted) == (alone, acyclic)


@settings(max_examples=30)
@given(seed=seeds, reads=st.sampled_from(["offset", "key"]), whole=st.booleans(), scale=st.floats(0.1, 40))
def test_running_maxima_give_what_all_pairs_give(seed, reads, whole, scale):
    generator = np.random.default_rng(seed)
    values = generator.normal(size=(20, 1)) * 10
    features = OneNumber(lambda x: np.round(values[x]) if whole else values[x], 1, reads=reads)
    of = grid(tasks.parse(TASKS[seed % len(TASKS)]), 1, 20, FIXED, 8)
    margin, rival, mass = _by_pairs(features, np.ones(1), of, scale)
    found = rows_of(features, np.ones(1), of, logit_scale=scale)
    np.testing.assert_allclose(found.margin, margin, atol=1e-12)
    np.testing.assert_allclose(found.mass, mass, rtol=1e-9, atol=1e-290)
    if not whole:
        np.testing.assert_array_equal(found.rival[np.isfinite(margin)], rival[np.isfinite(margin)])


def test_positions_drawn_at_random_are_compared_pair_by_pair():
    """The general order and the general margins, against the line's, on positions that happen to be consecutive."""
    task = tasks.parse("position:0")
    line = grid(task, 1, 8, FIXED, 8)
    general = dataclasses.replace(line, keys=np.broadcast_to(np.arange(8), (len(line), 8)))
    for spec in ("rope", "t5:buckets=8,distance=20", "alibi:learned=true"):
        features = map_of(spec)
        assert line_of(features, line) is not None and line_of(features, general) is None
        assert ordered(features, line).holds == ordered(features, general).holds
        one, other = select(features, line), select(features, general)
        assert one.realizes == other.realizes
        if one.realizes:
            np.testing.assert_allclose(one.kernel, other.kernel, atol=1e-6)


@pytest.mark.parametrize(("spec", "task"), [("rope", "position:0"), ("sinusoidal", "fraction:2"), ("learned", "root")])
def test_a_few_constraints_at_a_time_give_the_same_kernel(spec, task, monkeypatch):
    of = grid(tasks.parse(task), 1, 8, FIXED, 8)
    everything = select(map_of(spec), of)
    monkeypatch.setattr("farfield.prediction.selection.AT_ONCE", 0)
    monkeypatch.setattr("farfield.prediction.selection.ADDED", 2)
    few = select(map_of(spec), of)
    assert len(few.rows) < len(everything.rows) or spec == "learned"  # where every pair binds
    np.testing.assert_allclose(few.kernel, everything.kernel, atol=1e-6 * everything.solution.norm)


def test_many_constraints_are_added_as_they_are_missed():
    """More pairs than are given at once: the kernel of the few that bind is that of all."""
    features = feature_map(named("rope", 64, 128), 16)
    of = grid(tasks.parse("position:0"), 1, 64, FIXED, 64)
    selected = select(features, of)
    everything = shortest(differences(features, of, *of.pairs()), np.ones(len(of.pairs()[0])))
    assert len(selected.rows) < len(of.pairs()[0]) / 2
    assert selected.solution.norm == pytest.approx(everything.norm, rel=1e-7)


def test_curves_count_draws_alike():
    share = curve(np.array([True, False, True, True]), np.array([4, 4, 6, 6]))
    np.testing.assert_array_equal(share.lengths, [5, 7])
    np.testing.assert_array_equal(share.values, [0.5, 0.75])
    assert share.at(6) == 0.5


def test_cells_of_pairs_do_not_overlap():
    features = map_of("learned")
    assert features.cells(np.array(1), np.array(0)) == FARTHEST
