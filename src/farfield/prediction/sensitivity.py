"""What the trained grid leaves open: unseen share, flip cost and the attainable interval of alpha_L.

Many kernels realize the trained rows, and the selected one is only the shortest. Two quadratic programs a deep row,
each the selected kernel's with one more demand, say how far a kernel must be from it to do otherwise: how short one
can be that *loses* the row (some other key at least ties with its target), and how short one that *wins* it.

Both are pruned by what is known before solving. The selected kernel w* is the point nearest to 0 of the convex set of
realizing kernels, so each of these has ||w||**2 >= ||w*||**2 + ||w - w*||**2, and to change the sign of <a, w> it must
move by |<a, w*>| / ||a|| at least.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy as np
from jaxtyping import Float, Int

from farfield.prediction.features import FeatureMap, OneHot
from farfield.prediction.grid import Grid, differences, distinct
from farfield.prediction.least_norm import EPS, Shortest, shortest
from farfield.prediction.line import line_of
from farfield.prediction.selection import MISSED, ROUNDS, Rows, Selected, constraints, rows_of

BUDGET = 1.25
# Squares of rounded coordinates in a basis found to float64's rounding, with room for a few thousand of them.
SPAN_ROUNDING = 1e-10
# Deep rows that are asked about: each takes a quadratic program or several.
MOST_ROWS = 512
# By how much a row is asked to be won, against trained margins of 1. An infimum over strict inequalities need not be
# attained; a margin this small moves its norm by as little.
WON_BY = 1e-6
Demands = Callable[[np.ndarray], np.ndarray]
# Rivals added at once while a row is made to win.
RIVALS = 16


class Sensitivity(NamedTuple):
    """What is open, row by row of the deep grid, or of :data:`MOST_ROWS` of its rows at equal distances.

    Attributes:
        rows: n of each.
        unseen: share of the energy of the row's features outside the span of the trained grid's.
        entries: the same for each offset (or key) from 0 up, for maps that read it alone; else None. 1 is an entry that
            training never met, as T5's far buckets.
        flip: norm of the shortest realizing kernel that loses the row, in norms of the selected one; 1 where that loses
            it, infinite where none does.
        win: the same for winning it; infinite where it takes more than the budget.
        budget: the largest norm allowed, in norms of the selected kernel.
        interval: least and largest share of deep rows: those that no realizing kernel within the budget loses, and
            those that some such kernel wins.
        cheapest: the smallest flip cost.
    """

    rows: Int[np.ndarray, " row"]
    unseen: Float[np.ndarray, " row"]
    entries: Float[np.ndarray, " entry"] | None
    flip: Float[np.ndarray, " row"]
    win: Float[np.ndarray, " row"]
    budget: float
    interval: tuple[float, float]
    cheapest: float


@dataclass
class Nearby:
    """Realizing kernels with one more demand; the constraints that earlier demands met are remembered."""

    selected: Selected
    rows: Int[np.ndarray, " case"] = field(init=False)
    places: Int[np.ndarray, " case"] = field(init=False)

    def __post_init__(self) -> None:
        self.rows, self.places = self.selected.rows, self.selected.places
        self._prepare()

    def _prepare(self) -> None:
        self.matrix, self.margins = constraints(self.selected.features, self.selected.grid, self.rows, self.places)
        count, size = self.matrix.shape
        # Rows of G span what matters of a kernel; a demand adds what it has outside of that.
        self.basis = np.linalg.qr(self.matrix.T)[0] if size > count else None
        self.reduced = self.matrix if self.basis is None else self.matrix @ self.basis

    def cost(self, demands: Float[np.ndarray, "demand column"], by: float) -> tuple[float, np.ndarray | None]:
        """Norm, in the selected kernel's, of the shortest realizing w with ``demands @ w >= by``, and w."""
        for _ in range(ROUNDS):
            kernel, solution = self._solve(demands, by)
            if kernel is None:
                return math.inf, None
            size = self.selected.features.size
            found = rows_of(self.selected.features, kernel[:size], self.selected.grid)
            missed = np.flatnonzero(found.margin < 1 - MISSED)
            more = distinct(
                self.selected.features,
                self.selected.grid,
                np.concatenate([self.rows, missed]),
                np.concatenate([self.places, found.rival[missed]]),
            )
            # Constraints that were given are met as well as the solver can: norms of 10**8 leave no digits for 10**-9.
            if len(more[0]) == len(self.rows):
                return max(1.0, solution.norm / self.selected.solution.norm), kernel
            self.rows, self.places = more
            self._prepare()
        raise RuntimeError(f"no end after {ROUNDS} rounds of {len(self.rows)} constraints")

    def _solve(self, demands: np.ndarray, by: float) -> tuple[np.ndarray | None, Shortest]:
        columns = demands.shape[1]
        old = demands[:, : self.matrix.shape[1]]
        new = demands[:, self.matrix.shape[1] :]
        margins = np.concatenate([self.margins, np.full(len(demands), by)])
        if self.basis is None:
            wide = np.concatenate([self.reduced, np.zeros((len(self.reduced), new.shape[1]))], axis=1)
            solution = shortest(np.concatenate([wide, demands]), margins)
            return solution.kernel, solution
        inside = old @ self.basis
        rest = np.concatenate([old - inside @ self.basis.T, new], axis=1)
        beside, coordinates = np.linalg.qr(rest.T)
        wide = np.concatenate([self.reduced, np.zeros((len(self.reduced), len(coordinates)))], axis=1)
        solution = shortest(np.concatenate([wide, np.concatenate([inside, coordinates.T], axis=1)]), margins)
        if solution.kernel is None:
            return None, solution
        known = self.basis.shape[1]
        kernel = beside @ solution.kernel[known:]
        kernel[: self.matrix.shape[1]] += self.basis @ solution.kernel[:known]
        assert len(kernel) == columns
        return kernel, solution


class View(NamedTuple):
    """A deep row against its rivals, at the selected kernel.

    Attributes:
        places: all places but the target.
        ahead: score of the target less theirs.
        least: lower bound on the norm, in the selected kernel's, of a realizing kernel for which the two tie.
        names: rivals with equal names make equal demands.
        solved: flip costs by name, NaN where not solved yet; shared by rows with the same target where that may be.
    """

    places: Int[np.ndarray, " rival"]
    ahead: Float[np.ndarray, " rival"]
    least: Float[np.ndarray, " rival"]
    names: Int[np.ndarray, " rival"]
    solved: Float[np.ndarray, " name"]


class Deep:
    """Deep rows, ready to be viewed one by one."""

    def __init__(self, selected: Selected, grid: Grid) -> None:
        self.selected, self.grid = selected, grid
        self.features, self.kernel = selected.features, selected.kernel
        self.line = line_of(self.features, grid)
        self._solved: dict[int, np.ndarray] = {}
        self._spread: tuple[int, np.ndarray] | None = None
        if self.line is not None:
            self.profile = self.line.profile(self.kernel)
            self.names, self.cell = np.unique(self.line.cells(), return_inverse=True)
            self.vectors = None if isinstance(self.features, OneHot) else self.line.vectors()

    def view(self, row: int) -> View:
        """One row of the grid."""
        n, target = int(self.grid.rows[row]), int(self.grid.targets[row])
        places = np.delete(np.arange(n + 1), target)
        if self.line is None:
            query, keys = self.grid.positions(np.array([row]))
            scores = self.features.scores(self.kernel, query, keys)[0]
            along = keys if keys.ndim == 1 else keys[0]
            ahead = scores[target] - scores[places]
            spread = self.features.distances(query[0], along[target], along[places])
            names, solved = np.arange(n), np.full(n, np.nan)
        else:
            entry, entries = int(self.line.index(np.array(n), np.array(target))), self.line.index(np.array(n), places)
            ahead = self.profile[entry] - self.profile[entries]
            spread = self._spread_from(entry)[entries]
            names = self.cell[entries]
            solved = self._solved.setdefault(int(self.cell[entry]), np.full(len(self.names), np.nan))
        with np.errstate(divide="ignore", invalid="ignore"):
            moved = np.where(spread > 0, np.abs(ahead) / spread, np.where(ahead == 0, 0.0, np.inf))
        return View(places, ahead, np.hypot(1.0, moved / self.selected.solution.norm), names, solved)

    def _spread_from(self, entry: int) -> Float[np.ndarray, " entry"]:
        """||Phi - Phi'|| of one entry of the line to all; the last one asked for is kept."""
        if self._spread is None or self._spread[0] != entry:
            if self.vectors is None:
                apart = np.where(self.cell == self.cell[entry], 0.0, math.sqrt(2.0))
            else:
                apart = np.linalg.norm(self.vectors - self.vectors[entry], axis=1)
            self._spread = entry, apart
        return self._spread[1]

    def demands(self, row: int, places: Int[np.ndarray, " rival"]) -> Float[np.ndarray, "rival column"]:
        """Phi(target) - Phi(place)."""
        return differences(self.features, self.grid, np.full(len(places), row), places)


def openness(selected: Selected, deep: Grid, found: Rows, budget: float = BUDGET) -> Sensitivity:
    """What the trained rows leave open of the deep ones.

    Args:
        found: the selected kernel on the deep grid.
        budget: at least 1.
    """
    nearby, alpha = Nearby(selected), float(found.won.mean())
    chosen = asked_about(deep)
    deep, found = deep.part(chosen), Rows(*(part[chosen] for part in found))
    rows = Deep(selected, deep)
    flip, win = np.ones(len(deep)), np.ones(len(deep))
    for row in range(len(deep)):
        if found.won[row]:
            flip[row] = _flip_cost(nearby, rows.view(row), lambda places, row=row: rows.demands(row, places))
        else:
            win[row] = _win_cost(nearby, rows.view(row), lambda places, row=row: rows.demands(row, places), budget)
    # The selected kernel attains alpha itself, whatever the rows left out would have said.
    interval = min(alpha, float((flip > budget).mean())), max(alpha, float((win <= budget).mean()))
    unseen, entries = unseen_share(selected.features, selected.grid, deep)
    return Sensitivity(deep.rows, unseen, entries, flip, win, budget, interval, float(flip.min(initial=math.inf)))


def asked_about(deep: Grid) -> Int[np.ndarray, " row"]:
    """The rows of a deep grid that are asked about: all, or :data:`MOST_ROWS` of them at equal distances."""
    return np.unique(np.linspace(0, len(deep) - 1, min(len(deep), MOST_ROWS)).astype(np.int64))


def _flip_cost(nearby: Nearby, view: View, demands: Demands) -> float:
    known = view.solved[view.names]
    best = float(np.nanmin(known, initial=math.inf))
    pending = np.where(np.isnan(known), view.least, math.inf)
    while len(pending) and pending[choice := int(pending.argmin())] < best:
        cost, _ = nearby.cost(-demands(view.places[choice : choice + 1]), 0.0)
        best = min(best, cost)
        view.solved[view.names[choice]] = cost
        pending[view.names == view.names[choice]] = math.inf
    return best


def _win_cost(nearby: Nearby, view: View, demands: Demands, budget: float) -> float:
    if not len(view.places):
        return 1.0
    if view.least[view.ahead < 0].max(initial=1.0) > budget:
        return math.inf
    every = demands(view.places)
    if (np.abs(every).max(axis=1) == 0).any():
        return math.inf
    features = nearby.selected.features
    if isinstance(features, OneHot) and not np.any(every[:, : features.size]) and len(set(view.names)) == len(every):
        return 1.0  # every cell of the row is new: any order of them costs as little as wanted
    chosen = np.zeros(len(every), bool)
    chosen[np.argsort(view.ahead, kind="stable")[:RIVALS]] = True
    while True:
        cost, kernel = nearby.cost(every[chosen], WON_BY)
        if kernel is None or cost > budget:
            return math.inf
        ahead = every @ kernel
        lacking = np.flatnonzero((ahead < WON_BY / 2) & ~chosen)
        if not len(lacking):
            return cost
        chosen[lacking[np.argsort(ahead[lacking], kind="stable")[:RIVALS]]] = True


def seen_basis(features: FeatureMap, trained: Grid) -> Float[np.ndarray, "size rank"]:
    """An orthonormal basis of the span of the trained grid's features, to float64's rounding."""
    rows, places = _every_pair(trained)
    query, key = trained.at(rows, trained.rows[rows]), trained.at(rows, places)
    cells = features.cells(query, key)
    if cells is not None:
        _, first = np.unique(cells, return_index=True)
        query, key = query[first], key[first]
    matrix = features.features(query, key)
    _, singular, right = np.linalg.svd(matrix, full_matrices=False)
    kept = singular > EPS * max(matrix.shape) * singular.max(initial=0.0)
    return right[kept].T


def _every_pair(of: Grid) -> tuple[np.ndarray, np.ndarray]:
    rows, places = of.pairs()
    return np.concatenate([rows, np.arange(len(of))]), np.concatenate([places, of.targets])


def _energy_of_cells(features: OneHot, seen: np.ndarray, query: Any, keys: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    return np.ones(len(keys)), np.isin(features.cells(query, keys), seen).astype(float)


def unseen_share(
    features: FeatureMap, trained: Grid, deep: Grid
) -> tuple[Float[np.ndarray, " row"], Float[np.ndarray, " entry"] | None]:
    """Share of the energy of each deep row's features, summed over its keys, outside the trained grid's span.

    The second result is the same for each offset or key by itself, for maps that read one number. 0 where features are
    all 0.
    """
    rows, places = _every_pair(trained)
    query, key = trained.at(rows, trained.rows[rows]), trained.at(rows, places)
    if isinstance(features, OneHot):
        energy = functools.partial(_energy_of_cells, features, np.unique(features.cells(query, key)))
    else:
        energy = functools.partial(features.energy, seen_basis(features, trained))
    line = line_of(features, deep)
    if line is not None:
        (query,), keys = line.ends()
        total, inside = energy(query, keys)
        return _share(inside.cumsum()[deep.rows], total.cumsum()[deep.rows]), _share(inside, total)
    sums = []
    for row in range(len(deep)):
        query, keys = deep.positions(np.array([row]))
        sums.append([part.sum() for part in energy(query[0], keys if keys.ndim == 1 else keys[0])])
    total, inside = np.array(sums).T
    return _share(inside, total), None


def _share(inside: np.ndarray, total: np.ndarray) -> np.ndarray:
    """1 - inside / total within [0, 1]; what rounding leaves of a feature of the span counts as none."""
    share = 1 - inside / np.where(total > 0, total, 1.0)
    return np.where((total > 0) & (share > SPAN_ROUNDING), np.minimum(share, 1.0), 0.0)
