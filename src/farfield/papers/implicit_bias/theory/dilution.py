"""Corollary 2: the target's weight, its exact form, its bound and its fall with length."""

from __future__ import annotations

from collections.abc import Sequence

import jax.numpy as jnp
import numpy as np

from farfield.normalizers.softmax import Softmax
from farfield.papers.implicit_bias.theory.lines import CASES, double_precision, measured
from farfield.papers.verdicts import Comparison, statement
from farfield.probes.dilution import margin, target_bound, target_weight
from farfield.results.result import CellResult

LONGEST = 48
OFFSETS = np.arange(1 - LONGEST, 1)
# Of a sum of up to 48 exponentials, each exact to a few units in the last place.
ROUNDING = 8 * LONGEST * np.finfo(float).eps


def compare(cells: Sequence[CellResult]) -> list[Comparison]:
    generator = np.random.default_rng(3)
    drawn = []
    for _ in range(CASES):
        target = -int(generator.integers(1, 8))
        profile = generator.normal(0, generator.uniform(0.1, 3), LONGEST)
        profile[target == OFFSETS] = profile.max() + generator.exponential()
        drawn.append((profile, target))
    trained = {
        "carrier-only": [(np.asarray(cell.carrier_logits, float), -2) for cell in cells],
        "mean logits": [(np.asarray(cell.mean_logits, float), -2) for cell in cells],
    }
    comparisons = []
    groups = {"drawn profiles": drawn} | {f"trained heads, {name}": cases for name, cases in trained.items()}
    for name, cases in groups.items():
        given = softmax_weights(np.array([profile for profile, _ in cases]), [target for _, target in cases])
        held = (corollary(*case, softmax) for case, softmax in zip(cases, given, strict=True))
        exact, bound, falls = zip(*held, strict=True)
        comparisons += [
            statement(
                f"Corollary 2, {name}: share with softmax = 1/(1 + (L-1) r)",
                exact,
                note=f"Softmax of the package, every L from K + 1 to {LONGEST}.",
            ),
            statement(
                f"Corollary 2, {name}: share above 1/(1 + (L-1) exp(-mu))",
                bound,
                note="mu over the offsets of each length, in logit units.",
            ),
            statement(f"Corollary 2, {name}: share falling strictly in L", falls),
        ]
    weights = [target_weight(profile, OFFSETS, -2, LONGEST) for profile, _ in trained["mean logits"]]
    return [
        *comparisons,
        measured(
            f"K=2 softmax of the mean logits at -K, L={LONGEST}",
            weights,
            "Not in the paper: Corollary 2 is about the softmax of mean logits; beside it the mean of the softmax.",
        ),
        measured(
            f"K=2 mean attention at -K, L={LONGEST}",
            [cell.target_attention[-1] for cell in cells],
            "The mean of the softmax; table 7 prints .69 for the peak height.",
        ),
    ]


def corollary(profile: np.ndarray, target: int, softmax: np.ndarray) -> tuple[bool, bool, bool]:
    """Whether the exact form, the bound, and the strict fall hold at every length that has the target.

    Args:
        softmax: weight that softmax gives the target, for L = 1 .. 48.
    """
    lengths = np.arange(1 - target, LONGEST + 1)
    softmax = softmax[lengths - 1]
    weights = np.array([target_weight(profile, OFFSETS, target, int(length)) for length in lengths])
    suppression = np.array([mean_suppression(profile, target, int(length)) for length in lengths])
    closed = 1 / (1 + (lengths - 1) * suppression)
    exact = all(np.allclose(other, softmax, rtol=ROUNDING, atol=0) for other in (weights, closed))
    margins = np.array([margin(profile[-length:], OFFSETS[-length:], target) for length in lengths])
    above = bool((softmax >= target_bound(margins, lengths) * (1 - ROUNDING)).all())  # pyright: ignore[reportArgumentType]
    return exact, above, bool((np.diff(softmax) < 0).all())


def softmax_weights(profiles: np.ndarray, targets: Sequence[int]) -> np.ndarray:
    """What the package's own softmax gives each profile's target, for L = 1 .. 48; 0 where it is not yet there."""
    lengths = np.arange(1, LONGEST + 1)
    visible = OFFSETS[:, None, None] > -lengths[None, None]
    with double_precision():
        logits = jnp.broadcast_to(jnp.asarray(profiles.T)[:, :, None], (LONGEST, len(profiles), LONGEST))
        weights = np.asarray(Softmax().weights({}, logits, jnp.asarray(visible), jnp.asarray(lengths)[None]))
    return weights[LONGEST - 1 + np.asarray(targets), np.arange(len(profiles))]


def mean_suppression(profile: np.ndarray, target: int, length: int) -> float:
    """The average of exp(phi(offset) - phi(target)) over the other offsets of a length."""
    others = (-length < OFFSETS) & (target != OFFSETS)
    return float(np.exp(profile[others] - profile[target == OFFSETS]).mean())
