"""Names of folders as DuckDB may be given them: it reads more than a name into many."""

from __future__ import annotations

import contextlib
import re
import tempfile
from collections.abc import Iterator
from pathlib import Path

from farfield._checks import absolute
from farfield.errors import FarfieldError

# Anything else might be a pattern, a sign that escapes another, or no text at all.
PLAIN = re.compile(r"/[\w /.,@%+=:-]*")


@contextlib.contextmanager
def plainly_named(folder: Path) -> Iterator[Path]:
    """A folder under a name in which DuckDB sees nothing but a name: its own, or that of a link to it.

    DuckDB takes a name that it reads for a pattern, and no escape makes every name safe: it splits at a backslash, and
    scans the folder above. The name is absolute, since ``~`` and ``file:`` mean something at its beginning. What it
    reads into folders called ``name=value`` is turned off where it reads.

    Raises:
        FarfieldError: if a link is needed and cannot be made, or its own folder is named as oddly.
    """
    here = absolute(folder)
    if PLAIN.fullmatch(str(here)):
        yield here
        return
    with contextlib.ExitStack() as stack:
        try:
            made = stack.enter_context(tempfile.TemporaryDirectory(prefix="farfield-"))
            link = Path(made).absolute() / "folder"
            link.symlink_to(here, target_is_directory=True)
        except OSError as reason:
            raise _unreachable(folder, f"cannot make a link to it: {reason.strerror}") from None
        if not PLAIN.fullmatch(str(link)):
            raise _unreachable(folder, f"a link to it in {link.parent} is named as oddly")
        yield link


def _unreachable(folder: Path, reason: str) -> FarfieldError:
    return FarfieldError(
        f"{folder} has a name that DuckDB may misread, and {reason}: choose another folder, or set TMPDIR to one "
        "that can be written to"
    )
