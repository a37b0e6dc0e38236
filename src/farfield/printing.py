"""What is printed for a reader, and what for a shell to copy."""

from __future__ import annotations

import hashlib
import re
import shlex
from pathlib import Path

# A row of more numbers than four, as a spec has it.
NUMBER = r"-?\d+(?:\.\d+)?(?:e[-+]?\d+)?"
ROW = re.compile(rf"(?<![\w.;+-]){NUMBER}(?:;{NUMBER}){{4,}}")


def short(text: str) -> str:
    """A text with every long row of numbers cut down to its ends, their count, and a sign that tells it apart.

    >>> short("longrope:short_factor=1.0800000429153442;1.5;2;2.5;3;4.5")
    'longrope:short_factor=1.08;…;4.5 (6 numbers: ea92)'
    """

    def cut(row: re.Match[str]) -> str:
        first, *_, last = numbers = row[0].split(";")
        sign = hashlib.sha256(row[0].encode()).hexdigest()[:4]
        return f"{float(first):.4g};…;{float(last):.4g} ({len(numbers)} numbers: {sign})"

    return ROW.sub(cut, text)


def command(*parts: str | Path) -> str:
    """A command with every part quoted as a shell needs it, and no path that could be read as an option.

    >>> command("farfield", "report", Path("-a b"))
    "farfield report './-a b'"

    Args:
        parts: words of the command, of which paths are given as such.
    """
    return shlex.join(_told_apart(part) if isinstance(part, Path) else part for part in parts)


def _told_apart(path: Path) -> str:
    return f"./{path}" if str(path).startswith(("-", "~")) else str(path)


def number(value: float | None) -> str:
    """A number to the digits that tables print: two decimals, four for small ones, none for whole ones."""
    if value is None:
        return "-"
    if value == int(value) and value != 1:
        return f"{value:.0f}"
    return f"{value:.4f}" if 0 < abs(value) < 0.03 else f"{value:.2f}"
