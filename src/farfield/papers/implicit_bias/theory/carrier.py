"""Lemma 2, Proposition 1 and its converse, and the special case K = 1 (sections 4.2 and 7)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import jax.numpy as jnp
import numpy as np

from farfield.encodings.rope import Rope
from farfield.papers.implicit_bias.theory.lines import CASES, double_precision, measured
from farfield.papers.verdicts import Comparison, statement
from farfield.probes.carrier import profile, rotate
from farfield.probes.phases import Phases, phases
from farfield.results.result import CellResult

WIDTH, REACH = 64, 47
OFFSETS = np.arange(-REACH, 1)
# Rounding of a sum of 64 products in float64, as a share of the sum of their sizes.
ROUNDING = 64 * np.finfo(float).eps


def theta_of(width: int = WIDTH) -> np.ndarray:
    """The package's rotary frequencies in float64."""
    with double_precision():
        return np.asarray(Rope().frequencies(width, dtype=jnp.float64))


def compare(rotary: Mapping[int, list[CellResult]]) -> list[Comparison]:
    return [*_drawn(), *_trained(rotary), *_adjacent(rotary[1])]


def _drawn() -> list[Comparison]:
    generator, theta = np.random.default_rng(2), theta_of()
    aligned, identity, below, selecting = [], [], [], []
    for _ in range(CASES):
        target = -int(generator.integers(1, 8))
        key = drawn_carrier(generator)
        query = generator.uniform(0.1, 10) * rotate(key, np.array([target]), theta)[0]
        aligned.append(peaks_at_its_bound(query, key, theta, target))
        present = np.flatnonzero(np.hypot(*key.reshape(2, -1)))
        for error in (np.full(WIDTH // 2, 0.0), generator.normal(0, 0.5, WIDTH // 2)):
            error[generator.choice(present)] += generator.choice((-1, 1)) * 10 ** generator.uniform(-4, 0)
            turned = turn_pairs(query, error)
            parts = phases(turned, key, theta)
            identity.append(deficit_is_misalignment(turned, key, parts, target))
            value = profile(turned, key, np.array([target]), theta)[0]
            below.append(parts.bound - value > ROUNDING * parts.bound)
        selecting.append(OFFSETS[profile(turned, key, OFFSETS, theta).argmax()] == target)
    return [
        statement(
            "Lemma 2: share of carriers turned to -K with the bound at -K and below it elsewhere",
            aligned,
            note=f"Drawn carriers, a third of their pairs empty, K from 1 to 7, offsets to -{REACH}.",
        ),
        statement(
            "Proposition 1: share where sum r_i - phi(-K) = sum r_i (1 - cos(K theta_i + psi_i))",
            identity,
            note="All terms are at least 0, so phi(-K) attains sum r_i if and only if every pair with r_i > 0 is "
            "aligned.",
        ),
        statement(
            "Proposition 1, converse: share of geometries with a misaligned pair that stay below sum r_i",
            below,
            note="One pair turned by 1e-4 to 1 radian, alone or with all pairs 0.5 radian off.",
        ),
        measured(
            "share of misaligned geometries (0.5 radian a pair) that still select -K",
            [float(np.mean(selecting))],
            "Not in the paper: the converse is about attaining sum r_i. Selecting -K needs no such alignment, so "
            "selection alone does not force the carrier.",
        ),
    ]


def drawn_carrier(generator: np.random.Generator) -> np.ndarray:
    """A normal vector without a third of its pairs."""
    present = generator.random(WIDTH // 2) > 1 / 3
    present[generator.integers(8)] = True  # slow pairs alone would be level to rounding over 48 offsets
    return (generator.normal(size=(2, WIDTH // 2)) * present).reshape(-1)


def turn_pairs(vector: np.ndarray, angles: np.ndarray) -> np.ndarray:
    """Each pair turned by an angle of its own."""
    return rotate(vector, np.ones(1, int), angles)[0]


def peaks_at_its_bound(query: np.ndarray, key: np.ndarray, theta: np.ndarray, target: int) -> bool:
    """Whether the profile is sum_i r_i at ``target`` and smaller at every other offset."""
    values, bound = profile(query, key, OFFSETS, theta), phases(query, key, theta).bound
    at = target == OFFSETS
    return bool(abs(values[at][0] - bound) <= ROUNDING * bound and values[~at].max() < bound * (1 - ROUNDING))


def deficit_is_misalignment(query: np.ndarray, key: np.ndarray, parts: Phases, target: int) -> bool:
    """Whether the profile falls short of its bound by exactly what its pairs' phases say."""
    value = profile(query, key, np.array([target]), parts.theta)[0]
    return bool(abs(parts.bound - value - parts.deficit(target)) <= ROUNDING * parts.bound)


def trained_phases(cell: CellResult) -> Phases:
    """Amplitudes and phases of a trained head's mean query and mean key."""
    theta = np.asarray(cell.cell.encoding.frequencies(WIDTH), float)  # pyright: ignore[reportAttributeAccessIssue]
    inputs = np.asarray(cell.parameters.embedding, float).mean(axis=0)
    head = cell.parameters.attention.head(0)
    return phases(np.asarray(head.query, float) @ inputs, np.asarray(head.key, float) @ inputs, theta)


def _trained(rotary: Mapping[int, list[CellResult]]) -> list[Comparison]:
    why = "Not in the paper: 1 would be the carrier of Assumption 1."
    return [
        measured(
            f"K={offset} trained heads, phi(-K) / sum r_i",
            [trained_phases(cell).attained(-offset) for cell in cells],
            why,
        )
        for offset, cells in rotary.items()
    ]


def _adjacent(cells: Sequence[CellResult]) -> list[Comparison]:
    """Remark 1 and section 7: with K = 1 the query's own key is put down by the content's covariance."""
    carriers = np.array([cell.carrier_logits for cell in cells])
    means = np.array([cell.mean_logits for cell in cells])
    why = "Not in the paper, which names the content's covariance as the reason; in logit units."
    return [
        measured("K=1 carrier-only peak", peaks(carriers), "Compared in table 2, which prints 0."),
        measured("K=1 mean logits peak", peaks(means), "Not in the paper: -1 if the target is selected."),
        measured(
            "K=1 share of seeds with the carrier's peak at 0 and the mean logits' at -1",
            (peaks(carriers) == 0) & (peaks(means) == -1),
            "Not in the paper, which says so of the heads together.",
        ),
        *(
            measured(f"K=1 {name} logit at {offset}", rows[:, REACH + offset], why)
            for name, rows in (("carrier-only", carriers), ("mean", means))
            for offset in (0, -1)
        ),
        measured("K=1 covariance term at 0", means[:, -1] - carriers[:, -1], why),
    ]


def peaks(rows: np.ndarray) -> np.ndarray:
    """Offset of the largest value of each row."""
    return OFFSETS[rows.argmax(axis=1)]
