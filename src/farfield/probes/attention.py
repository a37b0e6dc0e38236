"""Where the mean attention sits: peak height, selected offset, pin, agreement across lengths."""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np
from jaxtyping import Float, Int

from farfield.errors import FarfieldError


def peak_height(mean_attention: Float[np.ndarray, "length position"]) -> Float[np.ndarray, " length"]:
    """Largest mean attention weight at each length (arXiv 2607.18759, section 5, metrics)."""
    return mean_attention.max(axis=-1)


def selected_offset(
    mean_attention: Float[np.ndarray, "length position"],
    lengths: Int[np.ndarray, " length"],
    *,
    skip_first: bool = False,
) -> Int[np.ndarray, " length"]:
    """Offset key - query of the largest mean attention; the query is at ``length - 1``.

    Args:
        skip_first: leave out position 0, where attention sinks sit (streaming-llm issue 54).

    Raises:
        FarfieldError: as :func:`pin`.
    """
    return pin(mean_attention, lengths, skip_first=skip_first) - (np.asarray(lengths) - 1)


def pin(
    mean_attention: Float[np.ndarray, "length position"],
    lengths: Int[np.ndarray, " length"],
    *,
    skip_first: bool = False,
) -> Int[np.ndarray, " length"]:
    """Absolute position of the largest mean attention (Proposition 2 of arXiv 2607.18759).

    Raises:
        FarfieldError: for a length without a position to choose from, or with more than there are.
    """
    start = int(skip_first)
    _require(mean_attention, lengths, least=start + 1)
    return np.array(
        [start + int(row[start:length].argmax()) for row, length in zip(mean_attention, lengths, strict=True)]
    )


def relative_profiles(
    mean_attention: Float[np.ndarray, "length position"], lengths: Int[np.ndarray, " length"]
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


def equivariance_error(
    mean_attention: Float[np.ndarray, "length position"], lengths: Int[np.ndarray, " length"]
) -> float:
    """Largest :func:`profile_distance` between any two lengths, in relative coordinates."""
    return float(profile_distance(relative_profiles(mean_attention, lengths)).max())


def absolute_error(mean_attention: Float[np.ndarray, "length position"], lengths: Int[np.ndarray, " length"]) -> float:
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


def _require(attention: Float[np.ndarray, "row position"], lengths: Iterable[int], least: int = 1) -> None:
    positions = attention.shape[-1]
    for length in lengths:
        if not least <= length <= positions:
            raise FarfieldError(
                f"length {length} is not one of attention over {positions} positions: use {least} to {positions}"
            )
