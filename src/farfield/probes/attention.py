"""Where the mean attention sits: peak height, selected offset, pin, agreement across lengths."""

from __future__ import annotations

import math

import numpy as np
from jaxtyping import Float

from farfield.errors import FarfieldError
from farfield.lengths import Lengths

# Mean weights that differ by less, relative to the larger one, are equal but for rounding.
TIE = 1e-6
# Standard errors of a difference of two mean weights below which it may be chance.
NOISE = 3.0


def peak_height(mean_attention: Float[np.ndarray, "length position"], lengths: Lengths) -> Float[np.ndarray, " length"]:
    """Largest mean attention weight at each length (arXiv 2607.18759, section 5, metrics).

    Uniform attention has 1 / length; a peak is one by what it is above that.
    """
    return np.array([row[:length].max() for row, length in zip(mean_attention, lengths, strict=True)])


def selected_offset(
    mean_attention: Float[np.ndarray, "length position"],
    lengths: Lengths,
    error: Float[np.ndarray, "length position"] | None = None,
    *,
    skip_first: bool = False,
) -> Float[np.ndarray, " length"]:
    """Offset key - query of the largest mean attention, NaN where :func:`pin` is; the query is at ``length - 1``.

    Args:
        error: standard error of the mean attention.
        skip_first: leave out position 0, where attention sinks sit (streaming-llm issue 54).

    Raises:
        FarfieldError: as :func:`pin`.
    """
    return pin(mean_attention, lengths, error, skip_first=skip_first) - (np.asarray(lengths) - 1)


def pin(
    mean_attention: Float[np.ndarray, "length position"],
    lengths: Lengths,
    error: Float[np.ndarray, "length position"] | None = None,
    *,
    skip_first: bool = False,
) -> Float[np.ndarray, " length"]:
    """Absolute position of the largest mean attention (Proposition 2 of arXiv 2607.18759).

    NaN where nothing is selected: no key to choose from, weights that are not numbers, or several keys whose mean
    weights agree: to :data:`TIE`, as all do in uniform attention, or within :data:`NOISE` standard errors, as all do
    where attention does not depend on positions.

    Args:
        error: standard error of the mean attention; None where it is exact.
        skip_first: leave out position 0.

    Raises:
        FarfieldError: for a length without a position, or with more than there are.
    """
    _require(mean_attention, lengths)
    start = int(skip_first)
    errors = np.zeros_like(mean_attention) if error is None else error
    rows = zip(mean_attention, errors, lengths, strict=True)
    return np.array([start + _largest(row[start:length], noise[start:length]) for row, noise, length in rows])


def _largest(row: Float[np.ndarray, " position"], error: Float[np.ndarray, " position"]) -> float:
    """Index of the largest entry, NaN where there is none alone."""
    if not row.size or not np.isfinite(row).all():
        return math.nan
    index = int(row.argmax())
    rivals = np.arange(len(row)) != index
    ahead = row[index] - row[rivals]
    alone = (ahead > TIE * abs(row[index])) & (ahead > NOISE * np.hypot(error[index], error[rivals]))
    return float(index) if alone.all() else math.nan


def relative_profiles(
    mean_attention: Float[np.ndarray, "length position"], lengths: Lengths
) -> Float[np.ndarray, "length offset"]:
    """Mean attention by offset -(shortest - 1) .. 0, the range that every length has.

    Raises:
        FarfieldError: for a length without a position, or with more than there are.
    """
    _require(mean_attention, lengths)
    span = int(min(lengths))
    return np.stack([row[length - span : length] for row, length in zip(mean_attention, lengths, strict=True)])


def profile_distance(profiles: Float[np.ndarray, "length offset"]) -> Float[np.ndarray, "length length"]:
    """Total variation distance between profiles, each first scaled to sum to one over the shared range.

    Scaling takes dilution out: 0 means that two lengths select in the same way, 1 that they share no mass. NaN where
    a profile has no mass at all (sparse weights on other keys).
    """
    mass = profiles.sum(axis=-1, keepdims=True)
    shares = profiles / np.where(mass == 0, np.nan, mass)
    return 0.5 * np.abs(shares[:, None] - shares[None]).sum(axis=-1)


def equivariance_error(mean_attention: Float[np.ndarray, "length position"], lengths: Lengths) -> float:
    """Largest :func:`profile_distance` between any two lengths, in relative coordinates."""
    return float(profile_distance(relative_profiles(mean_attention, lengths)).max())


def absolute_error(mean_attention: Float[np.ndarray, "length position"], lengths: Lengths) -> float:
    """The same in absolute coordinates, over the positions that every length has."""
    _require(mean_attention, lengths)
    return float(profile_distance(mean_attention[:, : int(min(lengths))]).max())


def offset_profile(weights: Float[np.ndarray, "sequence row key"], span: int) -> Float[np.ndarray, " offset"]:
    """Mean attention by offset -(span - 1) .. 0, over every row that has so many keys before it and itself.

    Args:
        weights: attention of a causal head whose rows are all places.

    Raises:
        FarfieldError: for a span that no row has.
    """
    _require(weights[0], [span])
    rows = range(span - 1, weights.shape[1])
    return np.mean([weights[:, row, row - span + 1 : row + 1].mean(axis=0) for row in rows], axis=0)


def _require(attention: Float[np.ndarray, "row position"], lengths: Lengths, least: int = 1) -> None:
    positions = attention.shape[-1]
    for length in lengths:
        if not least <= length <= positions:
            raise FarfieldError(
                f"length {length} is not one of attention over {positions} positions: use {least} to {positions}"
            )
