"""What every registered model must do: registering one is enough for it to be tested here."""

from __future__ import annotations

import dataclasses
import json

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from farfield.encodings import encodings
from farfield.errors import FarfieldError
from farfield.models import Inputs, Mechanism, models
from farfield.models.transformer import Transformer
from farfield.normalizers import normalizers
from support import double_precision, drawn, quick_jit, the_rest_slow

VOCABULARY, SEQUENCES, PLACES, LENGTH = 5, 3, 7, 6
SPECS = [*models, "head:heads=2", "positional:heads=2", "transformer:heads=2,layers=3"]


def ready(spec: str, encoding: str = "rope", normalizer: str = "softmax"):
    """A model of eight dimensions, its mechanism and parameters far from those that training starts from."""
    model = dataclasses.replace(models.parse(spec), width=8)
    mechanism = Mechanism(encodings.parse(encoding).resolved(PLACES, PLACES), normalizers.parse(normalizer))
    parameters = drawn(lambda key: model.initialize(key, mechanism, VOCABULARY), 0)
    return model, mechanism, jax.tree.map(lambda leaf: leaf / 2, parameters)


def inputs(seed: int = 0, places: int = PLACES, length: int = LENGTH) -> Inputs:
    tokens = jnp.asarray(np.random.default_rng(seed).integers(0, VOCABULARY, (PLACES, SEQUENCES)), jnp.int32)
    # As every regime gives them: places past the length repeat the last position.
    return Inputs(tokens[:places], jnp.minimum(jnp.arange(places), length - 1), jnp.asarray(length))


def paths(model, mechanism):
    return ["dense"] if model.lookup_obstacle(mechanism.encoding) else ["dense", "lookup"]


def forward(model, mechanism, parameters, given, rows, path):
    """Compiled forward pass."""
    run = quick_jit(lambda parameters, given: model.forward(parameters, mechanism, given, rows, path))
    return jax.tree.map(np.asarray, run(parameters, given))


@pytest.mark.parametrize("encoding", ["rope", "learned", "shaw"])
@pytest.mark.parametrize("spec", SPECS)
def test_the_last_row_alone_is_the_last_row_of_all(spec, encoding):
    with double_precision():
        model, mechanism, parameters = ready(spec, encoding)
        for path in paths(model, mechanism):
            everything = forward(model, mechanism, parameters, inputs(), "all", path)
            alone = forward(model, mechanism, parameters, inputs(), "last", path)
            heads = len(model.head_names)
            assert everything.class_scores.shape == (PLACES, VOCABULARY, SEQUENCES)
            assert everything.weights.shape == (heads, PLACES, PLACES, SEQUENCES)
            assert alone.class_scores.shape == (1, VOCABULARY, SEQUENCES)
            assert alone.weights.shape == (heads, 1, PLACES, SEQUENCES)
            np.testing.assert_allclose(alone.class_scores[0], everything.class_scores[LENGTH - 1], atol=1e-10)
            np.testing.assert_allclose(alone.weights[:, 0], everything.weights[:, LENGTH - 1], atol=1e-10)


@pytest.mark.parametrize("encoding", ["rope", "cope", "learned"])
@pytest.mark.parametrize("spec", SPECS)
def test_padding_and_later_tokens_change_nothing(spec, encoding):
    with double_precision():
        model, mechanism, parameters = ready(spec, encoding)
        for path in paths(model, mechanism):
            padded = forward(model, mechanism, parameters, inputs(), "all", path).class_scores[:LENGTH]
            short = forward(model, mechanism, parameters, inputs(places=LENGTH), "all", path).class_scores
            np.testing.assert_allclose(padded, short, atol=1e-10)
            given = inputs()
            other = given._replace(tokens=given.tokens.at[4:].set((given.tokens[4:] + 1) % VOCABULARY))
            changed = forward(model, mechanism, parameters, other, "all", path).class_scores[:LENGTH]
            np.testing.assert_allclose(changed[:4], padded[:4], atol=1e-10)
            assert np.abs(changed[4:] - padded[4:]).max() > 1e-3


@pytest.mark.parametrize(
    "normalizer",
    the_rest_slow([name for name in normalizers if normalizers.parse(name).sums_to_one], ["softmax", "entmax"]),
)
@pytest.mark.parametrize("spec", ["head:heads=2", "transformer:heads=2"])
def test_weights_of_every_row_are_a_distribution_over_the_keys_that_it_sees(spec, normalizer):
    model, mechanism, parameters = ready(spec, normalizer=normalizer)
    mechanism = mechanism._replace(normalizer=mechanism.normalizer.resolved(4))
    weights = forward(model, mechanism, parameters, inputs(), "all", "dense").weights[:, :LENGTH]
    np.testing.assert_allclose(weights.sum(axis=2), 1, rtol=1e-5)
    hidden = np.arange(PLACES)[None] > np.arange(LENGTH)[:, None]
    assert (weights[:, hidden] == 0).all()


@pytest.mark.parametrize("spec", SPECS)
def test_gradient_reaches_every_parameter(spec):
    model, mechanism, parameters = ready(spec, "t5:buckets=4,distance=6", "ssmax")
    weight = jnp.asarray(np.random.default_rng(1).normal(size=(PLACES, VOCABULARY, SEQUENCES)), jnp.float32)

    @quick_jit
    @jax.grad
    def slope(parameters, given):
        scores = model.forward(parameters, mechanism, given, "all", "dense").class_scores
        return (scores * weight).sum()

    gradient = jax.tree.map(jnp.zeros_like, parameters)
    for seed in range(3):
        gradient = jax.tree.map(lambda a, b: a + jnp.abs(b), gradient, slope(parameters, inputs(seed)))
    for path, leaf in jax.tree_util.tree_leaves_with_path(gradient):
        name = jax.tree_util.keystr(path)
        # In a positional-only head the logits are one bias a pair, so queries and keys matter through positions alone.
        if isinstance(model, models["positional"]) and (".query" in name or ".key" in name or ".scored" in name):
            continue
        assert np.isfinite(leaf).all(), name
        assert (np.abs(leaf) > 0).any(), name


@pytest.mark.parametrize("spec", SPECS)
def test_the_inside_of_every_head_has_its_name_and_fits_the_forward_pass(spec):
    with double_precision():
        model, mechanism, parameters = ready(spec)
        seen = jax.jit(lambda parameters, given: model.observe(parameters, mechanism, given, "all"))
        inside = seen(parameters, inputs())
        assert len(inside) == len(model.head_names) == len(set(model.head_names))
        weights = forward(model, mechanism, parameters, inputs(), "all", "dense").weights
        for head, expected in zip(inside, weights, strict=True):
            assert head.query.shape == head.key.shape == (SEQUENCES, PLACES, model.head_width)
            np.testing.assert_allclose(np.moveaxis(np.asarray(head.weights), 0, -1), expected, atol=1e-12)
            row = np.asarray(head.logits)[:, LENGTH - 1, :LENGTH]
            share = np.exp(row) / np.exp(row).sum(axis=-1, keepdims=True)
            np.testing.assert_allclose(share, np.asarray(head.weights)[:, LENGTH - 1, :LENGTH], atol=1e-10)


@pytest.mark.parametrize("spec", SPECS)
def test_the_configuration_survives_json_and_the_same_key_gives_the_same_weights(spec):
    model, mechanism, _ = ready(spec)
    again = models.from_config(json.loads(json.dumps(models.config(model))))
    assert again == model
    assert hash(again) == hash(model)
    one, other = (m.initialize(jax.random.key(3), mechanism, VOCABULARY) for m in (model, again))
    for a, b in zip(jax.tree.leaves(one), jax.tree.leaves(other), strict=True):
        np.testing.assert_array_equal(a, b)


@pytest.mark.parametrize("name", list(models))
@pytest.mark.parametrize(
    ("settings", "reason"),
    [
        ("width=0", "width = 0 must be a whole number from 1"),
        ("heads=0", "heads = 0 must be a whole number from 1"),
        ("width=10,heads=4", "width = 10 does not divide into 4 heads: make it a multiple of 4"),
        ("colour=1", "unknown setting of model"),
        ("width=1.5", "is not a whole number"),
    ],
)
def test_sizes_that_cannot_work_are_refused(name, settings, reason):
    with pytest.raises(FarfieldError, match=reason):
        models.parse(f"{name}:{settings}").check()


@pytest.mark.parametrize("rows", ["last", "all"])
def test_logits_of_the_positional_only_head_do_not_depend_on_tokens(rows):
    model, mechanism, parameters = ready("positional", "learned")
    one, other = (forward(model, mechanism, parameters, inputs(seed), rows, "dense").weights for seed in (0, 1))
    np.testing.assert_array_equal(one, other)
    assert (one == one[..., :1]).all()


def test_the_transformer_is_its_formula():
    """Written out with plain loops: pre-LayerNorm, causal softmax, GELU, one output map a layer."""
    with double_precision():
        model, mechanism, parameters = ready("transformer:heads=2,layers=2", "none")
        found = forward(model, mechanism, parameters, inputs(), "all", "dense").class_scores
        p = jax.tree.map(np.asarray, parameters)

        def norm(x, n):
            return (x - x.mean()) / np.sqrt(x.var() + 1e-5) * n.scale + n.shift

        def gelu(x):
            return np.asarray(jax.scipy.stats.norm.cdf(x)) * x

        for sequence in range(SEQUENCES):
            x = p.embedding[np.asarray(inputs().tokens)[:LENGTH, sequence]]
            for layer in p.layers:
                normed = np.stack([norm(row, layer.attention_norm) for row in x])
                out = np.zeros_like(x)
                for h in range(2):
                    q, k, v = (normed @ getattr(layer.attention, name)[h].T for name in ("query", "key", "value"))
                    for n in range(LENGTH):
                        w = np.exp(q[n] @ k[: n + 1].T / 2)  # the root of a head's width of 4
                        out[n, 4 * h : 4 * h + 4] = w @ v[: n + 1] / w.sum()
                x = x + out @ layer.output.T
                hidden = np.stack([gelu(norm(row, layer.mlp_norm) @ layer.up.T + layer.up_bias) for row in x])
                x = x + hidden @ layer.down.T + layer.down_bias
            expected = np.stack([norm(row, p.norm) for row in x]) @ p.readout.T
            np.testing.assert_allclose(found[:LENGTH, :, sequence], expected, atol=1e-9)


def test_a_transformer_has_a_lane_of_its_own_and_no_lookup():
    assert Transformer.lanes == 1
    assert Transformer().lookup_obstacle(encodings.parse("rope")) is not None
    assert Transformer(heads=2).head_names == ("layer 0 head 0", "layer 0 head 1", "layer 1 head 0", "layer 1 head 1")
