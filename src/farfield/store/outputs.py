"""Files that a user names to be written: which of them may be."""

from __future__ import annotations

from pathlib import Path

from farfield.errors import FarfieldError
from farfield.store.files import check_writable


def check_output(output: Path, *, force: bool) -> Path:
    """The file to write, where a link leads.

    Args:
        output: as the user names it.
        force: whether a file that is there may be replaced.

    Raises:
        FarfieldError: for a folder, a device or a pipe, a file that is there, and a file in a folder that is not.
    """
    try:
        file = output.resolve()
        if file.is_dir():
            raise FarfieldError(f"{output} is a folder: name a file in it")
        if not file.parent.is_dir():
            raise FarfieldError(f"there is no folder {file.parent}: make it, or name a file in one that exists")
        there = file.exists()
        if not there:
            check_writable(file)
    except (OSError, RuntimeError) as reason:  # a name that is too long, or links that lead in a circle
        said = getattr(reason, "strerror", None) or reason
        raise FarfieldError(f"cannot write {output}: {said}; name another file") from None
    if there and not file.is_file():
        raise FarfieldError(f"{output} is a device or a pipe: name a file")
    if there and not force:
        raise FarfieldError(f"{output} is there already: name another file, or --force to write over it")
    return file
