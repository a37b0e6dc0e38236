"""Positions far from 0, and positions in any type of whole numbers."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from farfield.encodings import HeadContent, encodings, get
from farfield.encodings.rotary import NEAR, RotaryFamily
from farfield.errors import FarfieldError
from farfield.models import Inputs, models
from farfield.models.base import Mechanism
from farfield.normalizers.softmax import Softmax
from helpers.support import (
    LONGEST,
    SPECS,
    WIDTH,
    as_arrays,
    assert_finite,
    double_precision,
    drawn_parameters,
    example,
    pair_logits,
    quick_jit,
    ready,
    the_rest_slow,
)

FARTHEST = 2**24 - 1
ROTATES = [spec for spec in SPECS if isinstance(encodings.parse(spec), RotaryFamily)]
QUICK = ["rope", "rope:fraction=0.5", "dynamic-ntk", "yarn", "xpos"]


@quick_jit
def logit(encoding, query, key, query_position, key_position):
    turned = encoding.rotate({}, query[None], key[None], query_position[None], key_position[None])
    return jnp.vdot(*turned)


def test_a_logit_at_the_last_position_is_the_one_at_the_first():
    ones = jnp.ones(64)
    for query in (5, 1027, NEAR + 1, 2**20 + 5, FARTHEST):
        found = logit(get("rope"), ones, ones, jnp.array(query), jnp.array(query - 3))
        assert float(found) == pytest.approx(51.1741, abs=1e-3)


@pytest.mark.parametrize("spec", the_rest_slow(ROTATES, QUICK))
def test_rotary_logits_at_far_positions_are_those_of_float64(spec):
    encoding = example(spec, FARTHEST + 1)
    random = np.random.default_rng(0)
    query, key = random.normal(size=(2, 64)).astype(np.float32)
    for query_position, key_position in ((FARTHEST, FARTHEST - 3), (FARTHEST, 8), (2**20, 10**6), (NEAR, NEAR - 1)):
        positions = jnp.array(query_position), jnp.array(key_position)
        found = float(logit(as_arrays(encoding), jnp.asarray(query), jnp.asarray(key), *positions))
        with double_precision():
            exact = float(logit(encoding, jnp.asarray(query, float), jnp.asarray(key, float), *positions))
        # A phase below NEAR is a float32 product, off by 2**-11 at most.
        assert found == pytest.approx(exact, abs=1e-3 if key_position >= NEAR else 5e-3), (query_position, key_position)


@pytest.mark.parametrize("base", [10.0, 1e4, 5e5])
def test_phases_of_near_positions_are_plain_float32_products(base):
    """To the last bit, in a compiled program too: what is trained depends on them."""
    positions = jnp.arange(NEAR)

    def phase(encoding):
        return encoding.phase(positions, 64, jnp.float32)

    def plain(base):
        angle = jnp.multiply.outer(positions.astype(float), base ** -(jnp.arange(0, 64, 2, dtype=float) / 64))
        return jnp.cos(angle), jnp.sin(angle)

    for compiled in (lambda function: function, jax.jit):
        found, expected = compiled(phase)(as_arrays(get("rope", base=base))), compiled(plain)(jnp.asarray(base))
        jax.tree.map(np.testing.assert_array_equal, found, expected)


@pytest.mark.parametrize("spec", ["sinusoidal", "sinusoidal:layout=concatenated", "sinusoidal:base=100"])
def test_sinusoidal_vectors_at_far_positions_are_those_of_float64(spec):
    encoding, positions = encodings.parse(spec), jnp.array([0, 5, NEAR, 10**6, FARTHEST])
    found = quick_jit(encoding.embed)(encoding.initialize(jax.random.key(0), 64), positions)
    with double_precision():
        exact = encoding.embed(encoding.initialize(jax.random.key(0), 64), positions)
    np.testing.assert_allclose(found, exact, atol=1e-5)


def test_transformer_xl_at_far_offsets_is_that_of_float64():
    encoding = encodings.parse("transformer-xl")
    parameters = drawn_parameters(encoding, 16, 0).head
    vectors, keys = jnp.ones((1, 16)), jnp.array([0, 5, 10**6, FARTHEST - NEAR, FARTHEST - 2])
    queries = jnp.array([FARTHEST])
    found = encoding.bias(parameters, queries, keys, HeadContent(vectors, jnp.ones((5, 16))))
    with double_precision():
        wide = jax.tree.map(lambda leaf: leaf.astype(float), parameters)
        exact = encoding.bias(wide, queries, keys, HeadContent(jnp.ones((1, 16)), jnp.ones((5, 16))))
    np.testing.assert_allclose(found, exact, atol=1e-3)


# Settings at the ends of their ranges, each of which is accepted.
EXTREME = [
    "alibi:slope=1e11", "alibi:slope=-1e11", "kerple-log:weight=1e11,rate=1e11", "kerple-log:weight=1e-11,rate=1e-11",
    "kerple-power:weight=1e11,power=1.99", "fire:scale=1e11,threshold=1e-5", "fire:scale=1e-5,threshold=1e11",
    "transformer-xl:base=1.0001", "transformer-xl:base=9e11", "rope:base=1.0001", "rope:base=9e29",
    "ntk:factor=1e4,base=9e29", "ntk:factor=1e6", "dynamic-ntk:factor=1e3", "position-interpolation:factor=1e6",
    "yarn:factor=1e6,beta_fast=1e12,beta_slow=1e-12", "yarn:base=1.0001", "yarn:attention_factor=1000",
    "llama3:low=1e-12,high=1e12", "llama3:low=1,high=1.0000002", "longrope:factor=1e6",
    "longrope:long_factor=1e-6;1e-6;1e6;1e6", "xpos:scale_base=1", "xpos:scale_base=1e12", "xpos:scale_base=16",
    "sinusoidal:base=9e29", "shaw:deviation=1e11", "cope:deviation=1e11", "p-rope:share=1",
]  # fmt: skip


@pytest.mark.parametrize("spec", the_rest_slow(EXTREME, EXTREME[::5]))
def test_logits_and_gradients_are_finite_at_extreme_settings_and_the_farthest_positions(spec):
    encoding = example(spec, FARTHEST + 1)
    encoding.check(WIDTH, FARTHEST + 1)
    parameters = drawn_parameters(encoding, WIDTH, 0)
    ones, positions = jnp.ones((5, WIDTH)), jnp.array([0, 1, 1000, 2**23, FARTHEST])

    def total(parameters, query, key):
        logits = pair_logits(as_arrays(encoding), parameters, query, key, positions[-1:], positions)
        return (logits * 1e-30).sum(), logits

    found = jax.value_and_grad(total, argnums=(0, 1, 2), has_aux=True)(parameters, ones[:1], ones)
    assert_finite(found)


@pytest.mark.parametrize(
    ("spec", "words"),
    [
        ("ntk:factor=1e6,base=1e28", "ntk:factor slows the slowest of 2 pairs 1e\\+06 times"),
        ("dynamic-ntk:factor=1e6,original_length=2,base=1e20", "dynamic-ntk:factor slows the slowest"),
        ("longrope:original_length=8,long_factor=1;1e-38", "long_factor must be numbers from 1e-06 to 1e\\+06"),
        ("llama3:low=1,high=1.00000001", "not the same in float32"),
        ("llama3:low=1e39,high=1e40", "at most 1e\\+12"),
        ("yarn:original_length=8,beta_fast=1e308", "at most 1e\\+12"),
        ("xpos:scale_base=1e300", "at most 1e\\+12"),
        ("rope:base=1.00000001", "rope:base=1.00000001 must be a number between 1 and"),
    ],
)
def test_settings_that_would_overflow_float32_are_refused(spec, words):
    with pytest.raises(FarfieldError, match=words):
        encodings.parse(spec).check(4, FARTHEST + 1)


KINDS = ["uint8", "int8", "uint16", "int16", "uint32"]


@pytest.mark.parametrize("spec", the_rest_slow(SPECS, [spec for spec in SPECS if spec in encodings]))
def test_positions_of_any_type_of_whole_numbers_are_the_same_positions(spec):
    encoding, parameters = ready(spec, longest=200)
    random = np.random.default_rng(0)
    query, key = jnp.asarray(random.normal(size=(2, 3, WIDTH)), float)
    queries, keys = np.array([100, 50, 1]), np.array([0, 99, 127])
    expected = pair_logits(encoding, parameters, query, key, jnp.array(queries), jnp.array(keys))
    for kind in KINDS:
        found = pair_logits(encoding, parameters, query, key, jnp.array(queries, kind), jnp.array(keys, kind))
        np.testing.assert_array_equal(found, expected, err_msg=kind)


def test_unsigned_positions_do_not_wrap():
    vectors = jnp.ones((1, WIDTH))
    positions = jnp.array([100], jnp.uint32), jnp.array([0], jnp.uint32)
    assert float(get("alibi", slope=0.5).bias({}, *positions, HeadContent(vectors, vectors))[0, 0]) == -50
    with pytest.raises(FarfieldError, match="position 4000000000 is too large: at most 2147483647"):
        get("alibi").bias({}, jnp.array([4 * 10**9], jnp.uint32), positions[1], HeadContent(vectors, vectors))


@pytest.mark.slow
@pytest.mark.parametrize("model", ["head:8", pytest.param("transformer:width=8,layers=1", marks=pytest.mark.slow)])
def test_a_users_own_encoding_gets_signed_positions_from_a_model(model):
    model, mechanism = models.parse(model), Mechanism(example("triangle", LONGEST), Softmax())
    parameters = model.initialize(jax.random.key(0), mechanism, 5)
    tokens = jnp.arange(12).reshape(4, 3) % 5
    paths = ("lookup", "dense") if model.lookup_obstacle(mechanism.encoding) is None else ("dense",)
    for path in paths:
        scores = [
            model.forward(parameters, mechanism, Inputs(tokens, jnp.arange(4, dtype=kind), jnp.array(4)), "all", path)
            for kind in (jnp.int32, jnp.uint8, jnp.uint32)
        ]
        for other in scores[1:]:
            np.testing.assert_array_equal(other.class_scores, scores[0].class_scores)
