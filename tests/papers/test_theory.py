"""The checks of the lemmas: each holds for what it should, and fails for what is broken."""

import dataclasses
import threading
from dataclasses import dataclass

import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from farfield.encodings import Encoding
from farfield.encodings.learned import Learned
from farfield.encodings.rope import Rope
from farfield.encodings.rotary import rotate_pairs
from farfield.papers import PAPERS
from farfield.papers.base import Item
from farfield.papers.implicit_bias import table2, table5, theory
from farfield.papers.implicit_bias.budgets import BUDGETS
from farfield.papers.implicit_bias.theory import carrier, dilution, equivariance, pinning
from farfield.papers.implicit_bias.theory.lines import double_precision
from farfield.papers.reproduce import plan, run_paper
from farfield.papers.verdicts import statement
from farfield.probes.carrier import profile, rotate
from farfield.probes.kernel import kernel
from farfield.probes.phases import phases

SEEDS = st.integers(0, 2**32 - 1)
THETA = 10000.0 ** (-np.arange(0, 64, 2) / 64)


@dataclass(frozen=True)
class Drifting(Encoding):
    """Rotary, but keys turn a hundred-millionth faster than queries: not relative, and float32 could not tell."""

    def rotate(self, parameters, query, key, query_positions, key_positions):
        def turned(x, positions, rate):
            dtype = jnp.promote_types(x.dtype, jnp.float32)
            theta = Rope().frequencies(x.shape[-1], dtype=dtype)
            angle = jnp.multiply.outer(positions.astype(dtype) * rate, theta)
            return rotate_pairs(x, jnp.cos(angle), jnp.sin(angle), "half")

        return turned(query, query_positions, 1.0), turned(key, key_positions, 1 + 1e-8)


@pytest.mark.parametrize(
    ("encoding", "farthest", "same"),
    [(Rope(), 10**6, True), (Drifting(), 10**6, False), (Learned(rows=512), 200, False)],
    ids=["rope", "drifting", "learned"],
)
def test_lemma_1_holds_for_rope_and_the_check_sees_a_drift_of_1e_8(encoding, farthest, same):
    assert (equivariance.unmoved(encoding, farthest=farthest, cases=4) == same).all()


def test_double_precision_ends_with_its_block_and_stays_in_its_thread():
    elsewhere = []
    with double_precision():
        thread = threading.Thread(target=lambda: elsewhere.append(jnp.zeros(()).dtype))
        thread.start()
        thread.join()
        assert jnp.zeros(()).dtype == jnp.float64
    assert elsewhere == [jnp.float32]
    assert jnp.zeros(()).dtype == jnp.float32


@given(seed=SEEDS)
def test_phases_are_the_profile(seed):
    generator = np.random.default_rng(seed)
    query, key = generator.normal(size=(2, 64))
    parts, offsets = phases(query, key, THETA), np.arange(-47, 1)
    values = profile(query, key, offsets, THETA)
    np.testing.assert_allclose(parts.profile(offsets), values, atol=1e-11)
    assert (values < parts.bound).all()
    target = int(generator.choice(offsets))
    assert parts.bound - parts.deficit(target) == pytest.approx(values[offsets == target][0], abs=1e-11)
    assert parts.attained(target) == pytest.approx(values[offsets == target][0] / parts.bound)
    assert 0 < parts.misalignment(target) <= np.pi


@given(seed=SEEDS, offset=st.integers(1, 7))
def test_a_carrier_turned_to_its_target_peaks_there_and_one_turned_elsewhere_does_not(seed, offset):
    key = carrier.drawn_carrier(np.random.default_rng(seed))
    query = 3 * rotate(key, np.array([-offset]), THETA)[0]
    assert carrier.peaks_at_its_bound(query, key, THETA, -offset)
    assert not carrier.peaks_at_its_bound(query, key, THETA, -offset - 1)
    assert not carrier.peaks_at_its_bound(query, key, THETA, -offset + 1)
    assert phases(query, key, THETA).misalignment(-offset) < 1e-12
    # One pair slightly off leaves the bound unattained.
    off = np.zeros(32)
    off[int(np.flatnonzero(key[:32])[0])] = 1e-3
    assert not carrier.peaks_at_its_bound(carrier.turn_pairs(query, off), key, THETA, -offset)


@given(seed=SEEDS)
def test_the_deficit_is_that_of_its_own_phases_alone(seed):
    generator = np.random.default_rng(seed)
    query, key = generator.normal(size=(2, 64))
    parts = phases(query, key, THETA)
    assert carrier.deficit_is_misalignment(query, key, parts, -2)
    wrong = parts._replace(phase=parts.phase + 1e-6)
    assert not carrier.deficit_is_misalignment(query, key, wrong, -2)


@given(seed=SEEDS, offset=st.integers(1, 7))
def test_corollary_2_holds_for_softmax_and_for_nothing_else(seed, offset):
    generator = np.random.default_rng(seed)
    values = generator.normal(size=dilution.LONGEST)
    values[-1 - offset] = values.max() + 0.5
    softmax = dilution.softmax_weights(values[None], [-offset])[0]
    shares = [np.exp(values[-1 - offset]) / np.exp(values[-length:]).sum() for length in range(offset + 1, 49)]
    np.testing.assert_allclose(softmax[offset:], shares, rtol=1e-12)
    assert dilution.corollary(values, -offset, softmax) == (True, True, True)
    assert dilution.corollary(values, -offset, softmax * (1 + 1e-9))[0] is False
    assert dilution.corollary(values, -offset, softmax / 60)[1] is False
    assert dilution.corollary(values, -offset, np.full(48, 0.5))[2] is False


def test_untrained_rows_get_no_gradient_and_go_where_adam_takes_them_alone(learned_result):
    cell, first = learned_result.cell, learned_result.cell.longest
    outside, inside = pinning.gradient_of_table(cell, learned_result.parameters, first)
    assert outside.all()
    assert not inside.any()
    beyond, _ = pinning.gradient_of_table(cell, learned_result.parameters, first - 1)
    assert not beyond.all(), "the last trained row has a gradient"
    start, ended = pinning.initial_tables([cell])[0], learned_result.parameters.encoding["table"]
    alone = pinning.adam_on_decay_alone(jnp.asarray(start), cell.learning_rate, cell.weight_decay, cell.steps)
    distance = np.abs(np.asarray(alone) - ended)
    assert distance[first:].max() < cell.learning_rate
    assert distance[:first].max() > 0.1
    geometric = start * (1 - cell.learning_rate * cell.weight_decay) ** cell.steps
    assert pinning.norms(np.array([geometric[first:]]))[0] > 2 * pinning.norms(np.array([ended[first:]]))[0]


def test_without_decay_untrained_rows_start_as_the_seed_says(learned_result):
    """Bit for bit, so that a row that moved by one unit in the last place would be seen."""
    cells = [dataclasses.replace(learned_result.cell, seed=seed) for seed in (0, 1)]
    tables = pinning.initial_tables(cells)
    assert (tables[0] == pinning.initial_tables(cells[:1])[0]).all()
    assert not (tables[0] == tables[1]).any()


def test_redraws_select_untrained_keys_evenly_and_the_check_sees_a_table_that_does_not(learned_result):
    first, last = learned_result.cell.longest, 46
    picked = pinning.selected_among_untrained(learned_result, first)
    assert len(picked) == pinning.REDRAWS
    assert set(range(first, last + 1)) >= set(picked.tolist())
    counts = np.bincount(picked - first, minlength=last + 1 - first)
    assert pinning.stats.chisquare(counts).pvalue > 1e-3
    fixed = pinning._selected(learned_result, 48, first, redraw=False)
    uneven = np.bincount(fixed - first, minlength=last + 1 - first)
    assert pinning.stats.chisquare(uneven).pvalue < 1e-6, "rows that are not drawn anew favour some keys"


def test_kernels_of_several_heads_are_those_of_each():
    weights = np.random.default_rng(0).uniform(size=(3, 32))
    together = kernel(THETA, 20, weights)
    assert together.shape == (21, 3)
    np.testing.assert_allclose(together[0], 1, rtol=1e-12)
    for column, row in zip(together.T, weights, strict=True):
        np.testing.assert_allclose(column, kernel(THETA, 20, row), rtol=1e-12)


def test_the_item_shares_its_rotary_heads_with_tables_2_and_5():
    effort = BUDGETS["full"].effort
    here = {cell for group in effort.apply(theory.series()).values() for cell in group}
    for table in (table2, table5):
        assert here >= {cell for group in effort.apply(table.series()).values() for cell in group}


def test_an_item_without_cells_is_reproduced(tmp_path):
    item = Item("none", "no cells", "--only none", dict, lambda results: [statement("holds", [True, False])])
    paper = dataclasses.replace(PAPERS["implicit-bias"], items=(item,))
    outcome = run_paper(paper, out=tmp_path)
    assert plan(paper.items, BUDGETS["full"]) == {"none": {}}
    assert [(verdict.verdict, verdict.measured) for verdict in outcome.verdicts] == [("differs", 0.5)]
