"""Numbers, shares and intervals as a report's page and figures write them."""

from __future__ import annotations

from farfield.intervals import Estimate, wilson

NONE = "\N{EN DASH}"


def three(value: float | None) -> str:
    """A number to three decimals, or more where it is small."""
    if value is None:
        return NONE
    return f"{value:.3f}" if abs(value) >= 0.001 or value == 0 else f"{value:.1e}"


def interval_of(found: Estimate | None) -> str:
    """A mean with its interval, if it has one."""
    if found is None:
        return NONE
    ends = "" if found.low is None or found.high is None else f" {_ends(found.low, found.high)}"
    return three(found.mean) + ends


def share_of(count: int, total: int) -> str:
    """How many of all, with Wilson's interval of their share."""
    low, high = wilson(count, total)
    return f"{of(count, total)} {_ends(low, high)}"


def of(count: int, total: int) -> str:
    """How many of all, not to be broken over lines."""
    return f"{count} of {total}".replace(" ", "\N{NO-BREAK SPACE}")


def _ends(low: float, high: float) -> str:
    # Not to be broken over lines.
    return f"[{three(low)},\N{NO-BREAK SPACE}{three(high)}]"


def interval_kind_of(found: Estimate) -> str:
    """How an interval was made, without the number of seeds."""
    return found.kind.partition(" over ")[0]
