"""What tests count: n is what was tested, sequences of a length are its own, and intervals hold the mean."""

from __future__ import annotations

import functools

import jax.numpy as jnp
import numpy as np
import pytest

from farfield import training
from farfield.cell import Cell
from farfield.encodings import encodings
from farfield.engine.programs import evaluation_shape, knobs_of
from farfield.evaluation import Evaluation, evaluate
from farfield.intervals import bootstrap, clustered, over_seeds, wilson
from farfield.models import models
from farfield.normalizers import normalizers
from farfield.positions import regimes
from farfield.tasks import tasks
from helpers.support import quick_jit, small_cell, the_rest_slow

NEEDS = {"offset": "offset:2", "position": "position:1", "fraction": "fraction:2", "shift": "shift:2"}
KINDS = {
    "encoding": [*encodings],
    "task": [NEEDS.get(name, name) for name in tasks],
    "model": [*models],
    "normalizer": [*normalizers],
    "positions": [*regimes],
}
QUICK = {"cope", "learned", "offset:2", "addition", "transformer", "random-subset"}


def evaluated(lengths: tuple[int, ...], sequences: int = 40, **parts: str) -> Evaluation:
    """Tests of fresh weights."""
    settings = {"steps": 2, "batch": 4, "vocabulary": 16, "shortest": 6, "longest": 9, "sequences": sequences}
    if parts.get("positions") == "coupled":
        parts |= {"task": "addition"}
    if parts.get("positions") in ("interpolate", "clamp", "rescale"):
        parts["test_positions"] = parts.pop("positions")
    cell: Cell = small_cell(**settings | {"encoding": "rope", "task": "offset:2"} | parts, lengths=lengths)
    parameters = quick_jit(training.initial_parameters, static_argnums=0)(cell.shape, cell.knobs)
    test = quick_jit(functools.partial(evaluate, evaluation_shape(cell)))
    return test(parameters, knobs_of(cell), jnp.array(cell.lengths))


@pytest.mark.parametrize(
    ("kind", "name"),
    [
        pytest.param(kind, name, marks=() if name in QUICK else pytest.mark.slow)
        for kind, names in KINDS.items()
        for name in names
    ],
)
def test_a_length_is_tested_on_the_same_sequences_whatever_else_is_tested(kind, name):
    """lm-evaluation-harness issue 879: longer tests pad further and hold fewer sequences at once."""
    alone, among = evaluated((8,), **{kind: name}), evaluated((8, 13, 70), **{kind: name})
    for field in ("correct", "tested", "correct_sequences", "clusters"):
        assert int(getattr(alone, field)[0]) == int(getattr(among, field)[0]), field
    np.testing.assert_allclose(among.mean_attention[0, :, :8], alone.mean_attention[0, :, :8], atol=1e-5)


@pytest.mark.parametrize("name", the_rest_slow(["rope", "cope"], ["rope"]))
@pytest.mark.parametrize("positions", ["fixed", "random-start:64"])
@pytest.mark.parametrize("sequences", [1, 17, 130])
def test_as_many_sequences_are_counted_as_were_asked_for(name, positions, sequences):
    found = evaluated((8, 13), sequences, encoding=name, positions=positions)
    assert found.tested.tolist() == [sequences] * 2
    assert (found.correct == found.correct_sequences).all()
    assert (found.clusters == (sequences if positions == "fixed" else min(sequences, 128))).all()
    assert np.asarray(found.mean_attention).sum(axis=2) == pytest.approx(1, abs=1e-5)


def coverage(interval, draw, truth: float, trials: int = 2000) -> float:
    """Share of simulated samples whose interval holds the truth."""
    random = np.random.default_rng(0)
    held = 0
    for _ in range(trials):
        low, high = interval(draw(random))
        held += low <= truth <= high
    return held / trials


def clusters_of(mean: float, correlation: float, clusters: int, size: int):
    """Draws of successes in clusters whose own rates are beta-distributed about the mean."""
    a, b = (share * (1 - correlation) / correlation for share in (mean, 1 - mean))
    return lambda random: random.binomial(size, random.beta(a, b, clusters))


def clustered_interval(size: int):
    def interval(counts: np.ndarray) -> tuple[float, float]:
        moments = [(counts * counts).sum(), (counts * size).sum(), size * size * len(counts)]
        return clustered(int(counts.sum()), size * len(counts), len(counts), moments)

    return interval


@pytest.mark.parametrize(
    ("mean", "correlation", "clusters", "size"),
    [
        (0.5, 0.3, 128, 32),  # draws of positions
        (0.8, 0.9, 128, 32),
        (0.95, 0.05, 128, 32),
        (0.7, 0.1, 1000, 8),  # rows of one sequence
    ],
)
def test_intervals_over_clusters_hold_the_mean(mean, correlation, clusters, size):
    draw = clusters_of(mean, correlation, clusters, size)
    assert 0.93 <= coverage(clustered_interval(size), draw, mean) <= 0.97
    plain = coverage(lambda counts: wilson(int(counts.sum()), size * clusters), draw, mean, trials=300)
    assert plain < 0.93, "as if every trial were independent, it does not"


@pytest.mark.parametrize("mean", [0.3, 0.9])
def test_intervals_over_independent_sequences_hold_the_mean(mean):
    held = coverage(lambda count: wilson(count, 512), lambda random: random.binomial(512, mean), mean)
    assert 0.93 <= held <= 0.97
    assert clustered(40, 512, 512, [40, 40, 512]) == wilson(40, 512)


@pytest.mark.parametrize(
    ("interval", "n", "low"),
    [
        (over_seeds, 8, 0.93),
        (bootstrap, 8, 0.93),
        (bootstrap, 40, 0.93),
    ],
)
def test_intervals_over_seeds_hold_the_mean(interval, n, low):
    held = coverage(lambda values: interval(values)[1:3], lambda random: random.normal(0.6, 0.1, n), 0.6, trials=1000)
    assert low <= held <= 0.97
