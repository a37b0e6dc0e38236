"""Figure 1: accuracy, peak height and selected offset against length (K = 1).

``farfield reproduce implicit-bias --only figure1``: the heads of table 1. The rotary offset stays at -1 at
every length and seed; the learned absolute one leaves it at the first unseen length.
"""

from farfield.papers.base import Item, Results
from farfield.papers.implicit_bias.setup import EXACT, PHENOMENON, share_on_target
from farfield.papers.implicit_bias.table1 import series
from farfield.papers.verdicts import Comparison
from farfield.plotting.figures import against_length


def compare(results: Results) -> list[Comparison]:
    return [
        Comparison("rope share of lengths selecting -K", 1.0, EXACT, share_on_target(results["rope"]), PHENOMENON),
        Comparison(
            "learned share of lengths selecting -K",
            None,
            EXACT,
            share_on_target(results["learned"]),
            PHENOMENON,
            incomparable="The paper says that it diverges out of range, without a number.",
        ),
    ]


ITEM = Item(
    "figure1",
    "Accuracy, peak height and selected offset by length, K = 1",
    __doc__,
    series,
    compare,
    lambda results: against_length(results),
    "Past the training length (dotted line) rotary accuracy falls slowly while its selected offset stays at -1; "
    "learned absolute accuracy drops to chance (dashed line) as its selected offset leaves -1.",
)
