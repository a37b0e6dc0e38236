"""The public checks: what they find wrong, and how they say it."""

from __future__ import annotations

import doctest
import importlib
import itertools
from dataclasses import dataclass

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import farfield as ff
from farfield.encodings import Encoding
from farfield.errors import FarfieldError
from farfield.models.head import Head
from farfield.normalizers.elementwise import Linear
from farfield.normalizers.softmax import Softmax
from farfield.positions.shifted import Fixed
from farfield.tasks.offset import FixedOffset
from farfield.testing import (
    ENCODING_RULES,
    MODEL_RULES,
    NORMALIZER_RULES,
    POSITION_RULES,
    TASK_RULES,
    BrokenRule,
    check_encoding,
    check_model,
    check_normalizer,
    check_positions,
    check_task,
)
from farfield.testing.tasks import VOCABULARY
from helpers.support import Triangle

CALLS = itertools.count()


def broken(check, entry, only=None):
    """What a check says of an entry, by rule."""
    with pytest.raises(BrokenRule) as caught:
        check(entry, only=only)
    assert caught.value.__cause__ is caught.value.__context__ is None
    assert str(caught.value).count("\n") == len(caught.value.names) - 1
    return {found.rule.name: found.found for found in caught.value.broken}


def distance(query_positions, key_positions):
    return (query_positions[:, None] - key_positions[None]).astype(float)


class Places(Encoding):
    """A bias by the key's own position."""

    def bias(self, parameters, query_positions, key_positions, content):
        return jnp.sin(distance(0 * query_positions, key_positions) / 5)


class Counter(Encoding):
    """A bias that grows with every call."""

    def bias(self, parameters, query_positions, key_positions, content):
        return -distance(query_positions, key_positions) / 10 - next(CALLS)


class GlobalRandom(Encoding):
    """A slope drawn by NumPy's global generator."""

    def bias(self, parameters, query_positions, key_positions, content):
        return -distance(query_positions, key_positions) * float(np.random.uniform(0.5, 1))


class Turned(Encoding):
    """A bias with its axes exchanged."""

    def bias(self, parameters, query_positions, key_positions, content):
        return -distance(query_positions, key_positions).T


class KeyCount(Encoding):
    """A slope that depends on how many keys there are."""

    def bias(self, parameters, query_positions, key_positions, content):
        return -distance(query_positions, key_positions) * np.log(len(key_positions) + 1)


class Overflow(Encoding):
    """A bias whose exponential has no float32 at far positions."""

    def bias(self, parameters, query_positions, key_positions, content):
        far = jnp.exp(jnp.abs(distance(query_positions, key_positions)))
        return -far / (far + 1)


class Half(Encoding):
    """A bias of a type of its own."""

    def bias(self, parameters, query_positions, key_positions, content):
        return -distance(query_positions, key_positions).astype(jnp.float16)


class Raising(Encoding):
    """A hook that raises."""

    def rotate(self, parameters, query, key, query_positions, key_positions):
        raise KeyError("slope")


class Doubled(Softmax):
    """Weights that sum to two."""

    def weights(self, parameters, logits, visible, count):
        return 2 * super().weights(parameters, logits, visible, count)


class Unmasked(Linear):
    """Weights of keys that are not visible."""

    def weigh(self, known, logits, visible, count):
        return logits


class Foresight(FixedOffset):
    """A target after its row."""

    def draw(self, key, length, positions, sequences, vocabulary):
        batch = super().draw(key, length, positions, sequences, vocabulary)
        return batch._replace(targets=jnp.where(batch.supervised, batch.targets + 9, batch.targets))


class Outside(FixedOffset):
    """Answers that are no tokens."""

    def draw(self, key, length, positions, sequences, vocabulary):
        batch = super().draw(key, length, positions, sequences, vocabulary)
        return batch._replace(answers=batch.answers + vocabulary)


class Beyond(Fixed):
    """Positions that the table does not hold."""

    def positions(self, key, length, count, trained, task=None):
        return super().positions(key, length, count, trained, task) + 1


class Padded(Fixed):
    """Positions that depend on what the batch is padded to."""

    def positions(self, key, length, count, trained, task=None):
        return jnp.maximum(super().positions(key, length, count, trained, task) + 40 - count, 0)


class Backwards(Head):
    """Scores that a later token changes."""

    def forward(self, parameters, mechanism, inputs, rows, path):
        found = super().forward(parameters, mechanism, inputs, rows, path)
        return found._replace(
            class_scores=found.class_scores + inputs.tokens[None, None, 5].astype(found.class_scores.dtype) / 9
        )


class Shortened(Head):
    """A last row that is not the last row of all."""

    def forward(self, parameters, mechanism, inputs, rows, path):
        found = super().forward(parameters, mechanism, inputs, rows, path)
        return found._replace(class_scores=found.class_scores * (2 if rows == "last" else 1))


@pytest.mark.parametrize(
    ("encoding", "rule", "found"),
    [
        (Places(), "relative", "logits with and without a shift of 1 differ by"),
        (Counter(), "repeatable", "logits of two calls differ in 36 of 36 places"),
        (GlobalRandom(), "repeatable", "logits of two calls differ in"),
        (Turned(), "shapes_and_types", "bias gives the shape (5, 2) for (2, 5)"),
        (KeyCount(), "number_of_keys", "logits among nine and among five tokens differ by"),
        (Overflow(), "far_positions", "logits that are not finite numbers"),
        (Half(), "shapes_and_types", "bias gives float16 for float32"),
        (Raising(), "relative", "KeyError at test_testing.py:"),
    ],
)
def test_a_faulty_encoding_breaks_the_rule_that_it_is_about(encoding, rule, found):
    assert broken(check_encoding, encoding, [rule])[rule].startswith(found)


@pytest.mark.parametrize(
    ("check", "entry", "rule", "found"),
    [
        (check_normalizer, Doubled(), "sums_and_signs", "sums of weights and one differ by 1"),
        (check_normalizer, Unmasked(), "hidden_keys", "weights of keys that are not visible"),
        (check_task, Foresight(2), "target", "target 9 of row 2 at length 3"),
        (check_task, Outside(2), "vocabulary", f"answers from {VOCABULARY}"),
        (check_positions, Beyond(), "inside_the_table", "position 40 at length 40 in a table of 40"),
        (check_positions, Padded(), "independent_of_padding", "positions of 1 tokens padded to 40 and to 1 places"),
        (check_model, Backwards(), "later_tokens", "dense class scores with other later tokens differ by"),
        (check_model, Shortened(), "last_row", "dense class scores differ by"),
    ],
)
def test_a_faulty_entry_of_another_kind_breaks_the_rule_that_it_is_about(check, entry, rule, found):
    assert broken(check, entry, [rule])[rule].startswith(found)


def test_the_example_of_the_documentation_keeps_every_rule():
    check_encoding(Triangle())


def test_an_entry_that_is_not_registered_keeps_every_rule_but_that_of_its_name():
    @dataclass(frozen=True)
    class Slope(Encoding):
        slope: float = ff.traced(0.5)

        def bias(self, parameters, query_positions, key_positions, content):
            return -self.slope * distance(query_positions, key_positions)

    check_encoding(Slope())
    with pytest.raises(FarfieldError, match="rule 'configuration' needs a name: decorate Slope with `register` of enc"):
        check_encoding(Slope(), only=["configuration"])
    # Checking it must not stand in the way of registering it.
    ff.encodings.encodings.__class__("encoding").register("slope")(Slope)
    check_encoding(Slope(), only=["batched", "relative"])


def test_every_broken_rule_has_a_line_with_the_entry_the_sentence_and_what_was_found():
    with pytest.raises(BrokenRule) as caught:
        check_encoding(KeyCount(), only=["relative", "later_keys", "number_of_keys"])
    assert caught.value.names == ("later_keys", "number_of_keys")
    first, second = str(caught.value).split("\n")
    assert first.startswith(
        "KeyCount() breaks later_keys: Keys after the query change no logit before it. Found: logits "
    )
    assert "does not depend on how many queries and keys there are, unless `reads_length` says so. Found: " in second
    assert second.endswith("is allowed for rounding")


def test_a_rule_is_asked_for_by_its_name():
    with pytest.raises(FarfieldError, match="unknown rule of encodings 'relativ': did you mean 'relative'"):
        check_encoding(Triangle(), only=["relativ"])


def test_what_an_error_of_jax_says_is_one_line():
    @dataclass(frozen=True)
    class Mixed(Encoding):
        def bias(self, parameters, query_positions, key_positions, content):
            return (query_positions[:, None] - key_positions[None]) * jnp.ones(1)[:, None]

    found = broken(check_encoding, Mixed(), ["single_token"])["single_token"]
    assert found.startswith("TypePromotionError at test_testing.py:")


@pytest.mark.parametrize("rules", [ENCODING_RULES, TASK_RULES, NORMALIZER_RULES, POSITION_RULES, MODEL_RULES])
def test_each_rule_has_a_sentence(rules):
    for name, rule in rules.items():
        assert rule.name == name
        assert rule.sentence.endswith("."), name


def test_checks_run_under_farfields_settings_whatever_the_users_are():
    with jax.enable_x64(True), jax.debug_nans(True):
        ff.testing.check_positions(Fixed(), only=["kind_as_claimed"])


@pytest.mark.parametrize(
    "name",
    ["farfield.testing", *(f"farfield.testing.{kind}" for kind in ("tasks", "normalizers", "positions", "models"))],
)
def test_examples_run(name):
    failed, tried = doctest.testmod(importlib.import_module(name))
    assert (failed, tried > 0) == (0, True)
