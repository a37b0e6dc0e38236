"""A trained bias for each key position, whatever the query: absolute positions at their plainest."""

from __future__ import annotations

from dataclasses import dataclass, replace

import jax.numpy as jnp
import numpy as np
from jax.core import Tracer
from jaxtyping import Array, Float

from farfield._types import Key, Positions, PyTree
from farfield.encodings.base import Encoding, HeadContent, encodings
from farfield.encodings.parts import LARGEST, normal, require_positions, require_real, signed
from farfield.errors import FarfieldError
from farfield.registry import traced

# As many as the longest run needs, plus one.
UNSET = 0


@encodings.register("key-only")
@dataclass(frozen=True)
class KeyOnly(Encoding):
    """One trained bias a key position: add b_j to the logit of the key at position j, for every query.

    The mirror image of a bias for each offset: reflecting j -> n - j turns one into the other, and a fixed position
    into a fixed offset ("A Positional Realizability Theory of Length Generalization in Single-Head Attention",
    abstract, the absolute/relative duality). Rows beyond the longest training length keep their initialization. A
    position outside the table is an error, or NaN where positions are traced.

    Attributes:
        rows: size of the table. 0 means "as many as this run needs": the longest length + 1.
        deviation: standard deviation of the normal initialization; 0 starts from zeros.
    """

    relative = False
    real_positions = False

    rows: int = UNSET
    deviation: float = traced(0.0)

    def resolved(self, trained: int, longest: int) -> KeyOnly:
        return self if self.rows else replace(self, rows=longest + 1)

    def check(self, width: int, longest: int) -> None:
        require_positions("key-only", "table of key biases", self.rows, longest)
        require_real("key-only:deviation", self.deviation, 0, LARGEST, open_ends=False)

    def initialize_head(self, key: Key, width: int) -> PyTree:
        return {"bias": normal(key, self.deviation, self.rows)}

    def bias(
        self, parameters: PyTree, query_positions: Positions, key_positions: Positions, content: HeadContent
    ) -> Float[Array, "query key"]:
        table, key_positions = jnp.asarray(parameters["bias"]), signed(key_positions)
        if not isinstance(key_positions, Tracer):
            _check_positions(np.asarray(key_positions), len(table))
        inside = (key_positions >= 0) & (key_positions < len(table))
        row = jnp.where(inside, table.at[key_positions].get(mode="clip"), jnp.nan)
        return jnp.broadcast_to(row, (len(query_positions), len(row))).astype(content.query.dtype)


def _check_positions(positions: np.ndarray, rows: int) -> None:
    outside = positions[(positions < 0) | (positions >= rows)]
    if outside.size:
        raise FarfieldError(
            f"position {outside.flat[0]} is outside the {rows} biases of key-only (0 to {rows - 1}): train with a "
            "larger table, or use a relative encoding such as rope"
        )
