"""What is wrong with a study, in plain words, each at its place."""

from __future__ import annotations

import difflib
import math
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, NamedTuple

from farfield.cell_settings import SETTINGS
from farfield.errors import ListedError
from farfield.study.settings import shown
from farfield.study.toml_lines import KeyPlace

MOST_TOLD = 10

# Keys of each level of a study.
TOP = ("name", "question", "seeds", "probes", "common", "grid", "zip", "cell", "budget")
SEEDS = ("model", "data", "evaluation")
# What people write for a setting that has another name here.
OTHER_NAMES = {
    "train": "write the training lengths as lengths = '8:16'",
    "shortest": "write the training lengths as lengths = '8:16'",
    "longest": "write the training lengths as lengths = '8:16'",
    "lr": "did you mean 'learning_rate'?",
    "dense": "write path = 'dense'",
    "seed": "write seeds = [0, 1] at the top of the file",
    "data_seed": "write data under [seeds]",
    "evaluation_seed": "write evaluation under [seeds]",
    "cells": "write each cell under [[cell]]",
}


class Problem(NamedTuple):
    """One mistake.

    Attributes:
        place: keys and numbers of entries that lead to it, ``("grid", "encoding", 2)``; empty for the whole study.
        message: what is wrong and how to mend it.
    """

    place: KeyPlace
    message: str


class StudyError(ListedError):
    """A study that is refused, with all its problems, those beyond the first ten counted."""

    def __init__(self, problems: Iterable[Problem]) -> None:
        self.problems = tuple(problems)
        super().__init__(_few([problem.message for problem in self.problems]))

    def located(self, path: str, lines: Mapping[KeyPlace, int]) -> ListedError:
        """The same with file and line before each message."""
        found = [(_line(problem.place, lines), problem.message) for problem in self.problems]
        found.sort(key=lambda entry: entry[0] or math.inf)
        return ListedError(_few([f"{path}:{line}: {said}" if line else f"{path}: {said}" for line, said in found]))


def _few(messages: Sequence[str]) -> list[str]:
    more = len(messages) - MOST_TOLD
    return [*messages[:MOST_TOLD], f"and {more} more problems"] if more > 0 else list(messages)


def _line(place: KeyPlace, lines: Mapping[KeyPlace, int]) -> int | None:
    """Line of a place, or of the nearest thing around it that the file has."""
    for end in range(len(place), 0, -1):
        if place[:end] in lines:
            return lines[place[:end]]
    return None


def told(errors: Iterable[Mapping[str, Any]]) -> list[Problem]:
    """What pydantic found, in plain words."""
    problems: list[Problem] = []
    for error in errors:
        reason = error.get("ctx", {}).get("error")
        if isinstance(reason, StudyError):
            problems += reason.problems
        else:
            problems.append(Problem(error["loc"], _message(error, reason)))
    return problems


def _message(error: Mapping[str, Any], reason: Exception | None) -> str:
    place: KeyPlace = error["loc"]
    key, given = str(place[-1]), shown(error["input"])
    if reason is not None:
        return str(reason)
    if error["type"] == "extra_forbidden":
        return unknown_key(place)
    if error["type"] == "missing":
        return f"{key} is missing: " + (
            "say in a sentence what the study asks" if key == "question" else "give the study one, as in 'offset-carry'"
        )
    if error["type"] == "tuple_type":
        if place == ("cell",):
            return f"cell = {given} must be a list of cells: write each under [[cell]]"
        return f"{key} = {given} must be a list of values: write {key} = [...], or move it to [common] if it stays"
    if error["type"] in ("model_type", "model_attributes_type", "dict_type"):
        return f"{section_of((*place, ''))} = {given} must be a section of its own, with a setting a line"
    return f"{key} = {given}: {error['msg'][:1].lower()}{error['msg'][1:]}"


def section_of(place: KeyPlace) -> str:
    """The section that the last key of a place stands in, as the file heads it; empty at the top."""
    if len(place) > 1 and place[0] == "cell":
        return "[[cell]]"
    keys = [str(key) if str(key).isprintable() else repr(key) for key in place[:-1]]
    return f"[{'.'.join(keys)}]" if keys else ""


def unknown_key(place: KeyPlace) -> str:
    """The message for a key that the study does not know: its nearest spelling, or the section it belongs to."""
    key, section = str(place[-1]), section_of(place)
    where = f" in {section}" if section else ""
    known = TOP if not section else SEEDS if section.endswith("seeds]") else tuple(SETTINGS)
    known = (*known, "seeds") if place[0] == "budget" and "seeds" not in known and known not in (TOP, SEEDS) else known
    return f"unknown key {shown(key)}{where}: {_advice(key, section, known)}"


def _advice(key: str, section: str, known: Sequence[str]) -> str:
    if key in OTHER_NAMES:
        return OTHER_NAMES[key]
    if key in SETTINGS and not section:
        return f"it belongs in [common], or with a list of values in [grid] to vary it: write {key} below that line"
    if key in SETTINGS:
        return "it belongs in [common]"
    if section and key in TOP:
        return "it belongs at the top of the file, before the first section"
    if key in SEEDS and known is not SEEDS:
        return "it belongs in [seeds]"
    near = difflib.get_close_matches(key.lower(), known, n=1, cutoff=0.6)
    if near:
        return f"did you mean {near[0]!r}?"
    elsewhere = difflib.get_close_matches(key.lower(), SETTINGS, n=1, cutoff=0.7)
    if elsewhere:
        return f"did you mean {elsewhere[0]!r}, which belongs in [common]?"
    return f"known: {', '.join(known)}"
