"""Training: randomness that depends on the seed alone, Adam with coupled L2, one compilation a shape."""

from __future__ import annotations

import dataclasses
import functools
import itertools

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy import stats

from farfield import training
from farfield.encodings import encodings
from farfield.encodings.learned import Learned
from farfield.encodings.rope import Rope
from farfield.engine import programs
from farfield.engine.scheduler import run
from farfield.models.head import Head
from farfield.models.transformer import Transformer
from farfield.results.result import ARRAYS
from farfield.rng import Purpose, key_for, uniform_length, uniform_tokens
from farfield.training import Shape
from helpers.support import assert_same_bits, double_precision, make_knobs, quick_jit, small_cell, train_at_once

TINY = Shape(Head(6), vocabulary=5, longest=8, batch=16, steps=6, largest=8)
# Seeds are fixed, so a chi-square below this is no bad luck.
UNLIKELY = 1e-3


def raw(key) -> np.ndarray:
    return np.asarray(jax.random.key_data(key))


@pytest.fixture(scope="module")
def by_seed():
    """Results of seeds 0 to 7, trained together."""
    cells = [small_cell(seed=seed) for seed in range(8)]
    return dict(zip(range(8), run(cells), strict=True))


@pytest.mark.parametrize("seeds", [[3], [3, 1], [5, 6, 7, 1, 3]])
def test_a_seed_gives_the_same_result_bit_for_bit_whatever_it_is_trained_beside(seeds, by_seed):
    """jax issue 7708."""
    for seed, result in zip(seeds, run([small_cell(seed=seed) for seed in seeds]), strict=True):
        expected = by_seed[seed]
        assert result.cell == expected.cell
        assert_same_bits(result.parameters, expected.parameters)
        for name in ARRAYS:
            np.testing.assert_array_equal(getattr(result, name), getattr(expected, name))


def batch(shape, knobs, draw):
    """Tokens and answers of the last row, as a training step draws them."""
    drawn = knobs.task.draw(draw.tokens, draw.length, shape.longest, shape.batch, shape.vocabulary)
    return drawn.tokens, drawn.answers[draw.length - 1]


def test_different_seeds_give_different_results(by_seed):
    assert len({result.losses[-1].item() for result in by_seed.values()}) == 8


def test_a_seed_starts_from_the_same_weights_and_batches_alone_or_in_any_group():
    def start(seed):
        knobs = dataclasses.replace(make_knobs(Rope()), seed=seed, data_seed=seed)
        draws = [training.draw(TINY, knobs, jnp.asarray(step)) for step in (0, 399)]
        return training.initial_parameters(TINY, knobs), [batch(TINY, knobs, draw) for draw in draws]

    alone = quick_jit(start)(jnp.uint32(3))
    together = quick_jit(jax.vmap(start))
    for group in ([0, 1, 2, 3, 4, 5, 6, 7], [3, 1, 1, 1, 1, 1, 1, 1]):
        found = together(jnp.array(group, jnp.uint32))
        assert_same_bits(jax.tree.map(lambda leaf, group=group: leaf[group.index(3)], found), alone)
    other = jax.tree.map(lambda leaf: leaf[1], found)
    assert not np.array_equal(other[0].embedding, alone[0].embedding)
    assert not np.array_equal(other[1][0][0], alone[1][0][0])


def test_the_loss_falls_from_chance_and_the_head_learns(rope_result):
    losses = rope_result.losses
    assert losses[0] == pytest.approx(np.log(20), abs=0.3)
    assert losses[-20:].mean() < 0.8 * losses[:20].mean()
    assert rope_result.accuracy[0].value > 0.5
    assert not rope_result.diverged


def test_lengths_are_uniform_over_the_training_range_and_drawn_once_a_step():
    knobs = make_knobs(Rope(), shortest=8)
    shape = dataclasses.replace(TINY, longest=16)
    draws = jax.jit(jax.vmap(lambda step: training.draw(shape, knobs, step)))(jnp.arange(4000))
    keys, lengths = draws.tokens, draws.length
    assert lengths.shape == (4000,)
    values, counts = np.unique(lengths, return_counts=True)
    assert values.tolist() == list(range(8, 17))
    assert stats.chisquare(counts).pvalue > UNLIKELY
    assert len(np.unique(raw(keys), axis=0)) == 4000


@pytest.mark.parametrize(("shortest", "longest"), [(5, 5), (1, 2)])
def test_the_ends_of_a_length_range_are_both_drawn(shortest, longest):
    draw = jax.vmap(lambda step: uniform_length(key_for(0, Purpose.TRAIN_LENGTH, step), jnp.int32(shortest), longest))
    assert set(np.asarray(draw(jnp.arange(64))).tolist()) == set(range(shortest, longest + 1))


@pytest.mark.parametrize("offset", [1, 3])
def test_every_answer_of_a_batch_is_the_token_that_many_places_before_its_query(offset):
    knobs = make_knobs(Rope(), task=f"offset:{offset}")
    for step in range(5):
        draw = training.draw(TINY, knobs, jnp.asarray(step))
        tokens, answers = batch(TINY, knobs, draw)
        assert tokens.shape == (TINY.longest, TINY.batch)
        np.testing.assert_array_equal(answers, tokens[int(draw.length) - 1 - offset])


@functools.cache
def trained(path: str, weight_decay: float):
    """Start, end and losses of a few steps of a learned-position head, in float64."""
    with double_precision():
        ends = []
        for rate in (0.0, 0.05):
            knobs = make_knobs(Learned(10), learning_rate=rate, weight_decay=weight_decay, seed=7)
            ends.append(compiled_training(path)(knobs))
        return ends[0].parameters, ends[1].parameters, ends[1].losses, knobs


@functools.cache
def compiled_training(path: str):
    return quick_jit(functools.partial(train_at_once, dataclasses.replace(TINY, path=path)))


@pytest.mark.parametrize("weight_decay", [0.0, 0.3])
def test_training_follows_hand_written_adam_with_the_decay_inside_the_encodings_gradient(weight_decay):
    start, end, losses, knobs = trained("lookup", weight_decay)
    shape = dataclasses.replace(TINY, path="dense")
    with double_precision():

        @quick_jit
        def slope(parameters, step):
            draw = training.draw(shape, knobs, step)
            return jax.value_and_grad(training.loss_on_batch)(parameters, shape, knobs, draw)

        value, structure = jax.tree.flatten(jax.tree.map(np.asarray, start))
        decay = jax.tree.leaves(jax.tree.map(lambda leaf: 0.0, dataclasses.replace(start, encoding={})))
        decay.append(weight_decay)  # the encoding's table comes last
        first, second = [np.zeros_like(leaf) for leaf in value], [np.zeros_like(leaf) for leaf in value]
        for step in range(TINY.steps):
            loss, gradient = slope(jax.tree.unflatten(structure, value), jnp.asarray(step))
            assert float(loss) == pytest.approx(float(losses[step]), rel=1e-9)
            for i, leaf in enumerate(jax.tree.leaves(gradient)):
                total = np.asarray(leaf) + decay[i] * value[i]
                first[i] = 0.9 * first[i] + 0.1 * total
                second[i] = 0.999 * second[i] + 0.001 * total**2
                corrected = first[i] / (1 - 0.9 ** (step + 1)), second[i] / (1 - 0.999 ** (step + 1))
                value[i] = value[i] - 0.05 * corrected[0] / (np.sqrt(corrected[1]) + 1e-8)
        for expected, found in zip(value, jax.tree.leaves(end), strict=True):
            np.testing.assert_allclose(found, expected, rtol=1e-6, atol=1e-7)


def test_the_dense_path_trains_to_the_same_parameters_as_the_lookup():
    _, fast, fast_losses, _ = trained("lookup", 0.3)
    _, dense, dense_losses, _ = trained("dense", 0.3)
    np.testing.assert_allclose(fast_losses, dense_losses, rtol=1e-10)
    # float64 rounding, made larger where Adam divides a small gradient by its own size.
    for a, b in zip(jax.tree.leaves(fast), jax.tree.leaves(dense), strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-7, atol=1e-8)


def test_a_run_in_stretches_is_the_run_at_once_and_keeps_its_snapshots_on_the_way(monkeypatch):
    cell = small_cell(steps=7, batch=4, sequences=16, model="head:8", snapshots=(0, 3, 5))
    (whole,) = run([dataclasses.replace(cell, snapshots=())])
    monkeypatch.setattr(programs, "STRETCH", 2)
    (kept,) = run([cell])
    assert_same_bits(kept.parameters, whole.parameters)
    assert_same_bits(kept.losses, whole.losses)
    assert_same_bits(
        kept.at(0).parameters, jax.jit(training.initial_parameters, static_argnums=0)(cell.shape, cell.knobs)
    )
    embeddings = [kept.at(step).parameters.embedding for step in (0, 3, 5)] + [kept.parameters.embedding]
    moved = [np.abs(later - earlier).max() for earlier, later in itertools.pairwise(embeddings)]
    # Adam's first steps are about the learning rate each: 3, 2 and 2 of them.
    assert moved == pytest.approx([3 * cell.learning_rate, 2 * cell.learning_rate, 2 * cell.learning_rate], rel=0.3)


@pytest.mark.slow
def test_a_transformer_computes_fewer_places_and_gets_the_same_loss_and_gradient():
    shape = Shape(Transformer(8, heads=2, layers=1), 5, longest=10, batch=4, path="dense", largest=10)
    with double_precision():
        knobs = make_knobs(encodings.parse("cope:deviation=1"), task="shift:1")
        parameters = training.initial_parameters(shape, knobs)

        @quick_jit
        @jax.vmap
        def both(length):
            draw = training.draw(shape, knobs, length)._replace(length=length)
            reference = jax.value_and_grad(training.loss_on_batch)(parameters, shape, knobs, draw)
            return reference, training.loss_and_gradient(parameters, shape, knobs, draw)

        # The paddings are 5, 7, 8, 9 and 10: below the first, between two, and in some.
        reference, found = both(jnp.array([4, 6, 8, 10]))
        for (path, a), b in zip(jax.tree_util.tree_leaves_with_path(reference), jax.tree.leaves(found), strict=True):
            np.testing.assert_allclose(a, b, rtol=1e-9, atol=1e-12, err_msg=str(path))


@pytest.mark.parametrize(("longest", "expected"), [(1, [1]), (2, [1, 2]), (5, [3, 4, 5]), (24, [12, 15, 18, 21, 24])])
def test_paddings_hold_the_longest_sequence_and_are_few(longest, expected):
    assert training.paddings(longest) == expected


def test_a_sweep_over_everything_that_is_not_a_shape_compiles_once():
    """jax issue 2521."""
    tiny = {"steps": 3, "batch": 8, "sequences": 16, "model": "head:8", "lengths": (12, 16)}
    before = dict(programs.TRACES)
    plain = "kerple-log"  # which has parameters to decay
    run([small_cell(plain, **tiny)])
    assert {name: programs.TRACES[name] - before[name] for name in before} == {"train": 1, "evaluate": 1}
    sweep = itertools.product([plain, "kerple-log:rate=0.5"], ["offset:1", "offset:3"], ["softmax:0.5", "softmax:2"])
    cells = [small_cell(encoding, task, normalizer=normalizer, **tiny) for encoding, task, normalizer in sweep]
    knobs = {"seed": 9, "learning_rate": 0.1, "weight_decay": 0.2, "shortest": 5}
    cells += [small_cell(plain, **tiny | {name: value}) for name, value in knobs.items()]
    cells.append(small_cell(plain, **tiny | {"lengths": (9, 16)}))
    run(cells)
    assert {name: programs.TRACES[name] - before[name] for name in before} == {"train": 1, "evaluate": 1}


def test_every_knob_of_a_sweep_reaches_the_result(by_seed):
    base = by_seed[0]
    for changes in ({"normalizer": "softmax:2"}, {"learning_rate": 1e-3}, {"shortest": 12}, {"task": "offset:3"}):
        changed = run([small_cell(**changes)])[0]
        assert not np.array_equal(changed.losses, base.losses), changes
    rotated = run([small_cell("rope:base=50")])[0]
    assert not np.array_equal(rotated.losses, base.losses)


def test_keys_differ_by_purpose_step_and_seed():
    grid = itertools.product([0, 1, 3, 2**32 - 1], Purpose, [0, 1, 2, 4000])
    keys = [tuple(raw(key_for(jnp.uint32(seed), purpose, step))) for seed, purpose, step in grid]
    assert len(set(keys)) == len(keys) == 4 * len(Purpose) * 4


def test_the_numbers_of_purposes_never_change():
    assert [purpose.value for purpose in Purpose][:4] == [0, 1, 2, 3]
    assert [purpose.name for purpose in Purpose][:4] == [
        "INITIALIZE",
        "TRAIN_LENGTH",
        "TRAIN_TOKENS",
        "EVALUATE_TOKENS",
    ]


@pytest.mark.parametrize("positions", [1, 16, 17])
def test_tokens_are_uniform_over_the_vocabulary_at_every_position(positions):
    tokens = np.asarray(uniform_tokens(jax.random.key(1), positions, 20000, 20))
    assert tokens.shape == (positions, 20000)
    assert tokens.dtype == np.int32
    for row in tokens:
        counts = np.bincount(row, minlength=20)
        assert len(counts) == 20
        assert stats.chisquare(counts).pvalue > UNLIKELY / positions


def test_tokens_at_different_positions_are_independent():
    tokens = np.asarray(uniform_tokens(jax.random.key(2), 8, 50000, 4))
    for one, other in itertools.combinations(range(8), 2):
        pairs = np.bincount(4 * tokens[one] + tokens[other], minlength=16)
        assert stats.chisquare(pairs).pvalue > UNLIKELY / 28, (one, other)


@pytest.mark.parametrize("vocabulary", [2, 3, 65536])
def test_tokens_reach_both_ends_of_the_vocabulary_and_stay_inside(vocabulary):
    tokens = np.asarray(uniform_tokens(jax.random.key(3), 64, 16384, vocabulary))
    assert tokens.min() == 0
    assert tokens.max() == vocabulary - 1
