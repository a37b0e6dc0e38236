"""The carrier: the direction that all keys, and all queries, share before rotation (arXiv 2607.18759, section 4.2)."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from jaxtyping import Float, Int

from farfield.probes.attention import TIE


class Carrier(NamedTuple):
    """Carrier measurements of one head.

    Attributes:
        key, query: share of the mean square that the mean vector holds, ||mean||^2 / E||.||^2.
        key_debiased, query_debiased: the same with sampling bias removed, :func:`debiased`.
        cos_rotated: cos(m_Q, R_{-K} m_K), 1 for a carrier rotated exactly to the target; None without rotation.
        cos_unrotated: cos(m_Q, m_K).
        profile: phi_c(offset) = m_Q^T R_offset m_K, by offset; None without rotation.
        peak: the offset within reach of training where the profile is largest; None without rotation, or if no offset
            is within reach.
    """

    key: float
    query: float
    key_debiased: float
    query_debiased: float
    cos_rotated: float | None
    cos_unrotated: float
    profile: Float[np.ndarray, " offset"] | None
    peak: int | None


def fraction(projections: Float[np.ndarray, "sample width"]) -> float:
    """||mean||^2 / E||x||^2 of keys or queries before rotation; 1/N for N unrelated directions, NaN for zeros."""
    mean = projections.mean(axis=0)
    return _quotient(mean @ mean, np.square(projections).sum(axis=-1).mean())


def debiased(value: float, samples: int) -> float:
    """Remove what N unrelated samples would show: (N c - 1) / (N - 1); NaN for a single sample."""
    return (samples * value - 1) / (samples - 1) if samples > 1 else float("nan")


def rotate(
    vector: Float[np.ndarray, " width"], offsets: Int[np.ndarray, " offset"], theta: Float[np.ndarray, " half"]
) -> Float[np.ndarray, "offset width"]:
    """R_offset vector for each offset; pair i is (i, i + d/2) and turns by offset * theta_i."""
    a, b = np.split(vector, 2)
    angle = np.asarray(offsets)[:, None] * theta
    return np.concatenate([a * np.cos(angle) - b * np.sin(angle), a * np.sin(angle) + b * np.cos(angle)], axis=-1)


def profile(
    mean_query: Float[np.ndarray, " width"],
    mean_key: Float[np.ndarray, " width"],
    offsets: Int[np.ndarray, " offset"],
    theta: Float[np.ndarray, " half"],
) -> Float[np.ndarray, " offset"]:
    """Carrier-only profile phi_c(offset) = m_Q^T R_offset m_K, in unscaled logit units (Lemma 2)."""
    return rotate(mean_key, offsets, theta) @ mean_query


def cosine(a: Float[np.ndarray, " width"], b: Float[np.ndarray, " width"]) -> float:
    """Cosine of the angle between two vectors; NaN where one is zero."""
    return _quotient(a @ b, np.linalg.norm(a) * np.linalg.norm(b))


def _quotient(numerator: Any, denominator: Any) -> float:
    return float(numerator / denominator) if denominator else float("nan")


def carrier(
    queries: Float[np.ndarray, "query width"],
    keys: Float[np.ndarray, "key width"],
    offsets: Int[np.ndarray, " offset"],
    reach: int,
    target: int | None,
    theta: Float[np.ndarray, " half"] | None,
) -> Carrier:
    """All carrier measurements.

    Args:
        queries, keys: projections before rotation, in the half-split pair layout.
        offsets: offsets key - query for the profile.
        reach: the peak is looked for from offset ``-reach`` to 0, so that it does not depend on test lengths.
        target: the task's offset -K, or None.
        theta: rotary frequencies, or None for an encoding that does not rotate.
    """
    # Squares of large weights overflow float32.
    queries, keys = np.asarray(queries, np.float64), np.asarray(keys, np.float64)
    mean_query, mean_key = queries.mean(axis=0), keys.mean(axis=0)
    key, query = fraction(keys), fraction(queries)
    by_offset = None if theta is None else profile(mean_query, mean_key, offsets, theta)
    rotated = None
    if theta is not None and target is not None:
        rotated = cosine(mean_query, rotate(mean_key, np.array([target]), theta)[0])
    return Carrier(
        key=key,
        query=query,
        key_debiased=debiased(key, len(keys)),
        query_debiased=debiased(query, len(queries)),
        cos_rotated=rotated,
        cos_unrotated=cosine(mean_query, mean_key),
        profile=by_offset,
        peak=None if by_offset is None else _peak(by_offset, np.asarray(offsets), reach),
    )


def _peak(profile: Float[np.ndarray, " offset"], offsets: Int[np.ndarray, " offset"], reach: int) -> int | None:
    near = (offsets >= -reach) & (offsets <= 0)
    shown = profile[near]
    # Where every offset has the same score, as with frequencies of zero, there is no peak.
    if not shown.size or not np.isfinite(shown).all() or (shown.size > 1 and np.ptp(shown) <= TIE * abs(shown).max()):
        return None
    return int(offsets[near][shown.argmax()])
