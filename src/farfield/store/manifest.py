"""What a folder of results says of the study that made it: ``study.json`` beside the cells."""

from __future__ import annotations

import json
import warnings
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from farfield.errors import FarfieldError
from farfield.store.files import cannot_write, write_atomically
from farfield.store.folder import RECORD
from farfield.store.versions import versions

ANEW = "the next run of the study writes it anew"


class Wanted(NamedTuple):
    """What a study asks for, without the study: name, budget, and identities of the cells."""

    name: str
    budget: str | None
    cells: list[str]


def write(
    folder: Path, study: Mapping[str, Any], budget: str | None, command: str | None, cells: Sequence[str] = ()
) -> None:
    """Write ``study.json``, whole or not at all. The first study in a folder owns it; a damaged record is replaced.

    Args:
        study: as plain data, its name under ``name``.
        budget: the one it is run at; None for the study's own settings.
        command: the command that runs it; None if it is run from Python.
        cells: identities of those that the study asks for.

    Raises:
        FarfieldError: if it cannot be written, or the folder is another study's, before their results mix.
    """
    path = folder / RECORD
    content = {
        "study": study,
        "budget": budget,
        "command": command,
        "versions": versions(),
        "cells": [*cells],
    }
    text = json.dumps(content, indent=1, ensure_ascii=False) + "\n"

    def fill(temporary: Path) -> None:
        temporary.write_text(text, encoding="utf-8")

    before = check_owner(folder, study["name"])
    if before == "":
        warnings.warn(f"{path} could not be read: it is written anew", stacklevel=2)
    try:
        try:
            write_atomically(path, fill, new=before is None)
        except FileExistsError:  # another run began in this moment
            check_owner(folder, study["name"])
            write_atomically(path, fill)
    except OSError as reason:
        raise cannot_write(folder, reason) from None


def owner(folder: Path) -> str | None:
    """Name of the study whose results a folder holds; empty where its record names none, None where there is none."""
    try:
        name = json.loads((folder / RECORD).read_text(encoding="utf-8"))["study"]["name"]
    except FileNotFoundError:
        return None
    except (OSError, ValueError, RecursionError, KeyError, TypeError):
        return ""
    return name if isinstance(name, str) else ""


def check_owner(folder: Path, name: str) -> str | None:
    """The :func:`owner` of a folder; FarfieldError if that is another study than the one of this name."""
    found = owner(folder)
    if found and found != name:
        raise FarfieldError(
            f"{folder} holds the results of the study {found!r}, not of {name!r}: choose another folder with --out"
        )
    return found


def wanted(folder: Path) -> Wanted | None:
    """What was asked for, quickly; None where there is no record, or none that says so."""
    try:
        content = json.loads((folder / RECORD).read_text(encoding="utf-8"))
        found = Wanted(content["study"]["name"], content["budget"], content["cells"])
    except (OSError, ValueError, RecursionError, KeyError, TypeError):
        return None
    names = isinstance(found.name, str) and isinstance(found.budget, str | None) and isinstance(found.cells, list)
    return found if names and found.cells and all(isinstance(cell, str) for cell in found.cells) else None
