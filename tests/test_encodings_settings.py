"""What every registered encoding must do with its settings: registering one is enough for it to be tested here."""

from __future__ import annotations

import json

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from bad_settings import BAD_SETTINGS
from conformance import LONGEST, WIDTH, as_arrays, assert_finite, logits_of, ready
from farfield.cell import Cell
from farfield.encodings import encodings, get
from farfield.errors import FarfieldError
from farfield.models.head import Head
from farfield.tasks.offset import FixedOffset
from support import (
    ALL_SPECS,
    SPECS,
    TRAINED,
    drawn_parameters,
    example,
    name_of,
    needs_nothing,
    quick_jit,
    registry_of,
    vectors,
)

pytestmark = pytest.mark.usefixtures("strict_dtypes")


@pytest.mark.parametrize("spec", ALL_SPECS)
def test_every_head_has_an_encoding_and_parameters_of_the_same_structure(spec):
    """Heads are stacked on an axis, so only numbers may differ between them."""
    encoding, _ = ready(spec)
    heads = [encoding.of_head(index, 3) for index in range(3)]
    query, key = vectors(11, 6, WIDTH)
    for head in heads:
        head.check(WIDTH, LONGEST)
        assert head.resolved(TRAINED, LONGEST) == head
        assert jax.tree.structure(head) == jax.tree.structure(heads[0])
        assert jax.tree.structure(head.of_head(0, 1)) == jax.tree.structure(head)
    parameters = [drawn_parameters(head, WIDTH, 0) for head in heads]
    assert len({str(jax.tree.map(lambda leaf: leaf.shape, drawn)) for drawn in parameters}) == 1
    for head, drawn in zip(heads, parameters, strict=True):
        assert_finite(logits_of(as_arrays(head), drawn, query, key, jnp.arange(6), jnp.arange(6)))


@pytest.mark.parametrize("spec", ALL_SPECS)
def test_an_encoding_of_the_only_head_is_the_encoding_itself(spec):
    encoding, parameters = ready(spec)
    arguments = (parameters, *vectors(12, 6, WIDTH), jnp.arange(6), jnp.arange(6))
    alone, of_one = (logits_of(as_arrays(one), *arguments) for one in (encoding, encoding.of_head(0, 1)))
    np.testing.assert_allclose(alone, of_one, rtol=1e-6)


@pytest.mark.parametrize("spec", [spec for spec in ALL_SPECS if jax.tree.leaves(example(spec, LONGEST))])
def test_a_whole_number_given_for_a_real_setting_acts_as_the_real_number(spec):
    encoding, _ = ready(spec)
    real = jax.tree.map(lambda leaf: float(max(1, round(leaf))), encoding)
    whole = jax.tree.map(int, real)
    parameters = drawn_parameters(real, WIDTH, 0)
    query, key = vectors(10, LONGEST, WIDTH)
    arguments = (parameters, query, key, jnp.arange(LONGEST), jnp.arange(LONGEST))
    with jax.numpy_dtype_promotion("standard"):
        expected = logits_of(real, *arguments)
        np.testing.assert_allclose(logits_of(whole, *arguments), expected, rtol=1e-6, atol=1e-6)
        np.testing.assert_allclose(
            logits_of(whole.tabulated(WIDTH, LONGEST), *arguments), expected, rtol=1e-6, atol=1e-6
        )
        start = quick_jit(lambda encoding: encoding.initialize_head(jax.random.key(0), WIDTH))
        jax.tree.map(np.testing.assert_array_equal, start(whole), start(real))


@pytest.mark.parametrize("spec", SPECS)
def test_a_whole_number_given_for_a_real_setting_names_the_same_cell(spec):
    real = jax.tree.map(lambda leaf: float(max(2, round(leaf))), example(spec, LONGEST))
    if name_of(spec) == "kerple-power":
        real = jax.tree.map(lambda _: 1.0, real)
    whole = jax.tree.map(int, real)
    cells = [Cell(entry, FixedOffset(2), model=Head(WIDTH), lengths=(12,)).resolved() for entry in (whole, real)]
    assert cells[0].identity == cells[1].identity


@pytest.mark.parametrize("spec", ALL_SPECS)
def test_the_configuration_survives_json(spec):
    encoding, registry = example(spec, LONGEST), registry_of(spec)
    again = registry.from_config(json.loads(json.dumps(registry.config(encoding), allow_nan=False)))
    assert again == encoding
    assert hash(again) == hash(encoding)


@pytest.mark.parametrize("spec", ALL_SPECS)
def test_resolving_again_changes_nothing(spec):
    encoding = example(spec, LONGEST)
    assert encoding.resolved(TRAINED, LONGEST) == encoding


def test_every_registered_encoding_is_covered():
    assert {name_of(spec) for spec in SPECS} == set(encodings)
    assert len(set(ALL_SPECS)) == len(ALL_SPECS)


@pytest.mark.parametrize("name", list(filter(needs_nothing, encodings)))
def test_an_encoding_is_built_alone_by_its_name_and_a_width(name):
    settings = {"original_length": 16} if "original_length" in vars(encodings.get(name)) else {}
    encoding = get(name, dim=64, **settings)
    assert encodings.name_of(encoding) == name
    start = jax.eval_shape(lambda: encoding.initialize_head(jax.random.key(0), 64))
    assert all(leaf.dtype == jnp.float32 for leaf in jax.tree.leaves(start))


@pytest.mark.parametrize("name", list(encodings))
def test_an_unknown_setting_is_refused(name):
    with pytest.raises(FarfieldError, match=f"unknown setting of encoding '{name}' 'nonsense'"):
        encodings.parse(f"{name}:nonsense=1")


@pytest.mark.parametrize(("spec", "changes", "reason"), BAD_SETTINGS)
def test_a_setting_that_cannot_work_is_refused_before_anything_runs(spec, changes, reason):
    with pytest.raises(FarfieldError, match=reason):
        Cell(encodings.parse(spec), FixedOffset(2), **changes).resolved()
