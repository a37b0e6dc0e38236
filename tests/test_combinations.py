"""Any encoding, normalizer, position regime, task and model train and test together, or are refused with the reason."""

from __future__ import annotations

import dataclasses
import functools
from types import SimpleNamespace
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from farfield import evaluation, training
from farfield.cell import Cell
from farfield.encodings import encodings
from farfield.engine.programs import evaluation_shape
from farfield.engine.scheduler import run
from farfield.errors import FarfieldError
from farfield.evaluation import evaluate
from farfield.models import Inputs, models
from farfield.normalizers import normalizers
from farfield.positions import regimes
from farfield.results.result import from_arrays, to_arrays
from farfield.rng import Purpose, key_for
from farfield.tasks import Positional, tasks
from helpers.support import double_precision, quick_jit, small_cell, the_rest_slow

ADDITION = "addition"
# Whatever else a combination needs to make sense.
NEEDS = {
    "offset": "offset:2",
    "position": "position:1",
    "fraction": "fraction:2",
    "shift": "shift:2",
}
TASKS = [NEEDS.get(name, name) for name in tasks]
# Of tasks that are drawn alike, one.
QUICK_TASKS = ["addition", "copy", "induction", "marker", "mode", "offset:2", "parity", "shift:2"]
REGIMES = the_rest_slow(
    [*regimes, "random-start:64", "random-subset:64", "coupled:most=40", "rescale:rounding=nearest"],
    [*regimes, "rescale:rounding=nearest"],
)


def tiny(**parts: str) -> Cell:
    """A resolved cell whose programs compile in a second."""
    settings = {"steps": 2, "batch": 4, "sequences": 8, "vocabulary": 16, "lengths": (8, 13), "shortest": 6}
    model = models.parse(parts.pop("model", "head"))
    return small_cell(**settings | {"longest": 9} | parts, model=dataclasses.replace(model, width=8))


def a_step_and_a_test(cell: Cell) -> SimpleNamespace:
    """Loss and gradient of one training step, and the tests of a fresh model."""
    shape, knobs = cell.shape, cell.knobs

    @quick_jit
    def both(knobs):
        parameters = training.initial_parameters(shape, knobs)
        draw = training.draw(shape, knobs, jnp.asarray(0))
        loss, gradient = jax.value_and_grad(training.loss_on_batch)(parameters, shape, knobs, draw)
        return loss, gradient, evaluate(evaluation_shape(cell), parameters, knobs, jnp.array(cell.lengths))

    loss, gradient, tests = both(knobs)
    return SimpleNamespace(loss=float(loss), gradient=gradient, tests=jax.tree.map(np.asarray, tests), cell=cell)


def assert_sound(outcome: SimpleNamespace):
    cell, tests = outcome.cell, outcome.tests
    assert np.isfinite(outcome.loss)
    for path, leaf in jax.tree_util.tree_leaves_with_path(outcome.gradient):
        assert np.isfinite(leaf).all(), path
    assert any((np.asarray(leaf) != 0).any() for leaf in jax.tree.leaves(outcome.gradient))
    assert (tests.tested >= cell.sequences).all()
    assert (tests.correct <= tests.tested).all()
    assert (tests.correct_sequences <= cell.sequences).all()
    assert tests.mean_attention.shape == (2, len(cell.model.head_names), 13)
    assert np.isfinite(tests.mean_attention).all()
    assert (tests.mean_attention[0, :, 8:] == 0).all()


# One of each kind; test_lookup_equals_dense.py takes the loss's gradient through every registered one.
@pytest.mark.parametrize("spec", ["rope", "learned", "t5", "shaw", "cope", "none", "dynamic-ntk"])
def test_an_encoding_of_each_kind_trains_and_is_tested(spec):
    outcome = a_step_and_a_test(tiny(encoding=spec))
    assert_sound(outcome)
    np.testing.assert_allclose(outcome.tests.mean_attention.sum(axis=2), 1, rtol=1e-5)


@pytest.mark.parametrize("spec", the_rest_slow(normalizers, ["softmax", "entmax", "linear"]))
@pytest.mark.parametrize("task", ["offset:2", "shift:2"])
def test_every_normalizer_trains_and_is_tested_streaming_and_whole(spec, task):
    outcome = a_step_and_a_test(tiny(normalizer=spec, task=task))
    assert_sound(outcome)
    if normalizers.parse(spec).sums_to_one:
        np.testing.assert_allclose(outcome.tests.mean_attention.sum(axis=2), 1, rtol=1e-5)


@pytest.mark.parametrize("spec", REGIMES)
def test_every_position_regime_trains_and_is_tested(spec):
    assert_sound(a_step_and_a_test(tiny(positions=spec, task="copy" if spec.startswith("coupled") else "offset:2")))


@pytest.mark.parametrize("spec", the_rest_slow(TASKS, QUICK_TASKS))
def test_every_task_trains_and_is_tested(spec):
    model = "transformer:layers=1" if tasks.parse(spec).rows == "all" else "head:heads=2"
    outcome = a_step_and_a_test(tiny(task=spec, model=model))
    assert_sound(outcome)
    has_target = np.isfinite(outcome.tests.target_attention)
    assert has_target.all() or not has_target.any()
    if has_target.all():
        assert ((outcome.tests.selected >= 0) & (outcome.tests.selected <= 1)).all()


@pytest.mark.parametrize("model", list(models))
def test_the_combination_of_the_documentation_runs(model):
    parts = {"encoding": "yarn:factor=4", "positions": "random-subset:2048", "normalizer": "ssmax", "task": "induction"}
    assert_sound(a_step_and_a_test(tiny(model=model, **parts)))


def dense_tests(cell: Cell, parameters, knobs, length: int, draw: int, key, sequences: int):
    """Weights and correct count of the dense path on the tokens and positions of one draw of the streamed test."""
    shape = evaluation_shape(cell)
    pieces = [
        knobs.task.sample(jax.random.fold_in(key, index), evaluation.PIECE, sequences, cell.vocabulary)
        for index in range(-(-shape.longest // evaluation.PIECE))
    ]
    tokens = jnp.concatenate(pieces)[: shape.longest]
    positions = evaluation.test_positions(shape, knobs, jnp.asarray(length), draw, shape.longest)
    inputs = Inputs(tokens, positions, jnp.asarray(length))
    output = cell.model.forward(parameters, knobs.mechanism, inputs, "last", "dense")
    answers = tokens[int(knobs.task.target(jnp.asarray(length - 1)))]
    return np.asarray(output.weights)[:, 0], int((output.class_scores[0].argmax(axis=0) == answers).sum())


@pytest.mark.parametrize(
    ("parts", "draws"),
    [
        *(
            pytest.param({"normalizer": spec, "encoding": "alibi:slope=0.3"}, 1, marks=marks)
            for spec in normalizers
            for marks in ([] if spec in ("softmax", "entmax", "linear", "sigmoid") else [pytest.mark.slow],)
        ),
        ({"model": "head:heads=2", "encoding": "t5:deviation=1"}, 1),
        ({"model": "positional", "encoding": "learned"}, 1),
        ({"positions": "random-subset:64"}, 4),
        ({"encoding": "learned", "test_positions": "interpolate"}, 1),
        ({"encoding": "learned", "test_positions": "clamp"}, 1),
    ],
)
def test_streaming_over_blocks_equals_the_dense_path(parts, draws, monkeypatch):
    monkeypatch.setattr(evaluation, "BLOCK", 16)
    monkeypatch.setattr(evaluation, "DRAWS", 4)
    cell = tiny(**parts | {"lengths": (16, 37)})
    assert cell.streams
    with double_precision():
        knobs = jax.tree.map(
            lambda leaf: leaf.astype(float) if jnp.issubdtype(leaf.dtype, jnp.floating) else leaf, cell.knobs
        )
        parameters = training.initial_parameters(cell.shape, knobs)
        parameters = jax.tree.map(lambda leaf: 3 * leaf.astype(float), parameters)
        found = quick_jit(functools.partial(evaluate, evaluation_shape(cell)))(parameters, knobs, jnp.array([16, 37]))
        for index, length in enumerate((16, 37)):
            key = key_for(knobs.evaluation_seed, Purpose.EVALUATE_TOKENS, length)
            sequences = cell.sequences // draws
            parts_of = [
                dense_tests(cell, parameters, knobs, length, draw, jax.random.fold_in(key, draw) if draws > 1 else key,
                            sequences)
                for draw in range(draws)
            ]  # fmt: skip
            weights = np.concatenate([weights for weights, _ in parts_of], axis=-1)  # [head, key, sequence]
            target = int(knobs.task.target(jnp.asarray(length - 1)))
            others = np.delete(weights[:, :length], target, axis=1).max(axis=1)
            assert int(found.correct[index]) == sum(correct for _, correct in parts_of)
            np.testing.assert_allclose(found.mean_attention[index], weights.mean(axis=-1), atol=1e-9)
            np.testing.assert_allclose(found.target_attention[index], weights[:, target].mean(axis=-1), atol=1e-9)
            np.testing.assert_allclose(found.selected[index], (weights[:, target] > others).mean(axis=-1), atol=1e-12)


def test_whole_sequences_in_chunks_are_counted_each_once(monkeypatch):
    """Any number of sequences, whatever the size of a chunk."""
    cell = dataclasses.replace(tiny(task="shift:2"), sequences=7)
    knobs = cell.knobs
    parameters = training.initial_parameters(cell.shape, knobs)
    for most in (13 * 13, 3 * 13 * 13, 2**20):
        monkeypatch.setattr(evaluation, "MOST_WEIGHTS", most)
        found = quick_jit(functools.partial(evaluate, evaluation_shape(cell)))(parameters, knobs, jnp.array([8, 13]))
        assert found.tested.tolist() == [7 * 6, 7 * 11]
        np.testing.assert_allclose(found.mean_attention.sum(axis=2), 1, rtol=1e-5)


@pytest.mark.slow
def test_a_trained_transformer_shows_the_inside_of_its_heads_and_its_carrier(monkeypatch):
    monkeypatch.setattr(training, "paddings", lambda longest: [longest])  # one length to compile, not five
    settings: dict[str, Any] = {"steps": 150, "batch": 32, "sequences": 64, "snapshots": (0, 140)}
    cell = small_cell(task="shift:1", model="transformer:layers=1,heads=2,width=16", **settings)
    (result,) = run([cell])
    inside = result.observe(12, sequences=5)
    assert list(inside) == ["layer 0 head 0", "layer 0 head 1"]
    assert inside[result.head_name].weights.shape == (5, 12, 12)
    assert result.carrier.peak == -1
    assert result.cell.path == "dense"
    assert result.mean_logits is None
    assert result.accuracy[0].value > 0.5
    assert result.sequence_accuracy[0] <= result.accuracy[0].value
    assert result.target_offset is None
    assert {row.probe for row in result.measurements()} >= {"accuracy", "sequence_accuracy", "overlap", "selected"}
    by_place = result.accuracy_by_place(12, 256)
    assert np.isnan(by_place).tolist() == [True] + 11 * [False]
    assert np.nanmean(by_place) == pytest.approx(result.accuracy[0].value, abs=0.08)
    start, late = result.at(0), result.at(140)
    np.testing.assert_array_equal(
        start.parameters.embedding, training.initial_parameters(cell.shape, cell.knobs).embedding
    )
    assert abs(late.top_energy - result.top_energy).max() < abs(start.top_energy - result.top_energy).max()
    with pytest.raises(FarfieldError, match=r"no weights were kept after step 3: the snapshots are \(0, 140\)"):
        result.at(3)
    again = from_arrays(result.cell, to_arrays(result))
    np.testing.assert_array_equal(again.at(140).top_energy, late.top_energy)


@pytest.mark.parametrize(
    ("parts", "reason"),
    [
        ({"encoding": "t5", "test_positions": "interpolate"}, "lie between whole numbers"),
        ({"positions": "coupled"}, "does not say which of its tokens correspond"),
        ({"positions": "random-subset:8"}, "8"),
        ({"encoding": "learned:rows=20", "positions": "random-subset:64"}, "20 rows"),
        ({"encoding": "cope", "path": "lookup"}, "the lookup path is not possible: .*tokens between"),
        ({"model": "transformer", "path": "lookup"}, "the lookup path is not possible: a transformer"),
        ({"task": "addition", "vocabulary": 10}, "addition needs a vocabulary of at least"),
        ({"model": "head:heads=3"}, "does not divide into 3 heads"),
        ({"encoding": "rope", "model": "head:heads=8"}, "d must be even: got d = 1"),
        ({"task": "shift:2", "lengths": (8, 5000)}, "test length 5000: .*at most 4096"),
        ({"normalizer": "softmax:0"}, "temperature"),
        ({"task": "mode:near=3,far=3"}, "mode"),
    ],
)
def test_a_combination_that_makes_no_sense_is_refused_with_the_reason(parts, reason):
    with pytest.raises(FarfieldError, match=reason):
        tiny(**parts)


def test_the_path_is_the_lookup_wherever_it_is_exact_and_the_cell_says_which():
    for spec in encodings:
        expected = "dense" if encodings.parse(spec).reads_context else "lookup"
        assert tiny(encoding=spec).path == expected
        assert tiny(encoding=spec, model="transformer").path == "dense"
    assert tiny(path="dense").path == "dense"


def test_positional_tasks_stream_on_heads_and_nothing_else_does():
    for spec in TASKS:
        task = tasks.parse(spec)
        assert tiny(task=spec).streams == isinstance(task, Positional)
        assert not tiny(task=spec, model="transformer").streams


def test_regimes_of_training_and_test_are_separate_and_recorded():
    cell = tiny(positions="random-start:64", test_positions="fixed")
    assert cell.config()["positions"]["name"] == "random-start"
    assert cell.config()["test_positions"]["name"] == "fixed"
    assert tiny(positions="random-start:64").config()["test_positions"]["name"] == "random-start"


@pytest.mark.parametrize("positions", the_rest_slow(["coupled", "fixed:100", "random-subset:64"], ["coupled"]))
def test_probes_read_a_learned_table_where_the_regime_put_the_tokens(positions):
    """With coupled positions, the largest is below the length: rows 0 .. 15 are not what training saw."""
    cell = small_cell("learned", "copy", positions=positions, steps=2, sequences=8, batch=8, lengths=(12, 20))
    (result,) = run([cell])
    assert np.isfinite(result.carrier.key)
    assert result.table_norms is None
    assert result.observe(20, sequences=2)["layer 0 head 0"].weights.shape == (2, 20, 20)
    for length, sequences in ((5000, 1), (0, 1), (12, 0), (4096, 100)):
        with pytest.raises(FarfieldError, match="observe"):
            result.observe(length, sequences)
