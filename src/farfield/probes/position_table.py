"""What training did to a learned position table (Proposition 2 of arXiv 2607.18759)."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from jaxtyping import Float


class TableNorms(NamedTuple):
    """Mean Euclidean norms of position vectors: at trained positions, and at those never trained."""

    inside: float
    outside: float


def table_norms(table: Float[np.ndarray, "position width"], trained: int) -> TableNorms:
    """Norms of rows below ``trained`` and from it on; NaN for an empty side."""
    norms = np.linalg.norm(table, axis=-1)

    def mean(part: np.ndarray) -> float:
        return float(part.mean()) if part.size else float("nan")

    return TableNorms(mean(norms[:trained]), mean(norms[trained:]))
