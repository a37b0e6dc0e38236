"""Names of other projects, and numbers that are one number in several spellings."""

from __future__ import annotations

import dataclasses
import math

import jax.numpy as jnp
import numpy as np
import pytest

import farfield as ff
from farfield.cell import Cell
from farfield.encodings import encodings
from farfield.errors import FarfieldError
from farfield.models import models
from farfield.normalizers import normalizers
from farfield.positions import regimes
from farfield.registry import Registry, setting, traced
from farfield.study.settings import Settings
from farfield.tasks import tasks
from farfield.tasks.offset import FixedOffset

ROPE = encodings.parse("rope")
REGISTRIES = (encodings, models, normalizers, regimes, tasks)
FIELDS = [
    (registry, name, field)
    for registry in REGISTRIES
    for name in registry
    for field in dataclasses.fields(registry[name])
]
NUMBERS = [entry for entry in FIELDS if entry[2].type in ("float", "int")]
IDS = [f"{name}:{field.name}" for _, name, field in NUMBERS]


@pytest.mark.parametrize(
    ("text", "written"),
    [
        ("linear:factor=8", "position-interpolation:factor=8"),
        ("llama3:low_freq_factor=2,high_freq_factor=8", "llama3:low=2,high=8"),
        ("llama3:original_max_position_embeddings=4096", "llama3:original_length=4096"),
        ("rope:rope_theta=500000", "rope:base=500000"),
        ("default:partial_rotary_factor=.5", "rope:fraction=0.5"),
        ("rope:rotary_pct=.25,rotary_emb_base=500", "rope:base=500,fraction=0.25"),
        ("dynamic:factor=8", "dynamic-ntk:factor=8"),
        ("yarn:beta_fast=64,beta_slow=2,attention_factor=1.5,factor=8", None),
        ("longrope:original_max_position_embeddings=64,long_factor=1;2", "longrope:original_length=64,long_factor=1;2"),
        ("proportional:partial_rotary_factor=.25", "p-rope:share=0.25"),
        ("t5:relative_attention_num_buckets=8,relative_attention_max_distance=20", "t5:buckets=8,distance=20"),
        ("learned:n_positions=64", "learned:rows=64"),
    ],
)
def test_an_encoding_is_read_as_config_json_has_it_and_written_in_our_names(text, written):
    entry = encodings.parse(text)
    if written is not None:
        assert encodings.format(entry) == written
    again = encodings.parse(encodings.format(entry))
    assert encodings.config(again) == encodings.config(entry)
    assert encodings.config(entry)["name"] in encodings


def test_an_alias_names_the_same_cell():
    cells = [
        Cell(encodings.parse(text), FixedOffset(2)).resolved() for text in ("linear:8", "position-interpolation:8")
    ]
    assert cells[0] == cells[1]
    assert cells[0].identity == cells[1].identity
    study = ff.Study(
        name="a", question="Which?", common={"task": "offset:1"}, grid={"encoding": ["linear:rope_theta=5"]}
    )
    assert study.to_json()["grid"]["encoding"] == ["position-interpolation:base=5"]
    pattern = Settings.model_json_schema()["properties"]["encoding"]["anyOf"]
    assert "linear" in str(pattern)


def test_models_take_the_names_of_config_json():
    assert models.parse("transformer:hidden_size=32,num_attention_heads=2,num_hidden_layers=3") == models.get(
        "transformer", width=32, heads=2, layers=3
    )


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("yarn:mscale=1", "'mscale': give attention_factor="),
        ("rope:rope_type=linear", "'rope_type': the type is the encoding's name"),
        ("yarn:max_position_embeddings=8", "give the length of the context before stretching as original_length"),
        ("rope:base=5,rope_theta=6", "sets base twice"),
        ("llama3:low_freq_fctor=1", "did you mean 'low_freq_factor'.*known: base, factor, fraction, high, layout, low"),
        ("lineer", "did you mean 'linear'"),
    ],
)
def test_a_name_that_is_close_or_has_no_field_gets_advice(text, words):
    with pytest.raises(FarfieldError, match=words) as caught:
        encodings.parse(text)
    assert "\n" not in str(caught.value)


def test_show_and_kernel_know_aliases_too():
    assert ff.show("rope", {"rope_theta": 500}, length=8).encoding == encodings.parse("rope:500")
    with pytest.raises(FarfieldError, match="rope_theta is set twice"):
        ff.show("rope:500", {"rope_theta": 500}, length=8)
    with pytest.raises(FarfieldError, match="base is set twice"):
        ff.kernel("rope:rope_theta=500", base=600, length=8)
    with pytest.raises(FarfieldError, match="sets base twice"):
        encodings.get("rope", base=5, rope_theta=5)


def test_a_name_or_alias_that_is_taken_cannot_be_registered():
    registry = Registry("thing")

    @registry.register("one", aliases=("first",))
    @dataclasses.dataclass(frozen=True)
    class One:
        size: int = setting(1, aliases=("breadth",))

    assert registry.name_of(registry.parse("first:breadth=3")) == "one"
    assert list(registry) == ["one"]
    for names in (("first", ()), ("two", ("one",))):
        with pytest.raises(FarfieldError, match="is already registered as One"):
            registry.register(names[0], aliases=names[1])(One)


@pytest.mark.parametrize(("registry", "name", "field"), NUMBERS, ids=IDS)
def test_a_number_is_one_setting_in_every_spelling(registry, name, field):
    """klepto issue 31: float32 0.1 and 0.1, -0.0 and 0.0, 5 and np.int64(5) were two keys."""
    first = dataclasses.fields(registry[name])[0].name
    needed = {} if field.name == first or name not in ("offset", "position", "fraction", "shift") else {first: 1}

    def made(value):
        return repr(getattr(registry.get(name, **needed, **{field.name: value}), field.name))

    if field.type == "int":
        groups = [[3, 3.0, "3", np.int64(3), np.uint8(3), np.float32(3), np.array(3), jnp.int32(3)], [0, "-0", -0.0]]
    else:
        fifth = [
            0.2,
            "0.2",
            np.float32(0.2),
            np.float16(0.2),
            np.float64(0.2),
            np.array(0.2, np.float32),
            jnp.float32(0.2),
        ]
        groups = [fifth, [0, -0.0, "-0", np.float32(-0.0)], [3, np.int64(3), np.float32(3), np.array(3)]]
    for group in groups:
        assert len({made(value) for value in group}) == 1, group
    for wrong in (True, np.True_, math.nan, math.inf, "nan", "-inf", np.float32("nan"), None, 1j, [1]):
        with pytest.raises(FarfieldError, match=f"{name}:{field.name}="):
            made(wrong)


def test_rows_of_numbers_may_be_arrays():
    short = np.array([1, 1.1], np.float32)
    assert encodings.get("longrope", short_factor=short).short_factor == (1.0, 1.1)
    assert encodings.get("longrope", short_factor=jnp.asarray(short)).short_factor == (1.0, 1.1)
    for wrong in (np.array(1.0), np.ones((2, 2)), 3, [True], [math.nan]):
        with pytest.raises(FarfieldError, match="longrope:short_factor"):
            encodings.get("longrope", short_factor=wrong)


@pytest.mark.parametrize("rate", [np.float32(1e-3), np.float64(1e-3), np.array(1e-3, np.float32), jnp.float32(1e-3)])
def test_a_float32_learning_rate_names_the_same_cell(rate):
    plain = Cell(ROPE, FixedOffset(2), learning_rate=1e-3).resolved()
    assert Cell(ROPE, FixedOffset(2), learning_rate=rate).resolved().identity == plain.identity


def test_a_negative_zero_slope_names_the_same_cell():
    cells = [Cell(encodings.parse(f"alibi:slope={slope}"), FixedOffset(2)).resolved() for slope in ("0", "-0", "-0.0")]
    assert len({cell.identity for cell in cells}) == 1


def test_a_traced_field_keeps_its_aliases_apart_from_its_value():
    field = traced(1.0, aliases=("one",))
    assert (field.default, field.metadata["traced"], field.metadata["aliases"]) == (1.0, True, ("one",))
