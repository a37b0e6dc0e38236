"""`farfield conjecture`: the cases, the ways of training, what is excluded, and what a counterexample looks like."""

import dataclasses
import json
import math

import numpy as np
import optax
import pytest

import farfield as ff
from farfield.cli import main
from farfield.papers.realizability.conjecture import cases, compare, search
from farfield.papers.realizability.conjecture.train_kernel import ADAM_EPS, ADAM_RATE, WAYS, train
from farfield.prediction.feature_maps import feature_map, named
from farfield.prediction.features import OneHot, OneNumber, Pairs
from farfield.prediction.grid import Grid

FEW = 8
SHAPE = (12, 16)


@pytest.fixture
def small(monkeypatch):
    """One compiled program a way of training, and short training."""
    monkeypatch.setattr(search, "SHAPES", (SHAPE, (12, 64)))
    monkeypatch.setattr(search, "BATCH", FEW)
    monkeypatch.setitem(compare.STEPS, "limit", 1000)
    for way in ("descent", "adam"):
        monkeypatch.setitem(compare.STEPS, way, 500)


def trained_kernels(ready, way, steps):
    length, size = SHAPE
    return train([one.problem for one in ready], way, steps, length=length, size=size, batch=FEW)


def case(features, wanted, trained):
    wanted = np.asarray(wanted)
    rows = np.flatnonzero(wanted >= 0)
    grid = Grid(rows, wanted[rows], np.arange(len(wanted)))
    return cases.Case(0, "normal by pair", "by hand", "by hand", features, grid, trained, len(wanted))


def by_offset(vectors):
    table = np.array(vectors, float)
    return OneNumber(lambda offset: table[np.asarray(offset, np.int64)], table.shape[1], reads="offset")


# Training asks offset 1 to beat offset 0 in two rows and offset 2 in one: w* = (1, 0), and the second coordinate goes
# to log(2) / 2. Offset 3 and beyond tie with offset 1 at w*, and lose by that much to it at every trained kernel.
TIE = case(by_offset([(-1, -1), (0, 0), (-1, 1), *[(0, -1)] * 9]), [-1, *range(11)], 3)


def drawn(count, seed=0):
    """Cases of random families that are decided, with at most 16 features."""
    numbers = (number for number in range(200) if number % len(cases.FAMILIES) != 6)
    prepared = (compare.prepare(cases.draw(seed, number)) for number in numbers)
    ready = (one for one in prepared if isinstance(one, compare.ReadyCase))
    return [next(ready) for _ in range(count)]


def test_a_case_depends_on_its_seed_and_number_alone():
    for number in (0, 1, 4, 5):
        one, again, other = (cases.draw(seed, number) for seed in (7, 7, 8))
        assert (one.rule, one.phi, one.trained, one.tested) == (again.rule, again.phi, again.trained, again.tested)
        np.testing.assert_array_equal(one.grid.targets, again.grid.targets)
        rows = np.arange(one.tested)
        vectors = [known.features.features(rows, rows // 2) for known in (one, again)]
        np.testing.assert_array_equal(*vectors)
        assert other.tested != one.tested or (other.features.features(rows, rows // 2) != vectors[0]).any()


def test_every_positional_task_and_encoding_is_drawn():
    from farfield.encodings import encodings
    from farfield.tasks import tasks
    from farfield.tasks.base import Positional

    positional = {name for name in tasks if issubclass(tasks[name], Positional)}
    assert {name.partition(":")[0] for name in cases.TASKS} == positional
    assert set(cases.SETTINGS) <= set(encodings)
    assert cases.FAMILIES.index(cases.ENCODINGS) == 6


def test_training_is_gradient_descent_and_adam_on_the_cross_entropy():
    """Against plain loops over rows, with softmax and optax's Adam."""
    ready = drawn(3)
    for one, descent, adam in zip(
        ready, *(trained_kernels(ready, way, 25) for way in ("descent", "adam")), strict=True
    ):
        grid, features = one.selected.grid, one.selected.features
        radius = np.linalg.norm(one.problem.matrix, axis=1).max()
        asked = [(int(n), int(target)) for n, target in zip(grid.rows, grid.targets, strict=True) if n > 0]

        def gradient(kernel, asked=asked, features=features):
            total = np.zeros(len(kernel))
            for n, target in asked:
                phi = features.features(np.full(n + 1, n), np.arange(n + 1))
                mass = np.exp(phi @ kernel - (phi @ kernel).max())
                total += phi.T @ (mass / mass.sum()) - phi[target]
            return total / len(asked)

        kernel = np.zeros(features.size)
        for _ in range(25):
            kernel = kernel - gradient(kernel) / radius**2
        np.testing.assert_allclose(descent, kernel, rtol=1e-9, atol=1e-12)
        # Adam's steps are those of a map scaled to a longest difference of 1.
        optimizer = optax.adam(ADAM_RATE, eps=ADAM_EPS)
        kernel = np.zeros(features.size, np.float32)
        state = optimizer.init(kernel)
        for _ in range(25):
            step, state = optimizer.update((gradient(kernel / radius) / radius).astype(np.float32), state)
            kernel = np.asarray(optax.apply_updates(kernel, step))
        np.testing.assert_allclose(adam * radius, kernel, rtol=1e-3, atol=1e-4)


def test_the_limit_has_the_largest_margin_and_decides_rows_as_the_selected_kernel():
    ready = drawn(FEW)
    for one, kernel in zip(ready, trained_kernels(ready, "limit", 20000), strict=True):
        result = compare.judge(one, "limit", kernel)
        assert 1 - 1e-4 < result.margin <= 1 + 1e-9
        assert result.outcome == "agreed"
        apart = np.linalg.norm(kernel / np.linalg.norm(kernel) - one.selected.kernel / one.selected.solution.norm)
        assert apart <= math.sqrt(2 * (1 - result.margin)) + 1e-7
    unfinished = compare.judge(one, "limit", trained_kernels([one], "limit", 1)[0])
    assert (unfinished.outcome, unfinished.margin < 1 - compare.SHORTFALL) == ("not trained", True)


def test_a_tie_at_the_selected_kernel_is_decided_by_training():
    """A case in two dimensions that can be checked by hand: alpha is 0 and the trained kernel wins every row."""
    selected = compare.select(TIE.features, TIE.trained_grid)
    np.testing.assert_allclose(selected.kernel, [1, 0], atol=1e-12)
    found = selected.on(TIE.deep)
    assert not found.won.any()
    np.testing.assert_allclose(found.margin, 0, atol=found.tolerance.max())
    assert compare.prepare(TIE) == compare.EXCLUDED.tied
    # With a row that is decided before the ties begin, there is something to train.
    decided = TIE.features.of(np.arange(12))
    decided[3] = (-3, 0)
    one = compare.prepare(dataclasses.replace(TIE, features=by_offset(decided)))
    assert (int(one.decided.sum()), int(one.tied.sum())) == (1, 8)
    (kernel,) = trained_kernels([one], "descent", 20000)
    assert kernel[1] == pytest.approx(math.log(2) / 2, rel=1e-3)
    result = compare.judge(one, "descent", kernel)
    assert result.outcome == "agreed" and result.rows.won.all() and one.found.won.sum() == 1


def test_one_plane_of_rope_ties_where_its_head_is_right():
    """Offset 1 to length 8 with d = 2: the active rivals are 2 and 7, so offset 2 + 7 - 1 mirrors offset 1."""
    features = feature_map(named("rope", 8, 16), 2)
    one = compare.prepare(case(features, [-1, *range(15)], 8))
    assert one.tied.tolist() == [True] * 6 + [False] * 2
    assert not one.found.won.any()
    for way in ("limit", "descent", "adam"):
        result = compare.judge(one, way, trained_kernels([one], way, 4000)[0])
        assert result.rows.won[:6].all(), way


@pytest.mark.slow
def test_trained_heads_win_the_rows_that_one_plane_of_rope_ties():
    predicted = ff.predict("rope", "offset:1", width=2, trained=8, tested=14)
    assert (predicted.alpha, predicted.open.interval[1]) == (0.0, 1.0)
    heads = ff.train(
        "rope",
        "offset:1",
        model="positional:width=2",
        lengths=(2, 8),
        test=[9, 12, 14, 16],
        seeds=4,
        learning_rate=0.01,
    )
    assert [heads.selected[length].mean for length in (9, 12, 14, 16)] == [1, 1, 1, 0]


def test_what_decides_nothing_is_excluded_with_its_reason():
    nothing = case(Pairs(lambda query, key: np.zeros((*query.shape, 2)), 2), [0] * 8, 4)
    pairs = case(OneHot(lambda query, key: query * 100 + key), [0] * 8, 4)
    many = case(OneHot(lambda query, key: query * 100 + key, np.arange(1200)), [0] * 8, 4)
    late = case(by_offset(np.eye(8)), [-1] * 4 + [0] * 4, 4)
    assert compare.prepare(late) == compare.EXCLUDED.untaught
    assert compare.prepare(nothing) == compare.EXCLUDED.unrealizable
    assert compare.prepare(pairs) == compare.EXCLUDED.unseen
    assert compare.prepare(many) == compare.EXCLUDED.large
    # Row 3 ties with its farthest key; later rows want offset 1, which has no chance, and have a key that is unseen.
    both = by_offset([(1, 0, 0), (0, 0, 0), (0, 0, 0), (1, 0, 0), *[(0, 0, 1)] * 4])
    assert compare.prepare(case(both, [0, 1, 2, 3, 3, 4, 5, 6], 3)) == compare.EXCLUDED.both


def test_a_search_counts_all_it_tried_and_repeats_itself(small):
    found, again = (ff.conjecture(seconds=60, seed=2, cases=28) for _ in range(2))
    known, other = found.to_json(), again.to_json()
    del known["seconds"], other["seconds"]
    assert known == other
    assert found.tried == 28 and not found.survivors and not found.interrupted
    for tally in found.tallies.values():
        assert tally.tried == 4 == tally.decided + sum(tally.excluded.values())
        assert all(sum(tally.outcomes[way].values()) == tally.decided for way in WAYS)
    assert found.rows["compared"] > 100
    assert found.count("limit", "agreed") > 8
    assert "No counterexample" in found.conclusion


def test_a_planted_counterexample_is_found(small, monkeypatch):
    """A selected kernel that is not the one of least norm, as a wrong alpha would be."""

    def wrong(features, of):
        selected = select(features, of)
        solution = selected.solution
        return dataclasses.replace(selected, solution=solution._replace(kernel=-solution.kernel)) if selected.realizes \
            else selected  # fmt: skip

    select = compare.select
    monkeypatch.setattr(compare, "select", wrong)
    monkeypatch.setattr(search, "LONGEST", 20)
    found = search.search(seed=2, cases=7, seconds=60)
    assert 0 < len(found.survivors) == found.count("limit", "parted")
    assert f"{len(found.survivors)} still part" in found.conclusion
    shown = found.survivors[0]
    margins = shown.ready.problem.matrix @ shown.flattest
    assert margins.min() >= 1 - 1e-9
    assert np.abs(shown.flattest).max() <= np.abs(shown.ready.selected.kernel).max() + 1e-9
    example = shown.to_json()
    assert example["survives"] and example["deep_rows"][0]["selected_wins"] != example["deep_rows"][0]["trained_wins"]


def test_refused_cases_are_counted_and_ctrl_c_keeps_what_was_tried(small, monkeypatch):
    def refuse(seed, number):
        raise ff.FarfieldError("no")

    def stop(so_far, elapsed):
        raise KeyboardInterrupt

    found = search.search(cases=100, progress=stop)
    assert (found.interrupted, found.tried) == (True, FEW)
    assert found.unfinished == found.decided > 0 and "not trained to the end" in found.conclusion
    monkeypatch.setattr(search, "draw", refuse)
    found = search.search(cases=100, progress=stop)
    assert (found.interrupted, found.tried, found.decided) == (True, FEW, 0)
    assert found.tallies["waves"].excluded == {compare.EXCLUDED.refused: 1}


def run(capsys, *arguments):
    with pytest.raises(SystemExit) as end:
        main(["conjecture", *arguments])
    shown = capsys.readouterr()
    return end.value.code, shown.out, shown.err


def test_the_command_prints_a_table_or_json(small, capsys):
    code, out, _ = run(capsys, "--cases", "28", "--seed", "2", "--json")
    found = json.loads(out)
    assert code == 0
    assert {"tried", "decided", "families", "rows", "survivors", "examples", "conclusion", "closest_lead"} <= set(found)
    assert set(found["families"]["waves"]["outcomes"]["adam"]) == {"agreed", "parted", "not trained"}
    code, out, _ = run(capsys, "--cases", "28", "--seed", "2")
    assert code == 0
    assert "28 deterministic cases" in out and "No counterexample" in out
    for name, example in found["examples"].items():
        assert f"Case {example['number']}" in out, name


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["--seconds", "0"], "seconds = 0"),
        (["--seconds", "nan"], "seconds = nan"),
        (["--seconds", "soon"], "--seconds"),
        (["--seed", "-1"], "seed = -1"),
        (["--cases", "0"], "cases = 0"),
    ],
)
def test_bad_input_ends_with_2_and_words_that_name_it(capsys, arguments, words):
    code, out, err = run(capsys, *arguments)
    assert (code, out) == (2, "")
    assert words in err
