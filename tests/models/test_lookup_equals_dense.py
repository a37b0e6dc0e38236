"""The fast path against the dense reference: scores, weights, loss and the whole gradient."""

from __future__ import annotations

import functools

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from farfield.encodings import encodings
from farfield.models import lookup, models
from farfield.models.head import cross_entropy
from farfield.normalizers.softmax import Softmax
from helpers.support import (
    PAIRWISE_SPECS,
    double_precision,
    drawn_head,
    example,
    head_forward,
    quick_jit,
    the_rest_slow,
)

# (sequences, vocabulary, width, positions): more sequences than tokens; and fewer, with enough positions for the
# blocked sum with a remainder.
SHAPES = [(7, 5, 4, 6), (3, 9, 6, 37)]
EACH_KIND = ("rope", "learned", "t5", "shaw", "all-hooks")
ALL = [*PAIRWISE_SPECS, "triangle", "all-hooks"]


def both_paths(parameters, encoding, normalizer, tokens, length, answers, model="head", rows="last"):
    """(output, loss, gradient in parameters and settings) of the dense path and of the lookup."""

    def one(path):
        def loss(parameters, encoding, normalizer):
            output = head_forward(path, model=model, rows=rows)(parameters, encoding, normalizer, tokens, length)
            wanted = jnp.broadcast_to(answers[None], (len(output.class_scores), len(answers)))
            seen = (jnp.arange(len(wanted))[:, None] < length) & (wanted >= 0)
            return cross_entropy(output.class_scores, wanted, seen), output

        return jax.value_and_grad(loss, argnums=(0, 1, 2), has_aux=True)(parameters, encoding, normalizer)

    return one("dense"), one("lookup")


compiled = functools.partial(quick_jit, static_argnames=("model", "rows"))(both_paths)
dense_forward, lookup_forward = quick_jit(head_forward("dense")), quick_jit(head_forward("lookup"))


def draw(spec, shape, seed, temperature, length, dtype, model="head", normalizer=None):
    """Arguments of `both_paths` from a seed."""
    normalizer = normalizer or Softmax(temperature)
    sequences, vocabulary, width, positions = shape
    random = np.random.default_rng(seed)
    encoding = jax.tree.map(lambda leaf: jnp.asarray(leaf, dtype), example(spec, positions))
    parameters = drawn_head(encoding, vocabulary, width, seed, model=models.parse(model), normalizer=normalizer)
    parameters, normalizer = jax.tree.map(lambda leaf: jnp.asarray(leaf, dtype), (parameters, normalizer))
    tokens = jnp.asarray(random.integers(0, vocabulary, (positions, sequences)), jnp.int32)
    answers = jnp.asarray(random.integers(0, vocabulary, sequences), jnp.int32)
    return parameters, encoding, normalizer, tokens, jnp.asarray(length, jnp.int32), answers


def assert_equal_paths(dense, fast, tolerance):
    for (path, expected), found in zip(jax.tree_util.tree_leaves_with_path(dense), jax.tree.leaves(fast), strict=True):
        assert found.dtype == expected.dtype
        scale = float(np.abs(expected).max(initial=1.0))
        np.testing.assert_allclose(found, expected, rtol=0, atol=tolerance * scale, err_msg=str(path))


@pytest.mark.parametrize("spec", the_rest_slow(ALL, [*encodings, "triangle", "all-hooks"]))
@settings(max_examples=6)
@given(
    shape=st.sampled_from(SHAPES), seed=st.integers(0, 10**6), temperature=st.floats(0.2, 5.0), data=st.data(),
)  # fmt: skip
def test_lookup_and_dense_agree_in_float64(spec, shape, seed, temperature, data):
    # Both shapes for one encoding of each kind; for all others the one that compiles faster.
    shape = shape if spec in EACH_KIND else SHAPES[0]
    length = data.draw(st.integers(1, shape[-1]), label="length")
    with double_precision():
        arguments = draw(spec, shape, seed, temperature, length, jnp.float64)
        assert_equal_paths(*compiled(*arguments), tolerance=1e-10)


@pytest.mark.parametrize("rows", ["last", "all"])
@pytest.mark.parametrize("model", ["head:heads=2", "positional", "positional:heads=2"])
@pytest.mark.parametrize("spec", the_rest_slow(["rope", "learned", "all-hooks"], ["rope", "all-hooks"]))
def test_lookup_and_dense_agree_for_several_heads_all_rows_and_positions_alone(spec, model, rows):
    for length in (1, 4, 6):
        with double_precision():
            arguments = draw(spec, SHAPES[0], length, 0.7, length, jnp.float64, model)
            dense, fast = compiled(*arguments, model=model, rows=rows)
            # Rows past the length see keys that the two paths mask alike but that mean nothing.
            assert_equal_paths(dense, fast, tolerance=1e-10)


@pytest.mark.parametrize("spec", ["rope", "learned", "t5", "shaw", "all-hooks"])
@pytest.mark.parametrize("length", [1, 6])
def test_lookup_and_dense_agree_in_float32(spec, length, strict_dtypes):
    arguments = draw(spec, SHAPES[0], 3, 0.7, length, jnp.float32)
    # Sums of some hundred products of rounding error 6e-8, through a softmax with logits of some tens.
    assert_equal_paths(*compiled(*arguments), tolerance=2e-5)


@pytest.mark.parametrize("spec", ["rope", "learned"])
def test_padding_past_the_length_changes_nothing(spec):
    with double_precision():
        parameters, encoding, softmax, tokens, _, answers = draw(spec, SHAPES[1], 4, 1.0, 1, jnp.float64)
        (_, padded), gradient = compiled(parameters, encoding, softmax, tokens, jnp.asarray(6, jnp.int32), answers)[1]
        output = dense_forward(parameters, encoding, softmax, tokens[:6], jnp.asarray(6))
        np.testing.assert_allclose(padded.class_scores, output.class_scores, atol=1e-12)
        np.testing.assert_allclose(padded.weights[..., :6, :], output.weights, atol=1e-14)
        assert (np.asarray(padded.weights[..., 6:, :]) == 0).all()
        assert all(np.isfinite(leaf).all() for leaf in jax.tree.leaves(gradient))


@pytest.mark.parametrize("forward", [dense_forward, lookup_forward])
@pytest.mark.parametrize("length", [1, 4, 6])
def test_weights_are_a_distribution_over_the_visible_keys(forward, length):
    *arguments, _ = draw("rope", SHAPES[0], 5, 0.5, length, jnp.float32)
    weights = np.asarray(forward(*arguments).weights)[0, 0]
    np.testing.assert_allclose(weights.sum(axis=0), 1, rtol=1e-6)
    assert (weights[:length] > 0).all()
    assert (weights[length:] == 0).all()


def test_the_dense_head_is_the_formula_of_the_paper(float64):
    parameters, encoding, _, tokens, _, _ = draw("triangle", SHAPES[0], 6, 1.0, 6, jnp.float64)
    output = dense_forward(parameters, encoding, Softmax(0.7), tokens, jnp.asarray(5))
    p = jax.tree.map(np.asarray, parameters)
    head = p.attention.head(0)
    for sequence in range(7):
        x = p.embedding[np.asarray(tokens)[:5, sequence]]
        logits = [((head.query @ x[4]) @ (head.key @ x[t]) / np.sqrt(4) - 0.5 * (4 - t)) / 0.7 for t in range(5)]
        weights = np.exp(logits) / np.exp(logits).sum()
        scores = p.readout @ sum(w * (head.value @ row) for w, row in zip(weights, x, strict=True))
        np.testing.assert_allclose(output.weights[0, 0, :5, sequence], weights, atol=1e-14)
        np.testing.assert_allclose(output.class_scores[0, :, sequence], scores, atol=1e-13)


def test_cross_entropy_is_the_mean_negative_log_probability(float64):
    scores = np.random.default_rng(0).normal(size=(4, 3))
    answers = np.array([2, 0, 3])
    expected = np.mean([np.log(np.exp(column).sum()) - column[a] for column, a in zip(scores.T, answers, strict=True)])
    assert float(cross_entropy(jnp.asarray(scores)[None], jnp.asarray(answers)[None])) == pytest.approx(
        expected, rel=1e-12
    )


@pytest.mark.parametrize("positions", [1, 33])
def test_gathered_logits_and_their_gradient_equal_a_plain_loop(positions, float64):
    random = np.random.default_rng(positions)
    vocabulary, sequences = 4, 5
    logits = random.normal(size=(vocabulary, positions, vocabulary))
    query, tokens = random.integers(0, 4, sequences), random.integers(0, 4, (positions, sequences))
    weights = random.normal(size=(positions, sequences))
    expected, gradient = np.zeros((positions, sequences)), np.zeros_like(logits)
    for p in range(positions):
        for s in range(sequences):
            expected[p, s] = logits[query[s], p, tokens[p, s]]
            gradient[query[s], p, tokens[p, s]] += weights[p, s]

    def gather(logits):
        return lookup.gather_logits(logits, jnp.asarray(query), jnp.asarray(tokens))

    found, pull = jax.vjp(gather, jnp.asarray(logits))
    np.testing.assert_array_equal(found, expected)
    np.testing.assert_allclose(pull(jnp.asarray(weights))[0], gradient, atol=1e-14)


@pytest.mark.parametrize("positions", [1, 15, 16, 17, 32, 37, 48])
def test_sums_by_token_and_their_gradient_equal_a_plain_loop(positions, float64):
    random = np.random.default_rng(positions)
    vocabulary, sequences = 5, 3
    weights, tokens = random.normal(size=(positions, sequences)), random.integers(0, 5, (positions, sequences))
    pulled = random.normal(size=(vocabulary, sequences))
    expected, gradient = np.zeros((vocabulary, sequences)), np.zeros_like(weights)
    for p in range(positions):
        for s in range(sequences):
            expected[tokens[p, s], s] += weights[p, s]
            gradient[p, s] = pulled[tokens[p, s], s]

    def total(weights):
        return lookup.sum_by_token(weights, jnp.asarray(tokens), vocabulary)

    found, pull = jax.vjp(total, jnp.asarray(weights))
    np.testing.assert_allclose(found, expected, atol=1e-13)
    np.testing.assert_array_equal(pull(jnp.asarray(pulled))[0], gradient)
