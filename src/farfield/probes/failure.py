"""Three ways to fail, told apart: the rule moves, the target is outcompeted, or it is diluted.

A sequence of a task with positional targets is answered rightly or wrongly. A wrong answer has one of three causes,
decided by a head's weights, first at the length as a whole, then in the single sequence:

* *rule moved*: the mean attention at this length has its largest weight elsewhere than on the target, or on several
  keys alike, so that the head as a whole does not follow the rule;
* *outcompeted*: the mean attention keeps the target, but in this sequence another key has a weight at least as large;
* *diluted*: in this sequence the target has the largest weight, alone, and the answer is wrong all the same, because
  the many small weights of the other keys add up.

The decay law of the peak height (arXiv 2607.18759, Corollary 2) is about the third alone.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from jaxtyping import Bool, Float, Int, Real

from farfield.lengths import Lengths
from farfield.probes.attention import pin

# The ways, in the order in which they are decided.
WAYS = ("rule_moved", "outcompeted", "diluted")


class Ways(NamedTuple):
    """Shares of all test sequences, at each length. The first four add up to one.

    Attributes:
        right: answered correctly.
        rule_moved: answered wrongly, where the mean attention does not select the target.
        outcompeted: answered wrongly, where it does, and another key's weight is at least the target's.
        diluted: answered wrongly, although the target's weight is the largest, alone.
        right_although_outcompeted: of those that are right, where another key's weight is at least the target's.
    """

    right: Float[np.ndarray, " length"]
    rule_moved: Float[np.ndarray, " length"]
    outcompeted: Float[np.ndarray, " length"]
    diluted: Float[np.ndarray, " length"]
    right_although_outcompeted: Float[np.ndarray, " length"]


def keeps_rule(
    mean_attention: Float[np.ndarray, "length position"],
    error: Float[np.ndarray, "length position"] | None,
    lengths: Lengths,
    targets: Int[np.ndarray, " length"],
) -> Bool[np.ndarray, " length"]:
    """Whether the target has the largest mean attention at each length, alone, beyond chance.

    Args:
        error: standard error of the mean attention; None where it is exact.
        targets: position of the target at each length.
    """
    return pin(mean_attention, lengths, error) == np.asarray(targets)


def ways(
    tested: Int[np.ndarray, " length"],
    correct: Int[np.ndarray, " length"],
    selected: Real[np.ndarray, " length"],
    wrong_selected: Real[np.ndarray, " length"],
    kept: Bool[np.ndarray, " length"],
) -> Ways:
    """Shares from counts of one head, in which every sequence is asked once.

    Args:
        tested: sequences.
        correct: those answered rightly.
        selected: those where the target's weight is the largest, alone.
        wrong_selected: those of them that are answered wrongly.
        kept: whether the mean attention selects the target, :func:`keeps_rule`.
    """
    tested, correct, selected, wrong_selected = (
        np.asarray(counts, float) for counts in (tested, correct, selected, wrong_selected)
    )
    wrong = tested - correct
    return Ways(
        right=correct / tested,
        rule_moved=np.where(kept, 0.0, wrong) / tested,
        outcompeted=np.where(kept, wrong - wrong_selected, 0.0) / tested,
        diluted=np.where(kept, wrong_selected, 0.0) / tested,
        right_although_outcompeted=(correct - (selected - wrong_selected)) / tested,
    )
