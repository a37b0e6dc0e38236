"""The one training loop.

Conventions that the paper's numbers need (arXiv 2607.18759, section 5 and appendix): the training length is
drawn once a step; Adam with *coupled* L2, the decay entering the gradient, on the encoding's own parameters
alone. Hyperparameters that do not change shapes are traced values (:class:`Knobs`), so a sweep over offsets,
temperatures, bases, learning rates, decays and seeds compiles once.
"""

from __future__ import annotations

import dataclasses
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import optax
from jaxtyping import Array, Float, UInt32

from farfield._pytree import pytree
from farfield._types import Key, PyTree, Scalar
from farfield.encodings.base import Encoding
from farfield.models.base import Inputs, LogitPath, Mechanism, Model
from farfield.models.head import Head, cross_entropy
from farfield.normalizers import Normalizer
from farfield.positions import Regime
from farfield.rng import Purpose, key_for, uniform_length
from farfield.tasks.base import Task

# Positions up to which cosines and sines are tabulated before the loop.
TABULATED = 2**14


@dataclasses.dataclass(frozen=True)
class Shape:
    """What decides the compiled program.

    Attributes:
        model: kind and sizes.
        vocabulary: number of tokens.
        longest: longest training length; batches are padded to it.
        batch: sequences a step.
        steps: optimizer steps.
        path: how logits are computed; ``dense`` is the slow reference.
        largest: one more than the largest position that training can meet.
    """

    model: Model = dataclasses.field(default_factory=Head)
    vocabulary: int = 20
    longest: int = 16
    batch: int = 256
    steps: int = 4000
    path: LogitPath = "lookup"
    largest: int = 16


@pytree
@dataclasses.dataclass(frozen=True)
class Knobs:
    """What a compiled program takes as data: one training run is a shape and its knobs.

    Attributes:
        seed, data_seed, evaluation_seed: of weights, of training batches, of test sequences.
        positions, test_positions: regimes of training and of testing.
        shortest: shortest training length.
        weight_decay: L2 coefficient on the encoding's parameters, added to their gradient.
    """

    seed: UInt32[Array, ""]
    data_seed: UInt32[Array, ""]
    evaluation_seed: UInt32[Array, ""]
    encoding: Encoding
    task: Task
    normalizer: Normalizer
    positions: Regime
    test_positions: Regime
    shortest: Array
    learning_rate: Scalar
    weight_decay: Scalar

    @property
    def mechanism(self) -> Mechanism:
        """What decides where the model attends, apart from its weights."""
        return Mechanism(self.encoding, self.normalizer)


class Draw(NamedTuple):
    """What a training step draws: keys of tokens and positions, and the length of its sequences."""

    tokens: Key
    positions: Key
    length: Array


class Run(NamedTuple):
    """Training under way.

    Attributes:
        parameters: after the steps done so far.
        optimizer: Adam's moments.
        losses: of the steps done, in nats; zero for those to come.
    """

    parameters: PyTree
    optimizer: Any
    losses: Float[Array, " step"]


class Trained(NamedTuple):
    """What training gives, on a leading axis of lanes.

    Attributes:
        run: at its end.
        snapshots: the parameters after each of the cells' ``snapshots`` so far.
    """

    run: Run
    snapshots: list[PyTree]


def begin(shape: Shape, knobs: Knobs) -> tuple[Run, Draw]:
    """A run before its first step, and the draws of all its steps. Pure and jittable; ``shape`` is static."""
    parameters = initial_parameters(shape, knobs)
    draws = jax.vmap(lambda step: draw(shape, knobs, step))(jnp.arange(shape.steps))
    return Run(parameters, optax.scale_by_adam().init(parameters), jnp.zeros(shape.steps)), draws


def advance(shape: Shape, knobs: Knobs, draws: Draw, run: Run, start: Any, stop: Any) -> Run:
    """The run after its steps from ``start`` up to and without ``stop``. Pure and jittable; ``shape`` is static."""
    if shape.largest <= TABULATED:
        tabulated = knobs.encoding.tabulated(shape.model.head_width, shape.largest)
        knobs = dataclasses.replace(knobs, encoding=tabulated)
    optimizer = optax.scale_by_adam()

    def step(index: Any, run: Run) -> Run:
        drawn = jax.tree.map(lambda leaf: leaf[index], draws)
        loss, gradient = loss_and_gradient(run.parameters, shape, knobs, drawn)
        updates, state = optimizer.update(_decayed(gradient, run.parameters, knobs.weight_decay), run.optimizer)
        parameters = jax.tree.map(lambda value, update: value - knobs.learning_rate * update, run.parameters, updates)
        return Run(parameters, state, run.losses.at[index].set(loss))

    return jax.lax.fori_loop(start, stop, step, run)


def _decayed(gradient: PyTree, parameters: PyTree, weight_decay: Scalar) -> PyTree:
    """The gradient with coupled L2 added on the encoding's own parameters, wherever they sit in the model."""

    def add(path: Any, gradient: Array, value: Array) -> Array:
        of_encoding = any(getattr(entry, "name", None) == "encoding" for entry in path)
        return gradient + weight_decay * value if of_encoding else gradient

    return jax.tree_util.tree_map_with_path(add, gradient, parameters)


def initial_parameters(shape: Shape, knobs: Knobs) -> PyTree:
    """The weights that seed ``knobs.seed`` starts from."""
    key = key_for(knobs.seed, Purpose.INITIALIZE)
    return shape.model.initialize(key, knobs.mechanism, shape.vocabulary)


def draw(shape: Shape, knobs: Knobs, step: Array) -> Draw:
    """What the step numbered ``step`` draws."""
    length = uniform_length(key_for(knobs.data_seed, Purpose.TRAIN_LENGTH, step), knobs.shortest, shape.longest)
    positions = key_for(knobs.data_seed, Purpose.TRAIN_POSITIONS, step)
    return Draw(key_for(knobs.data_seed, Purpose.TRAIN_TOKENS, step), positions, length)


def loss_and_gradient(parameters: PyTree, shape: Shape, knobs: Knobs, draw: Draw) -> tuple[Scalar, PyTree]:
    """:func:`loss_on_batch` and its gradient.

    A model that has a program to itself computes no more than the fewest of :func:`paddings` that hold the batch.
    Side by side, models of different lengths would compute all of them.
    """
    if shape.model.lanes > 1:
        return jax.value_and_grad(loss_on_batch)(parameters, shape, knobs, draw)
    choices = paddings(shape.longest)

    # Under vmap a switch would become a choice among the results of all its branches.
    @jax.custom_batching.sequential_vmap
    def shortest_that_holds(parameters: PyTree, knobs: Knobs, draw: Draw) -> tuple[Scalar, PyTree]:
        def padded_to(places: int):
            return lambda: jax.value_and_grad(loss_on_batch)(parameters, shape, knobs, draw, places)

        return jax.lax.switch(jnp.searchsorted(jnp.array(choices), draw.length), list(map(padded_to, choices)))

    return shortest_that_holds(parameters, knobs, draw)


def paddings(longest: int) -> list[int]:
    """Numbers of places that batches are cut to: eighths of the longest length from the half of it."""
    return sorted({-(-longest * eighths // 8) for eighths in range(4, 9)})


def loss_on_batch(parameters: PyTree, shape: Shape, knobs: Knobs, draw: Draw, places: int | None = None) -> Scalar:
    """Mean cross-entropy of the supervised rows of the batch drawn with ``draw``.

    Args:
        places: how many are computed, no fewer than the drawn length; ``shape.longest`` if None. The batch and the
            loss are the same for all.
    """
    batch = knobs.task.draw(draw.tokens, draw.length, shape.longest, shape.batch, shape.vocabulary)
    positions = knobs.positions.positions(draw.positions, draw.length, shape.longest, shape.longest, knobs.task)
    batch, positions = jax.tree.map(lambda leaf: leaf[:places], (batch, positions))
    inputs = Inputs(batch.tokens, positions, draw.length)
    rows = knobs.task.rows
    scores = shape.model.forward(parameters, knobs.mechanism, inputs, rows, shape.path).class_scores
    if rows == "last":
        return cross_entropy(scores, batch.answers[draw.length - 1][None])
    return cross_entropy(scores, batch.answers, batch.supervised)
