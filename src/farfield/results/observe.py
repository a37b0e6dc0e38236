"""Look inside a trained model: what every head does, and which places are answered, on fresh sequences."""

from __future__ import annotations

from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from farfield import evaluation
from farfield._checks import whole
from farfield._types import Positions
from farfield.cell import LONGEST_TEST_AT_ONCE, MOST_WEIGHTS, WHOLE, Cell
from farfield.environment import settled
from farfield.errors import FarfieldError
from farfield.models import Inputs, Model, Observed, lookup
from farfield.positions import Regime
from farfield.rng import Purpose, key_for
from farfield.tasks.base import Batch
from farfield.training import Knobs


@settled
def observe(cell: Cell, parameters: Any, length: int, sequences: int) -> dict[str, Observed]:
    """The inside of every head of a model, by name, on fresh sequences (a stream of their own) of one length."""
    length, sequences = _checked(cell, length, sequences)
    inside = _observe(cell.model, sequences, length, cell.vocabulary, cell.longest, parameters, cell.knobs)
    return dict(zip(cell.model.head_names, jax.tree.map(np.asarray, inside), strict=True))


@settled
def accuracy_by_place(cell: Cell, parameters: Any, length: int, sequences: int) -> Float[np.ndarray, " place"]:
    """Share of fresh sequences of one length answered correctly at each place; NaN where none is supervised."""
    length, sequences = _checked(cell, length, sequences)
    right, counted = _answer(cell.model, sequences, length, cell.vocabulary, cell.longest, parameters, cell.knobs)
    return np.where(np.asarray(counted) > 0, np.asarray(right) / np.maximum(counted, 1), np.nan)


@settled
def mean_logits(cell: Cell, parameters: Any, length: int, head: int) -> Float[np.ndarray, " offset"]:
    """Mean logit by offset of one head, exact over uniform tokens, for a query at the end of ``length`` places."""
    assert cell.test_positions is not None
    positions = _positions(cell, cell.test_positions, length)
    return np.asarray(_mean_logits(parameters, cell.knobs, positions, head))


@settled
def logit_table(
    cell: Cell, parameters: Any, length: int, longest: int, head: int
) -> Float[np.ndarray, "query place key"]:
    """Logits of one head for every query token, key place and key token, the query at the end of ``length`` places.

    Args:
        longest: what places are padded to while computing, so that one program serves several lengths.
    """
    table = _logit_table(parameters, cell.knobs, jnp.int32(length), longest, cell.longest, head)
    return np.asarray(table)[:, :length]


@settled
def trained_positions(cell: Cell) -> Positions:
    """Positions of a longest training sequence; one draw of its own where the regime is random."""
    return _positions(cell, cell.positions, cell.longest)


_mean_logits = jax.jit(evaluation.mean_logits, static_argnames="head")


@partial(jax.jit, static_argnums=(3, 4, 5))
def _logit_table(parameters: Any, knobs: Knobs, length: Any, longest: int, trained: int, head: int) -> Array:
    key = key_for(knobs.evaluation_seed, Purpose.OBSERVE, length)
    positions = knobs.test_positions.positions(key, length, longest, trained, knobs.task)
    view = lookup.head_views(parameters, knobs.mechanism)[head]
    return lookup.tables(
        view, lookup.logit_scale(view, knobs.normalizer, length), positions[length - 1], positions
    ).logits


def _positions(cell: Cell, regime: Regime, length: int) -> Positions:
    key = key_for(cell.seeds.evaluation, Purpose.OBSERVE, length)
    return regime.positions(key, jnp.asarray(length), length, cell.longest, cell.task)


def _checked(cell: Cell, length: int, sequences: int) -> tuple[int, int]:
    assert cell.test_positions is not None
    length = whole("length to observe", length, 1, LONGEST_TEST_AT_ONCE)
    sequences = whole("sequences to observe", sequences, 1, WHOLE["sequences"][1])
    weights = sequences * length**2 * len(cell.model.head_names)
    if weights > MOST_WEIGHTS:
        raise FarfieldError(
            f"{sequences} sequences of length {length} hold {weights:.1e} attention weights, more than "
            f"{MOST_WEIGHTS:.1e}: observe fewer or shorter ones"
        )
    cell.task.check(cell.vocabulary, length)
    cell.test_positions.check(length, cell.longest, cell.task, cell.encoding)
    reach = cell.test_positions.largest(length, cell.longest, cell.task)
    cell.encoding.check(cell.model.head_width, reach)
    span = cell.test_positions.span(length, cell.longest, cell.task)
    cell.encoding.check_together(cell.model.head_width, span)
    return length, sequences


@partial(jax.jit, static_argnums=(0, 1, 2, 3, 4))
def _observe(
    model: Model, sequences: int, length: int, vocabulary: int, trained: int, parameters: Any, knobs: Knobs
) -> list[Observed]:
    _, inputs = _fresh(sequences, length, vocabulary, trained, knobs)
    return model.observe(parameters, knobs.mechanism, inputs, "all")


@partial(jax.jit, static_argnums=(0, 1, 2, 3, 4))
def _answer(
    model: Model, sequences: int, length: int, vocabulary: int, trained: int, parameters: Any, knobs: Knobs
) -> tuple[Array, Array]:
    """Sequences answered correctly, and sequences that count, at each place."""
    batch, inputs = _fresh(sequences, length, vocabulary, trained, knobs)
    scores = model.forward(parameters, knobs.mechanism, inputs, "all", "dense").class_scores
    right = (scores.argmax(axis=1) == batch.answers) & batch.supervised
    return right.sum(axis=1), batch.supervised.sum(axis=1)


def _fresh(sequences: int, length: int, vocabulary: int, trained: int, knobs: Knobs) -> tuple[Batch, Inputs]:
    """Sequences from a stream of their own."""
    tokens, positions = (
        jax.random.fold_in(key_for(knobs.evaluation_seed, Purpose.OBSERVE, length), part) for part in (0, 1)
    )
    places = jnp.asarray(length)
    batch = knobs.task.draw(tokens, places, length, sequences, vocabulary)
    given = knobs.test_positions.positions(positions, places, length, trained, knobs.task)
    return batch, Inputs(batch.tokens, given, places)
