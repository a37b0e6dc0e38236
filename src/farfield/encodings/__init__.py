"""Positional encodings, one file a family. ``encodings`` is the registry; a file put here fills it."""

from __future__ import annotations

from typing import Any

from farfield._checks import index
from farfield.encodings.base import Encoding, HeadContent, encodings
from farfield.errors import FarfieldError
from farfield.registry import import_all

import_all(__name__, __path__)

parse = encodings.parse
register = encodings.register


def get(name: str, *, dim: int | None = None, **settings: Any) -> Encoding:
    """The encoding ``name`` with settings, to be used alone.

    >>> get("rope", dim=64, base=500000)
    Rope(base=500000.0, layout='half', fraction=1.0)

    Args:
        dim: the dimension it will act on; settings that cannot work there are refused at once.

    Raises:
        FarfieldError: naming the setting, the reason and the mend.
    """
    encoding = encodings.get(name, **settings)
    if dim is not None:
        width = index(dim)
        if width is None or width < 1:
            raise FarfieldError(f"dim = {dim!r} must be a whole number from 1 up")
        encoding.check(width, 1)
    return encoding


__all__ = ["Encoding", "HeadContent", "encodings", "get", "parse", "register"]
