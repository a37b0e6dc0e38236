"""Whether a trained kernel decides the deep rows of a case as the selected kernel does.

What a case does not decide is left out, counted by reason:

* not realizable: there is no selected kernel;
* open: a deep row that ties at the selected kernel, or one of whose keys has features wholly outside the span of the
  trained ones. Such rows are left out; a case of such rows alone is excluded;
* not trained: the training did not reach what it stands for. For ``limit``, a margin of 1 - 1e-4 of the largest one.
  The cosine between the trained and the selected kernel is then as large (w* is a sum of u_i d_i with u_i >= 0 and sum
  ||w*||**2), so their directions are at most sqrt(2e-4) apart, and no row of a larger relative lead can part. For the
  others, nine tenths of the mass on the target of every trained row.
"""

from __future__ import annotations

import functools
from dataclasses import dataclass
from typing import Any, Literal, NamedTuple

import numpy as np
from jaxtyping import Bool, Float
from scipy.optimize import linprog

from farfield.papers.realizability.conjecture.cases import Case
from farfield.papers.realizability.conjecture.train_kernel import Constraints, Way, slots_of
from farfield.prediction.features import FeatureMap, OneHot
from farfield.prediction.grid import Grid, differences
from farfield.prediction.selection import Rows, Selected, rows_of, select
from farfield.prediction.sensitivity import seen_basis

Agreement = Literal["agreed", "parted", "not trained"]

STEPS: dict[Way, int] = {"limit": 2000, "descent": 3000, "adam": 3000}
# Most features of a case.
LARGEST = 64
# ``limit`` has converged where its margin falls short of the largest one by no more than this share of it.
SHORTFALL = 1e-4
# ``descent`` and ``adam`` have trained where each trained target holds this share of its row's mass.
IN_RANGE = 0.9
# Features with no more than this share of their energy in the trained span are wholly unseen.
UNSEEN = 1e-9
# Examples with relative leads above this on both sides are preferred, as no near-ties.
CLEAR = 0.02


class Excluded(NamedTuple):
    """Why cases were left out before any training."""

    refused: str = "refused by the encoding"
    untaught: str = "no trained row has a target"
    unrealizable: str = "not realizable on the trained rows"
    unknown: str = "no kernel found for the trained rows, nor a proof that there is none"
    large: str = f"more than {LARGEST} features"
    tied: str = "every deep row ties at the selected kernel"
    unseen: str = "every deep row has an unseen key"
    both: str = "every deep row ties or has an unseen key"


EXCLUDED = Excluded()


@dataclass(frozen=True)
class ReadyCase:
    """A case that alpha_L decides.

    Attributes:
        case: the case.
        selected: its selected kernel.
        deep: the deep rows.
        found: what the selected kernel does on them.
        reach: the longest ||Phi(n, t_n) - Phi(n, j)|| of each.
        tied, unseen: rows that are left out.
        problem: what training sees.
    """

    case: Case
    selected: Selected
    deep: Grid
    found: Rows
    reach: Float[np.ndarray, " row"]
    tied: Bool[np.ndarray, " row"]
    unseen: Bool[np.ndarray, " row"]
    problem: Constraints

    @property
    def decided(self) -> Bool[np.ndarray, " row"]:
        """Rows that are compared."""
        return ~self.tied & ~self.unseen

    def lead(self, kernel: Float[np.ndarray, " feature"], rows: Rows) -> Float[np.ndarray, " row"]:
        """Margins in units of the kernel's norm and the row's reach, -1 to 1.

        A kernel whose direction is nearer than |lead| (the distance of unit vectors) decides the row the same way.
        """
        return rows.margin / (float(np.linalg.norm(kernel)) * self.reach)

    @property
    def leads(self) -> Float[np.ndarray, " row"]:
        """Leads of the selected kernel."""
        return self.lead(self.selected.kernel, self.found)

    @property
    def size(self) -> tuple[int, int, int]:
        """By which of two cases the smaller is told."""
        return self.selected.features.size, self.case.trained, self.case.tested


def prepare(case: Case) -> ReadyCase | str:
    """The selected kernel and the rows it decides, or why there are none."""
    trained = case.trained_grid
    if not trained.rows.any():
        return EXCLUDED.untaught
    selected = select(case.features, trained)
    if not selected.realizes:
        return EXCLUDED.unrealizable if selected.solution.ruled_out else EXCLUDED.unknown
    features, deep = selected.features, case.deep
    if features.size > LARGEST:
        return EXCLUDED.large
    found = selected.on(deep)
    tied, unseen = np.abs(found.margin) <= found.tolerance, _unseen(features, selected.grid, deep)
    if (tied | unseen).all():
        return EXCLUDED.unseen if unseen.all() else EXCLUDED.tied if tied.all() else EXCLUDED.both
    rows, places = selected.grid.pairs()
    problem = Constraints(slots_of(selected.grid.rows[rows]), differences(features, selected.grid, rows, places))
    return ReadyCase(case, selected, deep, found, _reach(features, deep), tied, unseen, problem)


def _reach(features: FeatureMap, of: Grid) -> Float[np.ndarray, " row"]:
    """The longest difference of features between a row's target and another key."""
    rows, places = of.pairs()
    lengths = np.linalg.norm(differences(features, of, rows, places), axis=1)
    longest = np.zeros(len(of))
    np.maximum.at(longest, rows, lengths)
    return longest


def _unseen(features: FeatureMap, trained: Grid, deep: Grid) -> Bool[np.ndarray, " row"]:
    """Rows with a key whose features lie wholly outside the span of the trained grid's."""
    query, key = _every_pair(deep)
    if isinstance(features, OneHot):
        new = ~np.isin(features.cells(query, key), features.cells(*_every_pair(trained)))
    else:
        vectors = features.features(query, key)
        energy = np.square(vectors).sum(axis=1)
        inside = np.square(vectors @ seen_basis(features, trained)).sum(axis=1)
        new = (energy > 0) & (inside <= UNSEEN * energy)
    return np.bincount(np.repeat(np.arange(len(deep)), deep.rows + 1)[new], minlength=len(deep)) > 0


def _every_pair(of: Grid) -> tuple[np.ndarray, np.ndarray]:
    """Positions of each row's query with each of its keys."""
    rows = np.repeat(np.arange(len(of)), of.rows + 1)
    places = np.arange(len(rows)) - np.repeat(np.cumsum(of.rows + 1) - of.rows - 1, of.rows + 1)
    return of.at(rows, of.rows[rows]), of.at(rows, places)


@dataclass(frozen=True)
class Compared:
    """What one way of training made of a case.

    Attributes:
        outcome: in one word.
        kernel: the trained kernel.
        margin: its smallest trained margin over its norm, in units of the largest possible; 1 at the selected kernel.
        rows: what it does on the deep rows.
        parted: decided rows that it wins and the selected kernel loses, or the other way round.
    """

    outcome: Agreement
    kernel: Float[np.ndarray, " feature"]
    margin: float
    rows: Rows
    parted: Bool[np.ndarray, " row"]


def judge(ready: ReadyCase, way: Way, kernel: Float[np.ndarray, " feature"]) -> Compared:
    """Compare a trained kernel with the selected one."""
    margins, norm = ready.problem.matrix @ kernel, float(np.linalg.norm(kernel))
    margin = float(margins.min()) / norm * ready.selected.solution.norm if norm > 0 else 0.0
    rows = rows_of(ready.selected.features, kernel, ready.deep)
    parted = ready.decided & (rows.won != ready.found.won)
    done = margin >= 1 - SHORTFALL if way == "limit" else _least_mass(ready, margins) >= IN_RANGE
    outcome: Agreement = "not trained" if not done else "parted" if parted.any() else "agreed"
    return Compared(outcome, kernel, margin, rows, parted)


def _least_mass(ready: ReadyCase, margins: Float[np.ndarray, " constraint"]) -> float:
    """The smallest softmax weight that a trained target holds."""
    of_row, _ = ready.selected.grid.pairs()
    others = np.bincount(of_row, np.exp(np.minimum(-margins, 700.0)))
    return float(1 / (1 + others.max()))


@dataclass(frozen=True)
class Example:
    """A case some of whose deep rows a trained kernel decides otherwise.

    Attributes:
        ready, way, result: the case and its training.
        rows: the deep rows meant.
        longer, steps: what more steps of the same training make of them, and how many those are.
    """

    ready: ReadyCase
    way: Way
    result: Compared
    rows: Bool[np.ndarray, " row"]
    longer: Compared
    steps: int

    @property
    def survives(self) -> bool:
        """Whether after the longer training some of the rows are decided as they were."""
        return bool((self.longer.rows.won == self.result.rows.won)[self.rows].any())

    @functools.cached_property
    def flattest(self) -> Float[np.ndarray, " feature"]:
        """A kernel with unit margins whose largest coordinate is as small as it can be: Adam's limit, eps aside."""
        matrix = self.ready.problem.matrix
        size = matrix.shape[1]
        eye, one = np.eye(size), np.ones((size, 1))
        bounds = np.block([[-matrix, np.zeros((len(matrix), 1))], [eye, -one], [-eye, -one]])
        solved = linprog(
            np.append(np.zeros(size), 1.0),
            A_ub=bounds,
            b_ub=np.append(-np.ones(len(matrix)), np.zeros(2 * size)),
            bounds=(None, None),
        )
        return solved.x[:size]

    def to_json(self) -> dict[str, Any]:
        """The whole case: features and targets of trained rows and of the rows meant, kernels, what each selects."""
        ready = self.ready
        case, features, grid = ready.case, ready.selected.features, ready.selected.grid
        return {
            "way": self.way,
            "number": case.number,
            "family": case.family,
            "phi": case.phi,
            "reads": features.reads,
            "rule": case.rule,
            "trained": case.trained,
            "tested": case.tested,
            "alpha": float(ready.found.won.mean()),
            "alpha_trained": float(self.result.rows.won.mean()),
            "steps": STEPS[self.way],
            "longer_steps": self.steps,
            "survives": self.survives,
            "margin": self.result.margin,
            "longer_margin": self.longer.margin,
            "selected_kernel": ready.selected.kernel.tolist(),
            "trained_kernel": self.result.kernel.tolist(),
            "flattest_kernel": self.flattest.tolist(),
            "trained_rows": [_row(features, grid, row) for row in range(len(grid))],
            "deep_rows": [self._deep_row(int(row)) for row in np.flatnonzero(self.rows)],
        }

    def _deep_row(self, row: int) -> dict[str, Any]:
        ready, trained = self.ready, self.result
        found = _row(ready.selected.features, ready.deep, row)
        for name, kernel, rows in (
            ("selected", ready.selected.kernel, ready.found),
            ("trained", trained.kernel, trained.rows),
            ("longer", self.longer.kernel, self.longer.rows),
            ("flattest", self.flattest, rows_of(ready.selected.features, self.flattest, ready.deep)),
        ):
            rival, won = int(rows.rival[row]), bool(rows.won[row])
            found[f"{name}_wins"] = won
            found[f"{name}_rival"] = rival
            found[f"{name}_lead"] = float(ready.lead(kernel, rows)[row])
        return found


def _row(features: FeatureMap, of: Grid, row: int) -> dict[str, Any]:
    """A row's number, its target, and Phi of each of its keys."""
    n = int(of.rows[row])
    here = np.full(n + 1, row)
    vectors = features.features(of.at(here, of.rows[here]), of.at(here, np.arange(n + 1)))
    return {"n": n, "target": int(of.targets[row]), "phi": vectors.tolist()}
