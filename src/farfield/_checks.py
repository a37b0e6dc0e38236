"""Checks of arguments that several functions of the interface take."""

from __future__ import annotations

import operator
import os
import re
import shlex
from pathlib import Path
from typing import Any

import numpy as np

from farfield.errors import FarfieldError

MOST_WORKERS = 4096
# How an address begins. As a path it would be a folder "s3:" in the current one.
SCHEME = re.compile(r"[A-Za-z][A-Za-z0-9+.-]+:/")


def path_of(value: Any, kind: str) -> Path:
    """The file or folder that a text or a path names: what every path of a user is read by.

    ``~`` and ``~user`` stand for a home folder; what is truly called so is written ``./~``. Reading the answer again
    changes nothing.

    Args:
        value: as the user gave it.
        kind: ``file`` or ``folder``, for the error.

    Raises:
        FarfieldError: for what names none, an address, the home of an unknown user, or a name that is not text. The
            message begins with the value.
    """
    text = os.fspath(value) if isinstance(value, Path) else value
    if not isinstance(text, str) or not text.strip() or "\0" in text:
        raise FarfieldError(f"{value!r} must name a {kind}")
    _text(text)
    if SCHEME.match(text):
        raise FarfieldError(
            f"{text!r} is an address: name a {kind} of this machine, or write {shlex.quote('./' + text)}"
        )
    if text.startswith("~"):
        path = Path(os.path.expanduser(text))  # noqa: PTH111 (pathlib raises where there is no such user)
        user = text.partition("/")[0]
        home = os.path.expanduser(user)  # noqa: PTH111
        here = shlex.quote(f"./{text}")
        if home == user != "~":
            raise FarfieldError(
                f"{text!r}: {user[1:]!r} is not a user of this machine: write {here} for a {kind} of that name here"
            )
        if not (os.path.isabs(home) and os.path.isdir(home)):  # noqa: PTH112, PTH117
            raise FarfieldError(f"{text!r} begins with a user who has no home folder: write {here} for a {kind} here")
        return path
    path = Path(text)
    # pathlib drops the ./ that told such a name apart.
    return absolute(path) if SCHEME.match(str(path)) or str(path).startswith("~") else path


def absolute(path: Path) -> Path:
    """A path that stays the same in a process that goes elsewhere.

    Raises:
        FarfieldError: if the current folder is gone, or has a name that is not text.
    """
    try:
        found = path.absolute()
    except FileNotFoundError:
        raise FarfieldError(f"{path} lies in the current folder, which is gone: go to one that exists") from None
    return _text(found)


def _text(path: Any) -> Any:
    """A path whose bytes on disk are its letters in UTF-8 (FarfieldError if they are not)."""
    if os.fsencode(path) != str(path).encode(errors="ignore"):
        raise FarfieldError(
            f"{str(path)!r} is not a name in UTF-8: choose one that is, since records and pages hold it"
        )
    return path


def checked_path(name: str, value: Any, kind: str = "file") -> Path:
    """:func:`path_of` an argument of the interface; its FarfieldError names the argument."""
    try:
        return path_of(value, kind)
    except FarfieldError as reason:
        raise FarfieldError(f"{name} = {reason}") from None


def plain(value: Any) -> Any:
    """A scalar of NumPy or JAX, or an array without axes, as the Python value that it prints as; all else as it is.

    A float32 0.001 is 0.001, and not 0.0010000000474974513, the float64 nearest to it.
    """
    if getattr(value, "ndim", None) != 0 or not hasattr(value, "dtype"):
        return value
    scalar = np.asarray(value)[()]
    # The kind of bfloat16 is V.
    return float(str(scalar)) if scalar.dtype.kind in "fV" else scalar.item()


def index(value: Any) -> int | None:
    """A Python integer from any kind of integer, numpy's among them; None for all else and for truth values."""
    value = plain(value)
    try:
        return None if isinstance(value, bool) else operator.index(value)
    except TypeError:
        return None


def whole(name: str, value: Any, least: int, most: int) -> int:
    """A whole number from ``least`` to ``most``, of any kind of integer (FarfieldError for anything else)."""
    number = index(value)
    if number is None or not least <= number <= most:
        raise FarfieldError(f"{name} = {plain(value)!r} must be a whole number from {least} to {most}")
    return number


def real(value: Any) -> float:
    """A number of any kind as a float; NaN, which is in no range, for text, truth values and all else."""
    value = plain(value)
    try:
        return float("nan") if isinstance(value, bool | str | bytes) else float(value)
    except (TypeError, ValueError, OverflowError):
        return float("nan")


def checked_folder(name: str, value: Any) -> Path:
    """The folder that an argument names (FarfieldError if it names none)."""
    return checked_path(name, value, "folder")


def checked_out(value: Any) -> Path:
    """The folder that an argument ``out`` names for results (FarfieldError if it names none, or a file is there)."""
    path = checked_folder("out", value)
    for part in (path, *path.parents):
        if os.path.exists(part) and not os.path.isdir(part):  # noqa: PTH110, PTH112 (pathlib raises on long names)
            file = str(path) if part == path else f"{path} lies in {part}, which"
            raise FarfieldError(f"out = {file} is a file, not a folder: choose another name")
    return path


def checked_workers(value: Any) -> int | None:
    """A number of workers, or None (FarfieldError for anything else)."""
    return None if value is None else whole("workers", value, 1, MOST_WORKERS)
