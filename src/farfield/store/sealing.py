"""A Parquet file that holds the hash of its own bytes, so that any changed byte is found before a reader meets it.

The hash stands in the file's footer, which is not compressed, as the value of a key: it is that of the file with
zeros in its place.
"""

from __future__ import annotations

import hashlib
import re
from pathlib import Path

KEY = "farfield_sha256"
BLANK = "0" * 64
# What DuckDB's COPY is to be told so that there is a place for the hash.
OPTION = f"KV_METADATA {{{KEY}: '{BLANK}'}}"
# Key and value as a footer has them, each after its length.
PLACE = re.compile(b"\x18" + bytes([len(KEY)]) + KEY.encode() + b"\x18" + bytes([len(BLANK)]) + b"([0-9a-f]{64})")


def seal(path: Path) -> None:
    """Put the hash into a file that was written with :data:`OPTION`."""
    content = path.read_bytes()
    place = PLACE.search(content)
    assert place is not None
    with path.open("r+b") as file:
        file.seek(place.start(1))
        file.write(hashlib.sha256(content).hexdigest().encode())


def whole(path: Path) -> bool | None:
    """Whether a file's bytes are those that were written; None if it holds no hash. OSError if it cannot be read."""
    content = path.read_bytes()
    place = PLACE.search(content)
    if place is None:
        return None
    blank = content[: place.start(1)] + BLANK.encode() + content[place.end(1) :]
    return hashlib.sha256(blank).hexdigest().encode() == place[1]
