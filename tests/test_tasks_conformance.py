"""What every registered task must do: registering one is enough for it to be tested here."""

from __future__ import annotations

import dataclasses
import functools
import inspect
import json
import math

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from farfield.errors import FarfieldError
from farfield.tasks import Batch, tasks
from farfield.tasks.base import NO_TARGET
from support import double_precision, quick_jit, traced_fields
from task_examples import POSITIONS, TASKS, VOCABULARY, allows, drawn, least_length, least_vocabulary

pytestmark = pytest.mark.usefixtures("strict_dtypes")

# Standard deviations by which a count may miss its expectation. All draws are fixed, so nothing fails by chance twice.
DEVIATIONS = 4.5


def lengths(spec: str) -> list[int]:
    """The shortest allowed lengths, with every remainder of division by three, and a padded batch's own length."""
    least = least_length(tasks.parse(spec))
    return [*range(least, least + 3), POSITIONS]


@pytest.mark.parametrize("spec", TASKS)
def test_a_batch_has_the_shapes_and_types_of_the_interface(spec):
    batch = drawn(spec)
    for array in batch:
        assert array.shape == (POSITIONS, 64)
    assert batch.tokens.dtype == batch.answers.dtype == batch.targets.dtype == np.int32
    assert batch.supervised.dtype == bool


@pytest.mark.parametrize("spec", TASKS)
def test_double_precision_changes_neither_the_draws_nor_their_types(spec):
    expected = drawn(spec)
    with double_precision():
        batch = drawn(spec)
    for name, array, before in zip(Batch._fields, batch, expected, strict=True):
        assert array.dtype == before.dtype, name
        np.testing.assert_array_equal(array, before, name)


@pytest.mark.parametrize("spec", TASKS)
def test_tokens_and_answers_are_of_the_vocabulary_at_every_row_and_padding_is_never_supervised(spec):
    for length in lengths(spec):
        batch = drawn(spec, length=length)
        for array in (batch.tokens, batch.answers):
            assert array.min() >= 0
            assert array.max() < VOCABULARY
        assert not batch.supervised[length:].any()


@pytest.mark.parametrize("spec", TASKS)
def test_the_same_rows_of_every_sequence_are_supervised_at_least_one(spec):
    for length in lengths(spec):
        supervised = drawn(spec, length=length).supervised
        assert supervised.any(axis=0).all()
        assert (supervised == supervised[:, :1]).all()
        if tasks.parse(spec).rows == "last":
            assert supervised[:, 0].nonzero()[0].tolist() == [length - 1]


@pytest.mark.parametrize("spec", TASKS)
def test_a_target_holds_the_answer_and_is_no_later_than_its_row(spec):
    for length in lengths(spec):
        batch = drawn(spec, length=length)
        assert (batch.targets[~batch.supervised] == NO_TARGET).all()
        rows, columns = np.nonzero(batch.targets != NO_TARGET)
        targets = batch.targets[rows, columns]
        assert (targets >= 0).all()
        assert (targets <= rows).all()
        np.testing.assert_array_equal(batch.tokens[targets, columns], batch.answers[rows, columns])
        # A task either has a target at all supervised rows or at none.
        assert len(rows) in (0, batch.supervised.sum())


@pytest.mark.parametrize("spec", TASKS)
def test_draws_repeat_from_their_key_and_change_with_it(spec):
    first, again, other = drawn(spec, seed=3), drawn(spec, seed=3), drawn(spec, seed=4)
    for one, two in zip(first, again, strict=True):
        np.testing.assert_array_equal(one, two)
    assert (first.tokens[:12] != other.tokens[:12]).any(axis=0).mean() > 0.5


@pytest.mark.parametrize("spec", TASKS)
def test_a_length_and_settings_known_beforehand_give_the_same_batch_as_traced_ones(spec):
    known = quick_jit(lambda key: tasks.parse(spec).draw(key, 12, POSITIONS, 64, VOCABULARY))(jax.random.key(0))
    for array, traced in zip(known, drawn(spec), strict=True):
        np.testing.assert_array_equal(array, traced)


@pytest.mark.parametrize("spec", TASKS)
def test_a_seed_alone_among_eight_or_in_another_order_sees_the_same_batches(spec):
    """jax issue 7708 and functorch issue 996: what a run sees must not depend on which others it runs with."""
    task = jax.tree.map(jnp.asarray, tasks.parse(spec))
    alone = drawn(task, seed=3)

    @quick_jit
    @jax.vmap
    def together(seed, length, task):
        return task.draw(jax.random.key(seed), length, POSITIONS, 64, VOCABULARY)

    # Lengths are traced, and settings too, as they are in a sweep.
    sizes = jnp.full(8, 12, jnp.int32)
    settings = jax.tree.map(lambda leaf: jnp.broadcast_to(leaf, (8,)), task)
    for seeds in (list(range(8)), [9, 3, 1, 0, 7, 5, 4, 2]):
        for array, expected in zip(together(jnp.array(seeds, jnp.uint32), sizes, settings), alone, strict=True):
            np.testing.assert_array_equal(array[seeds.index(3)], expected)


@pytest.mark.parametrize("spec", TASKS)
def test_padding_further_leaves_the_sequences_as_they_were(spec):
    if not tasks.parse(spec).padding_invariant:
        pytest.skip("says that it depends on the padding")
    for length in (least_length(tasks.parse(spec)), 12, 13):
        tight, wide = drawn(spec, length=length, positions=13), drawn(spec, length=length)
        for name, array, padded in zip(Batch._fields, tight, wide, strict=True):
            np.testing.assert_array_equal(array[:length], padded[:length], name)


@pytest.mark.parametrize("spec", TASKS)
def test_every_sequence_of_a_small_sample_space_and_no_other_is_drawn_and_chance_is_counted_over_them(spec):
    task = tasks.parse(spec)
    least, vocabulary = least_length(task), least_vocabulary(task) + 1
    counted = 0
    for length in range(least, least + 4):
        space = task.sample_space(vocabulary, length)
        if space > 600 or not allows(task, vocabulary, length):
            continue
        # The chance that a given sequence is missed is exp(-20).
        batch = drawn(spec, length=length, positions=least + 4, sequences=2**14, vocabulary=vocabulary)
        _, first = np.unique(batch.tokens[:length], axis=1, return_index=True)
        assert len(first) == space, length
        answers = batch.answers[batch.supervised[:, 0]][:, first]
        best = [np.bincount(row).max() / space for row in answers]
        assert task.chance(vocabulary, length) == pytest.approx(np.mean(best), rel=1e-9), length
        counted += 1
    assert counted


@pytest.mark.parametrize("spec", TASKS)
def test_all_sequences_of_the_sample_space_are_equally_likely(spec):
    task = tasks.parse(spec)
    length, vocabulary = least_length(task), least_vocabulary(task) + 1
    batch = drawn(spec, length=length, positions=length + 4, vocabulary=vocabulary, sequences=2**14)
    _, counts = np.unique(batch.tokens[:length], axis=1, return_counts=True)
    freedom = len(counts) - 1
    assert freedom > 0
    statistic = ((counts - counts.mean()) ** 2 / counts.mean()).sum()
    assert abs(statistic - freedom) < DEVIATIONS * math.sqrt(2 * freedom)


@pytest.mark.parametrize("spec", TASKS)
def test_the_sample_space_of_a_long_sequence_is_a_number_or_infinite(spec):
    for length, vocabulary in ((500, 1024), (2**24, 20)):
        space = tasks.parse(spec).sample_space(vocabulary, length)
        assert isinstance(space, float)
        assert space > 1e100 or "unique" in spec


def best_guess(batch: Batch) -> np.ndarray:
    """The commonest answer of each supervised row."""
    rows = np.nonzero(batch.supervised[:, 0])[0]
    return np.array([np.bincount(batch.answers[row], minlength=VOCABULARY).argmax() for row in rows])


@pytest.mark.parametrize("spec", TASKS)
def test_the_chance_level_is_what_the_best_guess_without_the_sequence_gets(spec):
    sequences = 2**13
    draw = functools.partial(drawn, spec, sequences=sequences)
    for length in lengths(spec):
        chance = tasks.parse(spec).chance(VOCABULARY, length)
        # Guesses are chosen on one batch and scored on another, or luck would flatter them.
        guess = best_guess(draw(seed=1, length=length))
        test = draw(seed=2, length=length)
        answers = test.answers[test.supervised[:, 0]]
        # Rows of a sequence may depend on each other, so that each sequence counts once.
        slack = DEVIATIONS * math.sqrt(chance * (1 - chance) / sequences)
        # Choosing among near-equals by a finite batch may cost as much again.
        assert chance - 2 * slack <= (answers == guess[:, None]).mean() <= chance + slack
        constant = [(answers == token).mean() for token in range(VOCABULARY)]
        assert max(constant) <= chance + slack


@pytest.mark.parametrize("spec", TASKS)
def test_chance_is_a_proportion_at_every_length(spec):
    task = tasks.parse(spec)
    for length in (*range(least_length(task), 36), 500, 2**16):
        if allows(task, VOCABULARY, length):
            assert 0 < task.chance(VOCABULARY, length) < 1


@pytest.mark.parametrize("spec", TASKS)
@given(first=st.integers(2, 40), second=st.integers(1, 60), more=st.integers(0, 30))
def test_what_is_allowed_stays_allowed_with_more_tokens_and_for_lengths_between(spec, first, second, more):
    task = tasks.parse(spec)
    if allows(task, first, second, second + more):
        assert allows(task, first + 1, second, second + more)
        for length in range(second, second + more + 1):
            assert allows(task, first, length)


@pytest.mark.parametrize("spec", TASKS)
def test_the_configuration_survives_json(spec):
    task = tasks.parse(spec)
    again = tasks.from_config(json.loads(json.dumps(tasks.config(task))))
    assert again == task
    assert hash(again) == hash(task)
    assert len(jax.tree.leaves(task)) == len(traced_fields(task))


@pytest.mark.parametrize("name", list(tasks))
def test_an_unknown_setting_is_refused(name):
    with pytest.raises(FarfieldError, match=f"unknown setting of task '{name}' 'nonsense'"):
        tasks.parse(f"{name}:nonsense=1")


@pytest.mark.parametrize("name", list(tasks))
def test_the_docstring_states_every_setting_and_shows_rows_of_an_example(name):
    text = inspect.getdoc(tasks[name])
    assert text.split("\n")[0].endswith(".") or "\n\n" in text
    for field in dataclasses.fields(tasks[name]):
        assert field.name in text
    for word in ("tokens ", "answers "):
        assert any(line.strip().startswith(word) for line in text.split("\n"))


@pytest.mark.parametrize("spec", TASKS)
def test_coupled_positions_count_from_one_and_do_not_depend_on_the_padding(spec):
    task = tasks.parse(spec)
    if task.coupled_positions(jnp.int32(12), 13) is None:
        return
    for length in lengths(spec):
        positions = np.asarray(task.coupled_positions(jnp.int32(length), POSITIONS))
        assert positions.shape == (POSITIONS,)
        assert positions.dtype == np.int32
        filler = drawn(spec, length=length).tokens[:length, 0] == VOCABULARY - 1
        assert (positions[:length][filler] == 0).all()
        assert positions[:length][~filler].min() == 1
        wide = quick_jit(task.coupled_positions, static_argnums=1)(jnp.int32(length), POSITIONS + 9)
        np.testing.assert_array_equal(wide[:length], positions[:length])


@pytest.mark.parametrize(
    ("spec", "vocabulary", "shortest", "longest", "reason"),
    [
        ("offset:0", 20, 8, 16, "offset:0 must be at least 1"),
        ("offset:8", 20, 8, 16, "offset:8 reaches outside sequences of length 8: use an offset of at most 7"),
        ("offset:3", 20, 1, 16, "use lengths of at least 4"),
        ("shift:0", 20, 8, 16, "shift:0 must be at least 1"),
        ("shift:9", 20, 8, 16, "shift:9 reaches outside sequences of length 8: .* lengths of at least 10"),
        ("position:-1", 20, 8, 16, "position:-1 must be at least 0"),
        ("position:8", 20, 8, 16, "position:8 lies outside sequences of length 8: use a position of at most 7"),
        ("fraction:1", 20, 8, 16, "fraction:1 must be at least 2"),
        ("mode:near=0", 20, 8, 16, "mode:near=0,far=3: near must be at least 1"),
        ("mode:near=3,far=3", 20, 8, 16, "far must be larger than near: swap them, or use offset:3"),
        ("mode:far=8", 20, 8, 16, "mode:near=1,far=8 needs a length of at least 9, .*: got 8"),
        ("mode", 3, 8, 16, "needs a vocabulary of at least 4, for two mode tokens and two others: got 3"),
        ("marker", 20, 1, 16, "marker needs a length of at least 2"),
        ("marker", 3, 8, 16, "marker needs a vocabulary of at least 4"),
        ("induction", 20, 2, 16, "induction needs a length of at least 3"),
        ("induction", 2, 8, 16, "induction needs a vocabulary of at least 3"),
        ("copy", 20, 1, 16, "copy needs a length of at least 2"),
        ("reverse", 3, 8, 16, "reverse needs a vocabulary of at least 4"),
        (
            "copy:unique=true",
            20,
            8,
            48,
            "at length 48 needs 24 different tokens .* vocabulary of at least 26",
        ),
        ("sort:unique=true", 9, 16, None, "sort:unique=true at length 16 .* lengths of at most 15, or unique=false"),
        ("addition", 20, 4, 16, "addition needs a length of at least 5"),
        ("addition", 12, 8, 16, "addition needs a vocabulary of at least 13, for ten digits, plus, equals and filler"),
    ],
)
def test_a_setting_that_cannot_work_is_refused_with_its_reason(spec, vocabulary, shortest, longest, reason):
    with pytest.raises(FarfieldError, match=reason):
        tasks.parse(spec).check(vocabulary, shortest, longest)


@pytest.mark.parametrize("text", ["copy:unique=perhaps", "mode:near=1.5", "shift", "fraction:half"])
def test_a_setting_that_cannot_be_read_is_refused(text):
    with pytest.raises(FarfieldError, match=text.split(":")[0]):
        tasks.parse(text)
