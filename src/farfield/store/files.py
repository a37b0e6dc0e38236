"""Files written whole or not at all, by many processes at once, and what is said when they cannot be."""

from __future__ import annotations

import errno
import os
import socket
import uuid
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

from farfield.errors import FarfieldError

TEMPORARY = ".writing"


class State(NamedTuple):
    """Size in bytes and time of change in nanoseconds of a file: another state means another content."""

    size: int
    changed: int


def state_of(status: os.stat_result) -> State:
    """The state that the system reports of a file."""
    return State(status.st_size, status.st_mtime_ns)


def write_atomically(path: Path, fill: Callable[[Path], Any], *, new: bool = False) -> State:
    """Write under a temporary name, flush to disk, rename, flush the folder; returns the state of what was written.

    Args:
        new: raise FileExistsError if something has that name already, where the file system can tell.
    """
    temporary = temporary_name(path)
    try:
        fill(temporary)
        flush(temporary)
        state = state_of(temporary.stat())  # before the renaming, after which another writer may have replaced it
        if not (new and _link(temporary, path)):
            temporary.replace(path)
    finally:
        temporary.unlink(missing_ok=True)
    flush(path.parent)
    return state


def check_writable(path: Path) -> None:
    """Raise OSError if :func:`write_atomically` could not write a file, as where its name leaves no room for more."""
    temporary = temporary_name(path)
    temporary.write_bytes(b"")
    temporary.unlink(missing_ok=True)


def _link(temporary: Path, path: Path) -> bool:
    """Give a file a second name that nothing has; whether the file system knows how to."""
    try:
        path.hardlink_to(temporary)
    except FileExistsError:
        raise
    except OSError:
        return False
    return True


def temporary_name(path: Path) -> Path:
    """A name beside ``path`` that says who writes it, and that no other writer takes."""
    writer = f"{os.getpid()}-{uuid.uuid4().hex[:8]}"  # several threads may write the same cell
    return path.with_name(f"{path.name}.{machine()}.{writer}{TEMPORARY}")


def flush(path: Path) -> None:
    """Have the system write a file or a folder to disk; a folder only where its file system knows how to."""
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    except OSError as reason:
        if not (path.is_dir() and reason.errno in (errno.EINVAL, errno.ENOTSUP, errno.EBADF)):
            raise
    finally:
        os.close(descriptor)


def machine() -> str:
    """This machine's name and, of containers that share one, the space in which their processes are numbered."""
    try:
        return f"{socket.gethostname()}-{Path('/proc/self/ns/pid').stat().st_ino}"
    except OSError:  # no Linux
        return socket.gethostname()


def writer_of(leftover: Path) -> tuple[str, int] | None:
    """Machine and process that a temporary file's name gives; None if it is not such a name."""
    name, _, process = leftover.name.removesuffix(TEMPORARY).rpartition(".")
    number = process.partition("-")[0]
    if not leftover.name.endswith(TEMPORARY) or not number.isdigit():
        return None
    return machine() if name.endswith(f".{machine()}") else name, int(number)


def abandoned(leftover: Path) -> bool:
    """Whether a temporary file was left by a process of this machine that is gone."""
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


def first_line(reason: BaseException) -> str:
    """The first line of an error's text."""
    return str(reason).partition("\n")[0].strip()


# What the system may say of a write, for DuckDB wraps it in an account of its own.
SAID = [os.strerror(code) for code in (errno.ENOSPC, errno.EDQUOT, errno.EROFS, errno.EACCES, errno.EIO, errno.ENOENT)]


def in_words(reason: BaseException) -> str:
    """Why something could not be written, in the system's words where it has any."""
    if isinstance(reason, OSError) and reason.strerror:
        return reason.strerror
    return next((said for said in SAID if said in str(reason)), first_line(reason))


def cannot_write(folder: Path, reason: BaseException) -> FarfieldError:
    """The error for a store that cannot be written to."""
    return FarfieldError(
        f"cannot write to {folder}: {in_words(reason)}; what is finished is kept: once this is mended, run the same "
        "command again"
    )
