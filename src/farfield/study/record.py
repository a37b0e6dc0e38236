"""The study that a folder of results belongs to, as its manifest has it."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from farfield.errors import FarfieldError
from farfield.store import manifest
from farfield.store.files import in_words
from farfield.store.folder import RECORD
from farfield.store.manifest import ANEW
from farfield.study.study import Study


@dataclass(frozen=True)
class Record:
    """The study that a folder holds the cells of.

    Attributes:
        study: as its file had it.
        budget: the one it was last run at; None for the study's own settings.
        command: the command that ran it; None if it was run from Python.
    """

    study: Study
    budget: str | None = None
    command: str | None = None


def write(folder: Path, record: Record, cells: Sequence[str] = ()) -> None:
    """Write the record of a folder as :func:`farfield.store.manifest.write` does.

    Args:
        cells: identities of those that the study asks for.
    """
    manifest.write(folder, record.study.to_json(), record.budget, record.command, cells)


def read(folder: Path) -> Record | None:
    """The record of a folder; None if it has none.

    Raises:
        FarfieldError: if there is one that cannot be read, or holds no study that this version knows.
    """
    path = folder / RECORD
    try:
        content = json.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        return None
    except OSError as reason:
        raise FarfieldError(f"{path} cannot be read: {in_words(reason)}") from None
    except (ValueError, RecursionError):
        raise FarfieldError(f"{path} is damaged: it is no JSON; {ANEW}") from None
    try:
        study = Study(**content["study"])
        record = Record(study, content.get("budget"), content.get("command"))
        study.seeds_of(record.budget)
    except FarfieldError as reason:
        raise FarfieldError(
            f"{path} holds a study that cannot be run: {' '.join(str(reason).split())}; {ANEW}"
        ) from None
    except (KeyError, TypeError, AttributeError, ValueError):
        raise FarfieldError(f"{path} is not what `farfield study run` writes; {ANEW}") from None
    if not isinstance(record.command, str | None):
        raise FarfieldError(f"{path} is not what `farfield study run` writes; {ANEW}")
    return record
