"""What the commands share: options, the console, and reading of what is written."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.console import Console

from farfield._checks import path_of
from farfield.errors import FarfieldError


def _reader(kind: str) -> Callable[[Any], Path]:
    """What reads a path on the command line, for the option or argument that Typer names in its error."""

    def path(value: Any) -> Path:
        try:
            return path_of(value, kind)
        except FarfieldError as reason:
            raise typer.BadParameter(str(reason)) from None

    return path


file_path, folder_path = _reader("file"), _reader("folder")

Json = Annotated[bool, typer.Option("--json", help="Print one JSON object on standard output, nothing else.")]
Plot = Annotated[Path | None, typer.Option(help="Write a figure here (.png, .svg or .pdf).", parser=file_path)]
Workers = Annotated[int | None, typer.Option(help="Threads; one a core by default.", min=1)]


def screen() -> Console:
    """Standard output; off a terminal wide enough that no table is folded. Nothing where there is none."""
    if sys.stdout is None:
        return Console(quiet=True)
    return Console(width=None if sys.stdout.isatty() else 150, soft_wrap=False, highlight=False)


def answer(
    found: Any, tables: Callable[[Any], Iterable[Any]], as_json: bool, draw: Callable[[], Any] | None = None
) -> None:
    """Print what was found, as one JSON object or as its tables.

    Args:
        draw: writes the figure that was asked for; done first, since the reader of what is printed may go away
            (`| head`). What is found is printed also where it fails.
    """
    try:
        if draw is not None:
            draw()
    finally:
        _print(found, tables, as_json)


def _print(found: Any, tables: Callable[[Any], Iterable[Any]], as_json: bool) -> None:
    if as_json:
        print(json.dumps(found.to_json(), indent=1))
        return
    console = screen()
    for part in tables(found):
        console.print(part)


def whole_numbers(option: str, text: str) -> list[int]:
    """Whole numbers separated by commas (FarfieldError for anything else)."""
    try:
        return [int(part) for part in text.split(",")]
    except ValueError:
        raise FarfieldError(f"{option} {text!r}: write whole numbers separated by commas, for example 16,32") from None
