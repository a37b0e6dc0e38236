"""Table 1: accuracy by length, rotary against learned absolute positions.

``farfield reproduce implicit-bias --only table1``: 32 heads, about 10 s on two cores. Rotary accuracy falls
slowly past the training length; learned absolute drops to near chance at once.
"""

from farfield.papers.base import Item, Results, Series
from farfield.papers.implicit_bias.setup import PHENOMENON, PUBLISHED, accuracies, by_length, learned, rope
from farfield.papers.verdicts import Comparison


def series() -> Series:
    return {"rope": rope(1), "learned": learned(1)}


def compare(results: Results) -> list[Comparison]:
    published = PUBLISHED["table1"]
    return [
        comparison
        for name, key in (("rope", "rope"), ("learned", "ape"))
        for comparison in by_length(
            f"{name} accuracy", published["L"], published["accuracy"][key], accuracies(results[name]), PHENOMENON
        )
    ]


ITEM = Item("table1", "Accuracy by length, K = 1", __doc__, series, compare)
