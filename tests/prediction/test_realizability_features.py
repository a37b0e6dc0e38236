"""Feature maps against the heads that they stand for, through the encodings' own three hooks."""

import dataclasses

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from farfield.encodings import Encoding, encodings
from farfield.encodings.key_only import KeyOnly
from farfield.encodings.rotary import Rotary
from farfield.errors import FarfieldError
from farfield.prediction import feature_map
from farfield.prediction.feature_maps import named
from farfield.prediction.features import OneHot, independent
from farfield.prediction.initialization import first_kernel, untrained
from helpers.support import SPECS, Parameters, Triangle, pair_logits

WIDTH, TRAINED, LENGTH = 8, 8, 14
# One a kind of kernel, with tables that do not start at zero.
STARTED = [
    "rope", "rope:layout=interleaved", "rope:fraction=0.5,layout=interleaved", "yarn:original_length=2048",
    "xpos:scale_base=16", "dynamic-ntk:factor=4,original_length=8", "longrope:original_length=8",
    "transformer-xl:base=100", "clipped:reach=3,deviation=1", "t5:buckets=8,distance=20,deviation=1",
    "t5:bidirectional=true,deviation=1", "shaw:reach=2,deviation=1", "sinusoidal", "sinusoidal:layout=concatenated",
]  # fmt: skip


@pytest.mark.parametrize("spec", STARTED)
def test_a_head_has_the_scores_of_its_kernel(spec):
    """<w, Phi(n, j)> of an untrained head's kernel is its logit, by the hooks alone, for every query as the last."""
    encoding = named(spec, TRAINED, LENGTH)
    assert isinstance(encoding, Encoding)
    features = feature_map(encoding, WIDTH)
    head = untrained(encoding, WIDTH, 1, seed=3)[0]
    kernel = first_kernel(encoding, head)
    assert kernel is not None
    parameters = Parameters(head.model, head.parameters)
    places = np.arange(LENGTH)
    added = encoding.embed(parameters.model, jnp.asarray(places))
    for n in (0, 5, LENGTH - 1):
        if added is None:
            query, key = (jnp.broadcast_to(jnp.asarray(x), (LENGTH, WIDTH)) for x in (head.query, head.key))
            logits = pair_logits(encoding, parameters, query[:1], key, jnp.asarray([n]), jnp.asarray(places))[0]
            # c is the same everywhere, so the plain dot product is a constant where nothing rotates.
            constant = 0.0 if isinstance(encoding, Rotary) else float(head.query @ head.key) / np.sqrt(WIDTH)
            logits = np.asarray(logits) - constant
        else:
            logits = np.asarray(added) @ head.key.T @ head.query @ np.asarray(added)[n] / np.sqrt(WIDTH)
        scores, logits = features.scores(kernel, np.array([n]), places[: n + 1])[0], logits[: n + 1]
        assert n == 0 or np.ptp(scores) > 1e-3
        if spec.startswith("transformer-xl"):  # u . k is the same at every key
            scores, logits = scores - scores[0], logits - logits[0]
        np.testing.assert_allclose(scores, logits, atol=2e-5)


@pytest.mark.parametrize("spec", SPECS)
def test_scores_differences_and_distances_are_those_of_the_features(spec):
    encoding = named(spec, TRAINED, LENGTH)
    if spec.startswith("cope"):
        with pytest.raises(FarfieldError, match="no positional kernel"):
            feature_map(encoding, WIDTH)
        return
    features = feature_map(encoding, WIDTH)
    if isinstance(features, OneHot) and not features.size:
        pairs = np.arange(LENGTH)[:, None], np.arange(LENGTH)
        features = features.holding(features.cells(*pairs))
    generator = np.random.default_rng(0)
    kernel = generator.normal(size=features.size)
    query, keys = np.array([3, LENGTH - 1]), np.arange(4)
    each = features.features(query[:, None], keys)
    assert each.shape == (2, 4, features.size)
    np.testing.assert_allclose(features.scores(kernel, query, keys), each @ kernel, atol=1e-9)
    lines = np.stack([keys, keys])
    np.testing.assert_allclose(features.scores(kernel, query, lines), each @ kernel, atol=1e-9)
    last = np.full(4, LENGTH - 1)
    apart = features.differences(last, np.full(4, 2), keys)
    np.testing.assert_allclose(apart, each[1, 2] - each[1], atol=1e-12)
    np.testing.assert_allclose(
        features.distances(LENGTH - 1, 2, keys), np.linalg.norm(each[1, 2] - each[1], axis=1), atol=1e-9
    )
    basis = np.linalg.qr(generator.normal(size=(features.size, min(3, features.size))))[0]
    total, inside = features.energy(basis, LENGTH - 1, keys)
    np.testing.assert_allclose(total, np.square(each[1]).sum(axis=1), atol=1e-9)
    np.testing.assert_allclose(inside, np.square(each[1] @ basis).sum(axis=1), atol=1e-9)


@pytest.mark.parametrize("spec", SPECS)
def test_equal_cells_have_equal_features(spec):
    encoding = named(spec, TRAINED, LENGTH)
    if spec.startswith("cope"):
        return
    features = feature_map(encoding, WIDTH)
    query, key = (part.reshape(-1) for part in np.meshgrid(np.arange(LENGTH), np.arange(LENGTH)))
    query, key = query[key <= query], key[key <= query]
    cells, vectors = features.cells(query, key), features.features(query, key)
    assert cells is not None
    for cell in np.unique(cells):
        same = vectors[cells == cell]
        np.testing.assert_allclose(same, np.broadcast_to(same[0], same.shape), atol=1e-12)


def test_alibi_kerple_and_none_have_one_number():
    ones = {"alibi": -1, "alibi:slope=-2": 1, "alibi:learned=true": -1}
    for spec, sign in ones.items():
        features = feature_map(encodings.parse(spec), WIDTH)
        np.testing.assert_array_equal(features.features(np.array(5), np.array([5, 3]))[:, 0], [0, 2 * sign])
        assert features.one_signed == ("learned" not in spec)
    log = feature_map(encodings.parse("kerple-log:rate=2"), WIDTH)
    assert log.features(np.array(5), np.array(2))[0] == pytest.approx(-np.log(7))
    power = feature_map(encodings.parse("kerple-power:power=1.5"), WIDTH)
    assert power.features(np.array(5), np.array(1))[0] == pytest.approx(-8)
    assert log.one_signed and power.one_signed and log.note and power.note
    assert not feature_map(encodings.parse("none"), WIDTH).features(np.array(5), np.arange(5)).any()


def test_fire_reads_the_share_of_the_way_back(float64):
    """A network with the knots' values is piecewise linear between them, as its bias is where kinks sit at knots."""
    encoding = dataclasses.replace(encodings.parse("fire:hidden=5"), threshold=4.0)
    features = feature_map(encoding, WIDTH)
    vectors = features.features(np.full(13, 12), np.arange(13))
    np.testing.assert_allclose(vectors.sum(axis=1), 1)
    c = 0.1  # the scale at the start
    share = np.log1p(c * (12 - np.arange(13))) / np.log1p(c * 12)
    np.testing.assert_allclose(vectors @ np.linspace(0, 1, 5), share, atol=1e-6)


def test_an_encoding_without_a_map_is_refused():
    with pytest.raises(FarfieldError, match="Triangle has no feature map"):
        feature_map(Triangle(), WIDTH)


def test_frequencies_are_independent_up_to_their_number():
    assert independent((1.0, 0.5, 0.1), 6)
    assert not independent((1.0, 0.5, 0.1), 7)
    assert not independent((1.0, 1.0, 0.1), 5)
    assert independent((1.0, 0.0), 3)
    assert not independent((1.0, 0.0), 4)
    theta = np.array([1.0, 0.5, 0.1])
    angle = np.multiply.outer(np.arange(6), theta)
    assert np.linalg.matrix_rank(np.concatenate([np.cos(angle), np.sin(angle)], axis=1)) == 6


def test_named_maps():
    assert named("key-only", 8, 16) == KeyOnly(rows=17)
    with pytest.raises(FarfieldError, match="did you mean 'rope'"):
        named("rop", 8, 16)
    assert jax.devices()  # the maps above leave JAX's settings as they were
    assert jnp.asarray(1.0).dtype == jnp.float32
