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
from typing import Any

import numpy as np

from farfield.errors import FarfieldError
from farfield.realizability.deterministic import FAMILIES, LONGEST_TRAINED, draw
from farfield.realizability.parting import (
    CLEAR, EXCLUDED, LARGEST, LONGER, SHORTFALL, STEPS, Example, Ready, Result, judge, prepare,
)  # fmt: skip
from farfield.realizability.trained import WAYS, Way, train

# Cases of few features train apart from those of many.
SIZES = (16, LARGEST)
BATCH = 64
# Cases that part at the limit are trained a third time, so many times as long as at first, these few at once.
LONGEST = 100
FEW = 8
# Of the time, what is kept for the cases to be trained again.
KEPT = 0.15
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
        examples: the smallest clear case that parts, by way of training.
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
    examples: dict[Way, Example] = field(default_factory=dict)
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
        agreed, parted = self.count("limit", "agreed"), len(self.survivors)
        compared = f"{agreed + parted} cases of a linear kernel trained by gradient descent to its limit direction"
        if parted:
            first = f"In {compared}, {parted} part from alpha_L even after {LONGEST} times the steps: look at them."
        else:
            first = f"No counterexample among {compared}, which is what theory says of them, and no proof of the rest."
        finite = f"Stopped after {STEPS['descent']} steps it parts in {self.count('descent', 'parted')}"
        adam = f"with Adam in {self.count('adam', 'parted')}"
        rest = "the search says nothing of heads that factorize the kernel into W_Q and W_K, or learn from content."
        return f"{first} {finite}, {adam}, of those trained: alpha_L is not what these two decide by; {rest}"

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
            "closest_lead": None if math.isinf(self.closest) else self.closest,
            "steps": dict(STEPS),
            "limit_shortfall": SHORTFALL,
            "survivors": [example.to_json() for example in self.survivors],
            "examples": {way: example.to_json() for way, example in self.examples.items()},
            "conclusion": self.conclusion,
        }


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
    if not isinstance(seconds, int | float) or not 0 < seconds <= LONGEST_SEARCH:
        raise FarfieldError(f"seconds = {seconds!r} must be a number above 0, at most {LONGEST_SEARCH}: 60 tries thousands")
    for name, value, least, most in (("seed", seed, 0, 2**32 - 1), ("cases", cases, 1, MOST_CASES)):
        if value is not None and (not isinstance(value, int) or not least <= value <= most):
            raise FarfieldError(f"{name} = {value!r} must be a whole number from {least} to {most}")
    return _Searcher(seed, time.monotonic()).run(seconds, MOST_CASES if cases is None else cases, progress)


class _Searcher:
    """Cases on their way: drawn, waiting to train, waiting to train longer."""

    def __init__(self, seed: int, started: float) -> None:
        self.search, self.started = Search(seed), started
        self.waiting: dict[int, list[Ready]] = {size: [] for size in SIZES}
        self.unsettled: dict[int, list[Ready]] = {size: [] for size in SIZES}
        self.parted: list[tuple[Ready, Result]] = []
        self.shown: dict[Way, tuple[Ready, Result]] = {}

    def run(self, seconds: float, cases: int, progress: Callable[[Search, float], None]) -> Search:
        try:
            number = 0
            while number < cases and (number < BATCH or self.elapsed < (1 - KEPT) * seconds):
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
        size = _bucket(ready)
        self.waiting[size].append(ready)
        if len(self.waiting[size]) == BATCH:
            self.train(size)

    def finish(self) -> None:
        """Train all that waits, then what parted, and the examples, for longer."""
        for size in SIZES:
            self.train(size)
        for size in SIZES:
            self.settle(size)
        self.settle_parted()
        for way, (ready, result) in self.shown.items():
            (kernel,) = _kernels([ready], way, LONGER * STEPS[way], 1)
            self.search.examples[way] = Example(ready, way, result, judge(ready, way, kernel))

    def train(self, size: int) -> None:
        """Train the waiting cases of one size in every way."""
        batch, self.waiting[size] = self.waiting[size], []
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
                    self.unsettled[size].append(ready)
                    continue
                self.record(ready, way, result)
        if len(self.unsettled[size]) >= BATCH:
            self.settle(size)

    def settle(self, size: int) -> None:
        """Train the limit of cases that parted or had not converged for longer."""
        batch, self.unsettled[size] = self.unsettled[size], []
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
                    self.search.survivors.append(Example(ready, "limit", first, last))

    def record(self, ready: Ready, way: Way, result: Result) -> None:
        """Count a result, and keep the case where it is the best example so far."""
        search = self.search
        search.tallies[ready.case.family].outcomes[way][result.outcome] += 1
        if result.outcome == "not trained":
            return
        search.tied_won[way] += int((ready.tied & ~ready.unseen & result.rows.won).sum())
        if way == "limit" and result.outcome == "agreed":
            search.closest = min(search.closest, float(np.abs(ready.leads[ready.decided]).min()))
        if result.outcome == "parted":
            won = ready.found.won[ready.decided].all(), result.rows.won[ready.decided].all()
            search.turned[way] += int(won[0] != won[1])
            best = self.shown.get(way)
            if way != "limit" and (best is None or _rank(ready, result) < _rank(*best)):
                self.shown[way] = ready, result


def _rank(ready: Ready, result: Result) -> tuple[Any, ...]:
    """Clear partings first, then small cases, then early ones."""
    leads = np.minimum(np.abs(ready.leads), np.abs(ready.lead(result.kernel, result.rows)))[result.parted]
    return bool(leads.max() < CLEAR), *ready.size, ready.case.number


def _bucket(ready: Ready) -> int:
    return next(size for size in SIZES if ready.selected.features.size <= size)


def _kernels(batch: list[Ready], way: Way, steps: int, places: int) -> list[np.ndarray]:
    size = max(map(_bucket, batch))
    return train([ready.problem for ready in batch], way, steps, length=LONGEST_TRAINED, size=size, batch=places)
