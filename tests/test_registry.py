"""Names, settings and configurations of registered encodings and tasks."""

from __future__ import annotations

import dataclasses
import json
from dataclasses import dataclass
from typing import get_args, get_origin, get_type_hints

import jax
import pytest
from hypothesis import given, reject
from hypothesis import strategies as st

from farfield.cell import PARTS, Cell
from farfield.cell_text import parts_text
from farfield.encodings import encodings
from farfield.encodings.rope import Rope
from farfield.errors import FarfieldError
from farfield.registry import LARGEST_WHOLE, Registry, traced
from farfield.study.settings import text_of as study_text
from farfield.tasks import tasks
from farfield.tasks.offset import FixedOffset
from helpers.support import traced_fields
from helpers.task_examples import written

ENTRIES = [(encodings, name, encodings.parse(name)) for name in encodings] + [
    (tasks, name, tasks.parse(written(name))) for name in tasks
]
IDS = [f"{registry.kind}-{name}" for registry, name, _ in ENTRIES]


@dataclass(frozen=True)
class Plain:
    """A class to register, with one field of each kind."""

    size: int = traced(1)
    label: str = "a"
    rate: float = traced(0.5)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("rope", Rope()),
        ("rope:", Rope()),
        ("rope:500", Rope(base=500.0)),
        ("rope:base=500", Rope(base=500.0)),
        ("rope:5e5,layout=interleaved", Rope(base=500000.0, layout="interleaved")),
        (" rope: base = 500 , layout = half ", Rope(base=500.0)),
        ("rope:layout=interleaved,base=500", Rope(base=500.0, layout="interleaved")),
    ],
)
def test_text_with_bare_and_named_settings_builds_the_entry(text, expected):
    assert encodings.parse(text) == expected


def test_a_bare_value_after_the_first_setting_is_refused():
    with pytest.raises(FarfieldError, match="interleaved' as setting=value"):
        encodings.parse("rope:500,interleaved")


@pytest.mark.parametrize("text", ["rope:base=500,base=600", "rope:500,base=600"])
def test_a_setting_given_twice_is_refused_rather_than_one_of_them_dropped(text):
    with pytest.raises(FarfieldError, match="base"):
        encodings.parse(text)


@pytest.mark.parametrize(
    ("registry", "text", "nearest"),
    [
        (encodings, "rop", "rope"),
        (encodings, "ROPE", "rope"),
        (encodings, "lerned", "learned"),
        (tasks, "ofset:2", "offset"),
        (encodings, "rope:bse=5", "base"),
        (encodings, "rope:layuot=half", "layout"),
    ],
)
def test_an_unknown_name_or_setting_gets_the_nearest_spelling(registry, text, nearest):
    with pytest.raises(FarfieldError, match=f"did you mean '{nearest}'") as error:
        registry.parse(text)
    assert "\n" not in str(error.value)


def test_a_name_far_from_all_others_gets_the_list_and_no_guess():
    with pytest.raises(FarfieldError, match=r"unknown encoding 'zzzz': known: .*rope") as error:
        encodings.parse("zzzz")
    assert "did you mean" not in str(error.value)


@pytest.mark.parametrize(
    ("registry", "name", "settings", "reason"),
    [
        (encodings, "rope", {"base": "ten"}, "rope:base='ten' is not a number"),
        (encodings, "rope", {"base": None}, "is not a number"),
        (encodings, "learned", {"rows": "16.5"}, "is not a whole number"),
        (encodings, "learned", {"rows": 16.5}, "is not a whole number"),
        (encodings, "learned", {"rows": float("inf")}, "is not a whole number"),
        (tasks, "offset", {"offset": "two"}, "offset:offset='two' is not a whole number"),
        (tasks, "offset", {"offset": float("nan")}, "is not a whole number"),
    ],
)
def test_a_value_of_the_wrong_kind_names_the_setting_and_the_value(registry, name, settings, reason):
    with pytest.raises(FarfieldError, match=reason):
        registry.get(name, **settings)


def test_a_whole_float_is_taken_as_the_integer_it_is():
    entry = tasks.get("offset", offset=2.0)
    assert entry == FixedOffset(2)
    assert isinstance(entry.offset, int)


def test_an_integer_given_for_a_real_setting_becomes_a_float():
    entry = encodings.get("rope", base=500)
    assert isinstance(entry.base, float)
    assert encodings.config(entry) == {"name": "rope", "base": 500.0, "layout": "half", "fraction": 1.0}


def test_a_required_setting_left_out_is_named_with_an_example():
    with pytest.raises(FarfieldError, match=r"task 'offset' needs 'offset', for example offset:1"):
        tasks.parse("offset")


def test_a_name_cannot_be_registered_twice():
    registry = Registry("thing")
    registry.register("plain")(Plain)
    with pytest.raises(FarfieldError, match="thing 'plain' is already registered as Plain"):
        registry.register("plain")(Rope)
    assert registry["plain"] is Plain


def test_an_entry_of_an_unregistered_class_is_refused_with_the_mend():
    @dataclass(frozen=True)
    class Stranger:
        pass

    with pytest.raises(FarfieldError, match="Stranger is not registered: decorate it"):
        encodings.name_of(Stranger())


REGISTRIES = sorted({id(registry): registry for registry in PARTS.values()}.values(), key=lambda found: found.kind)
NUMBERS = {
    float: st.floats(allow_nan=False, allow_infinity=False) | st.integers(-(10**18), 10**18).map(float),
    int: st.integers(-LARGEST_WHOLE, LARGEST_WHOLE),
    bool: st.booleans(),
}


@st.composite
def entries(draw, registry: Registry):
    """Any entry of a registry, with any numbers for its settings; words have their defaults, as few are allowed."""
    name = draw(st.sampled_from([*registry]))
    defaults, settings = registry.defaults(name), {}
    for field, kind in get_type_hints(registry[name]).items():
        row = get_origin(kind) is tuple
        of = get_args(kind)[0] if row else kind
        if field in defaults and of in NUMBERS and draw(st.booleans()):
            settings[field] = tuple(draw(st.lists(NUMBERS[of]))) if row else draw(NUMBERS[of])
    required = {field: 2 for field, value in defaults.items() if value is dataclasses.MISSING}
    try:
        return registry.get(name, **required | settings)
    except FarfieldError:  # a value that this entry does not allow
        reject()


@pytest.mark.parametrize("registry", REGISTRIES, ids=lambda registry: registry.kind)
@given(data=st.data())
def test_what_is_formatted_is_parsed_as_the_same_entry_and_formatted_alike(registry, data):
    entry = data.draw(entries(registry))
    text, config = registry.format(entry), registry.config(entry)
    assert registry.parse(text) == entry
    assert registry.format(registry.parse(text)) == text
    assert registry.parse(registry.format(entry, spelled=[*config])) == entry
    assert registry.format_config(json.loads(json.dumps(config))) == text


@pytest.mark.parametrize(("registry", "name", "entry"), ENTRIES, ids=IDS)
def test_every_entry_is_formatted_under_its_name(registry, name, entry):
    assert registry.format(entry).partition(":")[0] == name


@pytest.mark.parametrize(
    ("base", "text"), [(1e6, "rope:base=1000000"), (1e16, "rope:base=1e+16"), (0.1, "rope:base=0.1"), (1e4, "rope")]
)
def test_a_number_has_one_spelling_everywhere(base, text):
    entry = encodings.get("rope", base=base)
    cell = Cell(entry, tasks.parse("offset:1"))
    assert [encodings.format(entry), parts_text(cell.config())["encoding"], study_text("encoding", entry)] == [text] * 3


def test_default_settings_are_not_written():
    assert encodings.format(encodings.get("rope")) == "rope"
    assert encodings.format(encodings.get("rope", base=500000, fraction=0.5)) == "rope:base=500000,fraction=0.5"
    assert tasks.format(tasks.get("offset", offset=2)) == "offset:2"


@pytest.mark.parametrize(("registry", "name", "entry"), ENTRIES, ids=IDS)
def test_a_configuration_survives_json_with_equal_value_and_hash(registry, name, entry):
    config = json.loads(json.dumps(registry.config(entry)))
    again = registry.from_config(config)
    assert config["name"] == name
    assert again == entry
    assert hash(again) == hash(entry)
    assert {field.name: type(getattr(again, field.name)) for field in dataclasses.fields(again)} == {
        field.name: type(getattr(entry, field.name)) for field in dataclasses.fields(entry)
    }


@given(
    base=st.floats(1.0001, 1e12), layout=st.sampled_from(["half", "interleaved"]), offset=st.integers(1, 7),
    seed=st.integers(0, 2**32 - 1), rate=st.floats(1e-3, 1e3),
)  # fmt: skip
def test_a_cell_rebuilt_from_its_json_is_the_same_cell(base, layout, offset, seed, rate):
    cell = Cell(Rope(base, layout), FixedOffset(offset), seed=seed, learning_rate=rate).resolved()
    again = Cell.from_config(json.loads(json.dumps(cell.config())))
    assert again == cell
    assert hash(again) == hash(cell)
    assert again.identity == cell.identity == again.resolved().identity


@pytest.mark.parametrize(("registry", "name", "entry"), ENTRIES, ids=IDS)
def test_pytree_leaves_are_exactly_the_traced_fields(registry, name, entry):
    paths = [path for path, _ in jax.tree_util.tree_leaves_with_path(entry)]
    assert [key.name for (key,) in paths] == traced_fields(entry)
    assert jax.tree.leaves(entry) == [getattr(entry, field) for field in traced_fields(entry)]


def test_entries_differing_in_traced_fields_alone_share_a_program_and_others_do_not():
    structure = jax.tree.structure
    assert structure(Rope(base=100.0)) == structure(Rope(base=200.0))
    assert structure(Rope()) != structure(Rope(layout="interleaved"))
    assert structure(FixedOffset(1)) == structure(FixedOffset(2))


def test_entries_with_the_same_fields_and_values_have_different_structures():
    """jaxlib takes registered dataclasses of as many fields for one another, in a compiled function's cache too."""
    registry = Registry("thing")

    @registry.register("this")
    @dataclass(frozen=True)
    class This(Plain):
        pass

    @registry.register("that")
    @dataclass(frozen=True)
    class That(Plain):
        pass

    assert jax.tree.structure(This()) != jax.tree.structure(That())
    assert jax.tree.structure(This()) == jax.tree.structure(This())
    assert jax.tree.map(lambda leaf: leaf, This(2, "b")) == This(2, "b")
    structures = [jax.tree.structure(jax.tree.map(float, entry)) for _, _, entry in ENTRIES]
    assert len(set(structures)) == len(structures)
    for one in structures:
        assert sum(one == other for other in structures) == 1


def test_iteration_gives_names_in_alphabetical_order():
    registry = Registry("thing")
    for name in ("b", "a"):
        registry.register(name)(dataclasses.make_dataclass(name.upper(), [], frozen=True))

    assert list(registry) == ["a", "b"]
