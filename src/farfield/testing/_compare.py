"""Comparisons of arrays whose errors say in one line what was found."""

from __future__ import annotations

from typing import Any

import jax
import numpy as np

from farfield.testing._rules import RuleError


def ensure(condition: Any, found: str) -> None:
    """Demand a condition.

    Args:
        found: what was found where it does not hold.

    Raises:
        RuleError: if it does not.
    """
    if not bool(condition):
        raise RuleError(found)


def close(found: Any, expected: Any, what: str, *, rtol: float = 0.0, atol: float = 0.0) -> None:
    """Demand that two arrays are equal but for rounding.

    Args:
        what: the name of both, for the message.

    Raises:
        RuleError: if they differ.
    """
    found, expected = (np.asarray(array).astype(np.float64) for array in (found, expected))
    _same_shape(found, expected, what)
    if np.allclose(found, expected, rtol=rtol, atol=atol, equal_nan=True):
        return
    ensure(np.isfinite(found).all() and np.isfinite(expected).all(), f"{what} that are not finite numbers")
    gap = np.abs(found - expected)
    worst = np.unravel_index(np.argmax(gap - rtol * np.abs(expected)), gap.shape)
    allowed = atol + rtol * abs(expected[worst])
    raise RuleError(f"{what} differ by {gap[worst]:.2g}, where {allowed:.2g} is allowed for rounding")


def same(found: Any, expected: Any, what: str) -> None:
    """Demand that two arrays are equal.

    Args:
        what: the name of both, for the message.

    Raises:
        RuleError: if they differ.
    """
    found, expected = np.asarray(found), np.asarray(expected)
    _same_shape(found, expected, what)
    if found.dtype.kind not in "fciub":
        found, expected = found.astype(np.float64), expected.astype(np.float64)
    equal = (found == expected) | ((found != found) & (expected != expected))
    ensure(equal.all(), f"{what} differ in {int((~equal).sum())} of {equal.size} places")


def finite(tree: Any, what: str) -> None:
    """Demand that all numbers of a pytree are finite.

    Args:
        what: the name of the numbers, for the message.

    Raises:
        RuleError: naming the first leaf with a number that is not.
    """
    for path, leaf in jax.tree_util.tree_leaves_with_path(tree):
        name = jax.tree_util.keystr(path)
        ensure(np.isfinite(leaf).all(), f"{what} that are not finite numbers{f' in {name}' if name else ''}")


def _same_shape(found: np.ndarray, expected: np.ndarray, what: str) -> None:
    ensure(found.shape == expected.shape, f"{what} of shapes {found.shape} and {expected.shape}")
