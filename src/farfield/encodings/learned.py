"""Learned absolute position embedding."""

from __future__ import annotations

from dataclasses import dataclass, replace

import jax
import jax.numpy as jnp
import numpy as np
from jax.core import Tracer
from jaxtyping import Array, Float, Real

from farfield._types import Key, PyTree
from farfield.encodings.base import Encoding, encodings
from farfield.encodings.parts import require_positions, signed
from farfield.errors import FarfieldError
from farfield.registry import setting

UNSET = 0


@encodings.register("learned")
@dataclass(frozen=True)
class Learned(Encoding):
    """Learned absolute: add a trained vector p_t to the token embedding at position t; the table starts from N(0, 1).

    Rows beyond the longest training length never receive a gradient (Proposition 2 of arXiv 2607.18759).
    A position outside the table is an error, or NaN where positions are traced: never a silent clamp. A position
    between two whole numbers reads what lies between their rows, (1 - f) p_t + f p_(t+1) for t + f (table
    interpolation); a whole number reads its row as it is, whether it comes as an integer or a real number.
    Source: Gehring et al., arXiv 1705.03122, section 3.1.

    Attributes:
        rows: size of the table. 0 means "as many as this run needs": the longest length + 1.
    """

    relative = False

    rows: int = setting(UNSET, aliases=("max_position_embeddings", "n_positions"))

    def resolved(self, trained: int, longest: int) -> Learned:
        return self if self.rows else replace(self, rows=longest + 1)

    def check(self, width: int, longest: int) -> None:
        require_positions("learned", "learned position table", self.rows, longest)

    def initialize(self, key: Key, width: int) -> PyTree:
        return {"table": jax.random.normal(key, (self.rows, width))}

    def embed(self, parameters: PyTree, positions: Real[Array, " position"]) -> Float[Array, "position width"]:
        table, positions = jnp.asarray(parameters["table"]), signed(positions)
        if not isinstance(positions, Tracer):
            self._check_positions(np.asarray(positions), len(table))
        inside = (positions >= 0) & (positions <= len(table) - 1)
        rows = _read(table, positions)
        return jnp.where(inside[..., None], rows, jnp.full_like(rows, jnp.nan))

    def _check_positions(self, positions: np.ndarray, rows: int) -> None:
        outside = positions[~((positions >= 0) & (positions <= rows - 1))]
        if outside.size:
            raise FarfieldError(
                f"position {outside.flat[0]:.10g} is outside the learned position table of {rows} rows "
                f"(0 to {rows - 1}): train with a larger table, or use a relative encoding such as rope"
            )


def _read(table: Float[Array, "row width"], positions: Real[Array, " position"]) -> Float[Array, "position width"]:
    """Rows at ``positions``, arbitrary outside the table."""
    if jnp.issubdtype(positions.dtype, jnp.integer):
        return table.at[positions].get(mode="clip")
    below = jnp.clip(jnp.floor(positions), 0, len(table) - 1)
    fraction = (positions - below)[..., None].astype(table.dtype)
    row = below.astype(jnp.int32)
    low, high = table[row], table.at[row + 1].get(mode="clip")
    # Selected rather than multiplied by 1 and 0: a row that is not read gives neither rounding nor NaN.
    return jnp.where(fraction > 0, (1 - fraction) * low + fraction * high, low)
