"""Commands that are printed for a user to copy into a shell."""

from __future__ import annotations

import shlex
from pathlib import Path


def command(*parts: str | Path) -> str:
    """A command with every part quoted as a shell needs it, and no path that could be read as an option.

    >>> command("farfield", "report", Path("-a b"))
    "farfield report './-a b'"

    Args:
        parts: words of the command, of which paths are given as such.
    """
    return shlex.join(path_in_words(part) if isinstance(part, Path) else part for part in parts)


def path_in_words(path: Path) -> str:
    """A path that neither a shell nor an option's reader takes for anything else, not yet quoted."""
    return f"./{path}" if str(path).startswith(("-", "~")) else str(path)
