"""The abstract's theorems, as this project states them, on drawn cases and on trained heads.

``farfield reproduce realizability --only theorems``: the heads of the separation whose alpha is 1. The abstract names
the results and does not state them; docs/realizability.md has the statements checked here. Every line is the share of
cases in which a statement holds, against 1.
"""

from __future__ import annotations

import numpy as np

from farfield.papers.base import Item, Results, Series
from farfield.papers.realizability.setup import (
    ENCODINGS,
    SEEDS,
    TASKS,
    TRAINED,
    predicted,
    score,
    series_of,
)
from farfield.papers.verdicts import Comparison, statement
from farfield.positions.shifted import Fixed
from farfield.prediction import feature_map, predict
from farfield.prediction.atlas import ATLAS_TASKS
from farfield.prediction.feature_maps import named
from farfield.prediction.features import FeatureMap
from farfield.prediction.grid import Grid, targets
from farfield.prediction.selection import rows_of, select
from farfield.prediction.transfer import deep_row_count, dual, dual_targets
from farfield.probes.dilution import margin, target_bound
from farfield.results.result import CellResult
from farfield.tasks import tasks

RELATIVE = ("rope", "rope:base=100", "yarn", "xpos", "t5", "shaw", "clipped", "transformer-xl")
WIDTH, SHORT, LONG = 16, 8, 32
PROFILES = 8
SPAN, OFFSET = 256, 3
# Of softmax in float32 over up to 64 keys.
ROUNDING = 1e-4


def compare(results: Results) -> list[Comparison]:
    carried = [heads for name, heads in results.items() if score(name, heads).carries_over]
    return [*deep_rows(), *duality(), *underdetermined(), *static(results), *sufficiency(carried), *span()]


def deep_rows() -> list[Comparison]:
    """Theorem 2 on random profiles."""
    counted, selected = [], []
    generator = np.random.default_rng(0)
    for name in RELATIVE:
        features = _map(name)
        for task in ATLAS_TASKS:
            wanted = targets(tasks.parse(task), LONG)
            deep = _rows(wanted, SHORT + 1, LONG)
            for _ in range(PROFILES):
                kernel = generator.normal(size=features.size)
                profile = features.scores(kernel, np.array([LONG - 1]), np.arange(LONG))[0][::-1]
                share = rows_of(features, kernel, deep).won.mean()
                counted.append(deep_row_count(profile, wanted, SHORT, tolerance=1e-11) == share)
                selected.append(_selects_its_maximum(features, kernel, profile))
    return [
        statement("Theorem 2: counting records of the profile gives alpha", counted),
        statement("Theorem 2: a strict unique maximum at d wins offset d on every row that reaches it", selected),
    ]


def _selects_its_maximum(features: FeatureMap, kernel: np.ndarray, profile: np.ndarray) -> bool:
    """For the offset of the profile's maximum, where it is alone; true by default where it is not."""
    best = int(profile.argmax())
    if (np.abs(profile - profile[best]) < 1e-9).sum() > 1:
        return True
    wanted = np.where(np.arange(LONG) >= best, np.arange(LONG) - best, -1)
    return bool(rows_of(features, kernel, _rows(wanted, 1, LONG)).won.all())


def duality() -> list[Comparison]:
    """Proposition 4: j -> n - j, with the selected kernel solved anew on the other side."""
    same = []
    for name in RELATIVE:
        features, mirrored = _map(name), dual(_map(name))
        for task in ATLAS_TASKS:
            wanted = targets(tasks.parse(task), LONG)
            mirror = dual_targets(wanted)
            here, there = select(features, _rows(wanted, 1, SHORT)), select(mirrored, _rows(mirror, 1, SHORT))
            equal = here.realizes == there.realizes
            if here.realizes and there.realizes:
                won = [one.on(_rows(of, SHORT + 1, LONG), 1.0).won for one, of in ((here, wanted), (there, mirror))]
                equal = np.isclose(here.solution.norm, there.solution.norm, rtol=1e-9) and (won[0] == won[1]).all()
            same.append(bool(equal))
    return [statement("Proposition 4: reflection changes neither realizability, norm nor any row won", same)]


def underdetermined() -> list[Comparison]:
    """Learned absolute positions beyond training, at three norm budgets."""
    found = [
        predict("learned", task, trained=SHORT, tested=LONG, shortest=4, budget=budget, draws=2)
        for task in ATLAS_TASKS
        for budget in (1.01, 1.25, 4.0)
    ]
    return [
        statement(
            "learned: attainable interval of alpha is [0, 1], and training sees nothing of longer rows",
            [one.interval == (0.0, 1.0) and one.open is not None and (one.open.unseen == 1).all() for one in found],
            note="Norm budgets 1.01, 1.25 and 4.",
        )
    ]


def static(results: Results) -> list[Comparison]:
    """The static bound: what is selected exists, and existence is not selection."""
    cells = {name: predicted(heads[0].cell.encoding, heads[0].cell.task, 64) for name, heads in results.items()}
    growing = [found for name, found in cells.items() if name.endswith(("fraction:2", "root"))]
    pairs = [found for found in growing if found.encoding_name in ("learned", "sinusoidal")]
    return [
        statement(
            "static bound: alpha = 1 only where the long grid is realizable",
            [found.realizable_at_tested is True for found in cells.values() if found.alpha == 1],
        ),
        statement(
            "growing offsets: no encoding has alpha = 1",
            [found.alpha != 1 for found in growing],
            note="All seven; n // 2 and n - isqrt(n).",
        ),
        statement(
            "growing offsets: learned and sinusoidal kernels exist on 64 positions and are not selected on 16",
            [found.realizable_at_tested is True and found.alpha != 1 for found in pairs],
        ),
    ]


def sufficiency(carried: list[list[CellResult]]) -> list[Comparison]:
    """Theorem 1 on trained heads: their own margins bound the mass that was measured, and answers follow."""
    bounded, answered = [], []
    for head in (head for heads in carried for head in heads):
        logits, targets = head.mean_logits, head.target_offsets
        if logits is None or targets is None or head.cell.positions != Fixed():
            continue
        longest, target = len(logits), int(targets[-1])
        least = margin(logits, np.arange(1 - longest, 1), target)
        bound = target_bound(least, np.array([longest]))[0]
        index = head.cell.lengths.index(longest)
        bounded.append(head.target_attention[index] >= bound * (1 - ROUNDING))
        if bound > 0.5:
            answered.append(head.accuracy[index].value > 1 - ROUNDING)
    lines = [
        statement(
            "Theorem 1: mass measured at L = 64 is at least 1/(1 + (L-1) exp(-margin))",
            bounded,
            note="Trained heads with alpha = 1, margins of their own logits.",
        ),
    ]
    if answered:
        lines.append(statement("Theorem 1: where that bound exceeds 1/2 every answer is right", answered))
    return lines


def span() -> list[Comparison]:
    """The invalid argument: the wanted one-hot scores lie outside the span, and the head selects them all the same."""
    features = feature_map(named("rope", TRAINED, SPAN), 64)
    columns = features.features(np.full(SPAN, SPAN - 1), np.arange(SPAN))
    one_hot = (SPAN - 1 - np.arange(SPAN) == OFFSET).astype(float)
    distance = np.linalg.norm(columns @ np.linalg.lstsq(columns, one_hot)[0] - one_hot)
    alpha = predict("rope", f"offset:{OFFSET}", tested=SPAN, with_openness=False).alpha
    return [
        statement(
            "outside the column span is no argument: rope selects scores that it cannot form",
            [bool(distance > 0.5 and alpha == 1)],
            note=f"Nearest kernel to the one-hot of offset {OFFSET} on {SPAN} positions: distance {distance:.2f} of 1; "
            f"alpha = {alpha:g}.",
        )
    ]


def _map(name: str) -> FeatureMap:
    return feature_map(named(name, SHORT, LONG), WIDTH)


def _rows(wanted: np.ndarray, first: int, longest: int) -> Grid:
    """The rows of lengths ``first`` to ``longest`` that have a target."""
    rows = np.arange(first - 1, longest)
    rows = rows[wanted[rows] >= 0]
    return Grid(rows, wanted[rows], np.arange(longest))


def series() -> Series:
    return series_of(ENCODINGS, TASKS, SEEDS)


ITEM = Item("theorems", "Theorems 1 and 2, duality, underdetermination", __doc__, series, compare, theorems=True)
