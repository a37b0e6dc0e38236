"""A search for deterministic cases whose trained outcome is not the one that alpha_L foretells.

The abstract of "A Positional Realizability Theory of Length Generalization in Single-Head Attention" leaves "the
general deterministic case" as a precise open conjecture, which is not in the abstract. Read here as: for every
deterministic encoding, a kernel trained on the trained rows wins a deep row if and only if the selected kernel does.
:func:`search` draws cases (``deterministic``), trains a linear positional kernel in three ways (``trained``), and
compares (``parting``). It trains no factorized head W_Q, W_K.
"""

from __future__ import annotations

import math
import time
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy as np
from jaxtyping import Bool

from farfield._checks import plain, real, whole
from farfield.environment import settled
from farfield.errors import FarfieldError
from farfield.papers.realizability.conjecture.cases import FAMILIES, LONGEST_TRAINED, draw
from farfield.papers.realizability.conjecture.compare import (
    CLEAR,
    EXCLUDED,
    LARGEST,
    SHORTFALL,
    STEPS,
    Compared,
    Example,
    ReadyCase,
    judge,
    prepare,
)
from farfield.papers.realizability.conjecture.train_kernel import WAYS, Way, train

# Cases train with others of up to so many trained rows and features.
SHAPES = ((8, 8), (LONGEST_TRAINED, 16), (LONGEST_TRAINED, LARGEST))
BATCH = 64
# Cases whose ``limit`` parts or has not converged train again so many times as long, as the examples of the others do;
LONGER = 10
# those that part even then train a third time, so many times as long as at first, these few at once.
LONGEST = 100
FEW = 8
TIE = "tie"
# What is kept of the time for the cases to be trained again: this share, and no more than these seconds.
KEPT, MOST_KEPT = 0.2, 8.0
LONGEST_SEARCH = 86400
MOST_CASES = 2**31 - 1


@dataclass
class Tally:
    """Counts of one family of cases.

    Attributes:
        tried, decided: cases drawn, and those that alpha_L decides.
        excluded: the others by reason.
        outcomes: of the decided ones, by way of training.
    """

    tried: int = 0
    decided: int = 0
    excluded: Counter[str] = field(default_factory=Counter)
    outcomes: dict[Way, Counter[str]] = field(default_factory=lambda: {way: Counter() for way in WAYS})

    def to_json(self) -> dict[str, Any]:
        """Counts by name."""
        names = ("agreed", "parted", "not trained")
        outcomes = {way: {name: count[name] for name in names} for way, count in self.outcomes.items()}
        return {"tried": self.tried, "decided": self.decided, "excluded": dict(self.excluded), "outcomes": outcomes}


@dataclass
class Search:
    """What a search tried and found.

    Attributes:
        seed: of the cases.
        seconds: that it took.
        tallies: by family.
        rows: deep rows of decided cases: compared, tied, unseen.
        tied_won: rows that tie at the selected kernel, so that alpha counts them as lost, and that a trained kernel
            wins, by way of training.
        turned: parted cases in which all compared rows are won by one kernel and not by the other.
        again: cases whose ``limit`` was trained longer, as it had not converged or parted.
        closest: the smallest lead of a compared row in a case whose ``limit`` agreed.
        survivors: cases whose ``limit`` parts after the longest training.
        examples: the smallest clear case that parts, by way of training, and the smallest whose ``descent`` wins a row
            that ties at the selected kernel, under ``tie``; of those, one that stands in longer training if there is.
        standing: how many of the smallest clear cases stand in longer training, of how many, by the same names.
        interrupted: whether Ctrl-C ended it.
    """

    seed: int
    seconds: float = 0.0
    tallies: dict[str, Tally] = field(default_factory=lambda: {family: Tally() for family in FAMILIES})
    rows: Counter[str] = field(default_factory=Counter)
    tied_won: Counter[str] = field(default_factory=Counter)
    turned: Counter[str] = field(default_factory=Counter)
    again: int = 0
    closest: float = math.inf
    survivors: list[Example] = field(default_factory=list)
    examples: dict[str, Example] = field(default_factory=dict)
    standing: dict[str, tuple[int, int]] = field(default_factory=dict)
    interrupted: bool = False

    @property
    def tried(self) -> int:
        return sum(tally.tried for tally in self.tallies.values())

    @property
    def decided(self) -> int:
        return sum(tally.decided for tally in self.tallies.values())

    def count(self, way: Way, outcome: str) -> int:
        """Cases with an outcome, over families."""
        return sum(tally.outcomes[way][outcome] for tally in self.tallies.values())

    @property
    def conclusion(self) -> str:
        """What the numbers say, and no more."""
        parted = len(self.survivors)
        compared = f"{self.count('limit', 'agreed') + parted} cases trained to the limit direction of gradient descent"
        if parted:
            first = f"Of {compared}, {parted} still part from alpha after {LONGEST} times the steps: look at them."
        elif not self.count("limit", "agreed"):
            first = "No case was trained to its limit, so nothing is found either way."
        else:
            first = (
                f"No counterexample on rows with a strict winner at the selected kernel, in {compared}, which theory "
                "says is the selected kernel's; that proves nothing of cases not tried."
            )
        ties = (
            f"Rows that tie there are another matter: alpha counts {self.rows['tied']} of them as lost, and that "
            f"training wins {self.tied_won['limit']}."
        )
        stopped = f"gradient descent parts in {self._share('descent')} and Adam in {self._share('adam')}"
        last = (
            f"Stopped after {STEPS['descent']} steps, {stopped}. Heads that factorize the kernel into W_Q and W_K were "
            "not tried."
        )
        left = f" {self.unfinished} decided cases were not trained to the end." if self.unfinished else ""
        return f"{first} {ties} {last}{left}"

    @property
    def unfinished(self) -> int:
        """Decided cases whose ``limit`` has no outcome, as where Ctrl-C came before."""
        return self.decided - sum(sum(tally.outcomes["limit"].values()) for tally in self.tallies.values())

    def _share(self, way: Way) -> str:
        parted = self.count(way, "parted")
        return f"{parted} of {parted + self.count(way, 'agreed')}"

    def to_json(self) -> dict[str, Any]:
        """Everything as one JSON-able object."""
        return {
            "seed": self.seed,
            "seconds": round(self.seconds, 2),
            "interrupted": self.interrupted,
            "tried": self.tried,
            "decided": self.decided,
            "families": {family: tally.to_json() for family, tally in self.tallies.items()},
            "rows": {name: self.rows[name] for name in ("compared", "tied", "unseen")},
            "tied_rows_won_by_training": {way: self.tied_won[way] for way in WAYS},
            "parted_in_whether_all_rows_are_won": {way: self.turned[way] for way in WAYS},
            "limit_trained_again": self.again,
            "unfinished": self.unfinished,
            "closest_lead": None if math.isinf(self.closest) else self.closest,
            "steps": dict(STEPS),
            "limit_shortfall": SHORTFALL,
            "survivors": [example.to_json() for example in self.survivors],
            "examples_standing": {name: list(counts) for name, counts in self.standing.items()},
            "examples": {way: example.to_json() for way, example in self.examples.items()},
            "conclusion": self.conclusion,
        }


@settled
def search(
    *,
    seconds: float = 60.0,
    seed: int = 0,
    cases: int | None = None,
    progress: Callable[[Search, float], None] = lambda search, elapsed: None,
) -> Search:
    """Try deterministic cases for about ``seconds``, in an order that the seed alone decides.

    Args:
        seconds: when to stop drawing cases; what is begun is finished, which takes a few seconds more.
        seed: of the cases.
        cases: how many to try at most.
        progress: told of the counts so far and of the seconds gone, now and then.

    Raises:
        FarfieldError: for a time, seed or number out of range.
    """
    if not 0 < (time_left := real(seconds)) <= LONGEST_SEARCH:
        raise FarfieldError(
            f"seconds = {plain(seconds)!r} must be a number above 0, at most {LONGEST_SEARCH}: 60 tries thousands"
        )
    seed = whole("seed", seed, 0, 2**32 - 1)
    most = MOST_CASES if cases is None else whole("cases", cases, 1, MOST_CASES)
    return _Searcher(seed, time.monotonic()).run(time_left, most, progress)


CaseShape = tuple[int, int]
RowsOfCases = Bool[np.ndarray, " row"]


class _Searcher:
    """Cases on their way: drawn, waiting to train, waiting to train longer."""

    def __init__(self, seed: int, started: float) -> None:
        self.search, self.started = Search(seed), started
        self.waiting: dict[CaseShape, list[ReadyCase]] = {shape: [] for shape in SHAPES}
        self.unsettled: dict[CaseShape, list[ReadyCase]] = {shape: [] for shape in SHAPES}
        self.parted: list[tuple[ReadyCase, Compared]] = []
        self.shown: dict[str, list[_Shown]] = {}

    def run(self, seconds: float, cases: int, progress: Callable[[Search, float], None]) -> Search:
        try:
            number = 0
            while number < cases and (number < BATCH or self.elapsed < seconds - min(KEPT * seconds, MOST_KEPT)):
                self.add(number)
                number += 1
                if number % BATCH == 0:
                    progress(self.search, self.elapsed)
            self.finish()
        except KeyboardInterrupt:
            self.search.interrupted = True
        self.search.seconds = self.elapsed
        return self.search

    @property
    def elapsed(self) -> float:
        return time.monotonic() - self.started

    def add(self, number: int) -> None:
        """Draw a case, and train what has gathered."""
        tally = self.search.tallies[FAMILIES[number % len(FAMILIES)]]
        try:
            ready = prepare(draw(self.search.seed, number))
        except FarfieldError:
            ready = EXCLUDED.refused
        tally.tried += 1
        if isinstance(ready, str):
            tally.excluded[ready] += 1
            return
        tally.decided += 1
        shape = _shape(ready)
        self.waiting[shape].append(ready)
        if len(self.waiting[shape]) == BATCH:
            self.train(shape)

    def finish(self) -> None:
        """Train all that waits, then what parted, and the examples, for longer."""
        for shape in SHAPES:
            self.train(shape)
        for shape in SHAPES:
            self.settle(shape)
        self.settle_parted()
        for name in sorted(self.shown):
            self.illustrate(name)

    def illustrate(self, name: str) -> None:
        """Train the best examples under a name for longer, and choose one."""
        shown = self.shown[name]
        way = shown[0].way
        steps = LONGER * STEPS[way]
        kernels = _kernels([one.ready for one in shown], way, steps, FEW)
        longer = [judge(one.ready, way, kernel) for one, kernel in zip(shown, kernels, strict=True)]
        examples = [
            Example(one.ready, way, one.result, one.rows, last, steps) for one, last in zip(shown, longer, strict=True)
        ]
        standing = [example for example in examples if example.survives]
        self.search.examples[name] = (standing or examples)[0]
        self.search.standing[name] = len(standing), len(examples)

    def train(self, shape: CaseShape) -> None:
        """Train the waiting cases of one shape in every way."""
        batch, self.waiting[shape] = self.waiting[shape], []
        if not batch:
            return
        kernels = {way: _kernels(batch, way, STEPS[way], BATCH) for way in WAYS}
        for index, ready in enumerate(batch):
            rows = {"tied": ready.tied, "unseen": ready.unseen, "compared": ready.decided}
            self.search.rows.update({name: int(chosen.sum()) for name, chosen in rows.items()})
            for way in WAYS:
                result = judge(ready, way, kernels[way][index])
                if way == "limit" and result.outcome != "agreed":
                    self.search.again += 1
                    self.unsettled[shape].append(ready)
                    continue
                self.record(ready, way, result)
        if len(self.unsettled[shape]) >= BATCH:
            self.settle(shape)

    def settle(self, shape: CaseShape) -> None:
        """Train the limit of cases that parted or had not converged for longer."""
        batch, self.unsettled[shape] = self.unsettled[shape], []
        for start in range(0, len(batch), BATCH):
            part = batch[start : start + BATCH]
            for ready, kernel in zip(part, _kernels(part, "limit", LONGER * STEPS["limit"], BATCH), strict=True):
                result = judge(ready, "limit", kernel)
                if result.outcome == "parted":
                    self.parted.append((ready, result))
                else:
                    self.record(ready, "limit", result)

    def settle_parted(self) -> None:
        """Train the limit of cases that still part for longest; those that part even then are survivors."""
        for start in range(0, len(self.parted), FEW):
            part = self.parted[start : start + FEW]
            kernels = _kernels([ready for ready, _ in part], "limit", LONGEST * STEPS["limit"], FEW)
            for (ready, first), kernel in zip(part, kernels, strict=True):
                last = judge(ready, "limit", kernel)
                self.record(ready, "limit", last)
                if last.outcome == "parted":
                    steps = LONGEST * STEPS["limit"]
                    self.search.survivors.append(Example(ready, "limit", first, last.parted, last, steps))

    def record(self, ready: ReadyCase, way: Way, result: Compared) -> None:
        """Count a result, and keep the case where it is the best example so far."""
        search = self.search
        search.tallies[ready.case.family].outcomes[way][result.outcome] += 1
        if result.outcome == "not trained":
            return
        tied = ready.tied & ~ready.unseen & result.rows.won
        search.tied_won[way] += int(tied.sum())
        if way == "limit" and result.outcome == "agreed":
            search.closest = min(search.closest, float(np.abs(ready.leads[ready.decided]).min()))
        if way == "descent" and tied.any():
            self.show(TIE, ready, way, result, tied)
        if result.outcome == "parted":
            won = ready.found.won[ready.decided].all(), result.rows.won[ready.decided].all()
            search.turned[way] += int(won[0] != won[1])
            if way != "limit":
                self.show(way, ready, way, result, result.parted)

    def show(self, name: str, ready: ReadyCase, way: Way, result: Compared, rows: RowsOfCases) -> None:
        """Keep a case among the best examples under ``name`` if it is one of them."""
        best = [*self.shown.get(name, []), _Shown(ready, way, result, rows)]
        self.shown[name] = sorted(best, key=_Shown.rank)[:FEW]


class _Shown(NamedTuple):
    """A case that may become an example: the deep rows meant are those that its training decides otherwise."""

    ready: ReadyCase
    way: Way
    result: Compared
    rows: RowsOfCases

    def rank(self) -> tuple[Any, ...]:
        """Clear cases first, then small ones, then early ones; ties are clear by the trained kernel alone."""
        leads = np.abs(self.ready.lead(self.result.kernel, self.result.rows))
        leads = np.where(self.ready.tied, leads, np.minimum(leads, np.abs(self.ready.leads)))
        return bool(leads[self.rows].max() < CLEAR), *self.ready.size, self.ready.case.number


def _shape(ready: ReadyCase) -> CaseShape:
    needed = ready.case.trained, ready.selected.features.size
    return next(shape for shape in SHAPES if needed[0] <= shape[0] and needed[1] <= shape[1])


def _kernels(batch: list[ReadyCase], way: Way, steps: int, places: int) -> list[np.ndarray]:
    length, size = max(map(_shape, batch))
    return train([ready.problem for ready in batch], way, steps, length=length, size=size, batch=places)
