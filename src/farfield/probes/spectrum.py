"""How many directions the key-query product W = W_Q^T W_K uses (arXiv 2607.18759, appendix, "Training dynamics")."""

from __future__ import annotations

import numpy as np
from jaxtyping import Float


def top_energy(query: Float[np.ndarray, "width model"], key: Float[np.ndarray, "width model"]) -> float:
    """Share of ||W||^2 that the largest singular value of W = W_Q^T W_K holds.

    NaN for a product of zeros, and for one of numbers that are none, as diverged training leaves.

    1 for a product of rank one, 1/r for r equal singular values.

    Args:
        query, key: W_Q and W_K, applied as ``x @ W.T``.
    """
    product = query.T @ key
    if not np.isfinite(product).all():
        return float("nan")
    energies = np.square(np.linalg.svd(product, compute_uv=False))
    return float(energies[0] / energies.sum()) if energies.sum() else float("nan")
