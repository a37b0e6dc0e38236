"""The selected kernel: of least norm among those that put every trained row's target ahead by a margin of 1.

Also the static bound, which asks of the long grid whether any kernel does.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from jaxtyping import Bool, Float, Int
from scipy.sparse import csr_array
from scipy.sparse.csgraph import connected_components

from farfield.prediction.features import HELD, FeatureMap, OneHot
from farfield.prediction.grid import Grid, differences, distinct
from farfield.prediction.least_norm import EPS, Shortest, shortest
from farfield.prediction.line import in_order, line_of, standing

# Constraints that are all given to the solver at once; more are added as they are violated.
AT_ONCE = 1500
# Violated constraints added in a round, and rounds at most.
ADDED = 64
ROUNDS = 1000
# Different pairs of cells whose order is checked.
MOST_ORDERS = 2**25
# A trained margin of 1 that is short by no more than this is met: the solver's own error is far below.
MISSED = 1e-9


SHARED = "a row's target shares its cell, and so its score, with another key"
CONFLICT = "rows ask for opposite orders of the same scores"


class Rows(NamedTuple):
    """What a kernel does on each row of a grid.

    Attributes:
        margin: score of the target less that of the best other key; infinite where there is no other.
        rival: place of that key.
        tolerance: margins this near to 0 are ties, for all that is known of the kernel.
        mass: softmax weight of the target with the scores as logits, multiplied by the logit scale.
    """

    margin: Float[np.ndarray, " row"]
    rival: Int[np.ndarray, " row"]
    tolerance: Float[np.ndarray, " row"]
    mass: Float[np.ndarray, " row"]

    @property
    def won(self) -> Bool[np.ndarray, " row"]:
        """Rows whose unique maximizer is the target."""
        return self.margin > self.tolerance


def rows_of(
    features: FeatureMap,
    kernel: Float[np.ndarray, " feature"],
    of: Grid,
    *,
    error: float = 0.0,
    logit_scale: float = 1.0,
) -> Rows:
    """Margins of a kernel on a grid.

    Args:
        error: bound on the kernel's distance from the one meant; a margin within ``error ||Phi - Phi'||`` of 0 counts
            as none. The scores' own rounding is added.
        logit_scale: of the masses.
    """
    line = line_of(features, of)
    if line is None:
        margin, rival, mass = _by_pairs(features, kernel, of, logit_scale)
    else:
        margin, rival, mass = standing(line.profile(kernel), of.rows, line.targets, logit_scale)
        rival = line.index(of.rows, rival)
    tolerance = np.zeros(len(of))
    unsure = error + EPS * max(features.size, 1) * float(np.linalg.norm(kernel))
    step = max(1, HELD // max(1, features.size))
    for start in range(0, len(of), step):
        index = np.arange(start, min(start + step, len(of)))
        tolerance[index] = unsure * np.linalg.norm(differences(features, of, index, rival[index]), axis=1)
    return Rows(margin, rival, tolerance, mass)


def _by_pairs(
    features: FeatureMap, kernel: np.ndarray, of: Grid, logit_scale: float
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Margin, rival and mass of each row from the scores of all its keys."""
    margin, rival, mass = np.full(len(of), np.inf), np.zeros(len(of), np.int64), np.ones(len(of))
    for chunk in of.chunks(1):
        rows, wanted = of.rows[chunk], of.targets[chunk]
        scores = features.scores(kernel, *of.positions(chunk))
        line = np.arange(len(rows))
        target = scores[line, wanted]
        ahead = np.where(np.arange(scores.shape[1]) <= rows[:, None], target[:, None] - scores, np.inf)
        # A mass below e**-700 is 0 for any purpose.
        mass[chunk] = 1 / np.exp(np.minimum(-logit_scale * ahead, 700.0)).sum(axis=1)
        ahead[line, wanted] = np.inf
        rival[chunk] = ahead.argmin(axis=1)
        margin[chunk] = ahead[line, rival[chunk]]
    return margin, rival, mass


@dataclass(frozen=True)
class Selected:
    """The selected kernel of a grid.

    Attributes:
        features: the feature map, with the kernel's coordinates.
        grid: the rows that it realizes.
        solution: the kernel with its certificate; margins are 1.
        rows, places: the constraints that the solver was given, as cases of the grid.
        reason: why there is no kernel, in words; empty where there is one.
    """

    features: FeatureMap
    grid: Grid
    solution: Shortest
    rows: Int[np.ndarray, " case"]
    places: Int[np.ndarray, " case"]
    reason: str = ""

    @property
    def realizes(self) -> bool:
        """Whether there is a kernel."""
        return self.solution.found

    @property
    def kernel(self) -> Float[np.ndarray, " feature"]:
        """w; only where there is one."""
        assert self.solution.kernel is not None
        return self.solution.kernel

    def on(self, grid: Grid, logit_scale: float = 1.0) -> Rows:
        """The transfer operator: the same kernel, evaluated on another grid."""
        return rows_of(self.features, self.kernel, grid, error=self.solution.error, logit_scale=logit_scale)


def constraints(features: FeatureMap, of: Grid, rows: np.ndarray, places: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """G and h of margins of 1, with w >= 0 added where kernels are one-signed."""
    matrix = differences(features, of, rows, places)
    margins = np.ones(len(matrix))
    if features.one_signed:
        matrix = np.concatenate([matrix, np.eye(features.size)])
        margins = np.concatenate([margins, np.zeros(features.size)])
    return matrix, margins


def select(features: FeatureMap, of: Grid) -> Selected:
    """The kernel of least norm with margin 1 on every row of a grid, or the reason why there is none."""
    rows, places = distinct(features, of, *_opening(of))
    if isinstance(features, OneHot) and not features.size:
        features = features.holding(_cells_of(features, of))
    order = ordered(features, of)
    if order.holds is False:
        nothing = Shortest(None, math.inf, math.inf, math.inf, np.zeros(len(rows), bool))
        return Selected(features, of, nothing, rows, places, order.reason)
    for _ in range(ROUNDS):
        solution = shortest(*constraints(features, of, rows, places))
        if solution.kernel is None:
            return Selected(features, of, solution, rows, places, _why(solution))
        found = rows_of(features, solution.kernel, of)
        missed = np.flatnonzero(found.margin < 1 - MISSED)
        missed = missed[np.argsort(found.margin[missed], kind="stable")[:ADDED]]
        both = np.concatenate([rows, missed]), np.concatenate([places, found.rival[missed]])
        more = distinct(features, of, *both)
        if len(more[0]) == len(rows):
            return Selected(features, of, solution, rows, places)
        rows, places = more
    raise RuntimeError(f"the selected kernel was not found in {ROUNDS} rounds of {len(rows)} constraints")


def _why(solution: Shortest) -> str:
    if math.isinf(solution.least):
        return "a row's target has the same features as another of its keys"
    return f"no kernel of norm below {solution.least:.3g} puts every target ahead by 1"


def _opening(of: Grid) -> tuple[np.ndarray, np.ndarray]:
    """Constraints to start from: all where they are few, else some rows' targets against neighbours and both ends."""
    if int((of.rows + 1).sum()) <= AT_ONCE:
        return of.pairs()
    index = np.unique(np.linspace(0, len(of) - 1, ADDED).astype(np.int64))
    targets = of.targets[index]
    places = np.concatenate([targets - 1, targets + 1, np.zeros_like(targets), of.rows[index]])
    rows = np.tile(index, 4)
    valid = (places >= 0) & (places <= of.rows[rows]) & (places != of.targets[rows])
    return rows[valid], places[valid]


def _cells_of(features: OneHot, of: Grid) -> Int[np.ndarray, " cell"]:
    found = []
    for chunk in of.chunks(1):
        query, keys = of.positions(chunk)
        cells = features.cells(query[:, None], np.broadcast_to(keys, (len(query), keys.shape[-1])))
        found.append(np.unique(cells[np.arange(cells.shape[1]) <= of.rows[chunk][:, None]]))
    return np.unique(np.concatenate(found)) if found else np.zeros(0, np.int64)


class Order(NamedTuple):
    """Whether rows agree on the order of cells: None where that is too much to check.

    Attributes:
        holds: the answer.
        reason: why not, in words.
    """

    holds: bool | None
    reason: str = ""


def ordered(features: FeatureMap, of: Grid) -> Order:
    """Whether the order that a grid asks of the cells' scores is free of cycles.

    Every row wants its target's cell above the cells of its other keys. A cycle, or a row with two keys in its
    target's cell, rules out every kernel, one-hot or not. Without a cycle there are scores in that order, and a map
    with independent features has a kernel for them.
    """
    if of.keys.ndim == 1 and features.reads == "pair":
        return Order(True)  # no two rows share a cell
    line = line_of(features, of)
    if line is not None:
        alone, agreed = in_order(line.cells(), of.rows, line.targets)
        return Order(True) if alone and agreed else Order(False, CONFLICT if alone else SHARED)
    edges = np.zeros((0, 2), np.int64)
    for chunk in of.chunks(4):
        part = of.part(chunk)
        rows, places = part.pairs()
        query = part.at(rows, part.rows[rows])
        winner, loser = (features.cells(query, part.at(rows, where)) for where in (part.targets[rows], places))
        if winner is None or loser is None:  # positions between whole numbers
            return Order(None)
        if (winner == loser).any():
            return Order(False, SHARED)
        edges = np.unique(np.concatenate([edges, np.stack([winner, loser], axis=1)]), axis=0)
        if len(edges) > MOST_ORDERS:
            return Order(None)
    names, index = np.unique(edges, return_inverse=True)
    index = index.reshape(edges.shape)
    graph = csr_array((np.ones(len(edges), bool), (index[:, 0], index[:, 1])), shape=(len(names), len(names)))
    parts, _ = connected_components(graph, directed=True, connection="strong")
    return Order(True) if parts == len(names) else Order(False, CONFLICT)


class Static(NamedTuple):
    """Whether a grid can be realized by any kernel at all.

    Attributes:
        realizable: None where neither a kernel nor a proof that there is none was found.
        reason: the argument, in words.
        norm: of the shortest kernel where one was computed; None where the argument needs none.
    """

    realizable: bool | None
    reason: str
    norm: float | None = None


def static_bound(selected: Selected, grid: Grid) -> Static:
    """Whether the long grid, trained rows included, is realizable; by an exact argument where there is one."""
    features = selected.features
    if selected.solution.ruled_out:
        return Static(False, f"not even the trained rows: {selected.reason}")
    if selected.realizes and selected.on(grid).won.all():
        return Static(True, "the selected kernel realizes it")
    order = ordered(features, grid)
    if order.holds is False:
        return Static(False, order.reason)
    if order.holds and features.spectrum_rank(grid.length):
        return Static(True, "the orders that rows ask for agree, and features are independent")
    if isinstance(features, OneHot):
        return Static(None, "too many orders to compare")
    solved = select(features, grid)
    if solved.realizes:
        return Static(True, "a kernel was found", solved.solution.norm)
    return Static(False if solved.solution.ruled_out else None, solved.reason)
