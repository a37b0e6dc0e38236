"""The transformer as it is computed against the same written plainly: every head of every token on its own."""

from __future__ import annotations

import math

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from farfield.encodings import HeadContent
from farfield.models import Inputs, Mechanism
from farfield.models.transformer import Transformer
from farfield.normalizers import normalizers
from helpers.support import double_precision, drawn, example, quick_jit

VOCABULARY, PLACES, LENGTH = 5, 6, 5


def plain(model, parameters, mechanism, inputs):
    """Class scores and weights at every place, one head and one layer after another."""
    tokens, positions, length = inputs
    x = parameters.embedding[tokens.T]
    added = mechanism.encoding.embed(parameters.encoding, positions)
    x = x if added is None else x + added
    place = jnp.arange(PLACES)
    visible = (place <= place[:, None]) & (place < length)

    def norm(x, parameters):
        x = (x - x.mean(-1, keepdims=True)) / jnp.sqrt(x.var(-1, keepdims=True) + 1e-5)
        return x * parameters.scale + parameters.shift

    weights = []
    for layer in parameters.layers:
        normed, outputs = norm(x, layer.attention_norm), []
        for index in range(model.heads):
            head, encoding = layer.attention.head(index), mechanism.encoding.of_head(index, model.heads)
            query, key, value = (normed @ matrix.T for matrix in (head.query, head.key, head.value))
            turned = encoding.rotate(head.encoding, query, key, positions, positions)
            logits = jnp.einsum("sqd,skd->sqk", *turned) / math.sqrt(model.head_width)
            bias = encoding.bias(head.encoding, positions, positions, HeadContent(query, key, visible))
            logits = logits if bias is None else logits + bias
            logits = logits * mechanism.normalizer.scale(head.normalizer, visible.sum(1))[..., None]
            weights.append(jax.nn.softmax(logits, where=visible))
            outputs.append(jnp.einsum("sqk,skd->sqd", weights[-1], value))
        x = x + jnp.concatenate(outputs, axis=-1) @ layer.output.T
        hidden = norm(x, layer.mlp_norm) @ layer.up.T + layer.up_bias
        x = x + jax.nn.gelu(hidden, approximate=False) @ layer.down.T + layer.down_bias
    return norm(x, parameters.norm) @ parameters.readout.T, jnp.stack(weights)


# With 2 sequences the tokens are fewer than the vectors that learned positions tell apart, with 8 they are not.
@pytest.mark.parametrize(
    ("encoding", "sequences"), [("rope", 8), ("learned", 8), ("learned", 2), ("alibi", 8), ("cope:deviation=1", 2)]
)
def test_scores_weights_and_gradients_are_those_of_the_plain_way(encoding, sequences):
    model = Transformer(width=12, heads=3, layers=2)
    random = np.random.default_rng(0)
    with double_precision():
        mechanism = Mechanism(example(encoding, PLACES), normalizers.parse("ssmax"))
        parameters = drawn(lambda key: model.initialize(key, mechanism, VOCABULARY), 0)
        parameters = jax.tree.map(lambda leaf: leaf / 2, parameters)
        tokens = jnp.asarray(random.integers(0, VOCABULARY, (PLACES, sequences)))
        inputs = Inputs(tokens, jnp.minimum(jnp.arange(PLACES), LENGTH - 1), jnp.asarray(LENGTH))
        counted = jnp.asarray(random.normal(size=(LENGTH, VOCABULARY, sequences)))

        def by_model(parameters):
            forward = model.forward(parameters, mechanism, inputs, "all", "dense")
            return (forward.class_scores[:LENGTH] * counted).sum(), forward

        def by_plain(parameters):
            with jax.numpy_rank_promotion("allow"):
                scores, weights = plain(model, parameters, mechanism, inputs)
            scores, weights = scores.transpose(1, 2, 0), weights.transpose(0, 2, 3, 1)
            return (scores[:LENGTH] * counted).sum(), (scores, weights)

        found, expected = (quick_jit(jax.value_and_grad(way, has_aux=True))(parameters) for way in (by_model, by_plain))
        (loss, (scores, weights)), gradient = found
        (expected_loss, (expected_scores, expected_weights)), expected_gradient = expected
        np.testing.assert_allclose(loss, expected_loss, rtol=1e-10)
        np.testing.assert_allclose(scores[:LENGTH], expected_scores[:LENGTH], rtol=1e-9, atol=1e-10)
        np.testing.assert_allclose(weights[:, :LENGTH], expected_weights[:, :LENGTH], rtol=1e-9, atol=1e-12)
        paths = jax.tree_util.tree_leaves_with_path(gradient)
        for (path, a), b in zip(paths, jax.tree.leaves(expected_gradient), strict=True):
            name = jax.tree_util.keystr(path)
            np.testing.assert_allclose(a, b, rtol=1e-8, atol=1e-10, err_msg=name)
            assert np.abs(b).max() > 0 or "table" in name, name


def test_the_last_row_alone_has_the_gradient_that_it_has_among_all():
    """Where one row is asked for, the last layer computes no other."""
    model = Transformer(width=8, heads=2, layers=1)
    with double_precision():
        mechanism = Mechanism(example("rope", PLACES), normalizers.parse("softmax"))
        parameters = drawn(lambda key: model.initialize(key, mechanism, VOCABULARY), 0)
        tokens = jnp.asarray(np.random.default_rng(0).integers(0, VOCABULARY, (PLACES, 3)))
        inputs = Inputs(tokens, jnp.minimum(jnp.arange(PLACES), LENGTH - 1), jnp.asarray(LENGTH))

        def loss(parameters, rows, row):
            scores = model.forward(parameters, mechanism, inputs, rows, "dense").class_scores[row]
            return jnp.square(scores).sum()

        found, expected = (
            quick_jit(jax.grad(loss), static_argnums=(1, 2))(parameters, rows, row)
            for rows, row in (("last", 0), ("all", LENGTH - 1))
        )
        for a, b in zip(jax.tree.leaves(found), jax.tree.leaves(expected), strict=True):
            np.testing.assert_allclose(a, b, rtol=1e-9, atol=1e-10)
