"""Streamed evaluation against a dense computation on the same tokens, and exact mean logits."""

from __future__ import annotations

import dataclasses
import functools
from dataclasses import dataclass

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from farfield import evaluation
from farfield.encodings import HeadContent
from farfield.evaluation import EvaluationShape, evaluate, mean_logits
from farfield.models.head import Head
from farfield.registry import Registry
from farfield.rng import Purpose, key_for
from farfield.tasks import Positional, Task
from helpers.support import double_precision, drawn_head, example, head_forward, make_knobs, quick_jit

VOCABULARY, WIDTH = 5, 6
LENGTHS = (4, 16, 17, 32, 37)

dense_forward = quick_jit(head_forward("dense"))
MODEL = Head(WIDTH)

own: Registry[Task] = Registry("task")


@own.register("itself")
@dataclass(frozen=True)
class Itself(Positional):
    """The answer is the query's own token, so that even one token is a sequence."""

    def target(self, query_position):
        return query_position


def setting(spec: str, longest: int, *, task_object=None, seed: int = 0):
    """A random head with logits far from uniform, and its knobs."""
    knobs = make_knobs(example(spec, longest), normalizer="softmax:0.4", seed=seed, task_object=task_object)
    return drawn_head(knobs.encoding, VOCABULARY, WIDTH, seed=5), knobs


def dense(shape: EvaluationShape, parameters, knobs, length: int):
    """Correct count, mean attention and target attention by the dense head on the sequences of that length."""
    key = key_for(knobs.evaluation_seed, Purpose.EVALUATE_TOKENS, length)
    pieces = [
        knobs.task.sample(jax.random.fold_in(key, index), evaluation.PIECE, shape.sequences, shape.vocabulary)
        for index in range(-(-shape.longest // evaluation.PIECE))
    ]
    tokens = jnp.concatenate(pieces)[: shape.longest]
    output = dense_forward(parameters, knobs.encoding, knobs.normalizer, tokens, jnp.asarray(length, jnp.int32))
    target = int(knobs.task.target(length - 1))
    correct = int((np.asarray(output.class_scores[0]).argmax(axis=0) == np.asarray(tokens[target])).sum())
    attention = np.asarray(output.weights)[0, 0, :length].mean(axis=1)
    return correct, attention, attention[target]


def test_a_test_of_several_blocks_needs_several_blocks():
    assert EvaluationShape(MODEL, longest=37).block == 48
    assert EvaluationShape(MODEL, longest=1500).block == evaluation.BLOCK
    assert EvaluationShape(MODEL, longest=1500).blocks == 3
    assert EvaluationShape(MODEL, longest=1).blocks == 1


@pytest.mark.parametrize("spec", ["rope", "learned", "all-hooks"])
def test_streaming_over_blocks_equals_the_dense_head_on_the_same_tokens(spec, monkeypatch):
    monkeypatch.setattr(evaluation, "BLOCK", 16)
    shape = EvaluationShape(MODEL, VOCABULARY, sequences=64, longest=max(LENGTHS))
    assert shape.blocks == 3
    with double_precision():
        parameters, knobs = setting(spec, shape.longest)
        found = quick_jit(functools.partial(evaluate, shape))(parameters, knobs, jnp.array(LENGTHS))
        for index, length in enumerate(LENGTHS):
            correct, attention, target = dense(shape, parameters, knobs, length)
            assert int(found.correct[index]) == correct
            np.testing.assert_allclose(found.mean_attention[index, 0, :length], attention, atol=1e-12)
            assert (np.asarray(found.mean_attention[index, 0, length:]) == 0).all()
            assert float(found.target_attention[index, 0]) == pytest.approx(target, abs=1e-12)


def test_blocks_of_the_default_size_equal_the_dense_head_in_float32():
    shape = EvaluationShape(MODEL, VOCABULARY, sequences=8, longest=1500)
    parameters, knobs = setting("rope", shape.longest)
    found = quick_jit(functools.partial(evaluate, shape))(parameters, knobs, jnp.array([1500]))
    correct, attention, target = dense(shape, parameters, knobs, 1500)
    assert int(found.correct[0]) == correct
    # Weights of a thousandth, from angles up to 1500 radians that are each off by 1e-4 at most.
    np.testing.assert_allclose(found.mean_attention[0, 0], attention, atol=2e-5)
    assert float(found.target_attention[0, 0]) == pytest.approx(float(target), abs=2e-5)


@pytest.mark.parametrize("spec", ["rope", "learned"])
def test_mean_attention_sums_to_one_over_the_keys_of_every_length(spec):
    shape = EvaluationShape(MODEL, VOCABULARY, sequences=32, longest=40)
    parameters, knobs = setting(spec, 40)
    found = quick_jit(functools.partial(evaluate, shape))(parameters, knobs, jnp.arange(3, 41))
    np.testing.assert_allclose(found.mean_attention.sum(axis=2), 1, rtol=1e-5)
    assert found.mean_attention.shape == (38, 1, 40)


@pytest.mark.parametrize("alone", [(12,), (12, 16), (12, 16, 600)])
def test_a_length_evaluated_alone_gives_the_same_as_among_others(alone):
    """The sequences of a length depend on the seed and that length alone."""
    parameters, knobs = setting("rope", 600)

    def first(lengths):
        shape = EvaluationShape(MODEL, VOCABULARY, sequences=64, longest=max(lengths))
        found = quick_jit(functools.partial(evaluate, shape))(parameters, knobs, jnp.array(lengths))
        return int(found.correct[0]), np.asarray(found.mean_attention[0, 0, :12])

    correct, attention = first((12, 16, 24, 48))
    other_correct, other_attention = first(alone)
    np.testing.assert_allclose(other_attention, attention, atol=1e-6)
    assert other_correct == correct


def test_another_length_or_seed_gives_other_sequences():
    shape = EvaluationShape(MODEL, VOCABULARY, sequences=64, longest=16)
    test = quick_jit(functools.partial(evaluate, shape))
    parameters, knobs = setting("rope", 16)
    found = test(parameters, knobs, jnp.array([12, 12, 13]))
    np.testing.assert_array_equal(found.mean_attention[0], found.mean_attention[1])
    other = test(parameters, dataclasses.replace(knobs, evaluation_seed=jnp.uint32(1)), jnp.array([12, 12, 13]))
    assert not np.allclose(found.mean_attention[0], other.mean_attention[0])
    assert not np.allclose(found.mean_attention[0, 0, :12], found.mean_attention[2, 0, 1:13])


@pytest.mark.parametrize("longest", [1, 3])
def test_sequences_of_one_two_and_three_tokens_are_evaluated(longest):
    shape = EvaluationShape(MODEL, VOCABULARY, sequences=64, longest=longest)
    lengths = list(range(1, longest + 1))
    with double_precision():
        parameters, knobs = setting("learned", longest, task_object=Itself())
        found = quick_jit(functools.partial(evaluate, shape))(parameters, knobs, jnp.array(lengths))
        assert np.asarray(found.mean_attention[0, 0]).tolist() == [1.0] + [0.0] * (longest - 1)
        assert float(found.target_attention[0, 0]) == 1
        for index, length in enumerate(lengths):
            correct, attention, target = dense(shape, parameters, knobs, length)
            assert int(found.correct[index]) == correct
            np.testing.assert_allclose(found.mean_attention[index, 0, :length], attention, atol=1e-12)
            assert float(found.target_attention[index, 0]) == pytest.approx(target, abs=1e-12)


def test_two_to_the_sixteen_keys_are_evaluated_in_the_memory_of_a_few_blocks():
    shape = EvaluationShape(MODEL, VOCABULARY, sequences=64, longest=2**16)
    parameters, knobs = setting("rope", shape.longest)
    lengths = jnp.array([2**16])
    program = quick_jit(functools.partial(evaluate, shape)).lower(parameters, knobs, lengths).compile()
    # All weights at once would take 16 MiB; a block's take 128 KiB, the profile 256 KiB.
    assert program.memory_analysis().temp_size_in_bytes < 4 * 2**20
    found = program(parameters, knobs, lengths)
    assert float(found.mean_attention.sum()) == pytest.approx(1, abs=1e-3)
    assert 0 <= int(found.correct[0]) <= 64


@pytest.mark.parametrize("spec", ["rope", "triangle", "learned", "all-hooks"])
def test_mean_logits_equal_the_average_over_all_pairs_of_tokens(spec):
    length = 7
    with double_precision():
        parameters, knobs = setting(spec, length)
        positions = jnp.arange(length)
        found = quick_jit(mean_logits)(parameters, knobs, positions)

        @quick_jit
        @functools.partial(jax.vmap, in_axes=(0, None, None))
        @functools.partial(jax.vmap, in_axes=(None, 0, None))
        @functools.partial(jax.vmap, in_axes=(None, None, 0))
        def logit(position, query_token, key_token):
            at = jnp.stack([jnp.asarray(length - 1), position])
            x = parameters.embedding[jnp.stack([query_token, key_token])]
            added = knobs.encoding.embed(parameters.encoding, at)
            x = x if added is None else x + added
            head = parameters.attention.head(0)
            query, key = (head.query @ x[0])[None], (head.key @ x[1])[None]
            bias = knobs.encoding.bias(head.encoding, at[:1], at[1:], HeadContent(query, key))
            query, key = knobs.encoding.rotate(head.encoding, query, key, at[:1], at[1:])
            return (query[0] @ key[0] / np.sqrt(WIDTH) + (0 if bias is None else bias[0, 0])) / 0.4

        tokens = jnp.arange(VOCABULARY)
        logits = np.asarray(logit(positions, tokens, tokens))
        expected = logits.mean(axis=(1, 2))
        # At its own position the query and the key are one token.
        expected[-1] = np.diagonal(logits[-1]).mean()
        np.testing.assert_allclose(found, expected, atol=1e-12)


def test_off_the_query_itself_the_mean_logits_of_rope_are_the_carrier_profile(rope_result):
    """Lemma 2 of arXiv 2607.18759: m_Q R m_K over the root of the width."""
    profile = rope_result.carrier.profile / np.sqrt(64)
    np.testing.assert_allclose(rope_result.mean_logits[:-1], profile[:-1], atol=1e-4 * np.abs(profile).max())
    assert abs(rope_result.mean_logits[-1] - profile[-1]) > 0.01
