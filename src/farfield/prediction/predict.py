"""What can be said of an encoding and a task before any training: :func:`predict`."""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Literal

import numpy as np
from jaxtyping import Bool, Float, Int

from farfield._checks import plain, real, whole
from farfield.encodings import Encoding, encodings
from farfield.environment import settled
from farfield.errors import FarfieldError
from farfield.positions import Regime, regimes
from farfield.prediction.feature_maps import feature_map, named
from farfield.prediction.grid import Grid, grid
from farfield.prediction.initialization import Spread, under_initialization
from farfield.prediction.selection import Rows, Selected, Static, select, static_bound
from farfield.prediction.sensitivity import BUDGET, Sensitivity, asked_about, openness, unseen_share
from farfield.prediction.transfer import TransferCurve, curve, sufficient_mass
from farfield.rng import Purpose
from farfield.tasks import Positional, Task, tasks

PredictionVerdict = Literal["carries over", "exists but is not selected", "not realizable", "underdetermined"]

LONGEST = 2**16
LARGEST_SCALE = 1e6
# How near to 1 an unseen share is all of a feature's energy.
UNSEEN = 1e-9
# Any number of tokens that every task accepts: nothing here depends on it.
TOKENS = 1024
# Draws of positions a row, where a regime draws them, and of untrained heads.
POSITION_DRAWS = 2
HEAD_DRAWS = 32
# The share of its row's mass that a trained target has at least, where no logit scale is given.
IN_RANGE = 0.9


@dataclass(frozen=True)
class Prediction:
    """What is predicted of one encoding and task; nothing is trained.

    Attributes:
        encoding, task, positions: with settings filled in.
        width: of the head.
        shortest, trained, tested: lengths; deep rows are trained <= n < tested.
        realizable_at_trained: whether a kernel puts the target first in every trained row; None where neither a kernel
            nor a proof that there is none was found.
        reason: why not, in words.
        margin: 1 / ||w||, the lead of every target in units of the kernel's norm; None without a kernel.
        alpha: share of deep rows that the selected kernel wins; None without a kernel.
        curve: the same by L.
        static: whether the long grid is realizable at all.
        open: unseen shares, flip costs, the attainable interval; None without a kernel, or where left out.
        initial: alpha over untrained starts; None likewise.
        logit_scale: beta, logits that stand for a margin of 1.
        rows: n of the deep rows, several draws of positions one after another.
        won: whether the target is the unique maximizer of each deep row.
        tied: share of deep rows whose target ties with another key, for all that is known of the kernel. They count as
            lost in alpha, and training may win them (``farfield conjecture``).
        lead: margin of the target in each deep row, in units of the trained margin.
        mass: softmax weight of the target in each deep row.
        bound: what Theorem 1 leaves it at least, by L as in ``curve``; 0 where alpha is not 1 up to there.
        deep: the deep rows.
        budget: norms of the attainable interval, in the selected kernel's.
        witness: scores of the longest row's keys by offset n - j, from 0 up.
        note: what the linear kernel leaves out of the encoding.
        selected: the kernel with its map and certificate.
    """

    encoding: Encoding
    task: Task
    positions: Regime
    width: int
    shortest: int
    trained: int
    tested: int
    realizable_at_trained: bool | None
    reason: str
    margin: float | None
    alpha: float | None
    curve: TransferCurve | None
    static: Static
    open: Sensitivity | None
    initial: Spread | None
    logit_scale: float
    rows: Int[np.ndarray, " row"]
    won: Bool[np.ndarray, " row"] | None
    tied: float | None
    lead: Float[np.ndarray, " row"] | None
    mass: Float[np.ndarray, " row"] | None
    bound: Float[np.ndarray, " length"] | None
    deep: Grid
    budget: float
    witness: Float[np.ndarray, " offset"] | None
    note: str
    selected: Selected

    @property
    def encoding_name(self) -> str:
        """The name that the encoding is registered under."""
        return encodings.name_of(self.encoding)

    @property
    def task_name(self) -> str:
        """The task as one would write it: ``offset:3``."""
        return tasks.format(self.task)

    @property
    def realizable_at_tested(self) -> bool | None:
        """The static bound."""
        return self.static.realizable

    @property
    def interval(self) -> tuple[float, float] | None:
        """The attainable interval of alpha within the norm budget."""
        return None if self.open is None else self.open.interval

    @property
    def verdict(self) -> PredictionVerdict:
        """In words. *Underdetermined* where the selected kernel ties, and others as short go either way."""
        if self.alpha is None:
            return "not realizable"
        if self.alpha == 1:
            return "carries over"
        if self._undecided:
            return "underdetermined"
        return "exists but is not selected" if self.static.realizable else "not realizable"

    @property
    def start_decides(self) -> bool:
        """Whether some key of a deep row has features that training has never met, so that they keep their start."""
        entries = None if self.alpha is None else self._unseen[1]
        return entries is not None and bool((entries > 1 - UNSEEN).any())

    @cached_property
    def _undecided(self) -> bool:
        """Whether no deep row holds any feature that training has seen, and kernels in budget win all and none."""
        if not (self._unseen[0] == 1).all():
            return False
        found = self.selected.on(self.deep, self.logit_scale)
        known = openness(self.selected, self.deep, found, self.budget) if self.open is None else self.open
        return known.interval == (0.0, 1.0)

    @cached_property
    def _unseen(self) -> tuple[np.ndarray, np.ndarray | None]:
        """Unseen shares of deep rows and of entries, found when asked for where what is open was left out."""
        if self.open is not None:
            return self.open.unseen, self.open.entries
        asked = self.deep.part(asked_about(self.deep))
        return unseen_share(self.selected.features, self.selected.grid, asked)

    def to_json(self) -> dict[str, Any]:
        """Everything that a program may want; what does not exist is None, and so is infinity."""
        lengths = [] if self.curve is None else self.curve.lengths.tolist()
        margin = self.margin if self.margin is not None and math.isfinite(self.margin) else None
        return {
            "encoding": encodings.config(self.encoding),
            "task": tasks.config(self.task),
            "positions": regimes.config(self.positions),
            "trained": self.trained,
            "tested": self.tested,
            "shortest": self.shortest,
            "width": self.width,
            "verdict": self.verdict,
            "alpha": self.alpha,
            "tied": self.tied,
            "start_decides": self.start_decides,
            "interval": None if self.interval is None else list(self.interval),
            "alpha_under_initialization": None if self.initial is None else self.initial._asdict(),
            "realizable_at_trained": self.realizable_at_trained,
            "realizable_at_tested": self.realizable_at_tested,
            "reason": self.reason or self.static.reason,
            "margin": margin,
            "logit_scale": self.logit_scale,
            "mass": {str(length): self.mass_at(length) for length in lengths},
            "curve": {}
            if self.curve is None
            else dict(zip(map(str, lengths), self.curve.values.tolist(), strict=True)),
            "witness": None if self.witness is None else self.witness.tolist(),
            "note": self.note,
        }

    def mass_at(self, length: int) -> float:
        """Mass on the target at the end of sequences of a length, mean over draws of positions; NaN if not asked."""
        here = self.rows == length - 1
        return float(self.mass[here].mean()) if self.mass is not None and here.any() else math.nan


@settled
def predict(
    encoding: str | Encoding,
    task: str | Task,
    *,
    trained: int = 16,
    tested: int = 64,
    shortest: int = 1,
    width: int = 64,
    positions: str | Regime = "fixed",
    test_positions: str | Regime | None = None,
    logit_scale: float | None = None,
    budget: float = BUDGET,
    draws: int = HEAD_DRAWS,
    seed: int = 0,
    with_openness: bool = True,
) -> Prediction:
    """Predict whether a rule learned up to length ``trained`` is carried to ``tested``, without training.

    Args:
        encoding: an encoding or its name.
        task: a task whose target the query's position decides, or its name.
        shortest: the shortest training length; 1 for every row of the grid.
        width: of the head.
        positions, test_positions: regimes of training and of tests (those of training if None).
        logit_scale: beta; by default what gives each trained target nine tenths of its row's mass at least.
        budget: norms of the attainable interval, in the selected kernel's; at least 1.
        draws: untrained heads, at least 2.
        seed: of heads and of drawn positions.
        with_openness: whether to find what is open and alpha under initialization, which take most of the time.

    Raises:
        FarfieldError: naming the setting, the reason and the mend.
    """
    task = tasks.parse(task) if isinstance(task, str) else task
    regime = _regime(positions)
    testing = regime if test_positions is None else _regime(test_positions)
    trained = whole("trained", trained, 2, LONGEST)
    tested = whole("tested", tested, trained + 1, LONGEST)
    shortest, width = whole("shortest", shortest, 1, trained), whole("width", width, 1, LONGEST)
    draws, seed = whole("draws", draws, 2, LONGEST), whole("seed", seed, 0, 2**32 - 1)
    if not 1 <= (norms := real(budget)) < math.inf:
        raise FarfieldError(
            f"budget = {plain(budget)!r} must be a number from 1 up: norms in those of the selected kernel"
        )
    if logit_scale is not None and not 0 < real(logit_scale) <= LARGEST_SCALE:
        raise FarfieldError(f"logit_scale = {plain(logit_scale)!r} must be a number above 0, at most {LARGEST_SCALE:g}")
    if isinstance(task, Positional):
        task.check(TOKENS, trained, tested)
    farthest = max(regime.largest(trained, trained, task), testing.largest(tested, trained, task))
    encoding = named(encoding, trained, farthest)
    encoding.check(width, farthest)
    regime.check(trained, trained, task, encoding)
    testing.check(tested, trained, task, encoding)
    features = feature_map(encoding, width)
    trained_grid = grid(task, shortest, trained, regime, trained, draws=POSITION_DRAWS, seed=seed)
    both = grid(task, 1, tested, testing, trained, draws=POSITION_DRAWS, seed=seed, purpose=Purpose.EVALUATE_POSITIONS)
    deep = both.part(both.rows >= trained)
    if not len(trained_grid) or not len(deep):
        lengths = f"{shortest} to {trained}" if not len(trained_grid) else f"{trained + 1} to {tested}"
        raise FarfieldError(f"no row of lengths {lengths} has a target: use longer sequences or a nearer target")
    scale = math.log(IN_RANGE / (1 - IN_RANGE) * max(1, trained - 1)) if logit_scale is None else real(logit_scale)
    selected = select(features, trained_grid)
    common: dict[str, Any] = {
        "encoding": encoding,
        "task": task,
        "positions": regime,
        "width": width,
        "shortest": shortest,
        "trained": trained,
        "tested": tested,
        "static": static_bound(selected, both),
        "logit_scale": scale,
        "rows": deep.rows,
        "deep": deep,
        "budget": norms,
        "note": features.note,
        "selected": selected,
        "reason": selected.reason,
    }
    if not selected.realizes:
        unknown = None if not selected.solution.ruled_out else False
        nothing = ("margin", "alpha", "curve", "open", "initial", "won", "tied", "lead", "mass", "bound", "witness")
        return Prediction(realizable_at_trained=unknown, **common, **dict.fromkeys(nothing))
    found = selected.on(deep, scale)
    return Prediction(
        realizable_at_trained=True,
        margin=1 / selected.solution.norm if selected.solution.norm else math.inf,
        alpha=float(found.won.mean()),
        curve=curve(found.won, deep.rows),
        open=openness(selected, deep, found, norms) if with_openness else None,
        initial=under_initialization(selected, encoding, width, deep, scale, draws, seed) if with_openness else None,
        won=found.won,
        tied=float((np.abs(found.margin) <= found.tolerance).mean()),
        lead=found.margin,
        mass=found.mass,
        bound=_bound(found, deep, scale),
        witness=_witness(selected, deep),
        **common,
    )


def _bound(found: Rows, deep: Grid, scale: float) -> Float[np.ndarray, " length"]:
    """Theorem 1 at each L of the curve, with the smallest margin of the deep rows up to there."""
    lengths, last = np.unique(deep.rows[::-1], return_index=True)
    count = len(deep.rows) - last
    least = np.minimum.accumulate(found.margin)[count - 1]
    won = np.logical_and.accumulate(found.won)[count - 1]
    return np.where(won, sufficient_mass(least, lengths + 1, scale), 0.0)


def _witness(selected: Selected, deep: Grid) -> Float[np.ndarray, " offset"]:
    last = np.array([len(deep) - 1])
    return selected.features.scores(selected.kernel, *deep.positions(last))[0][::-1]


def _regime(positions: str | Regime) -> Regime:
    return regimes.parse(positions) if isinstance(positions, str) else positions
