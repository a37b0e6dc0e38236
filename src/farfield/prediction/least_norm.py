"""The shortest kernel that meets a set of margins: a least-distance problem, solved exactly and with a certificate.

    minimize ||w||  subject to  G w >= h

Lawson and Hanson, Solving Least Squares Problems (1974), chapter 23, reduce it to non-negative least squares: with
E = [G^T; h^T] and f = (0, .., 0, 1), the u >= 0 that minimizes ||E u - f|| gives w = -r_1 / r_2 with (r_1, r_2) =
E u - f, and there is no w at all where the residual r is 0.

No answer here rests on a tolerance that was chosen. Any u >= 0 proves that every w with G w >= h has

    ||w|| >= h . u / ||G^T u||,

since h . u <= u . G w <= ||G^T u|| ||w||. A solution comes with the best such bound, and the two norms together bound
its distance from the exact one: ||w - w*||**2 <= ||w||**2 - ||w*||**2, as w* is the point of a convex set nearest to 0.
Where no w was found, the bound says how long one would have to be.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np
from jaxtyping import Bool, Float
from scipy.optimize import nnls
from scipy.sparse import csr_array
from scipy.sparse.csgraph import connected_components

EPS = float(np.finfo(np.float64).eps)
# Steps of the least-squares solution on the active constraints; the second takes it from 1e-13 to rounding.
REFINEMENTS = 2


class Shortest(NamedTuple):
    """What is known of the shortest kernel.

    Attributes:
        kernel: w; None where none was found.
        norm: ||w||, infinite without one.
        least: a proven lower bound on the norm of every w that meets the margins; infinite where a row of G is 0 and
            its margin is not.
        error: a bound on the distance of ``kernel`` from the exact one.
        active: constraints with a positive multiplier, those that hold with equality.
        limit: the norm from which on scores are rounded by as much as the largest margin.
    """

    kernel: Float[np.ndarray, " feature"] | None
    norm: float
    least: float
    error: float
    active: Bool[np.ndarray, " constraint"]
    limit: float = 0.0

    @property
    def found(self) -> bool:
        """Whether there is a kernel."""
        return self.kernel is not None

    @property
    def ruled_out(self) -> bool:
        """Whether it is proven that there is none whose margins would show above the rounding of its scores."""
        return not self.found and bool(self.least >= self.limit)


def shortest(matrix: Float[np.ndarray, "constraint feature"], margins: Float[np.ndarray, " constraint"]) -> Shortest:
    """The w of least norm with ``matrix @ w >= margins``.

    Args:
        matrix: G, one row a constraint.
        margins: h, zero or positive.
    """
    matrix, margins = np.asarray(matrix, float), np.asarray(margins, float)
    lengths = np.linalg.norm(matrix, axis=1)
    # Differences of equal features are exact zeros; anything else this small is what rounding left of one.
    nothing = lengths <= 4 * EPS * max(1.0, float(lengths.max(initial=0.0)))
    inactive = np.zeros(len(margins), bool)
    if (nothing & (margins > 0)).any():
        return Shortest(None, math.inf, math.inf, math.inf, inactive)
    if not (margins > 0).any():
        return Shortest(np.zeros(matrix.shape[1]), 0.0, 0.0, 0.0, inactive)
    kept = np.flatnonzero(~nothing)
    solved = _by_component(matrix[kept] / lengths[kept, None], margins[kept] / lengths[kept])
    active = inactive.copy()
    active[kept] = solved.active
    return solved._replace(active=active)


def _by_component(matrix: np.ndarray, margins: np.ndarray) -> Shortest:
    """Constraints that share no feature are solved apart; one-hot features fall into many such parts."""
    filled = csr_array(matrix != 0)
    rows, columns = matrix.shape
    if filled.nnz == rows * columns:
        return _shortest(matrix, margins)
    source, target = filled.nonzero()
    linked = csr_array((np.ones(len(source), np.int8), (source, rows + target)), shape=(rows + columns,) * 2)
    parts, labels = connected_components(linked, directed=False)
    if parts == 1:
        return _shortest(matrix, margins)
    kernel, active, norm, least, error = np.zeros(columns), np.zeros(rows, bool), 0.0, 0.0, 0.0
    failed = False
    for part in range(parts):
        of_rows = np.flatnonzero(labels[:rows] == part)
        if not (margins[of_rows] > 0).any():
            continue
        of_columns = np.flatnonzero(labels[rows:] == part)
        solved = _shortest(matrix[np.ix_(of_rows, of_columns)], margins[of_rows])
        least += solved.least**2
        if solved.kernel is None:
            failed = True
            continue
        kernel[of_columns] = solved.kernel
        active[of_rows] = solved.active
        norm += solved.norm**2
        error += solved.error**2
    if failed:
        return Shortest(None, math.inf, math.sqrt(least), math.inf, np.zeros(rows, bool), _limit(matrix, margins))
    return Shortest(kernel, math.sqrt(norm), math.sqrt(least), math.sqrt(error), active)


def _shortest(matrix: np.ndarray, margins: np.ndarray) -> Shortest:
    """Rows of unit length, all of one part."""
    rows, columns = matrix.shape
    basis = None
    if columns > rows:
        # The solution lies in the span of the rows, so coordinates in that span are enough.
        basis, coordinates = np.linalg.qr(matrix.T)
        matrix = coordinates.T
    # Rows have length 1; margins of about 1 beside them keep the residual of a solution well above rounding.
    solved = _judged(matrix, margins, _multipliers(matrix, margins / margins.max()))
    if basis is not None and solved.kernel is not None:
        solved = solved._replace(kernel=basis @ solved.kernel)
    return solved


def _multipliers(matrix: np.ndarray, margins: np.ndarray) -> np.ndarray:
    """u of the non-negative least-squares problem."""
    stacked = np.vstack([matrix.T, margins])
    wanted = np.zeros(len(stacked))
    wanted[-1] = 1.0
    return nnls(stacked, wanted, maxiter=50 * max(stacked.shape))[0]


def _judged(matrix: np.ndarray, margins: np.ndarray, multipliers: np.ndarray) -> Shortest:
    """The kernel of the constraints with positive multipliers, if it meets the others, and the bound of the latter."""
    rows = len(matrix)
    active, limit = multipliers > 0, _limit(matrix, margins)
    if not active.any():  # f itself is the residual: rounding took every constraint for one of margin 0
        return Shortest(None, math.inf, 0.0, math.inf, active, limit)
    combined = matrix.T @ multipliers
    # What rounding may have taken off: each of the products and sums is right to a share EPS.
    rounding = EPS * rows * multipliers.sum()
    least = float(margins @ multipliers) / (float(np.linalg.norm(combined)) + rounding)
    kernel = np.zeros(matrix.shape[1])
    for _ in range(REFINEMENTS):
        kernel = kernel + np.linalg.lstsq(matrix[active], margins[active] - matrix[active] @ kernel)[0]
    norm = float(np.linalg.norm(kernel))
    tolerance = _rounding(matrix) * norm
    if norm >= limit or (matrix @ kernel - margins).min() < -tolerance:
        return Shortest(None, math.inf, least, math.inf, active, limit)
    return Shortest(kernel, norm, least, math.sqrt(max(0.0, norm**2 - least**2)) + tolerance, active, limit)


def _rounding(matrix: np.ndarray) -> float:
    """Error, for a kernel of norm 1, of a backward stable least-squares solution of at most max(shape) unit rows."""
    return EPS * (max(matrix.shape) + 4) ** 1.5


def _limit(matrix: np.ndarray, margins: np.ndarray) -> float:
    return float(margins.max()) / _rounding(matrix)
