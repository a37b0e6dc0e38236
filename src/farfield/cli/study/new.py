"""`farfield study new`."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from farfield.cli.common import file_path
from farfield.errors import FarfieldError
from farfield.printing import command


def new(
    path: Annotated[Path, typer.Argument(help="File to write.", parser=file_path)] = Path("study.toml"),
    force: Annotated[bool, typer.Option("--force", help="Replace a file that is there.")] = False,
) -> None:
    """Write a commented example of a study file, which runs as it is in under a minute.

    Examples:

        farfield study new

        farfield study new alibi-slopes.toml
    """
    from farfield.store.files import check_output, write_atomically
    from farfield.study.file import example

    file = check_output(path, force=force)
    try:
        write_atomically(file, lambda temporary: temporary.write_text(example(), encoding="utf-8"))
    except OSError as reason:
        raise FarfieldError(f"cannot write {path}: {reason.strerror}; nothing was left there") from None
    print(f"wrote {path}; next: {command('farfield', 'study', 'plan', path)}")
