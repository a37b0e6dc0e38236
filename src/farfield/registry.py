"""One way to name things: a registry of frozen dataclasses, written ``name:value,field=value``.

Encodings and tasks are frozen dataclasses registered under a name. A registered class

* can be written in one line, ``rope:base=500000`` or ``offset:2`` (a bare value fills the first field),
* may have the names of other projects for itself and its fields, ``linear:rope_theta=500000`` (aliases): they are
  read, and its own names are written,
* has a JSON-able configuration, ``{"name": "rope", "base": 10000.0, "layout": "half"}``, and
* is a JAX pytree: fields declared with :func:`traced` are array leaves, so sweeping them does not
  recompile; all others are part of the program's identity.
"""

from __future__ import annotations

import dataclasses
import functools
import importlib
import math
import pkgutil
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from typing import Any, Generic, TypeVar, get_args, get_origin, get_type_hints

from farfield._checks import plain
from farfield._pytree import register_pytree
from farfield.errors import FarfieldError, unknown
from farfield.spec import format_spec

T = TypeVar("T")
Entry = TypeVar("Entry")

# Positions and what is compared with them are 32-bit whole numbers.
LARGEST_WHOLE = 2**31 - 1


def traced(default: Any = dataclasses.MISSING, *, aliases: Sequence[str] = ()) -> Any:
    """A dataclass field whose value is data to the compiled program rather than part of its shape.

    Args:
        aliases: other names under which it may be set.
    """
    return dataclasses.field(default=default, metadata={"traced": True, "aliases": aliases})


def setting(default: Any = dataclasses.MISSING, *, aliases: Sequence[str]) -> Any:
    """A dataclass field that is part of the program's shape and may be set under other names."""
    return dataclasses.field(default=default, metadata={"aliases": aliases})


def import_all(package: str, path: Iterable[str]) -> None:
    """Import every file of a package, so that what it registers is known: adding a file is enough."""
    for module in pkgutil.iter_modules(path):
        importlib.import_module(f"{package}.{module.name}")


class Registry(Generic[T]):
    """Names to classes of one kind.

    A class may say in ``instead``, a mapping, what to write in place of settings of other projects that it lacks.

    Args:
        kind: singular noun for error messages, for example ``"encoding"``.
    """

    def __init__(self, kind: str) -> None:
        self.kind = kind
        self._classes: dict[str, type[T]] = {}
        self._aliases: dict[str, str] = {}

    def register(self, name: str, *, aliases: Sequence[str] = ()) -> Callable[[type[Entry]], type[Entry]]:
        """Class decorator: make a frozen dataclass known under ``name``.

        Args:
            aliases: other names under which it may be asked for.

        Raises:
            FarfieldError: if a name is taken by another class.
        """

        def add(cls: type[Entry]) -> type[Entry]:
            for taken in {name, *aliases} & self.spellings:
                raise FarfieldError(f"{self.kind} {taken!r} is already registered as {self[taken].__name__}")
            fields = dataclasses.fields(cls)  # pyright: ignore[reportArgumentType]
            data = [field.name for field in fields if field.metadata.get("traced")]
            meta = [field.name for field in fields if not field.metadata.get("traced")]
            register_pytree(cls, data, meta)
            self._classes[name] = cls  # pyright: ignore[reportArgumentType]
            self._aliases |= dict.fromkeys(aliases, name)
            return cls

        return add

    def __iter__(self) -> Iterator[str]:
        return iter(sorted(self._classes))

    def __getitem__(self, name: str) -> type[T]:
        name = self._aliases.get(name, name)
        if name not in self._classes:
            raise unknown(self.kind, name, self._classes, self._aliases)
        return self._classes[name]

    @property
    def spellings(self) -> set[str]:
        """Every name that is understood, aliases among them."""
        return {*self._classes, *self._aliases}

    def field_of(self, name: str, key: str) -> str:
        """The field of the entry ``name`` that ``key`` means, itself or one of its aliases (FarfieldError if none)."""
        cls = self[name]
        fields = _fields_by_spelling(cls)
        if key not in fields:
            advice = getattr(cls, "instead", {}).get(key)
            kind = f"setting of {self.kind} {self._aliases.get(name, name)!r}"
            if advice:
                raise FarfieldError(f"unknown {kind} {key!r}: {advice}")
            raise unknown(kind, key, {*fields.values()}, fields)
        return fields[key]

    def get(self, name: str, **settings: Any) -> T:
        """Build the entry ``name``; a setting that it lacks, or of the wrong kind, is an error."""
        cls = self[name]
        types = _types_of(cls)
        values = {}
        for key, value in settings.items():
            field = self.field_of(name, key)
            if field in values:
                raise FarfieldError(f"{self.kind} {name!r} sets {field} twice: {key} is another name of it")
            values[field] = _convert(f"{name}:{key}", value, types[field])
        try:
            return cls(**values)
        except TypeError as reason:  # a required field left out
            missing = str(reason).split(":")[-1].strip()
            raise FarfieldError(f"{self.kind} {name!r} needs {missing}, for example {name}:1") from None

    def parse(self, text: str) -> T:
        """Build an entry from one line.

        >>> from farfield.encodings import encodings
        >>> encodings.parse("rope:base=500000")
        Rope(base=500000.0, layout='half', fraction=1.0)
        """
        name, settings = self.settings_in(text)
        return self.get(name, **settings)

    def settings_in(self, text: str) -> tuple[str, dict[str, str]]:
        """The name that one line starts with, and what it sets, by field.

        >>> from farfield.encodings import encodings
        >>> encodings.settings_in("llama3:8,low_freq_factor=2")
        ('llama3', {'factor': '8', 'low': '2'})
        """
        name, _, rest = text.partition(":")
        name = name.strip()
        settings: dict[str, str] = {}
        for index, part in enumerate(filter(None, rest.split(","))):
            key, equals, value = part.partition("=")
            if not equals:
                fields = dataclasses.fields(self[name])  # pyright: ignore[reportArgumentType]
                if index or not fields:
                    raise FarfieldError(f"{self.kind} {text!r}: write {part!r} as setting=value")
                key, value = fields[0].name, part
            key = self.field_of(name, key.strip())
            if key in settings:
                raise FarfieldError(f"{self.kind} {text!r} sets {key} twice")
            settings[key] = value.strip()
        return name, settings

    def format(self, entry: T, *, spelled: Collection[str] = ()) -> str:
        """Write an entry as the one line that :meth:`parse` reads back.

        Settings that have their defaults are left out.

        >>> from farfield.encodings import encodings
        >>> encodings.format(encodings.get("rope", base=500000))
        'rope:base=500000'
        >>> encodings.format(encodings.get("rope"), spelled=["base"])
        'rope:base=10000'

        Args:
            spelled: names of settings that are written even where they have their defaults.
        """
        return self.format_config(self.config(entry), spelled=spelled)

    def format_config(self, config: Mapping[str, Any], *, spelled: Collection[str] = ()) -> str:
        """Write a configuration as :meth:`format` writes its entry; one of an unknown name with all its settings."""
        if config["name"] not in self._classes:
            return format_spec(config, {})
        return format_spec(self._without_implied(config, spelled), self.defaults(config["name"]), spelled)

    def _without_implied(self, config: Mapping[str, Any], spelled: Collection[str]) -> dict[str, Any]:
        """A configuration less the settings that its entry fills in from the others, as ALiBi its rule."""
        kept = dict(config)
        for name, default in self.defaults(config["name"]).items():
            if name in kept and name not in spelled and (type(default) is object or default == ""):
                fewer = {key: value for key, value in kept.items() if key != name}
                if self.config(self.from_config(fewer)) == self.config(self.from_config(config)):
                    kept = fewer
        return kept

    def defaults(self, name: str) -> dict[str, Any]:
        """Default of every setting of the entry ``name``, in order; ``dataclasses.MISSING`` where it has none."""
        fields = dataclasses.fields(self[name])  # pyright: ignore[reportArgumentType]
        return {
            field.name: field.default if field.default_factory is dataclasses.MISSING else field.default_factory()
            for field in fields
        }

    def normalized(self, entry: T) -> T:
        """The same entry with every number of its declared kind, so that 10000 and 10000.0 are one setting."""
        return self.from_config(self.config(entry))

    def holds(self, entry: Any) -> bool:
        """Whether ``entry``'s class is registered here."""
        return type(entry) in self._classes.values()

    def name_of(self, entry: T) -> str:
        """The name that ``entry``'s class is registered under."""
        for name, cls in self._classes.items():
            if cls is type(entry):
                return name
        raise FarfieldError(f"{type(entry).__name__} is not registered: decorate it with @register")

    def config(self, entry: T) -> dict[str, Any]:
        """JSON-able configuration of ``entry``; :meth:`from_config` is the inverse."""
        return {"name": self.name_of(entry), **dataclasses.asdict(entry)}  # pyright: ignore[reportArgumentType]

    def from_config(self, config: Mapping[str, Any]) -> T:
        """Rebuild an entry from :meth:`config`'s result."""
        settings = dict(config)
        return self.get(settings.pop("name"), **settings)


@functools.cache
def _types_of(cls: type) -> dict[str, Any]:
    """Types of a class's fields; finding them out is most of the cost of building an entry."""
    return get_type_hints(cls)


@functools.cache
def _fields_by_spelling(cls: type) -> dict[str, str]:
    """Names of a class's fields by every name that they may be set under."""
    fields = dataclasses.fields(cls)
    return {spelling: field.name for field in fields for spelling in (field.name, *field.metadata.get("aliases", ()))}


def _convert(where: str, value: Any, to: Any) -> Any:
    """``value`` as ``to``, accepting text for numbers; refuses what would lose information."""
    value = plain(value)
    if to is bool:
        return _truth(where, value)
    if get_origin(to) is tuple:
        return tuple(_convert(where, part, get_args(to)[0]) for part in _row(where, value))
    if to is str:
        return str(value)
    return _number(where, value, to) if to in (int, float) else value


def _row(where: str, value: Any) -> Iterable[Any]:
    """Numbers in a row, in text separated by semicolons."""
    if isinstance(value, str):
        return [part for part in value.split(";") if part.strip()]
    if not isinstance(value, list | tuple) and getattr(value, "ndim", None) != 1:
        raise FarfieldError(f"{where}={value!r} is not a row of numbers: write them as 1;2;3")
    return value


def _number(where: str, value: Any, to: type[int] | type[float]) -> int | float:
    """A finite number."""
    kind = "a whole number" if to is int else "a number"
    try:
        converted = to(value)
    except (TypeError, ValueError, OverflowError):
        converted = None
    lossless = to is float or isinstance(value, str) or converted == value
    if converted is None or isinstance(value, bool) or not lossless:
        raise FarfieldError(f"{where}={value!r} is not {kind}")
    if not math.isfinite(converted):
        raise FarfieldError(f"{where}={value} must be a finite number")
    if to is int and abs(converted) > LARGEST_WHOLE:
        raise FarfieldError(f"{where}={value!r} is too large: at most {LARGEST_WHOLE}")
    return converted + to(0)  # -0.0 + 0.0 is 0.0


def _truth(where: str, value: Any) -> bool:
    known = {"true": True, "false": False, "1": True, "0": False}
    if str(value).lower() not in known:
        raise FarfieldError(f"{where}={value!r} is neither true nor false")
    return known[str(value).lower()]
