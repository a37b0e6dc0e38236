"""The item on content and depth: every number once, and claims that fail where they should."""

import dataclasses
import functools

import numpy as np
import pytest

from farfield.papers.base import Effort
from farfield.papers.realizability import escapes
from farfield.papers.verdicts import judge
from farfield.plotting.style import save
from helpers.support import untrained

LENGTHS = np.array(escapes.LENGTHS)
CLAIMED = {
    **{name: 1.0 for name in escapes.series() if "ordinary" in name},
    escapes.MARKED: 0.1,
    escapes.CHOSEN: 0.5,
    escapes.TWO: 0.95,
    escapes.ONE: 0.2,
    escapes.GROWING: 0.0,
}


@functools.cache
def drawn():
    """Two untrained models of every series."""
    series = Effort(most_seeds=2, sequences=100).apply(escapes.series())
    return {name: [untrained(cell) for cell in cells] for name, cells in series.items()}


def measuring(result, share):
    """The same model, as if it selected and answered in a share of sequences at every length."""
    right = np.full(len(LENGTHS), round(share * result.cell.sequences))
    return dataclasses.replace(result, head_selected=np.full_like(result.head_selected, share), correct=right)


def as_claimed(**changes):
    return {name: [measuring(result, share) for result in drawn()[name]] for name, share in (CLAIMED | changes).items()}


def judged(results):
    return [judge("escapes", line) for line in escapes.compare(results)]


def failed(results):
    return {line.cell.partition(":")[0] for line in judged(results) if line.verdict == "differs"}


def test_each_number_is_named_once_and_claims_hold_where_they_should():
    lines = judged(as_claimed())
    names = [line.cell for line in lines]
    assert len(set(names)) == len(names)
    assert not [line.cell for line in lines if line.verdict == "differs"]
    assert sum(line.verdict == "reproduced" for line in lines) == 15
    assert all(any(name.startswith(series) for name in names) for series in CLAIMED)


@pytest.mark.parametrize(
    ("name", "share"),
    [
        *((name, 0.8) for name in CLAIMED if "ordinary" in name),
        (escapes.MARKED, 0.4),
        (escapes.CHOSEN, 0.8),
        (escapes.TWO, 0.8),
        (escapes.ONE, 0.6),
        (escapes.GROWING, 0.6),
    ],
)
def test_a_claim_fails_with_its_own_series_alone(name, share):
    # The lines start with the series' name, up to their first colon.
    expected = {name.partition(":")[0]}
    assert failed(as_claimed(**{name: share})) == expected


def test_one_length_of_one_seed_breaks_a_claim():
    results = as_claimed()
    first, second = results[escapes.TWO]
    dropped = first.correct.copy()
    dropped[-1] = 10
    results[escapes.TWO] = [dataclasses.replace(first, correct=dropped), second]
    broken = [line for line in judged(results) if line.verdict == "differs"]
    assert [line.cell for line in broken] == [f"{escapes.TWO}: answers at every length"]
    assert broken[0].measured == 0.5


def test_the_layers_set_by_hand_count_and_select_the_middle():
    logits = escapes.two_layers_by_hand(40)
    for n in range(1, 40):
        assert logits[n, : n + 1].argmax() == n // 2
        places = np.arange(n + 1)
        closed = 4 / (n + 1) / (places + 1) - 1 / (places + 1) ** 2
        np.testing.assert_allclose(logits[n, : n + 1], closed, rtol=1e-12)


def test_loudness_is_a_ratio_over_marked_classes():
    result = drawn()[escapes.MARKED][0]
    before = escapes.loudness(result)
    embedding = np.array(result.parameters.embedding)
    embedding[10:] *= 7
    louder = dataclasses.replace(result, parameters=dataclasses.replace(result.parameters, embedding=embedding))
    assert escapes.loudness(louder) == pytest.approx(7 * before, rel=1e-4)


def test_the_figure_is_drawn(tmp_path):
    save(escapes.draw(as_claimed()), tmp_path / "escapes.png")
    assert (tmp_path / "escapes.png").stat().st_size > 20_000
