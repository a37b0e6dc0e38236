"""Figure 2: attention profiles in relative and in absolute coordinates.

``farfield reproduce implicit-bias --only figure2``: 32 heads, about 10 s on two cores. The print does not say
which offset it shows; K = 2 is used, the smallest for which the paper makes its mechanism claim.
"""

from farfield.papers.base import Item, Results, Series
from farfield.papers.implicit_bias.setup import EXACT, VALIDATION, learned, rope, share_on_target
from farfield.papers.verdicts import Comparison
from farfield.plotting.figures import profiles
from farfield.probes.attention import absolute_error, equivariance_error, pin
from farfield.results.result import CellResult

OFFSET = 2
SHOWN = "The paper shows this and prints no number:"
DISTANCE = (
    f"{SHOWN} total variation distance between profiles scaled to one over the shared range, worst pair of lengths"
)


def series() -> Series:
    return {"rope": rope(OFFSET), "learned": learned(OFFSET)}


def compare(results: Results) -> list[Comparison]:
    comparisons = [
        Comparison("rope share of lengths selecting -K", 1.0, EXACT, share_on_target(results["rope"]), VALIDATION)
    ]
    for name, cells in results.items():
        relative, absolute, pinned = zip(*map(_unseen, cells), strict=True)
        everywhere = [cell.equivariance_error for cell in cells]
        for quantity, values, why in (
            ("distance in relative coordinates", everywhere, f"{DISTANCE}, all lengths."),
            ("distance in relative coordinates, unseen lengths", relative, f"{DISTANCE}."),
            ("distance in absolute coordinates, unseen lengths", absolute, f"{DISTANCE}."),
            ("share of unseen lengths with the peak at a trained position", pinned, f"{SHOWN} the pinning."),
        ):
            comparisons.append(Comparison(f"{name} {quantity}", None, EXACT, values, VALIDATION, why))
    return comparisons


def _unseen(cell: CellResult) -> tuple[float, float, float]:
    """Distances between profiles in relative and absolute coordinates, and pinning, past the training length."""
    unseen = cell.lengths > cell.cell.longest
    attention, lengths = cell.mean_attention[unseen], cell.lengths[unseen]
    pinned = float((pin(attention, lengths) < cell.cell.longest).mean())
    return equivariance_error(attention, lengths), absolute_error(attention, lengths), pinned


ITEM = Item(
    "figure2",
    "Profiles in relative and absolute coordinates, K = 2",
    __doc__,
    series,
    compare,
    lambda results: profiles(results),
    "Rotary profiles of all lengths peak at the same offset (left), lower as attention dilutes. Learned absolute "
    "ones do not: out of range they stay near positions seen in training (right) and miss the target.",
)
