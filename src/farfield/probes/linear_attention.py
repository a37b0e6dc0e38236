"""Fixed-offset retrieval by attention without normalization, as a least-squares problem (arXiv 2607.18759, section 7).

A head that scores a key at offset delta by f(delta) = sum_j A_j cos(delta theta_j + psi_j), whatever the tokens, and
adds up the values so weighted is right at every training length if f is 1 at -K and 0 at the other training offsets.
f has two coefficients a pair, d for a head of width d, and d > |training offsets| leaves them underdetermined.

What that count hides: rotary frequencies lie between 0 and 1 radian a position, far below pi, and the low ones bunch
at 0. A function of that band that is 1 at one whole number and 0 at its neighbours is a superoscillation, and the
singular values of the problem fall by orders of magnitude each: of 16 constraints, 9 or so can be met with
coefficients of ordinary size at *any* width. So the rank has to be given with a tolerance.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from jaxtyping import Float, Int

from farfield.errors import FarfieldError


class Interpolant(NamedTuple):
    """The solution of least norm.

    Attributes:
        coefficients: of the cosines of all pairs, then of the sines.
        theta: the pairs' frequencies, radians per position.
        rank: singular values of the problem that were kept.
        residual: largest distance from the one-hot target over the training offsets.
    """

    coefficients: Float[np.ndarray, " width"]
    theta: Float[np.ndarray, " half"]
    rank: int
    residual: float

    def scores(self, offsets: Int[np.ndarray, " offset"]) -> Float[np.ndarray, " offset"]:
        """f at each offset."""
        return design(self.theta, offsets) @ self.coefficients

    def alignment(self, target: int) -> float:
        """f(target) / sum_j A_j: cos(m_Q, R_target m_K) of mean vectors that split every amplitude evenly.

        1 for a carrier rotated to the target, which reaches the bound of Proposition 1.
        """
        cosines, sines = np.split(self.coefficients, 2)
        return float(self.scores(np.array([target]))[0] / np.hypot(cosines, sines).sum())

    def off_support(self, offsets: Int[np.ndarray, " offset"], target: int) -> float:
        """Largest |f| over ``offsets``, in units of f(target)."""
        return float(np.abs(self.scores(offsets)).max() / abs(self.scores(np.array([target]))[0]))


def design(theta: Float[np.ndarray, " half"], offsets: Int[np.ndarray, " offset"]) -> Float[np.ndarray, "offset width"]:
    """What f is linear in: the cosine, then the sine, of every pair's angle at every offset."""
    angle = np.multiply.outer(np.asarray(offsets, float), np.asarray(theta, float))
    return np.concatenate([np.cos(angle), np.sin(angle)], axis=1)


def exact(matrix: Float[np.ndarray, "rows columns"], dtype: type = np.float64) -> float:
    """Singular values below this share of the largest are rounding, in arithmetic of ``dtype`` (numpy's own rule)."""
    return float(np.finfo(dtype).eps) * max(matrix.shape)


def interpolant(
    theta: Float[np.ndarray, " half"],
    offsets: Int[np.ndarray, " offset"],
    target: int,
    tolerance: float | None = None,
) -> Interpolant:
    """The f of least norm nearest to 1 at ``target`` and 0 at the other training offsets.

    Args:
        theta: rotary frequencies.
        offsets: training offsets, the target among them.
        tolerance: singular values below this share of the largest are dropped; None drops float64's rounding alone.

    Raises:
        FarfieldError: for a target that is not among the offsets.
    """
    if target not in np.asarray(offsets):
        raise FarfieldError(f"target {target} is not among the training offsets {sorted(map(int, offsets))}")
    matrix = design(theta, offsets)
    left, singular, right = np.linalg.svd(matrix, full_matrices=False)
    kept = singular > (exact(matrix) if tolerance is None else tolerance) * singular[0]
    wanted = (np.asarray(offsets) == target).astype(float)
    coefficients = right[kept].T @ ((left[:, kept].T @ wanted) / singular[kept])
    residual = float(np.abs(matrix @ coefficients - wanted).max())
    return Interpolant(coefficients, np.asarray(theta, float), int(kept.sum()), residual)


def rank(theta: Float[np.ndarray, " half"], offsets: Int[np.ndarray, " offset"], dtype: type = np.float64) -> int:
    """How many of the constraints are independent, to the rounding of ``dtype``."""
    matrix = design(theta, offsets)
    singular = np.linalg.svd(matrix, compute_uv=False)
    return int((singular > exact(matrix, dtype) * singular[0]).sum())


def retrieval_accuracy(
    scores: Float[np.ndarray, " offset"],
    target: int,
    vocabulary: int,
    sequences: int,
    generator: np.random.Generator,
) -> float:
    """Accuracy where sum_t f(t - n) v_{s_t} is read out by values of equal norm that are orthogonal to each other.

    The class score of a token is then the sum of f over the places that hold it.

    Args:
        scores: f at the offsets -(L - 1) .. 0 of a sequence of length L.
        target: offset of the token to copy.

    Raises:
        FarfieldError: for a target outside of the sequences.
    """
    length = len(scores)
    if not -length < target <= 0:
        raise FarfieldError(
            f"target {target} is outside of sequences of {length}: use an offset from {1 - length} to 0"
        )
    tokens = generator.integers(0, vocabulary, (sequences, length))
    cells = tokens + vocabulary * np.arange(sequences)[:, None]
    weights = np.broadcast_to(scores, tokens.shape).ravel()
    totals = np.bincount(cells.ravel(), weights, vocabulary * sequences).reshape(sequences, vocabulary)
    return float((totals.argmax(axis=1) == tokens[:, length - 1 + target]).mean())


def axis(projections: Float[np.ndarray, "sample width"]) -> tuple[Float[np.ndarray, " width"], float]:
    """The line through 0 that holds most of the mean square, and the share that it holds.

    Without normalization a head computes the same with any key multiplied by c and its value by 1/c, c negative
    included, so the mean key means nothing; this line does not change with signs. Under softmax the two agree.
    """
    _, singular, right = np.linalg.svd(projections, full_matrices=False)
    return right[0], float(singular[0] ** 2 / np.square(singular).sum())
