"""Three ways to fail: definitions by hand, shares that add up, and the laws of competition against counting."""

from __future__ import annotations

import dataclasses
import itertools

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from farfield.probes.competition import Kernel, exactly_selected, kernel_of
from farfield.probes.failure import WAYS, keeps_rule, ways
from helpers.support import small_cell, untrained

LENGTHS, TARGETS = np.array([3, 4]), np.array([1, 2])


def test_the_mean_attention_keeps_the_rule_where_the_target_is_largest_alone():
    kept = np.array([[0.2, 0.5, 0.3, 0.0], [0.1, 0.2, 0.5, 0.2]])
    assert keeps_rule(kept, None, LENGTHS, TARGETS).tolist() == [True, True]
    elsewhere = kept[:, [1, 0, 2, 3]]
    assert keeps_rule(elsewhere, None, LENGTHS, TARGETS).tolist() == [False, True]
    uniform = np.array([[1 / 3] * 3 + [0], [0.25] * 4])
    assert keeps_rule(uniform, None, LENGTHS, TARGETS).tolist() == [False, False], "a tie is not a selection"
    assert keeps_rule(np.full((2, 4), np.nan), None, LENGTHS, TARGETS).tolist() == [False, False]


def test_a_lead_within_the_noise_of_the_sample_is_not_a_selection():
    """Attention that does not depend on positions has some largest mean by chance (TransformerLens issue 235)."""
    random = np.random.default_rng(0)
    weights = random.dirichlet(np.ones(16), size=512)
    mean, error = weights.mean(axis=0), weights.std(axis=0) / np.sqrt(512)
    target = int(mean.argmax())
    for noise, kept in ((None, True), (error[None], False)):
        assert keeps_rule(mean[None], noise, np.array([16]), np.array([target])).tolist() == [kept]


def test_counts_worked_out_by_hand():
    """10 sequences: 6 right (one of them outcompeted), 4 wrong, of which the target is selected in one."""
    found = ways(np.array([10]), np.array([6]), np.array([6]), np.array([1]), np.array([True]))
    assert [share.tolist() for share in found] == [[0.6], [0.0], [0.3], [0.1], [0.1]]
    moved = ways(np.array([10]), np.array([6]), np.array([6]), np.array([1]), np.array([False]))
    assert [share.tolist() for share in moved] == [[0.6], [0.4], [0.0], [0.0], [0.1]]


@given(st.data())
def test_the_shares_add_up_to_one_and_none_is_negative(data):
    tested = data.draw(st.integers(1, 2**20))
    correct = data.draw(st.integers(0, tested))
    wrong_selected = data.draw(st.integers(0, tested - correct))
    selected = wrong_selected + data.draw(st.integers(0, correct))
    kept = data.draw(st.booleans())
    found = ways(*(np.array([count]) for count in (tested, correct, selected, wrong_selected, kept)))
    assert sum(float(share[0]) for share in found[:4]) == pytest.approx(1, abs=1e-12)
    assert all(share[0] >= 0 for share in found)
    assert found.right_although_outcompeted[0] <= found.right[0] + 1e-12


def test_every_stored_share_of_a_trained_head_adds_up(rope_result):
    values = {(found.probe, found.length): found.value for found in rope_result.measurements()}
    for length in rope_result.cell.lengths:
        total = values["accuracy", length] + sum(values[way, length] for way in WAYS)
        assert total == pytest.approx(1, abs=1e-6)
        beaten = 1 - values["selected", length]
        lost = values["outcompeted", length] + values["right_although_outcompeted", length]
        if not values["rule_moved", length]:
            assert lost == pytest.approx(beaten, abs=1e-6)


def test_a_task_without_positional_targets_is_not_told_apart():
    assert untrained(small_cell("rope", "marker")).ways is None
    assert untrained(small_cell("rope", "parity")).ways is None


def test_scores_that_are_not_numbers_are_no_way_to_fail():
    result = untrained(small_cell("rope"))
    unanswered = np.arange(len(result.lengths)) == 0
    spoilt = dataclasses.replace(result, unanswered=unanswered.astype(int))
    assert np.isnan(spoilt.accuracy[0].value) and np.isfinite(spoilt.accuracy[1].value)
    assert np.isnan(spoilt.ways.diluted[0]) and np.isfinite(spoilt.ways.diluted[1])


def logits_of(seed: int, tokens: int, places: int) -> np.ndarray:
    return np.random.default_rng(seed).normal(size=(tokens, places, tokens))


def counted(logits: np.ndarray, target: int) -> float:
    """The share by listing every sequence, the query's token last."""
    tokens, places, _ = logits.shape
    won = []
    for sequence in itertools.product(range(tokens), repeat=places):
        row = [logits[sequence[-1], place, token] for place, token in enumerate(sequence)]
        won.append(all(row[target] > other for place, other in enumerate(row) if place != target))
    return float(np.mean(won))


@pytest.mark.parametrize(("seed", "target"), [(0, 0), (1, 1), (2, 3), (3, 2)])
def test_the_exact_law_is_the_share_of_all_sequences(seed, target):
    logits = logits_of(seed, tokens=4, places=4)
    assert exactly_selected(logits, target) == pytest.approx(counted(logits, target), abs=1e-12)


def test_blocks_of_places_give_the_exact_law_all_the_same(monkeypatch):
    logits = logits_of(5, tokens=6, places=40)
    whole = exactly_selected(logits, 7)
    monkeypatch.setattr("farfield.probes.competition.MOST_COMPARISONS", 6**3 * 3)
    assert exactly_selected(logits, 7) == pytest.approx(whole, rel=1e-12)


def test_the_law_of_kernel_and_spread_is_that_of_normal_logits():
    random = np.random.default_rng(0)
    kernel = Kernel(np.array([0.0, 0.5, 2.0, -1.0, 0.3]), np.array([1.0, 1.0, 1.0, 1.0, 0.2]))
    drawn = kernel.mean + kernel.spread * random.normal(size=(200_000, 5))
    share = (drawn.argmax(axis=1) == 2).mean()
    # The standard error of the count is .001.
    assert kernel.selected(2) == pytest.approx(share, abs=0.004)
    assert Kernel(np.zeros(3), np.zeros(3)).selected(0) < 0.3, "logits that all tie are not won"


def test_kernel_and_spread_are_read_from_the_table_of_logits():
    logits = np.broadcast_to(np.array([0.0, 1.0, 3.0])[None, :, None], (4, 3, 4)) + 0.5 * logits_of(0, 4, 3)
    kernel = kernel_of(logits, logits)
    np.testing.assert_allclose(kernel.mean[:2], logits[:, :2].mean(axis=(0, 2)))
    assert kernel.mean[2] == pytest.approx(np.diagonal(logits[:, 2]).mean())
    assert kernel.spread[2] == pytest.approx(np.diagonal(logits[:, 2]).std())


def test_the_exact_law_meets_what_a_trained_head_does(rope_result):
    """Two implementations: logits of all pairs of tokens, and counting over drawn sequences."""
    error = np.sqrt(0.25 / rope_result.cell.sequences)
    assert np.abs(rope_result.competition.exact - rope_result.selected).max() < 4 * error


def test_no_law_where_logits_do_not_belong_to_pairs_of_tokens():
    assert untrained(small_cell("cope")).competition is None
    assert untrained(small_cell("rope", "marker")).competition is None
