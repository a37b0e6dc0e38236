"""Each task against a solver in plain Python, which works from the tokens alone; the numbers that tasks promise."""

from __future__ import annotations

import inspect
import math

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from farfield.errors import FarfieldError
from farfield.rng import PIECE, permutations, tokens_in_pieces, uniform_index, uniform_tokens
from farfield.tasks import overlap, tasks
from farfield.tasks.base import Positional
from farfield.tasks.growing import integer_logarithm, integer_root
from helpers.support import double_precision
from helpers.task_examples import POSITIONS, TASKS, VOCABULARY, allows, drawn, least_length

pytestmark = pytest.mark.usefixtures("strict_dtypes")

# The answers of each task, None where nothing is asked, from the tokens of one sequence, the vocabulary and settings.


def last(tokens, answer):
    return [None] * (len(tokens) - 1) + [answer]


def solve_offset(tokens, vocabulary, offset):
    return last(tokens, tokens[-1 - offset])


def solve_position(tokens, vocabulary, position):
    return last(tokens, tokens[position])


def solve_fraction(tokens, vocabulary, divisor):
    return last(tokens, tokens[math.floor((len(tokens) - 1) / divisor)])


def solve_root(tokens, vocabulary):
    return last(tokens, tokens[-1 - math.isqrt(len(tokens) - 1)])


def solve_logarithm(tokens, vocabulary):
    return last(tokens, tokens[-1 - (len(tokens).bit_length() - 1)])


def solve_shift(tokens, vocabulary, offset):
    return [None] * offset + tokens[:-offset]


def solve_mode(tokens, vocabulary, near, far):
    *content, mode = tokens
    assert max(content) < vocabulary - 2 <= mode
    return last(tokens, content[-near if mode == vocabulary - 2 else -far])


def solve_marker(tokens, vocabulary):
    marked = [token for token in tokens[:-1] if token >= vocabulary / 2]
    assert len(marked) == 1
    assert tokens[-1] < vocabulary / 2
    return last(tokens, marked[0])


def solve_induction(tokens, vocabulary):
    *before, query = tokens
    assert before.count(query) == 1
    assert before.index(query) < len(before) - 1
    return last(tokens, before[before.index(query) + 1])


def solve_echo(tokens, vocabulary, change, unique):
    separator, filler = vocabulary - 2, vocabulary - 1
    assert tokens.count(separator) == 1
    front = tokens.count(filler)
    assert tokens[:front] == [filler] * front
    assert front == len(tokens) % 2
    middle = tokens.index(separator)
    payload = tokens[front:middle]
    echo = change(payload)
    assert [*tokens[middle + 1 :], echo[-1]] == echo
    if unique:
        assert len(set(payload)) == len(payload)
    return [None] * middle + echo


def solve_copy(tokens, vocabulary, unique):
    return solve_echo(tokens, vocabulary, list, unique)


def solve_reverse(tokens, vocabulary, unique):
    return solve_echo(tokens, vocabulary, lambda payload: payload[::-1], unique)


def solve_sort(tokens, vocabulary, unique):
    return solve_echo(tokens, vocabulary, sorted, unique)


def number(digits):
    return sum(digit * 10**power for power, digit in enumerate(digits))


def solve_addition(tokens, vocabulary):
    plus, equals, filler = range(vocabulary - 3, vocabulary)
    front = tokens.count(filler)
    assert tokens[:front] == [filler] * front
    assert front < 3
    middle, end = tokens.index(plus), tokens.index(equals)
    first, second, total = tokens[front:middle], tokens[middle + 1 : end], tokens[end + 1 :]
    assert len(first) == len(second) == len(total) > 0
    assert max(first + second + total) < 10
    digits = [int(digit) for digit in f"{number(first) + number(second):0{len(first) + 1}d}"[::-1]]
    assert total == digits[:-1]
    return [None] * end + digits


def solve_parity(tokens, vocabulary):
    assert set(tokens) <= {0, 1}
    return last(tokens, sum(tokens) % 2)


def solve_majority(tokens, vocabulary):
    assert set(tokens) <= {0, 1}
    return last(tokens, int(tokens.count(1) > tokens.count(0)))


def predict(spec, tokens, vocabulary):
    settings = tasks.config(tasks.parse(spec))
    return globals()[f"solve_{settings.pop('name')}"](tokens, vocabulary, **settings)


@pytest.mark.parametrize("spec", TASKS)
@given(data=st.data(), seed=st.integers(0, 2**32 - 1))
def test_answers_are_those_of_a_solver_that_sees_the_tokens_alone(spec, data, seed):
    task = tasks.parse(spec)
    length = data.draw(st.integers(least_length(task), POSITIONS), label="length")
    batch = drawn(spec, seed=seed, length=length)
    for tokens, answers, supervised in zip(batch.tokens.T, batch.answers.T, batch.supervised.T, strict=True):
        expected = predict(spec, tokens[:length].tolist(), VOCABULARY)
        got = [
            int(answer) if asked else None for answer, asked in zip(answers[:length], supervised[:length], strict=True)
        ]
        assert got == expected


def read(text, row):
    """Numbers of the lines of an example that begin with a word, None for a dot; a wide gap begins a remark."""
    for line in text.split("\n"):
        if line.strip().startswith(f"{row}  "):
            numbers, *_ = line.strip().removeprefix(row).split(" " * 8)
            yield [None if word == "." else int(word) for word in numbers.split()]


# The settings and the vocabulary that the examples of the docstrings name.
EXAMPLES = [
    ("offset:2", 20),
    ("position:1", 20),
    ("fraction:2", 20),
    ("root", 20),
    ("logarithm", 20),
    ("shift:2", 20),
    ("mode", 12),
    ("marker", 20),
    ("induction", 20),
    ("copy", 12),
    ("reverse", 12),
    ("sort", 12),
    ("addition", 13),
    ("parity", 20),
    ("majority", 20),
]


@pytest.mark.parametrize(("spec", "vocabulary"), EXAMPLES)
def test_the_rows_that_a_docstring_shows_are_right(spec, vocabulary):
    task = tasks.parse(spec)
    text = inspect.getdoc(type(task))
    shown = list(zip(read(text, "tokens"), read(text, "answers"), strict=True))
    assert shown
    for tokens, answers in shown:
        assert answers == predict(spec, tokens, vocabulary)
        for coupled in read(text, "coupled"):
            positions = task.coupled_positions(jnp.int32(len(tokens)), len(tokens))
            assert positions.tolist() == coupled


def test_every_task_has_an_example_to_check():
    assert {spec.split(":")[0] for spec, _ in EXAMPLES} == set(tasks)


TARGETS = {
    "root": lambda n: n - math.isqrt(n),
    "logarithm": lambda n: n - ((n + 1).bit_length() - 1),
    "fraction:2": lambda n: n // 2,
    "fraction:3": lambda n: n // 3,
    "position:7": lambda n: 7,
    "offset:7": lambda n: n - 7,
}
# Where square roots and logarithms step, up to the longest test: beside every square and every power of two.
STEPS = sorted(
    {max(0, n + by) for k in range(4097) for n in (k * k, 2 ** (k % 25)) for by in (-2, -1, 0, 1)} & set(range(2**24))
)


@pytest.mark.parametrize("spec", TARGETS)
def test_targets_are_exact_whole_numbers_wherever_they_step(spec):
    task = jax.tree.map(jnp.int32, tasks.parse(spec))
    got = jax.jit(lambda task, n: task.target(n))(task, jnp.array(STEPS, jnp.int32))
    assert got.dtype == jnp.int32
    assert got.tolist() == [TARGETS[spec](n) for n in STEPS]


@given(n=st.integers(0, 2**31 - 2))
def test_roots_and_logarithms_are_exact_up_to_the_largest_whole_number(n):
    assert int(integer_root(jnp.int32(n))) == math.isqrt(n)
    assert int(integer_logarithm(jnp.int32(n + 1))) == (n + 1).bit_length() - 1
    with double_precision():
        assert int(integer_root(jnp.asarray(n))) == math.isqrt(n)
        assert int(integer_logarithm(jnp.asarray(n + 1))) == (n + 1).bit_length() - 1


@given(n=st.integers(0, 500), reach=st.integers(0, 500))
def test_a_fixed_position_is_the_reflection_of_a_fixed_offset(n, reach):
    if not 1 <= reach <= n:
        return
    offset, position = tasks.get("offset", offset=reach), tasks.get("position", position=reach)
    assert isinstance(offset, Positional)
    assert isinstance(position, Positional)
    assert int(position.target(jnp.int32(n))) == n - int(offset.target(jnp.int32(n)))


@pytest.mark.parametrize("task", ["marker", "induction"])
def test_the_place_that_a_query_must_find_is_uniform(task):
    length, sequences = 12, 2**14
    targets = drawn(task, length=length, sequences=sequences).targets[length - 1]
    places = np.bincount(targets, minlength=length)
    allowed = places[:11] if task == "marker" else places[1:11]
    assert allowed.sum() == sequences
    assert abs(allowed - sequences / len(allowed)).max() < 4.5 * math.sqrt(sequences / len(allowed))


@pytest.mark.parametrize("spec", ["copy", "reverse", "copy:unique=true"])
@given(length=st.integers(2, POSITIONS))
def test_an_answer_and_its_source_share_a_position_next_to_that_of_the_row_that_asks(spec, length):
    task = tasks.parse(spec)
    batch = drawn(spec, length=length)
    positions = np.asarray(task.coupled_positions(jnp.int32(length), POSITIONS))
    rows = batch.supervised[:, 0].nonzero()[0]
    for row in rows:
        source = positions[batch.targets[row, 0]]
        assert source == positions[row] + (-1 if spec == "reverse" else 1)
        if row + 1 < length:
            assert positions[row + 1] == source


@given(size=st.integers(1, 9), front=st.integers(0, 2))
def test_digits_of_equal_significance_share_a_position(size, front):
    """The reference (HanseulJo/position-coupling, src/data/addition.py) with its operands reversed too.

    There, with zero padding and start 1, operands have positions 2 .. n + 1 and the signs n + 2, and the sum of n + 1
    digits 1 .. n + 1: mirrored, the signs have 1 and the least significant digits 2.
    """
    length = 3 * size + 2 + front
    positions = tasks.parse("addition").coupled_positions(jnp.int32(length), POSITIONS)[:length].tolist()
    digits = [place + 2 for place in range(size)]
    assert positions == [0] * front + digits + [1] + digits + [1] + digits


def test_long_carries_are_handed_on():
    batch = drawn("addition", length=32, sequences=2**14)
    digits = batch.tokens[:32].T
    nines = (digits[:, :10] + digits[:, 11:21] == 9).sum(axis=1)
    assert nines.max() >= 5
    for tokens, answers in zip(digits[nines >= 4], batch.answers[:32].T[nines >= 4], strict=True):
        assert number(answers[21:32].tolist()) == number(tokens[:10].tolist()) + number(tokens[11:21].tolist())


@pytest.mark.parametrize("length", [2, 3, 4, 7, 10, 48, 1000])
def test_the_chance_of_majority_is_one_half_and_half_the_share_of_ties(length):
    ties = 0 if length % 2 else math.comb(length, length // 2) / 2**length
    assert tasks.parse("majority").chance(VOCABULARY, length) == pytest.approx(0.5 + ties / 2, rel=1e-12)


@pytest.mark.parametrize(("length", "chance"), [(5, 0.325), (8, 0.705 / 3), (11, 0.8005 / 4)])
def test_the_chance_of_addition_counts_the_last_carry(length, chance):
    """With n digits, (n / 10 + (1 + 10**-n) / 2) / (n + 1)."""
    assert tasks.parse("addition").chance(VOCABULARY, length) == pytest.approx(chance, rel=1e-12)


@pytest.mark.parametrize("spec", ["sort", "sort:unique=true"])
@pytest.mark.parametrize(("content", "size"), [(3, 2), (4, 3), (5, 5), (2, 2)])
def test_the_chance_of_sorting_is_counted_over_all_payloads(spec, content, size):
    payloads = np.stack(np.meshgrid(*[np.arange(content)] * size), -1).reshape(-1, size)
    if "unique" in spec:
        payloads = np.array([payload for payload in payloads if len(set(payload)) == size])
    ranked = np.sort(payloads, axis=1)
    best = [np.bincount(column).max() / len(ranked) for column in ranked.T]
    assert tasks.parse(spec).chance(content + 2, 2 * size) == pytest.approx(np.mean(best), rel=1e-12)


@pytest.mark.parametrize("draws", [0, 1, 20, 64, 500])
def test_overlap_is_the_measured_share_of_test_sequences_seen_in_training(draws):
    expected = overlap(tasks.parse("parity"), VOCABULARY, 6, draws)
    shares = []
    tests, training = drawn("parity", seed=1, length=6, sequences=2**14), drawn("parity", length=6, sequences=2**14)
    weights = 1 << np.arange(6)
    seen_later, seen = weights @ tests.tokens[:6], weights @ training.tokens[:6]
    for run in range(0, 2**14 - draws, max(draws, 64)):
        shares.append(np.isin(seen_later, seen[run : run + draws]).mean())
    slack = 4.5 * (np.std(shares) / math.sqrt(len(shares)) + 0.001)
    assert np.mean(shares) == pytest.approx(expected, abs=slack)


def test_overlap_keeps_its_digits_in_large_spaces_and_ends_at_nothing_and_everything():
    offset = tasks.parse("offset:2")
    assert overlap(offset, 20, 16, 10**6) == pytest.approx(10**6 / 20.0**16, rel=1e-9, abs=0)
    assert overlap(offset, 1024, 500, 10**9) == 0
    assert overlap(tasks.parse("parity"), 2, 6, 10**6) == 1
    assert overlap(tasks.parse("parity"), 2, 0, 1) == 1
    assert overlap(tasks.parse("parity"), 2, 16, 4000) == pytest.approx(0.0592, abs=1e-4)
    with pytest.raises(FarfieldError, match="training_draws = -1 must be 0 or more"):
        overlap(offset, 20, 16, -1)


@pytest.mark.parametrize("positions", [1, PIECE, 2 * PIECE + 3])
def test_each_piece_of_tokens_is_drawn_with_its_own_key(positions):
    key = jax.random.key(5)
    tokens = tokens_in_pieces(key, positions, 3, VOCABULARY)
    pieces = [uniform_tokens(jax.random.fold_in(key, piece), PIECE, 3, VOCABULARY) for piece in range(3)]
    np.testing.assert_array_equal(tokens, np.concatenate(pieces)[:positions])


def test_uniform_tokens_are_drawn_as_stored_results_have_them():
    """Written down from the first version: results are stored under the settings that drew them."""
    tokens = uniform_tokens(jax.random.key(7), 5, 4, 20)
    assert tokens.tolist() == [[13, 19, 6, 8], [14, 12, 8, 8], [1, 1, 7, 16], [3, 9, 3, 5], [7, 12, 4, 16]]


@pytest.mark.parametrize("size", [1, 2, 5, 18, 64])
def test_permutations_hold_each_number_once_and_put_it_anywhere(size):
    drawn = np.asarray(permutations(jax.random.key(1), size, 4096))
    assert (np.sort(drawn, axis=0) == np.arange(size)[:, None]).all()
    for place in drawn:
        counts = np.bincount(place, minlength=size)
        assert abs(counts - 4096 / size).max() <= 5 * math.sqrt(4096 / size)


@pytest.mark.parametrize("bound", [1, 3, 20])
def test_an_index_is_uniform_below_its_bound(bound):
    counts = np.bincount(uniform_index(jax.random.key(2), 4096, bound), minlength=bound)
    assert len(counts) == bound
    assert abs(counts - 4096 / bound).max() <= 4.5 * math.sqrt(4096 / bound)


@pytest.mark.parametrize("spec", TASKS)
def test_sizes_that_a_task_allows_are_those_that_it_can_draw(spec):
    task = tasks.parse(spec)
    least = least_length(task)
    assert not allows(task, VOCABULARY, least - 1) or least == 1
    tokens = drawn(spec, length=least).tokens[:least]
    for column in tokens.T.tolist():
        predict(spec, column, VOCABULARY)
