"""The one training loop.

Conventions that the paper's numbers need (arXiv 2607.18759, section 5 and appendix): the training length is
drawn once a step; Adam with *coupled* L2, the decay entering the gradient, on the encoding's own parameters
alone. Hyperparameters that do not change shapes are traced values (:class:`Knobs`), so a sweep over offsets,
temperatures, bases, learning rates, decays and seeds compiles once.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from typing import Any, Literal

import jax
import jax.numpy as jnp
import optax
from jaxtyping import Array, Float, UInt32

from farfield._types import Scalar
from farfield.encodings.base import Encoding
from farfield.models import head, lookup
from farfield.models.head import Forward, HeadParameters, cross_entropy
from farfield.random import Purpose, key_for, uniform_length
from farfield.tasks.base import Task

Path = Literal["lookup", "dense"]
FORWARD: dict[Path, Callable[..., Forward]] = {"lookup": lookup.forward, "dense": head.forward}


@dataclasses.dataclass(frozen=True)
class Shape:
    """What decides the compiled program.

    Attributes:
        vocabulary: number of tokens.
        width: model and head dimension d.
        longest: longest training length; batches are padded to it.
        batch: sequences a step.
        steps: optimizer steps.
        path: how logits are computed; ``dense`` is the slow reference.
    """

    vocabulary: int = 20
    width: int = 64
    longest: int = 16
    batch: int = 256
    steps: int = 4000
    path: Path = "lookup"


@jax.tree_util.register_dataclass
@dataclasses.dataclass(frozen=True)
class Knobs:
    """What a compiled program takes as data: one training run is a shape and its knobs.

    Attributes:
        shortest: shortest training length.
        weight_decay: L2 coefficient on the encoding's parameters, added to their gradient.
    """

    seed: UInt32[Array, ""]
    encoding: Encoding
    task: Task
    shortest: Array
    temperature: Scalar
    learning_rate: Scalar
    weight_decay: Scalar


def train(shape: Shape, knobs: Knobs) -> tuple[HeadParameters, Float[Array, " step"]]:
    """Train one head from its seed. Pure and jittable; ``shape`` is static.

    Returns:
        The trained parameters and the loss of every step, in nats.
    """
    parameters = initial_parameters(shape, knobs)
    knobs = dataclasses.replace(knobs, encoding=knobs.encoding.tabulated(shape.width, shape.longest))
    optimizer = optax.scale_by_adam()
    steps = jnp.arange(shape.steps)
    draws = jax.vmap(lambda step: batch_keys(shape, knobs, step))(steps)

    def step(carry, draw):
        parameters, state = carry
        loss, gradient = jax.value_and_grad(loss_on_batch)(parameters, shape, knobs, *draw)
        decayed = {
            part: jax.tree.map(
                lambda gradient, value: gradient + knobs.weight_decay * value,
                getattr(gradient, part),
                getattr(parameters, part),
            )
            for part in ("encoding", "head_encoding")
        }
        updates, state = optimizer.update(dataclasses.replace(gradient, **decayed), state)
        parameters = jax.tree.map(lambda value, update: value - knobs.learning_rate * update, parameters, updates)
        return (parameters, state), loss

    state: Any = optimizer.init(parameters)  # pyright: ignore[reportArgumentType]
    (parameters, _), losses = jax.lax.scan(step, (parameters, state), draws)
    return parameters, losses


def initial_parameters(shape: Shape, knobs: Knobs) -> HeadParameters:
    """The weights that seed ``knobs.seed`` starts from."""
    key = key_for(knobs.seed, Purpose.INITIALIZE)
    return head.initialize(key, knobs.encoding, shape.vocabulary, shape.width)


def batch_keys(shape: Shape, knobs: Knobs, step: Array) -> tuple[Array, Array]:
    """The key of the tokens and the length of the batch at ``step``."""
    length = uniform_length(key_for(knobs.seed, Purpose.TRAIN_LENGTH, step), knobs.shortest, shape.longest)
    return key_for(knobs.seed, Purpose.TRAIN_TOKENS, step), length


def batch(shape: Shape, knobs: Knobs, key: Array, length: Array) -> tuple[Array, Array]:
    """Tokens ``[position, sequence]``, padded to the longest length, and the answers ``[sequence]``."""
    tokens = knobs.task.sample(key, shape.longest, shape.batch, shape.vocabulary)
    return tokens, tokens[knobs.task.target(length - 1)]


def loss_on_batch(parameters: HeadParameters, shape: Shape, knobs: Knobs, key: Array, length: Array) -> Scalar:
    """Mean cross-entropy of the batch drawn with ``key``."""
    tokens, answers = batch(shape, knobs, key, length)
    output = FORWARD[shape.path](parameters, knobs.encoding, knobs.temperature, tokens, length)
    return cross_entropy(output.class_scores, answers)
