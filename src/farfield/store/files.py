"""Files that are written whole or not at all, by many processes at once, and the errors for files that cannot be."""

from __future__ import annotations

import errno
import os
import socket
import uuid
from collections.abc import Callable
from pathlib import Path
from typing import Any

from farfield.errors import FarfieldError

TEMPORARY = ".writing"


def write_atomically(path: Path, fill: Callable[[Path], Any], *, new: bool = False) -> None:
    """Write under a temporary name, flush to disk, rename, and flush the folder.

    Args:
        path: name of the finished file.
        fill: writes the content to the name it is given.
        new: raise FileExistsError if something has that name already, where the file system can tell.
    """
    temporary = temporary_name(path)
    try:
        fill(temporary)
        flush(temporary)
        if not (new and _link(temporary, path)):
            temporary.replace(path)
    finally:
        temporary.unlink(missing_ok=True)
    flush(path.parent)


def check_writable(path: Path) -> None:
    """Raise OSError if :func:`write_atomically` could not write a file, for example because its name is too long."""
    temporary = temporary_name(path)
    temporary.write_bytes(b"")
    temporary.unlink(missing_ok=True)


def _link(temporary: Path, path: Path) -> bool:
    """Give a file a second name that must be free; return whether the file system has hard links."""
    try:
        path.hardlink_to(temporary)
    except FileExistsError:
        raise
    except OSError:
        return False
    return True


def flush(path: Path) -> None:
    """Have the system write a file or a folder to disk; a folder only where its file system can do that."""
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    except OSError as reason:
        if not (path.is_dir() and reason.errno in (errno.EINVAL, errno.ENOTSUP, errno.EBADF)):
            raise
    finally:
        os.close(descriptor)


def write_text(path: Path, text: str) -> None:
    """Write a text file whole or not at all, replacing what is there (OSError)."""
    write_atomically(path, lambda temporary: temporary.write_text(text, encoding="utf-8"))


# Temporary names


def temporary_name(path: Path) -> Path:
    """Return a name beside ``path`` that tells its writer and that no other writer takes."""
    writer = f"{os.getpid()}-{uuid.uuid4().hex[:8]}"  # several threads may write the same cell
    return path.with_name(f"{path.name}.{machine()}.{writer}{TEMPORARY}")


def machine() -> str:
    """Return this machine's name with the namespace of its process numbers, because containers may share a name."""
    try:
        return f"{socket.gethostname()}-{Path('/proc/self/ns/pid').stat().st_ino}"
    except OSError:  # not Linux
        return socket.gethostname()


def writer_of(leftover: Path) -> tuple[str, int] | None:
    """Return machine and process of a temporary file; None for a name that :func:`temporary_name` does not give."""
    name, _, process = leftover.name.removesuffix(TEMPORARY).rpartition(".")
    number = process.partition("-")[0]
    if not leftover.name.endswith(TEMPORARY) or not number.isdigit():
        return None
    return machine() if name.endswith(f".{machine()}") else name, int(number)


def abandoned(leftover: Path) -> bool:
    """Whether the process that wrote a temporary file ran on this machine and has ended."""
    writer = writer_of(leftover)
    if writer is None or writer[0] != machine():
        return False
    try:
        os.kill(writer[1], 0)
    except ProcessLookupError:
        return True
    except PermissionError:
        return False
    return False


def remove_leftovers(folder: Path) -> None:
    """Remove the temporary files of processes of this machine that have ended."""
    for leftover in folder.glob(f"*{TEMPORARY}"):
        if abandoned(leftover):
            leftover.unlink(missing_ok=True)


# Errors


def first_line(reason: BaseException) -> str:
    """Return the first line of an error's text."""
    return str(reason).partition("\n")[0].strip()


# The system's own words, which DuckDB repeats within a longer message.
SYSTEM_WORDS = [
    os.strerror(code) for code in (errno.ENOSPC, errno.EDQUOT, errno.EROFS, errno.EACCES, errno.EIO, errno.ENOENT)
]


def in_words(reason: BaseException) -> str:
    """Return why something could not be written, in the system's words where it has any."""
    if isinstance(reason, OSError) and reason.strerror:
        return reason.strerror
    return next((words for words in SYSTEM_WORDS if words in str(reason)), first_line(reason))


def cannot_write(folder: Path, reason: BaseException) -> FarfieldError:
    """Return the error for a store that cannot be written to."""
    return FarfieldError(
        f"cannot write to {folder}: {in_words(reason)}; what is finished is kept: once this is mended, run the same "
        "command again"
    )


def check_output(output: Path, *, force: bool) -> Path:
    """Return the file that a user names to be written, with links followed.

    Args:
        output: as the user names it.
        force: whether an existing file may be replaced.

    Raises:
        FarfieldError: for a folder, a device or a pipe, an existing file, and a file in a folder that does not exist.
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
