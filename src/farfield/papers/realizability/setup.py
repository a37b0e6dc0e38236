"""The regime that the items share: positional-only heads, and each grid cell's prediction beside its trained heads.

Source of the regime: the abstract of "A Positional Realizability Theory of Length Generalization in Single-Head
Attention". It counts 2,625 measurements and names neither encodings nor tasks nor lengths; those here are this
project's choice.
"""

from __future__ import annotations

import functools
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from jaxtyping import Bool, Float

from farfield.cell import Cell
from farfield.encodings import Encoding, encodings
from farfield.models.positional import PositionalHead
from farfield.papers.base import Results, Series
from farfield.papers.verdicts import Comparison
from farfield.prediction import Prediction, predict
from farfield.probes.failure import WAYS
from farfield.results.result import CellResult
from farfield.tasks import Task, tasks

# Relative: rotation, buckets of offsets, clipped offsets. Absolute: the key's place alone, pairs of trained vectors,
# pairs of fixed waves. Absent.
ENCODINGS = ("rope", "t5", "shaw", "key-only", "learned", "sinusoidal", "none")
# Fixed offsets, a fixed position, and offsets that grow with the length: n - n // 2 and isqrt(n).
TASKS = ("offset:1", "offset:3", "position:3", "fraction:2", "root")
SEEDS = 5
# Three lengths of training, twelve beyond.
LENGTHS = (8, 12, 16, 17, 18, 20, 22, 24, 28, 32, 36, 40, 48, 56, 64)
# The shortest sequences that hold offset 3 and position 3.
SHORTEST, TRAINED = 4, 16
SEQUENCES = 512
NO_PRINT = "The abstract prints no number for this."


def series_of(names: Iterable[str], asked: Iterable[str], seeds: int, width: int = 64, vocabulary: int = 20) -> Series:
    """Positional-only heads of every encoding on every task, ``"rope on offset:1"``, one a seed."""
    return {
        f"{name} on {task}": [
            Cell(
                encodings.parse(name),
                tasks.parse(task),
                seed,
                model=PositionalHead(width),
                vocabulary=vocabulary,
                shortest=SHORTEST,
                longest=TRAINED,
                lengths=LENGTHS,
                sequences=SEQUENCES,
            )
            for seed in range(seeds)
        ]
        for name in names
        for task in asked
    }


@dataclass(frozen=True)
class Score:
    """A cell of the grid: what was predicted of it, and what its trained heads did.

    Attributes:
        name: encoding and task.
        alpha: of the selected kernel; 0 where no kernel realizes the trained rows.
        prediction: without training.
        deep: test lengths beyond training.
        selected: whether each head puts the target first, alone, at each of those lengths.
        accuracy: share of sequences answered at each of those lengths.
        fitted: share of training lengths at which each head selects its target.
        lost: share of sequences lost in each of three ways (:mod:`farfield.probes.failure`) at those lengths.
    """

    name: str
    alpha: float
    prediction: Prediction
    deep: tuple[int, ...]
    selected: Bool[np.ndarray, "seed length"]
    accuracy: Float[np.ndarray, "seed length"]
    fitted: Float[np.ndarray, " seed"]
    lost: dict[str, Float[np.ndarray, "seed length"]]

    @property
    def predicted(self) -> Bool[np.ndarray, " length"]:
        """Whether the selected kernel puts the target first at each deep test length."""
        won = self.prediction.won
        if won is None:
            return np.zeros(len(self.deep), bool)
        return won[np.searchsorted(self.prediction.rows, np.array(self.deep) - 1)]

    @property
    def carries_over(self) -> bool:
        """Whether the prediction is that the rule is kept at every length."""
        return self.alpha == 1

    @property
    def generalizes(self) -> Bool[np.ndarray, " seed"]:
        """Whether each trained head selects its target at every deep test length."""
        return np.all(self.selected, axis=1)

    @property
    def exceptions(self) -> int:
        """Heads that part from the prediction."""
        return int((self.generalizes != self.carries_over).sum())


def score(name: str, heads: Sequence[CellResult]) -> Score:
    """A cell's prediction and outcome."""
    cell = heads[0].cell
    prediction = predicted(cell.encoding, cell.task, cell.model.head_width)
    lengths = np.array(cell.lengths)
    deep = lengths > cell.longest
    selected = np.array([head.selected for head in heads])
    return Score(
        name=name,
        alpha=prediction.alpha or 0.0,
        prediction=prediction,
        deep=tuple(lengths[deep].tolist()),
        selected=selected[:, deep] == 1,
        accuracy=np.array([[right.value for right in head.accuracy] for head in heads])[:, deep],
        fitted=(selected[:, ~deep] == 1).mean(axis=1),
        lost={way: np.array([getattr(head.ways, way) for head in heads])[:, deep] for way in WAYS},
    )


def scores_of(results: Results) -> list[Score]:
    """Every cell of a grid."""
    return [score(name, heads) for name, heads in results.items()]


@functools.lru_cache(maxsize=1024)
def predicted(encoding: Encoding, task: Task, width: int) -> Prediction:
    """The prediction for the lengths of the regime."""
    return predict(
        encoding, task, trained=TRAINED, tested=LENGTHS[-1], shortest=SHORTEST, width=width, with_openness=False
    )


def number(name: str, values: Sequence[float] | np.ndarray, note: str = "") -> Comparison:
    """A measured number that the abstract does not print."""
    why = f"{NO_PRINT} {note}".strip()
    return Comparison(name, None, 0.01, [float(value) for value in values], 0, incomparable=why)


def by_seed(name: str, holds: Iterable[Any], note: str = "", explanation: str = "") -> Comparison:
    """A claim without a number, judged seed by seed: it has to hold in all of them."""
    values = [float(value) for value in holds]
    return Comparison(name, 1.0, 0.0, values, len(values), note=note, explanation=explanation)
