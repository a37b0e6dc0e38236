"""The rules of normalizers that are about their settings and their gradients."""

from __future__ import annotations

import functools
import json
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from farfield.normalizers import Normalizer, normalizers
from farfield.testing._compare import close, ensure, finite, same
from farfield.testing._normalizer_trial import NORMALIZER_RULES, SEEDS, NormalizerTrial, pulled_back, rows, weights_of
from farfield.testing._programs import as_arrays, double_precision, mapped, quick_jit, settings_of, with_settings

rule = NORMALIZER_RULES.rule


@rule()
def batched(trial: NormalizerTrial) -> None:
    """A batch of settings and parameters has the weights of one at a time."""
    logits, visible, count = rows(9, 12)
    normalizer, parameters = trial.ready()
    start = settings_of(normalizer), parameters
    variants = [jax.tree.map(lambda x, k=k: jnp.asarray(x * k, float), start) for k in (1.0, 1.5, 3)]
    if not jax.tree.leaves(variants):
        return

    def weights(settings: Any, parameters: Any) -> Any:
        return with_settings(normalizer, settings).weights(parameters, logits, visible, count)

    stacked = jax.tree.map(lambda *leaves: jnp.stack(leaves), *variants)
    for row, variant in zip(jax.vmap(weights)(*stacked), variants, strict=True):
        close(row, weights(*variant), "weights in a batch and alone", rtol=1e-5, atol=1e-6)


@rule()
def settings_matter(trial: NormalizerTrial) -> None:
    """A finite gradient reaches every parameter and traced setting, in the weights or in the initialization."""
    normalizer, parameters = trial.ready()

    @quick_jit
    @functools.partial(jax.grad, argnums=(0, 1))
    def gradient(parameters: Any, settings: Any, logits: Any, visible: Any, count: Any) -> Any:
        entry = with_settings(normalizer, settings)
        parameters = jax.tree.map(lambda a, b: a + b, parameters, entry.initialize(jax.random.key(0)))
        return jnp.square(entry.weights(parameters, logits, visible, count)).sum()

    logits, visible, count = rows(10, 12)
    settings = settings_of(as_arrays(normalizer, float))
    # A floor of sums, for one, acts on small logits alone.
    found = [gradient(parameters, settings, logits * scale, visible, count) for scale in (1, 0.01)]
    finite(found, "gradients")
    total = jax.tree.map(lambda a, b: np.abs(a) + np.abs(b), *found)
    for path, leaf in jax.tree_util.tree_leaves_with_path(total):
        name = path[-1].key if hasattr(path[-1], "key") else jax.tree_util.keystr(path)
        ensure(name in trial.unread or (leaf > 0).all(), f"no gradient of {name}")


@rule()
def finite_differences(trial: NormalizerTrial) -> None:
    """The gradient is that of finite differences."""
    with double_precision():
        for seed in SEEDS:
            logits, visible, count = rows(seed, 9)
            normalizer, parameters = trial.ready()
            pull, direction = np.random.default_rng(seed).normal(size=(2, 9, 5))
            weights = functools.partial(_moved, normalizer, parameters, direction, logits, visible, count)
            by_parameter, by_logit = pulled_back(normalizer, parameters, logits, visible, count, jnp.asarray(pull))
            slope = (by_logit * direction).sum() + sum(leaf.sum() for leaf in jax.tree.leaves(by_parameter))
            expected = ((weights(1e-6) * pull).sum() - (weights(-1e-6) * pull).sum()) / 2e-6
            close(slope, expected, "slopes by gradient and by differences", rtol=1e-5, atol=1e-6)


def _moved(
    normalizer: Normalizer, parameters: Any, direction: Any, logits: Any, visible: Any, count: Any, by: float
) -> Any:
    there = jax.tree.map(lambda leaf: leaf + by, parameters)
    return weights_of(normalizer, there, logits + by * direction, visible, count)


@rule()
def whole_settings(trial: NormalizerTrial) -> None:
    """A whole number given for a real setting acts as the real number."""
    row = rows(11, 12)
    normalizer, parameters = trial.ready()
    whole = mapped(lambda value: int(2 * value) or 1, normalizer)
    real = mapped(float, whole)
    if normalizers.holds(normalizer):
        ensure(normalizers.normalized(whole) == real, f"{normalizers.normalized(whole)} from {whole}")
    same(whole.weights(parameters, *row), real.weights(parameters, *row), "weights of whole and of real settings")


@rule()
def configuration(trial: NormalizerTrial) -> None:
    """The configuration survives JSON, and the normalizer is hashable."""
    normalizer, _ = trial.ready()
    again = normalizers.from_config(json.loads(json.dumps(normalizers.config(normalizer))))
    ensure(again == normalizer, f"{again} from the configuration of {normalizer}")
    ensure(hash(again) == hash(normalizer), "another hash")


@rule()
def resolved_once(trial: NormalizerTrial) -> None:
    """Resolving a resolved normalizer for another length changes nothing."""
    normalizer, _ = trial.ready()
    ensure(normalizer.resolved(99) == normalizer, f"{normalizer.resolved(99)} after {normalizer}")
