"""Settings of encodings by name: what is built, what names the same cell, what is refused."""

from __future__ import annotations

import json

import jax
import jax.numpy as jnp
import pytest

from farfield.cell import Cell
from farfield.encodings import encodings, get
from farfield.errors import FarfieldError
from farfield.models.head import Head
from farfield.tasks.offset import FixedOffset
from helpers.bad_settings import BAD_SETTINGS
from helpers.support import (
    ALL_SPECS,
    LONGEST,
    SPECS,
    example,
    name_of,
    needs_nothing,
    own,
)

pytestmark = pytest.mark.usefixtures("strict_dtypes")


@pytest.mark.parametrize("spec", SPECS)
def test_a_whole_number_given_for_a_real_setting_names_the_same_cell(spec):
    real = jax.tree.map(lambda leaf: float(max(2, round(leaf))), example(spec, LONGEST))
    if name_of(spec) == "kerple-power":
        real = jax.tree.map(lambda _: 1.0, real)
    whole = jax.tree.map(int, real)
    cells = [Cell(entry, FixedOffset(2), model=Head(8), lengths=(12,)).resolved() for entry in (whole, real)]
    assert cells[0].identity == cells[1].identity


def test_the_configuration_of_an_encoding_of_an_own_registry_survives_json():
    encoding = own.parse("triangle:slope=0.25")
    again = own.from_config(json.loads(json.dumps(own.config(encoding), allow_nan=False)))
    assert again == encoding
    assert hash(again) == hash(encoding)


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
