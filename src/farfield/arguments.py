"""Checks of arguments that several functions of the interface take."""

from __future__ import annotations

import os
import re
import shlex
from pathlib import Path
from typing import Any

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
        home = os.path.expanduser(text.partition("/")[0])  # noqa: PTH111
        if not (os.path.isabs(home) and os.path.isdir(home)):  # noqa: PTH112, PTH117
            here = shlex.quote(f"./{text}")
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


def checked_folder(name: str, value: Any) -> Path:
    """The folder that an argument names (FarfieldError if it names none)."""
    return checked_path(name, value, "folder")


def checked_workers(value: Any) -> int | None:
    """A number of workers, or None (FarfieldError for anything else)."""
    whole = isinstance(value, int) and not isinstance(value, bool)
    if value is not None and not (whole and 1 <= value <= MOST_WORKERS):
        raise FarfieldError(f"workers = {value!r} must be a whole number from 1 to {MOST_WORKERS}")
    return value
