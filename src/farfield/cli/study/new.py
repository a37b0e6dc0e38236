"""`farfield study new`."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from farfield.errors import FarfieldError


def new(
    path: Annotated[Path, typer.Argument(help="File to write.")] = Path("study.toml"),
    force: Annotated[bool, typer.Option("--force", help="Replace a file that is there.")] = False,
) -> None:
    """Write a commented example of a study file, which runs as it is in under a minute.

    Examples:

        farfield study new

        farfield study new alibi-slopes.toml
    """
    from farfield.studies.study_file import example

    try:
        with path.open("w" if force else "x", encoding="utf-8") as file:
            file.write(example())
    except FileExistsError:
        raise FarfieldError(f"{path} is there already: name another file, or replace it with --force") from None
    except OSError as reason:
        raise FarfieldError(f"cannot write {path}: {reason.strerror}; name a file in a folder that exists") from None
    print(f"wrote {path}; next: farfield study plan {path}")
