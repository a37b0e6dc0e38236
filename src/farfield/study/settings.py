"""The settings a study gives its cells, named and written as `farfield train` has them, each with its check."""

from __future__ import annotations

import dataclasses
import datetime
import itertools
from collections.abc import Callable, Iterable, Mapping
from typing import TYPE_CHECKING, Annotated, Any, get_args

import numpy as np
import pydantic
from pydantic import BaseModel, BeforeValidator, ConfigDict, Field
from pydantic_core import core_schema

from farfield._checks import plain
from farfield.cell import (
    PARTS,
    REAL,
    WHOLE,
    checked_number,
    checked_snapshots,
    checked_test_lengths,
)
from farfield.cell_settings import LONGEST_TEST, MOST_SEED, MOST_STEPS, SETTINGS
from farfield.errors import FarfieldError, unknown
from farfield.models.base import LogitPath

PATHS = ("auto", *get_args(LogitPath))
MOST_SEEDS = 100_000
# Entries of any other list, longer than all that are of use.
MOST_ENTRIES = 2**20
LONGEST_TEXT = 1000
# Letters of a part with its settings: two rows of a number a pair of the widest head, and more.
LONGEST_PART = 2**17


def shown(value: Any) -> str:
    """A value as a message quotes it: as TOML has it, in one short line."""
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, Mapping):
        return "{...}"
    if isinstance(value, datetime.date | datetime.time):
        return value.isoformat()
    text = repr(value)
    return text if len(text) <= 60 else f"{text[:57]}..."


@dataclasses.dataclass(frozen=True)
class SettingType:
    """A type of the study file: how a value is read, how it is written, and what editors are told.

    Args:
        check: from what was given to what is kept; FarfieldError in plain words for anything wrong.
        written: from what is kept to plain data that ``check`` reads alike.
        schema: as JSON schema.
    """

    check: Callable[[Any], Any]
    written: Callable[[Any], Any]
    schema: Mapping[str, Any]

    def __get_pydantic_core_schema__(self, source: Any, handler: Any) -> core_schema.CoreSchema:
        written = core_schema.plain_serializer_function_ser_schema(self.written)
        return core_schema.no_info_plain_validator_function(self.check, serialization=written)

    def __get_pydantic_json_schema__(self, core: Any, handler: Any) -> dict[str, Any]:
        return dict(self.schema)


def _part(name: str) -> SettingType:
    """An entry of a registry, by its name with settings or itself."""
    registry, example = PARTS[name], SETTINGS[name].example
    optional = name == "test_positions"

    def check(value: Any) -> Any:
        if value is None and optional:
            return None
        if isinstance(value, str):
            if not 0 < len(value.strip()) <= LONGEST_PART:
                raise FarfieldError(f"{name} = {shown(value)} must be a name, as in {example!r}")
            return registry.normalized(registry.parse(value))
        if not registry.holds(value):
            raise FarfieldError(
                f"{name} = {shown(value)} must be a name in quotes, with settings if need be, as in {example!r}"
            )
        return registry.normalized(value)

    names = sorted(registry.spellings)
    schema = {
        "anyOf": [{"enum": names}, {"type": "string", "pattern": f"^({'|'.join(names)}):"}],
        "examples": [example],
    }
    return SettingType(check, lambda entry: None if entry is None else registry.format(entry), schema)


def _number(name: str) -> SettingType:
    def check(value: Any) -> int | float:
        value = plain(value)
        countable = hasattr(value, "__index__") or hasattr(value, "__float__")
        if isinstance(value, bool) or not countable:
            raise FarfieldError(f"{name} = {shown(value)} must be a {'' if name in REAL else 'whole '}number")
        return checked_number(name, value)

    if name in REAL:
        positive = {"exclusiveMinimum": 0} if name == "learning_rate" else {"minimum": 0}
        return SettingType(check, float, {"type": "number", **positive})
    least, most = WHOLE[name]
    return SettingType(check, int, {"type": "integer", "minimum": least, "maximum": most})


def _whole_numbers(
    name: str, read: Callable[[Any], tuple[int, ...]], least: int, most: int, example: str
) -> SettingType:
    """A list of whole numbers that ``read`` checks."""

    def check(value: Any) -> tuple[int, ...]:
        value = plain(value)
        if isinstance(value, str | bytes | Mapping) or not isinstance(value, Iterable):
            raise FarfieldError(f"{name} = {shown(value)} must be a list of whole numbers, for example {example}")
        numbers = [plain(number) for number in itertools.islice(value, MOST_ENTRIES + 1)]
        if len(numbers) > MOST_ENTRIES:
            raise FarfieldError(f"{name}: a list may hold at most {MOST_ENTRIES} numbers")
        for number in numbers:
            if isinstance(number, bool):
                raise FarfieldError(f"{name} holds {shown(number)}: only whole numbers belong there")
        return read(numbers)

    entries = {"type": "integer", "minimum": least, "maximum": most}
    return SettingType(check, list, {"type": "array", "items": entries, "uniqueItems": True})


def _training_lengths(value: Any) -> tuple[int, int]:
    """Shortest and longest training length, from ``"8:16"``, ``"16"`` or a pair of numbers."""
    if isinstance(value, str):
        parts = value.split(":")
        pair = (parts * 2 if len(parts) == 1 else parts) if all(_is_whole(part) for part in parts) else []
        pair = [int(part) for part in pair]
    else:
        value = plain(value)
        pair = list(map(plain, value)) if isinstance(value, list | tuple | np.ndarray) else []
    if len(pair) != 2 or any(isinstance(length, bool) for length in pair):
        raise FarfieldError(f"lengths = {shown(value)}: write the training lengths as SHORTEST:LONGEST, as in '8:16'")
    names = ("shortest", "longest")
    shortest, longest = (int(checked_number(name, length)) for name, length in zip(names, pair, strict=True))
    if shortest > longest:
        raise FarfieldError(f"lengths = {shown(value)}: the shortest must come first, as in '{longest}:{shortest}'")
    return shortest, longest


def _is_whole(text: str) -> bool:
    return text.strip().isascii() and text.strip().isdecimal() and len(text) <= 20


def _path(value: Any) -> str:
    if not isinstance(value, str):
        raise FarfieldError(f"path = {shown(value)} must be one of {', '.join(PATHS)}, in quotes")
    if value not in PATHS:
        raise unknown("path", value[:LONGEST_TEXT], PATHS)
    return value


def _seed_list(value: Any) -> tuple[int, ...]:
    """A number of seeds, 0 .. n-1, or which."""
    value = plain(value)
    if isinstance(value, list | tuple | range | np.ndarray):
        if len(value[MOST_SEEDS : MOST_SEEDS + 1]):  # of a range of any size
            raise FarfieldError(f"seeds: a list may name at most {MOST_SEEDS}")
        named = [_whole_seed(seed) for seed in value]
        if not named or len(set(named)) < len(named):
            raise FarfieldError(f"seeds {shown(named)} must name at least one seed, and none twice")
        return tuple(named)
    if isinstance(value, bool) or not isinstance(value, int) or not 1 <= value <= MOST_SEEDS:
        raise FarfieldError(
            f"seeds = {shown(value)} must be a number of seeds from 1 to {MOST_SEEDS}, or a list of seeds"
        )
    return tuple(range(value))


def _whole_seed(value: Any) -> int:
    return int(_number("seed").check(value))


LENGTHS = SettingType(
    _training_lengths, lambda pair: f"{pair[0]}:{pair[1]}", {"type": "string", "pattern": "^[0-9]+(:[0-9]+)?$"}
)
TEST = _whole_numbers("test", checked_test_lengths, 1, LONGEST_TEST, "[16, 48]")
SNAPSHOTS = _whole_numbers(
    "snapshots", lambda given: checked_snapshots(given, MOST_STEPS), 0, MOST_STEPS, "[0, 200, 1000]"
)
PATH = SettingType(_path, str, {"enum": list(PATHS)})
SEED_LIST = SettingType(
    _seed_list,
    lambda seeds: len(seeds) if seeds == tuple(range(len(seeds))) else list(seeds),
    {
        "anyOf": [
            {"type": "integer", "minimum": 1, "maximum": MOST_SEEDS},
            {
                "type": "array",
                "minItems": 1,
                "uniqueItems": True,
                "items": {"type": "integer", "minimum": 0, "maximum": MOST_SEED},
            },
        ]
    },
)


class Section(BaseModel):
    """A section of a study file: nothing in it is unknown, nothing changes once it is read."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    def given(self) -> dict[str, Any]:
        """What was set, in the order of the fields."""
        return {name: getattr(self, name) for name in type(self).model_fields if name in self.model_fields_set}


def _type_of(name: str) -> SettingType:
    """How the value of a setting is read and written."""
    setting = SETTINGS[name]
    if setting.kind == "part":
        return _part(name)
    if setting.kind in ("whole", "real"):
        return _number(name)
    return {"lengths": LENGTHS, "test": TEST, "snapshots": SNAPSHOTS, "path": PATH}[name]


TYPES = {name: _type_of(name) for name in SETTINGS}


def text_of(name: str, value: Any) -> str:
    """A value of a setting in a few words, as the study file has it."""
    written = TYPES[name].written(value)
    return written if isinstance(written, str) else "as in training" if written is None else str(written)


def _as_list(value: Any) -> Any:
    """Any iterable but text and tables as a list."""
    plain = isinstance(value, Iterable) and not isinstance(value, str | bytes | Mapping)
    return list(value) if plain else value


def _axis_of(name: str) -> Any:
    values = Annotated[tuple[Annotated[Any, TYPES[name]], ...], BeforeValidator(_as_list)]
    return (values, Field((), description=f"Values that vary. {SETTINGS[name].help}"))


if TYPE_CHECKING:

    class Settings(Section):
        """Settings of cells. What is left out has the default of `farfield train`; encoding and task have none."""

    class Axes(Section):
        """Settings that vary, each with the list of its values."""
else:
    Settings = pydantic.create_model(
        "Settings",
        __base__=Section,
        __doc__="Settings of cells. What is left out has the default of `farfield train`; encoding and task have none.",
        **{name: (Annotated[Any, TYPES[name]], Field(None, description=SETTINGS[name].help)) for name in SETTINGS},
    )
    Axes = pydantic.create_model(
        "Axes",
        __base__=Section,
        __doc__="Settings that vary, each with the list of its values.",
        **{name: _axis_of(name) for name in SETTINGS},
    )


class SeedAxes(Section):
    """Seeds of weights, of training batches and of test sequences, each a number of them (0 .. n-1) or a list.

    Those of batches and tests are the model's where they are left out; where they are given, every combination is
    run: ``model = 5`` with ``data = 4`` is twenty cells, which tells the spread over weights from that over batches.
    """

    model: Annotated[Any, SEED_LIST] = Field(default=tuple(range(8)), description="Of the initial weights.")
    data: Annotated[Any, SEED_LIST] = Field(default=None, description="Of training batches; the model's if left out.")
    evaluation: Annotated[Any, SEED_LIST] = Field(
        default=None, description="Of test sequences; the model's if left out."
    )


class SeedsOrNumber:
    """Accept a number or a list for :class:`SeedAxes` with a model's seeds alone, and say so to editors."""

    @staticmethod
    def read(value: Any) -> Any:
        return value if isinstance(value, Mapping | SeedAxes) else {"model": value}

    def __get_pydantic_json_schema__(self, core: Any, handler: Any) -> dict[str, Any]:
        return {"anyOf": [*SEED_LIST.schema["anyOf"], handler(core)]}


GivenSeeds = Annotated[SeedAxes, BeforeValidator(SeedsOrNumber.read), SeedsOrNumber()]


class BudgetSettings(Settings):
    """A budget: settings and seeds in place of the study's, for a run that costs less, or more."""

    seeds: GivenSeeds | None = Field(default=None, description="In place of the study's seeds.")
