"""Checks of arguments that several functions of the interface take."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from farfield.errors import FarfieldError

MOST_WORKERS = 4096


def checked_folder(name: str, value: Any) -> Path:
    """The folder that an argument names (FarfieldError if it names none)."""
    if not isinstance(value, str | Path) or not str(value).strip() or "\0" in str(value):
        raise FarfieldError(f"{name} = {value!r} must name a folder")
    return Path(value)


def checked_workers(value: Any) -> int | None:
    """A number of workers, or None (FarfieldError for anything else)."""
    whole = isinstance(value, int) and not isinstance(value, bool)
    if value is not None and not (whole and 1 <= value <= MOST_WORKERS):
        raise FarfieldError(f"workers = {value!r} must be a whole number from 1 to {MOST_WORKERS}")
    return value
