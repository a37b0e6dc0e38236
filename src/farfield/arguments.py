"""Checks of arguments that several functions of the interface take."""

from __future__ import annotations

import operator
from pathlib import Path
from typing import Any

import numpy as np

from farfield.errors import FarfieldError

MOST_WORKERS = 4096


def plain(value: Any) -> Any:
    """A scalar of NumPy or JAX, or an array without axes, as the Python value that it prints as; all else as it is.

    A float32 0.001 is 0.001, and not 0.0010000000474974513, the float64 nearest to it.
    """
    if getattr(value, "ndim", None) != 0 or not hasattr(value, "dtype"):
        return value
    scalar = np.asarray(value)[()]
    # The kind of bfloat16 is V.
    return float(str(scalar)) if scalar.dtype.kind in "fV" else scalar.item()


def index(value: Any) -> int | None:
    """A Python integer from any kind of integer, numpy's among them; None for all else and for truth values."""
    value = plain(value)
    try:
        return None if isinstance(value, bool) else operator.index(value)
    except TypeError:
        return None


def whole(name: str, value: Any, least: int, most: int) -> int:
    """A whole number from ``least`` to ``most``, of any kind of integer (FarfieldError for anything else)."""
    number = index(value)
    if number is None or not least <= number <= most:
        raise FarfieldError(f"{name} = {plain(value)!r} must be a whole number from {least} to {most}")
    return number


def real(value: Any) -> float:
    """A number of any kind as a float; NaN, which is in no range, for text, truth values and all else."""
    value = plain(value)
    try:
        return float("nan") if isinstance(value, bool | str | bytes) else float(value)
    except (TypeError, ValueError, OverflowError):
        return float("nan")


def checked_folder(name: str, value: Any) -> Path:
    """The folder that an argument names (FarfieldError if it names none)."""
    if not isinstance(value, str | Path) or not str(value).strip() or "\0" in str(value):
        raise FarfieldError(f"{name} = {value!r} must name a folder")
    return Path(value)


def checked_workers(value: Any) -> int | None:
    """A number of workers, or None (FarfieldError for anything else)."""
    return None if value is None else whole("workers", value, 1, MOST_WORKERS)
