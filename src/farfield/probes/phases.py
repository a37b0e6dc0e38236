"""A carrier-only profile, pair by pair, and the most that it could be (Proposition 1 of arXiv 2607.18759)."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from jaxtyping import Float, Int


class Phases(NamedTuple):
    """m_Q^T R_delta m_K = sum_i r_i cos(delta theta_i - psi_i).

    Attributes:
        amplitude: r_i, the product of the pair's norms in m_Q and m_K.
        phase: psi_i, radians; without meaning where r_i = 0.
        theta: radians per position.
    """

    amplitude: Float[np.ndarray, " half"]
    phase: Float[np.ndarray, " half"]
    theta: Float[np.ndarray, " half"]

    def profile(self, offsets: Int[np.ndarray, " offset"]) -> Float[np.ndarray, " offset"]:
        """The profile at each offset, in unscaled logit units."""
        return np.cos(np.multiply.outer(np.asarray(offsets), self.theta) - self.phase) @ self.amplitude

    @property
    def bound(self) -> float:
        """sum_i r_i, which no offset can exceed."""
        return float(self.amplitude.sum())

    def attained(self, target: int) -> float:
        """Share of :attr:`bound` that the profile attains at ``target``: 1 if, and only if, every pair is aligned."""
        return float(self.profile(np.array([target]))[0] / self.bound)

    def deficit(self, target: int) -> float:
        """What the profile lacks at ``target``, from the pairs' misalignments: sum_i r_i (1 - cos error_i).

        Written as 2 sin^2(error / 2), which keeps its small terms.
        """
        error = target * self.theta - self.phase
        return float(2 * self.amplitude @ np.square(np.sin(error / 2)))

    def misalignment(self, target: int) -> float:
        """Largest |target theta_i - psi_i|, modulo turns, over pairs with r_i > 0."""
        error = (target * self.theta - self.phase + np.pi) % (2 * np.pi) - np.pi
        return float(np.abs(error[self.amplitude > 0]).max(initial=0.0))


def phases(
    mean_query: Float[np.ndarray, " width"], mean_key: Float[np.ndarray, " width"], theta: Float[np.ndarray, " half"]
) -> Phases:
    """Amplitudes and phases of two mean vectors; pair i is (i, i + d/2)."""
    query, key = (np.asarray(vector, float).reshape(2, -1) for vector in (mean_query, mean_key))
    query, key = query[0] + 1j * query[1], key[0] + 1j * key[1]
    product = query * key.conj()
    return Phases(np.abs(product), np.angle(product), np.asarray(theta, float))
