"""Proposition 2: what becomes of position vectors that training never meets, and what they select."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import optax
from jaxtyping import Array, Float
from scipy import stats

from farfield import training
from farfield.cell import Cell
from farfield.models.base import Inputs
from farfield.papers.implicit_bias.theory.lines import measured
from farfield.papers.verdicts import Comparison, statement
from farfield.probes.position_table import table_norms
from farfield.results.result import CellResult
from farfield.training import Knobs, Shape

# Redraws of the untrained rows for each trained head, all at the longest test length.
REDRAWS = 1024
# A correct case gives a p-value below this once in a thousand; the draws are fixed, so a line does not flicker.
LEVEL = 1e-3
STEPS = 8  # batches whose gradient is looked at
# For what runs a few times only: what costs is compiling it.
QUICK = {"xla_backend_optimization_level": 0}


def compare(tables: Mapping[float, list[CellResult]]) -> list[Comparison]:
    plain = tables[0.0]
    return [*_gradients(plain[0]), *_fates(tables), *_exchangeable(plain)]


def _gradients(result: CellResult) -> list[Comparison]:
    first = result.cell.longest
    zero, trained_rows = zip(
        *(gradient_of_table(result.cell, parameters, first) for parameters in (None, result.parameters)), strict=True
    )
    return [
        statement(
            "Proposition 2 (i): share of batches with a gradient of exactly 0 at rows from L_max",
            np.concatenate(zero),
            note="In float32, through the loss that is trained, at the start and at the end of training.",
        ),
        statement(
            "Proposition 2 (i): share of batches with a gradient of exactly 0 below L_max",
            np.concatenate(trained_rows),
            share=0.0,
            note="A control that has to fail.",
        ),
    ]


def gradient_of_table(cell: Cell, parameters: Any, first: int) -> tuple[np.ndarray, np.ndarray]:
    """Whether the loss's gradient is exactly zero at rows from ``first`` and below it, for each of a few batches.

    Args:
        parameters: where it is taken; None for the initial weights.
    """
    shape, knobs = cell.shape, cell.knobs
    if parameters is None:
        parameters = training.initial_parameters(shape, knobs)
    rows = np.array([_table_gradient(shape, parameters, knobs, jnp.asarray(step)) for step in range(STEPS)])
    return (rows[:, first:] == 0).all(axis=(1, 2)), (rows[:, :first] == 0).all(axis=(1, 2))


@partial(jax.jit, static_argnums=0, compiler_options=QUICK)
def _table_gradient(shape: Shape, parameters: Any, knobs: Knobs, step: Array) -> Array:
    drawn = training.draw(shape, knobs, step)
    return jax.grad(training.loss_on_batch)(parameters, shape, knobs, drawn).encoding["table"]


def initial_tables(cells: Sequence[Cell]) -> Float[np.ndarray, "seed row width"]:
    """The position tables that training starts from."""
    shape = cells[0].shape
    knobs = jax.tree.map(lambda *leaves: jnp.stack(leaves), *(cell.knobs for cell in cells))
    return np.asarray(jax.jit(jax.vmap(lambda one: training.initial_parameters(shape, one).encoding["table"]))(knobs))


def _fates(tables: Mapping[float, list[CellResult]]) -> list[Comparison]:
    comparisons = []
    for decay, results in tables.items():
        cell = results[0].cell
        start = initial_tables([result.cell for result in results])
        ended = np.array([result.parameters.encoding["table"] for result in results])
        start, ended = start[:, cell.longest :], ended[:, cell.longest :]
        if decay == 0:
            comparisons.append(
                statement(
                    "Proposition 2 (i), no decay: share of seeds with rows from L_max as first drawn, bit for bit",
                    (start == ended).all(axis=(1, 2)),
                )
            )
            continue
        alone = np.asarray(adam_on_decay_alone(jnp.asarray(start), cell.learning_rate, decay, cell.steps))
        geometric = start * (1 - cell.learning_rate * decay) ** cell.steps
        why = (
            "The proof's rate (1 - eta lambda)^t is that of gradient descent. The decay here enters Adam's gradient, "
            "which Adam divides by its own size: about eta a step towards 0, whatever lambda. What is left after the "
            "last step is of coordinates that started far from 0 and are still on their way."
        )
        name = f"Proposition 2 (i), decay {decay:g}"
        comparisons += [
            statement(
                f"{name}: share of seeds whose rows from L_max go where Adam takes them without any task",
                np.isclose(alone, ended, rtol=0, atol=1e-3).mean(axis=(1, 2)) > 0.99,
                note="At least 99% of coordinates within 0.001, one step of Adam.",
            ),
            *(
                measured(f"{name}: mean norm of rows from L_max, {how}", norms(rows), why)
                for how, rows in (
                    ("trained", ended),
                    ("by Adam on the decay alone", alone),
                    ("by gradient descent's geometric rate", geometric),
                )
            ),
        ]
    return comparisons


def norms(rows: Float[np.ndarray, "seed row width"]) -> list[float]:
    """Mean norm of each seed's rows."""
    return [table_norms(table, 0).outside for table in rows]


@partial(jax.jit, static_argnames="steps")
def adam_on_decay_alone(rows: Array, learning_rate: float, decay: float, steps: int) -> Array:
    """Where Adam takes rows whose gradient is the coupled decay and nothing else."""
    optimizer = optax.scale_by_adam()

    def step(carry: Any, _: None) -> tuple[Any, None]:
        rows, state = carry
        updates, state = optimizer.update(decay * rows, state)
        return (rows - learning_rate * jnp.asarray(updates), state), None

    state: Any = optimizer.init(rows)
    return jax.lax.scan(step, (rows, state), None, length=steps)[0][0]


def _exchangeable(results: Sequence[CellResult]) -> list[Comparison]:
    first, length, offset = results[0].cell.longest, int(results[0].lengths.max()), results[0].target_offset
    assert offset is not None
    picked = np.concatenate([selected_among_untrained(result, first) for result in results])
    keys = length - 1 - first  # all but the query's own, which shares its row with the query
    hits = int((picked == length - 1 + offset).sum())
    chance = stats.binomtest(hits, len(picked), 1 / keys).pvalue
    counts = np.bincount(picked - first, minlength=keys)
    even = stats.chisquare(counts).pvalue
    within = np.concatenate([selected_among_trained(result, first) for result in results])
    trained_keys = first - 1
    control = stats.binomtest(int((within == first - 1 + offset).sum()), len(within), 1 / trained_keys)
    words = f"{len(picked):,} redraws of rows and tokens, length {length}, {keys} untrained keys"
    return [
        statement(
            "Proposition 2 (ii): the target is selected as often as any untrained key",
            [float(chance) >= LEVEL],
            note=f"{words}: {hits} times, {len(picked) / keys:.0f} expected, binomial p = {chance:.2g}.",
        ),
        statement(
            "Proposition 2 (ii): all untrained keys are selected equally often",
            [float(even) >= LEVEL],
            note=f"{words}: chi-square p = {even:.2g}.",
        ),
        statement(
            "Proposition 2 (ii): the target is selected no more often at the longest trained length",
            [float(control.pvalue) >= LEVEL],
            share=0.0,
            note="A control that has to fail.",
        ),
        measured(
            f"share of redraws that select the target, L={length}",
            [hits / len(picked) * keys],
            "Not in the paper: in units of an even chance among untrained keys.",
        ),
    ]


def selected_among_untrained(result: CellResult, first: int) -> np.ndarray:
    """The untrained key, the query's own apart, with the largest logit, for redrawn untrained rows and tokens."""
    return _selected(result, int(result.lengths.max()), first, redraw=True)


def selected_among_trained(result: CellResult, first: int) -> np.ndarray:
    """The same among all keys but the query's own at the longest trained length, with the trained rows."""
    return _selected(result, first, 0, redraw=False)


def _selected(result: CellResult, length: int, first: int, *, redraw: bool) -> np.ndarray:
    seed, vocabulary = jnp.asarray(result.cell.seed), result.cell.vocabulary
    parameters = jax.tree.map(jnp.asarray, result.parameters)
    return np.asarray(
        _argmax(result.cell.model, vocabulary, length, first, redraw, parameters, result.cell.knobs, seed)
    )


@partial(jax.jit, static_argnums=(0, 1, 2, 3, 4))
def _argmax(
    model: Any, vocabulary: int, length: int, first: int, redraw: bool, parameters: Any, knobs: Any, seed: Array
) -> Array:
    def one(key: Array) -> Array:
        rows, tokens = jax.random.split(key)
        table = parameters.encoding["table"]
        if redraw:
            fresh = jax.random.normal(rows, table.shape, table.dtype)
            table = jnp.where(jnp.arange(len(table))[:, None] < first, table, fresh)
        drawn = dataclasses.replace(parameters, encoding={"table": table})
        sequence = jax.random.randint(tokens, (length, 1), 0, vocabulary)
        inputs = Inputs(sequence, jnp.arange(length), jnp.asarray(length))
        logits = model.observe(drawn, knobs.mechanism, inputs, "last")[0].logits[0, 0]
        return first + logits[first:-1].argmax()

    keys = jax.vmap(lambda draw: jax.random.fold_in(jax.random.fold_in(jax.random.key(4), seed), draw))
    return jax.vmap(one)(keys(jnp.arange(REDRAWS)))
