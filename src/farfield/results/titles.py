"""Measurements and numbers in words, as a report's page and figures have them."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Literal

from farfield.intervals import Estimate, wilson

NONE = "\N{EN DASH}"

# What an accuracy counts: tokens, or sequences where each asks for one token.
Counted = Literal["tokens", "sequences", "both"]
SHARE_OF: dict[Counted, str] = {
    "tokens": "share of tokens",
    "sequences": "share of sequences",
    "both": "share of tokens (of sequences where one token is asked for)",
}

TITLES = {
    "accuracy": ("Token accuracy", ""),
    "sequence_accuracy": ("Sequence accuracy", "share of sequences with every token right"),
    "selected": ("Selection", "queries whose largest weight is on the right key"),
    "peak_height": ("Peak height", "largest mean attention weight"),
    "target_attention": ("Mass on the target", "mean attention weight of the right key"),
    "selected_offset": (
        "Selected offset",
        "key minus query, where mean attention is largest; of seeds that select one",
    ),
    "selected_offset_without_first": ("Selected offset but the first key", "key minus query; of seeds that select one"),
    "pin": ("Pin", "key position where mean attention is largest"),
    "rule_moved": ("Rule moved", "share of sequences lost where mean attention picks another key"),
    "outcompeted": ("Outcompeted", "share lost where another key is larger in that sequence alone"),
    "diluted": ("Diluted", "share lost although the right key has the largest weight"),
    "right_although_outcompeted": ("Right although outcompeted", "share of sequences"),
    "overlap": ("Overlap", "expected share of test sequences that training has seen"),
    "chance": ("Chance", "accuracy of the best guess that ignores the sequence"),
}


def title_of(probe: str, counted: Counted = "tokens") -> str:
    """What a measurement is called."""
    title = TITLES.get(probe, (probe, ""))[0]
    return "Accuracy" if probe == "accuracy" and counted == "sequences" else title


def meaning_of(probe: str, counted: Counted = "tokens") -> str:
    """What a measurement is, in a few words; empty for one without."""
    if probe == "accuracy":
        return f"{SHARE_OF[counted]} answered correctly"
    return TITLES.get(probe, (probe, ""))[1]


def counted_by(rows: Iterable[str]) -> Counted:
    """What accuracies of such tasks count; ``rows`` are their :attr:`farfield.tasks.Task.rows`.

    >>> counted_by(["last", "last"])
    'sequences'
    """
    found = {*rows}
    if found == {"last"}:
        return "sequences"
    return "both" if "last" in found else "tokens"


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


def kind_of(found: Estimate) -> str:
    """How an interval was made, without the number of seeds."""
    return found.kind.partition(" over ")[0]
