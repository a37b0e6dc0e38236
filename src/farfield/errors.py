"""Errors a user can cause, each naming the input, the reason and the mend."""

from __future__ import annotations

import difflib
from collections.abc import Iterable
from pathlib import Path


class FarfieldError(ValueError):
    """A mistake in the input. The command line prints it in one line and exits with code 2."""


class StorageError(FarfieldError):
    """A file or folder that cannot be read or written: a full disk, no permission."""


class EngineError(FarfieldError):
    """Nothing more can run on an engine: no worker can start, or the cluster is lost."""


class ListedError(FarfieldError):
    """Several mistakes found in one go. The command line prints each in a line of its own.

    Args:
        lines: one a mistake.
    """

    def __init__(self, lines: Iterable[str]) -> None:
        self.lines = tuple(lines)
        super().__init__("\n".join(self.lines))


def unknown(kind: str, name: str, known: Iterable[str], aliases: Iterable[str] = ()) -> FarfieldError:
    """The error for a name that is not registered, with the nearest spelling.

    Args:
        kind: what the name should have been, for example ``"encoding"``.
        name: what was given.
        known: the names that exist.
        aliases: other spellings that are understood, not listed but suggested.
    """
    known = sorted(known)
    near = difflib.get_close_matches(name.lower(), [*known, *sorted(aliases)], n=1, cutoff=0.5)
    hint = f"did you mean {near[0]!r}? " if near else ""
    return FarfieldError(f"unknown {kind} {name!r}: {hint}known: {', '.join(known)}")


def unwritable(path: Path | str, reason: OSError) -> StorageError:
    """The error for a file of results that cannot be written once its models are finished and stored."""
    return StorageError(
        f"cannot write {path}: {reason.strerror}; finished models are kept: clear this away and run the same command "
        "again"
    )
