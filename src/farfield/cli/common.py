"""What the commands share: options, the console, and reading of what is written."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.console import Console

from farfield.errors import FarfieldError

Json = Annotated[bool, typer.Option("--json", help="Print one JSON object on standard output, nothing else.")]
Plot = Annotated[Path | None, typer.Option(help="Write a figure here (.png, .svg or .pdf).")]
Workers = Annotated[int | None, typer.Option(help="Threads; one a core by default.", min=1)]


def screen() -> Console:
    """Standard output; off a terminal wide enough that no table is folded. Nothing where there is none."""
    if sys.stdout is None:
        return Console(quiet=True)
    return Console(width=None if sys.stdout.isatty() else 150, soft_wrap=False, highlight=False)


def answer(found: Any, tables: Callable[[Any], Iterable[Any]], as_json: bool) -> None:
    """Print what was found, as one JSON object or as its tables."""
    if as_json:
        print(json.dumps(found.to_json(), indent=1))
        return
    console = screen()
    for part in tables(found):
        console.print(part)


def folder_of(text: str | None) -> Path | None:
    """The folder that --out names (FarfieldError if its name is empty)."""
    if text is not None and not text.strip():
        raise FarfieldError("--out is empty: name a folder")
    return None if text is None else Path(text)


def whole_numbers(option: str, text: str) -> list[int]:
    """Whole numbers separated by commas (FarfieldError for anything else)."""
    try:
        return [int(part) for part in text.split(",")]
    except ValueError:
        raise FarfieldError(f"{option} {text!r}: write whole numbers separated by commas, for example 16,32") from None
