"""The rules of models."""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Collection, Iterable
from dataclasses import dataclass
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from farfield.encodings import Encoding, encodings
from farfield.environment import settled
from farfield.models import Inputs, Mechanism, Model, models
from farfield.models.base import AskedRows, LogitPath
from farfield.normalizers import Normalizer, normalizers
from farfield.testing._compare import close, ensure, finite, same
from farfield.testing._programs import double_precision, drawn, quick_jit
from farfield.testing._rules import Rules

VOCABULARY, SEQUENCES, PLACES, LENGTH = 5, 3, 7, 6
WIDTH = 8

MODEL_RULES = Rules(models)
rule = MODEL_RULES.rule


@settled
def check_model(
    model: Model,
    *,
    only: Iterable[str] | None = None,
    encoding: Encoding | None = None,
    normalizer: Normalizer | None = None,
    unread: Collection[str] = (),
) -> None:
    """Hold a model, made about eight dimensions wide, to the rules of all models.

    >>> from farfield.testing import check_model
    >>> from farfield.models import models
    >>> check_model(models.get("head"), only=["last_row", "later_tokens"])

    Args:
        only: names of the rules to run, of ``MODEL_RULES``; by default all.
        encoding, normalizer: what the rules run with; by default each has a selection of its own.
        unread: parts of the names of parameters that no class score depends on.

    Raises:
        BrokenRule: with a line for each rule that the model breaks.
        FarfieldError: for an unknown rule.
    """
    MODEL_RULES.check(ModelTrial(model, encoding, normalizer, tuple(unread)), only)


@dataclass(frozen=True)
class ModelTrial:
    """A model under test, with what it is tested with."""

    entry: Model
    encoding: Encoding | None = None
    normalizer: Normalizer | None = None
    unread: tuple[str, ...] = ()

    def ready(self, encoding: str = "rope", normalizer: str = "softmax", trained: int = PLACES) -> ReadyModel:
        """The model, small, with parameters far from those that training starts from."""
        heads = self.entry.heads
        # An even number of dimensions a head, as rotations need.
        model = dataclasses.replace(self.entry, width=heads * max(2, WIDTH // heads // 2 * 2))
        model.check()
        mechanism = Mechanism(
            (self.encoding or encodings.parse(encoding)).resolved(PLACES, PLACES),
            (self.normalizer or normalizers.parse(normalizer)).resolved(trained),
        )
        parameters = drawn(lambda key: model.initialize(key, mechanism, VOCABULARY), 0)
        return ReadyModel(model, mechanism, jax.tree.map(lambda leaf: leaf / 2, parameters))

    def each(self, *names: str) -> list[ReadyModel]:
        """The model with each of some encodings, or with the one that was asked for."""
        return [self.ready(name) for name in (names[:1] if self.encoding else names)]


@dataclass(frozen=True)
class ReadyModel:
    """A model with all that a forward pass needs."""

    model: Model
    mechanism: Mechanism
    parameters: Any

    @property
    def paths(self) -> list[LogitPath]:
        """The ways to compute it."""
        return ["dense"] if self.model.lookup_obstacle(self.mechanism.encoding) else ["dense", "lookup"]

    def forward(self, given: Inputs, rows: AskedRows, path: LogitPath) -> Any:
        """Compiled forward pass."""
        run = quick_jit(lambda parameters, given: self.model.forward(parameters, self.mechanism, given, rows, path))
        return jax.tree.map(np.asarray, run(self.parameters, given))


def inputs(seed: int = 0, places: int = PLACES, length: int = LENGTH) -> Inputs:
    tokens = jnp.asarray(np.random.default_rng(seed).integers(0, VOCABULARY, (PLACES, SEQUENCES)), jnp.int32)
    # As every regime gives them: places past the length repeat the last position.
    return Inputs(tokens[:places], jnp.minimum(jnp.arange(places), length - 1), jnp.asarray(length))


@rule()
def last_row(trial: ModelTrial) -> None:
    """The last row alone is the last row of all, in scores and weights of the right shapes."""
    with double_precision():
        for ready in trial.each("rope", "learned", "shaw"):
            heads = len(ready.model.head_names)
            for path in ready.paths:
                everything = ready.forward(inputs(), "all", path)
                alone = ready.forward(inputs(), "last", path)
                for rows, found in ((PLACES, everything), (1, alone)):
                    _shape(found.class_scores, (rows, VOCABULARY, SEQUENCES), "class scores")
                    _shape(found.weights, (heads, rows, PLACES, SEQUENCES), "weights")
                close(alone.class_scores[0], everything.class_scores[LENGTH - 1], f"{path} class scores", atol=1e-10)
                close(alone.weights[:, 0], everything.weights[:, LENGTH - 1], f"{path} weights", atol=1e-10)


@rule()
def later_tokens(trial: ModelTrial) -> None:
    """Padding and later tokens change nothing, a row's own token and earlier ones do."""
    with double_precision():
        for ready in trial.each("rope", "cope", "learned"):
            for path in ready.paths:
                padded = ready.forward(inputs(), "all", path).class_scores[:LENGTH]
                short = ready.forward(inputs(places=LENGTH), "all", path).class_scores
                close(padded, short, f"{path} class scores with and without padding", atol=1e-10)
                given = inputs()
                other = given._replace(tokens=given.tokens.at[4:].set((given.tokens[4:] + 1) % VOCABULARY))
                changed = ready.forward(other, "all", path).class_scores[:LENGTH]
                close(changed[:4], padded[:4], f"{path} class scores with other later tokens", atol=1e-10)
                ensure(np.abs(changed[4:] - padded[4:]).max() > 1e-3, f"{path} class scores that no token changes")


@rule()
def distribution(trial: ModelTrial) -> None:
    """Weights of every row sum to one over the keys that it sees, and are zero for all others."""
    names = ["softmax"] if trial.normalizer else ["softmax", "entmax"]
    for ready in (trial.ready(normalizer=name, trained=4) for name in names):
        weights = ready.forward(inputs(), "all", "dense").weights[:, :LENGTH]
        hidden = np.arange(PLACES)[None] > np.arange(LENGTH)[:, None]
        ensure((weights[:, hidden] == 0).all(), "weights of keys after the row")
        if ready.mechanism.normalizer.sums_to_one:
            close(weights.sum(axis=2), np.ones_like(weights.sum(axis=2)), "sums of weights and one", rtol=1e-5)


@rule()
def parameters_matter(trial: ModelTrial) -> None:
    """A finite gradient reaches every parameter, but for those that are said to be unread."""
    ready = trial.ready("t5:buckets=4,distance=6", "ssmax")
    weight = jnp.asarray(np.random.default_rng(1).normal(size=(PLACES, VOCABULARY, SEQUENCES)), jnp.float32)

    @quick_jit
    @jax.grad
    def slope(parameters: Any, given: Inputs) -> Any:
        return (ready.model.forward(parameters, ready.mechanism, given, "all", "dense").class_scores * weight).sum()

    gradient = jax.tree.map(jnp.zeros_like, ready.parameters)
    for seed in range(3):
        gradient = jax.tree.map(lambda a, b: a + jnp.abs(b), gradient, slope(ready.parameters, inputs(seed)))
    for path, leaf in jax.tree_util.tree_leaves_with_path(gradient):
        name = jax.tree_util.keystr(path)
        if not any(part in name for part in trial.unread):
            finite(leaf, f"gradients of {name}")
            ensure((np.abs(leaf) > 0).any(), f"no gradient of {name}")


@rule()
def observed(trial: ModelTrial) -> None:
    """The inside of every head has its name and fits the forward pass."""
    with double_precision():
        ready = trial.ready()
        model, mechanism = ready.model, ready.mechanism
        seen = jax.jit(lambda parameters, given: model.observe(parameters, mechanism, given, "all"))
        inside = seen(ready.parameters, inputs())
        names = model.head_names
        ensure(len(inside) == len(names) == len(set(names)), f"{len(inside)} heads with the names {', '.join(names)}")
        weights = ready.forward(inputs(), "all", "dense").weights
        for head, expected in zip(inside, weights, strict=True):
            for vectors in (head.query, head.key):
                _shape(vectors, (SEQUENCES, PLACES, model.head_width), "projections")
            close(np.moveaxis(np.asarray(head.weights), 0, -1), expected, "observed weights", atol=1e-12)
            if trial.normalizer is None:
                row = np.asarray(head.logits)[:, LENGTH - 1, :LENGTH]
                share = np.exp(row) / np.exp(row).sum(axis=-1, keepdims=True)
                close(share, np.asarray(head.weights)[:, LENGTH - 1, :LENGTH], "softmax of logits", atol=1e-10)


@rule()
def repeatable(trial: ModelTrial) -> None:
    """The same arguments give the same class scores and weights in two programs, and a key the same start."""
    ready = trial.ready()
    first, second = (ready.forward(inputs(), "all", "dense") for _ in range(2))
    for one, other in zip(first, second, strict=True):
        same(one, other, "outcomes of two programs")
    starts = [ready.model.initialize(jax.random.key(3), ready.mechanism, VOCABULARY) for _ in range(2)]
    for one, other in zip(*map(jax.tree.leaves, starts), strict=True):
        same(one, other, "weights of two initializations with the same key")


@rule()
def configuration(trial: ModelTrial) -> None:
    """The configuration survives JSON, and the model made of it starts from the same weights."""
    ready = trial.ready()
    again = models.from_config(json.loads(json.dumps(models.config(ready.model))))
    ensure(again == ready.model, f"{again} from the configuration of {ready.model}")
    ensure(hash(again) == hash(ready.model), "another hash")
    starts = [m.initialize(jax.random.key(3), ready.mechanism, VOCABULARY) for m in (ready.model, again)]
    for one, other in zip(*map(jax.tree.leaves, starts), strict=True):
        same(one, other, "weights of two initializations with the same key")


def _shape(found: Any, expected: tuple[int, ...], what: str) -> None:
    ensure(found.shape == expected, f"{what} of shape {found.shape}, where {expected} is due")
