"""What the encodings that add a bias share: distances, working precision, and the limits of a setting."""

from __future__ import annotations

import math
from typing import Any

import jax
import jax.numpy as jnp
from jax.core import Tracer
from jaxtyping import Array, Float, Real

from farfield._types import Key, Positions
from farfield.errors import FarfieldError

# Rows of a table, with an eye to memory: more would be a slip of the keyboard.
MOST_ROWS = 2**16
# The same of a table with a row for each position, not each offset.
MOST_POSITIONS = 2**20
# A real setting times a distance of 2**24 or its square stays far inside the range of float32.
LARGEST = 1e12


def precise(dtype: Any) -> Any:
    """The type to compute a bias in: ``dtype`` where it has 32 bits or more, else float32."""
    return dtype if jnp.finfo(dtype).bits >= 32 else jnp.float32


def signed(positions: Positions) -> Positions:
    """Whole positions in a signed type of 32 bits or more, where differences do not wrap; real ones as they are.

    Raises:
        FarfieldError: for positions whose values are known and do not fit.
    """
    positions = jnp.asarray(positions)
    kind = positions.dtype
    if not jnp.issubdtype(kind, jnp.integer) or (jnp.issubdtype(kind, jnp.signedinteger) and kind.itemsize >= 4):
        return positions
    cast = positions.astype(int)
    most = jnp.iinfo(cast.dtype).max
    if not isinstance(positions, Tracer) and positions.size and int(positions.max()) > most:
        raise FarfieldError(f"position {int(positions.max())} is too large: at most {most}")
    return cast


def offsets(query_positions: Positions, key_positions: Positions) -> Real[Array, "query key"]:
    """Key position minus query position: whole numbers, which are exact, or real ones."""
    return signed(key_positions)[None, :] - signed(query_positions)[:, None]


def distances(query_positions: Positions, key_positions: Positions, dtype: Any) -> Float[Array, "query key"]:
    """|key position - query position|. Subtracted before the cast, since 10**6 + 1 has no place in bfloat16."""
    return jnp.abs(offsets(query_positions, key_positions)).astype(dtype)


def normal(key: Key, deviation: Any, *shape: int) -> Float[Array, "..."]:
    """Draws from N(0, deviation**2); zeros where ``deviation`` is 0, which may be traced."""
    draws = jax.random.normal(key, shape)
    return draws * jnp.asarray(deviation, draws.dtype)


def require_real(setting: str, value: float, least: float, most: float, *, open_ends: bool = True) -> None:
    """Refuse a real setting outside (least, most), or outside [least, most] unless ``open_ends``.

    Raises:
        FarfieldError: naming the setting and its range; NaN and the infinities are outside of every range.
    """
    inside = least < value < most if open_ends else least <= value <= most
    if not (math.isfinite(value) and inside):
        ends = "both excluded" if open_ends else "both included"
        raise FarfieldError(f"{setting}={value:g} must be a number between {least:g} and {most:g}, {ends}")


def require_positions(encoding: str, table: str, rows: int, longest: int) -> None:
    """Refuse a table of one row a position that is too large, or too small for the longest run.

    Args:
        encoding: its name.
        table: what it is called.
        rows: its size; 0 for as many as the lengths need.

    Raises:
        FarfieldError: naming the size and what would fit.
    """
    if not 0 <= rows <= MOST_POSITIONS or longest >= MOST_POSITIONS:
        raise FarfieldError(
            f"a {table} of {rows or longest + 1} rows: rows must be from 1 to {MOST_POSITIONS}, or 0 for as many as "
            "the lengths need"
        )
    if rows and longest > rows:
        raise FarfieldError(
            f"length {longest} does not fit the {table} of {rows} rows: use {encoding}:rows={longest} or larger, "
            "shorter lengths, or a relative encoding such as rope"
        )


def require_whole(setting: str, value: int, least: int, most: int = MOST_ROWS) -> None:
    """Refuse a whole-number setting outside [least, most].

    Raises:
        FarfieldError: naming the setting and its range.
    """
    if not least <= value <= most:
        raise FarfieldError(f"{setting}={value} must be a whole number from {least} to {most}")
