"""Deterministic cases at random: a feature map, a target for every row, and two lengths, all from (seed, number).

Half of the targets are *planted*: the choice of a random kernel on every row, so that the long grid is realizable and
alpha_L is seldom 0 or 1. The others are offsets, positions, growing offsets and arbitrary maps, drawn without regard
to whether the features can follow them. Registered encodings come with the package's positional tasks alone.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from jaxtyping import Float, Int

from farfield.encodings import Encoding, encodings
from farfield.prediction.feature_maps import feature_map, named, waves
from farfield.prediction.features import FeatureMap, OneNumber, Pairs, Product
from farfield.prediction.grid import Grid, targets
from farfield.tasks import tasks

LONGEST_TRAINED = 12
# Tests go to 2, 3 or 4 times the trained length.
REACH = (2, 3, 4)
LONGEST = LONGEST_TRAINED * max(REACH)

PLANTED = "the choice of a random kernel"

# Beside the defaults; a case takes the latter half of the time.
SETTINGS = {
    "alibi": ("learned=true",),
    "clipped": ("reach=2", "reach=4"),
    "fire": ("hidden=8",),
    "kerple-power": ("power=0.5",),
    "p-rope": ("share=0.5",),
    "rope": ("base=10", "base=100", "base=1000", "fraction=0.5"),
    "shaw": ("reach=2", "reach=4"),
    "sinusoidal": ("base=10", "base=100"),
    "t5": ("buckets=4,distance=8", "buckets=8,distance=20"),
    "transformer-xl": ("base=10", "base=100"),
    "xpos": ("scale_base=16", "base=10"),
}
TASKS = (
    "offset:0", "offset:1", "offset:2", "offset:3", "offset:4", "position:0", "position:1", "position:2", "position:3",
    "fraction:2", "fraction:3", "root", "logarithm",
)  # fmt: skip
WIDTHS = (2, 4, 6, 8, 12, 16)
# Features of sinusoidal vectors are products, d**2 of them.
WIDEST_PRODUCT = 8


@dataclass(frozen=True)
class Case:
    """One deterministic case.

    Attributes:
        number: of the case in its seed's order.
        family: of feature maps.
        phi: the map in words.
        rule: the targets in words.
        features: the map.
        grid: every row that is asked, trained ones and deep ones.
        trained: L0; rows n < L0 are trained.
        tested: L.
    """

    number: int
    family: str
    phi: str
    rule: str
    features: FeatureMap
    grid: Grid
    trained: int
    tested: int

    @property
    def trained_grid(self) -> Grid:
        return self.grid.part(self.grid.rows < self.trained)

    @property
    def deep(self) -> Grid:
        return self.grid.part(self.grid.rows >= self.trained)


Drawn = tuple[FeatureMap, str]


def _by_offset(generator: np.random.Generator) -> Drawn:
    table = generator.normal(size=(LONGEST, _size(generator)))
    return OneNumber(_Table(table), table.shape[1], reads="offset"), f"normal vectors in R^{table.shape[1]} by offset"


def _by_pair(generator: np.random.Generator) -> Drawn:
    table = generator.normal(size=(LONGEST, LONGEST, _size(generator)))
    return Pairs(_Table(table), table.shape[2]), f"normal vectors in R^{table.shape[2]} by query and key"


def _whole_by_offset(generator: np.random.Generator) -> Drawn:
    table = generator.integers(-2, 3, size=(LONGEST, int(generator.integers(2, 5)))).astype(float)
    words = f"whole vectors in {{-2..2}}^{table.shape[1]} by offset"
    return OneNumber(_Table(table), table.shape[1], reads="offset"), words


def _whole_by_pair(generator: np.random.Generator) -> Drawn:
    table = generator.integers(-2, 3, size=(LONGEST, LONGEST, int(generator.integers(2, 5)))).astype(float)
    return Pairs(_Table(table), table.shape[2]), f"whole vectors in {{-2..2}}^{table.shape[2]} by query and key"


def _waves(generator: np.random.Generator) -> Drawn:
    theta = np.sort(generator.uniform(0, np.pi, size=int(generator.integers(1, 7))))
    words = "cosines and sines of the offset at " + ", ".join(f"{x:.3f}" for x in theta) + " rad"
    return OneNumber(waves(theta), 2 * len(theta), tuple(theta.tolist()), reads="offset"), words


def _products(generator: np.random.Generator) -> Drawn:
    table = generator.normal(size=(LONGEST, int(generator.integers(2, 4))))
    return Product(_Table(table), table.shape[1]), f"phi(n) x phi(j), normal vectors phi in R^{table.shape[1]}"


@dataclass(frozen=True)
class _Table:
    """Features by one or two whole numbers."""

    of: Float[np.ndarray, "..."]

    def __call__(self, *index: Any) -> Float[np.ndarray, "... size"]:
        return self.of[tuple(np.asarray(part, np.int64) for part in index)]


def _size(generator: np.random.Generator) -> int:
    return int(generator.integers(2, 13))


RANDOM: dict[str, Callable[[np.random.Generator], Drawn]] = {
    "normal by offset": _by_offset,
    "normal by pair": _by_pair,
    "whole by offset": _whole_by_offset,
    "whole by pair": _whole_by_pair,
    "waves": _waves,
    "products": _products,
}
ENCODINGS = "encodings"
FAMILIES = (*RANDOM, ENCODINGS)


def draw(seed: int, number: int) -> Case:
    """Case ``number`` of a seed, whatever else is drawn; families take turns.

    Raises:
        FarfieldError: where the encoding drawn refuses its settings or has no positional kernel.
    """
    generator = np.random.default_rng([seed, number])
    family = FAMILIES[number % len(FAMILIES)]
    if family == ENCODINGS:
        return _of_encoding(generator, number)
    trained = int(generator.integers(4, LONGEST_TRAINED + 1))
    tested = trained * int(generator.choice(REACH))
    features, phi = RANDOM[family](generator)
    wanted, rule = _rule(generator, features, tested)
    return Case(number, family, phi, rule, features, _asked(wanted), trained, tested)


def _of_encoding(generator: np.random.Generator, number: int) -> Case:
    trained = int(generator.integers(6, LONGEST_TRAINED + 1))
    tested = trained * int(generator.choice(REACH))
    names = sorted({"key-only", *encodings})
    name = names[int(generator.integers(len(names)))]
    settings = ("", *SETTINGS.get(name, ()))
    chosen = (
        settings[int(generator.integers(1, len(settings)))] if len(settings) > 1 and generator.random() < 0.5 else ""
    )
    spec = f"{name}:{chosen}" if chosen else name
    widths = [width for width in WIDTHS if name != "sinusoidal" or width <= WIDEST_PRODUCT]
    width = widths[int(generator.integers(len(widths)))]
    task = TASKS[int(generator.integers(len(TASKS)))]
    encoding = named(spec, trained, tested)
    if isinstance(encoding, Encoding):
        encoding.check(width, tested)
    features = feature_map(encoding, width)
    wanted = _targets(task)[:tested]
    return Case(number, ENCODINGS, f"{spec}, d = {width}", task, features, _asked(wanted), trained, tested)


@functools.cache
def _targets(task: str) -> Int[np.ndarray, " row"]:
    return targets(tasks.parse(task), LONGEST)


def _rule(generator: np.random.Generator, features: FeatureMap, tested: int) -> tuple[Int[np.ndarray, " row"], str]:
    """t_n of all rows, and the rule in words."""
    kind = generator.random()
    if kind < 0.5:
        kernel, rows = generator.normal(size=features.size), np.arange(tested)
        scores = features.scores(kernel, rows, rows)
        return np.where(rows <= rows[:, None], scores, -np.inf).argmax(axis=1), PLANTED
    if kind < 0.75:
        return np.array([generator.integers(row + 1) for row in range(tested)]), "arbitrary"
    task = TASKS[int(generator.integers(len(TASKS)))]
    return _targets(task)[:tested], task


def _asked(wanted: Int[np.ndarray, " row"]) -> Grid:
    rows = np.flatnonzero(wanted >= 0)
    return Grid(rows, wanted[rows], np.arange(len(wanted)))
