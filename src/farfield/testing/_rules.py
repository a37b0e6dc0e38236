"""How rules are registered and run."""

from __future__ import annotations

import inspect
import traceback
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

import jax

from farfield.errors import FarfieldError, unknown
from farfield.registry import Registry

# Characters of an entry's own text in a message.
LONGEST_TEXT = 80
PACKAGE = str(Path(__file__).parents[1])


class Trial(Protocol):
    """One entry with what its rules need to know about it."""

    @property
    def entry(self) -> Any: ...


@dataclass(frozen=True)
class Rule:
    """One demand on every entry of a kind.

    Attributes:
        name: under which it is asked for.
        sentence: what it demands.
        holds: raises AssertionError for a trial that breaks it.
        applies: whether an entry claims what the rule is about.
    """

    name: str
    sentence: str
    holds: Callable[[Any], None]
    applies: Callable[[Any], bool]


@dataclass(frozen=True)
class Broken:
    """A rule that an entry breaks.

    Attributes:
        found: what was found, or the error that the entry raised, in one line.
    """

    rule: Rule
    found: str


class BrokenRule(AssertionError):  # noqa: N818 (a test fails by it: the name says what happened)
    """An entry breaks rules; the message has one line for each of them.

    Args:
        entry: how the entry is written.
        broken: the rules with what was found.
    """

    def __init__(self, entry: str, broken: Iterable[Broken]) -> None:
        self.entry = entry
        self.broken = tuple(broken)
        super().__init__(
            "\n".join(f"{entry} breaks {b.rule.name}: {b.rule.sentence} Found: {b.found}" for b in self.broken)
        )

    @property
    def names(self) -> tuple[str, ...]:
        """Names of the broken rules."""
        return tuple(broken.rule.name for broken in self.broken)


class Rules(Mapping[str, Rule]):
    """The rules of one kind of entry, by name, in the order in which they run.

    Args:
        registry: where entries of the kind have their names.
    """

    def __init__(self, registry: Registry[Any]) -> None:
        self.registry = registry
        self._rules: dict[str, Rule] = {}

    def __getitem__(self, name: str) -> Rule:
        return self._rules[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._rules)

    def __len__(self) -> int:
        return len(self._rules)

    def rule(self, applies: Callable[[Any], bool] = lambda entry: True) -> Callable[[Callable[[Any], None]], Any]:
        """Decorator: make a function a rule, under its own name and with the first line of its docstring.

        Args:
            applies: whether an entry claims what the rule is about.
        """

        def add(function: Callable[[Any], None]) -> Callable[[Any], None]:
            name = function.__name__
            sentence = (inspect.getdoc(function) or "").partition("\n")[0]
            self._rules[name] = Rule(name, sentence, function, applies)
            return function

        return add

    def check(self, trial: Trial, only: Iterable[str] | None = None) -> None:
        """Run rules on one entry.

        Args:
            only: names of the rules to run; by default all that apply.

        Raises:
            BrokenRule: if the entry breaks any.
            FarfieldError: for an unknown rule, or one asked for that needs a name which the entry lacks.
        """
        broken = []
        for rule in self._chosen(trial.entry, only):
            found = _found(rule, trial)
            if found is not None:
                broken.append(Broken(rule, found))
        if broken:
            raise BrokenRule(self._text(trial.entry), broken)

    def _chosen(self, entry: Any, only: Iterable[str] | None) -> list[Rule]:
        if only is None:
            return [rule for name, rule in self._rules.items() if name != NAMED or self.registry.holds(entry)]
        names = [only] if isinstance(only, str) else list(only)
        for name in names:
            if name not in self._rules:
                raise unknown(f"rule of {self.registry.kind}s", name, self._rules)
        if NAMED in names and not self.registry.holds(entry):
            raise FarfieldError(
                f"rule {NAMED!r} needs a name: decorate {type(entry).__name__} with `register` of {self.registry.kind}s"
            )
        return [self._rules[name] for name in names]

    def _text(self, entry: Any) -> str:
        """How an entry is written on one line of a message."""
        text = self.registry.format(entry) if self.registry.holds(entry) else " ".join(repr(entry).split())
        return text if len(text) <= LONGEST_TEXT else f"{text[: LONGEST_TEXT - 3]}..."


# The rule that reads an entry's name.
NAMED = "configuration"


def _found(rule: Rule, trial: Trial) -> str | None:
    """What a rule finds wrong, None where it holds."""
    try:
        if rule.applies(trial.entry):
            # Both hide mistakes: a type that widens on its own, an axis that is added on its own.
            with jax.numpy_dtype_promotion("strict"), jax.numpy_rank_promotion("raise"):
                rule.holds(trial)
    except RuleError as found:
        return str(found)
    except Exception as error:  # whatever the entry raises is a fault of the entry
        lines = [line.strip() for line in str(error).splitlines() if line.strip()]
        return f"{type(error).__name__}{_place(error)}{': ' if lines else ''}{lines[0] if lines else ''}"
    return None


def _place(error: Exception) -> str:
    """Where the entry's own code raised an error, empty where it is the package's."""
    frames = [frame for frame in traceback.extract_tb(error.__traceback__) if not _foreign(frame.filename)]
    return f" at {Path(frames[-1].filename).name}:{frames[-1].lineno}" if frames else ""


def _foreign(filename: str) -> bool:
    """Whether a file is the package's, a library's or Python's."""
    libraries = ("site-packages", "dist-packages", "<frozen", f"{Path(traceback.__file__).parent}")
    return filename.startswith(PACKAGE) or any(part in filename for part in libraries)


class RuleError(AssertionError):
    """What a rule found wrong, in one line."""
