"""The rules of normalizers."""

from __future__ import annotations

import functools
from collections.abc import Collection, Iterable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from farfield.environment import settled
from farfield.normalizers import Normalizer
from farfield.testing import _normalizer_settings as _normalizer_settings
from farfield.testing._compare import close, ensure, finite, same
from farfield.testing._normalizer_trial import NORMALIZER_RULES, SEEDS, NormalizerTrial, by_blocks, rows
from farfield.testing._programs import (
    as_arrays,
    compiled,
    double_precision,
    quick_jit,
    settings_of,
    with_settings,
)

SHIFTS = (-100.0, -31.4, -7.0, -1.0, -0.01, 0.0, 0.3, 2.0, 55.5, 100.0)
SPLITS: tuple[list[int], ...] = ([], [1], [2], [5], [8], [1, 2], [2, 5], [1, 2, 5, 8])

rule = NORMALIZER_RULES.rule


@settled
def check_normalizer(
    normalizer: Normalizer, *, only: Iterable[str] | None = None, unread: Collection[str] = ()
) -> None:
    """Hold a normalizer to the rules of all normalizers.

    >>> from farfield.testing import check_normalizer
    >>> from farfield.normalizers import normalizers
    >>> check_normalizer(normalizers.get("softmax"), only=["sums_and_signs", "hidden_keys"])

    Args:
        only: names of the rules to run, of ``NORMALIZER_RULES``; by default all.
        unread: traced settings that these settings leave without effect.

    Raises:
        BrokenRule: with a line for each rule that the normalizer breaks.
        FarfieldError: for an unknown rule.
    """
    NORMALIZER_RULES.check(NormalizerTrial(normalizer, tuple(unread)), only)


@rule()
def sums_and_signs(trial: NormalizerTrial) -> None:
    """Weights sum to one and are not negative, where the normalizer claims it."""
    with double_precision():
        for number, seed in enumerate(SEEDS):
            for keys in (1, 2, 7, 40):
                spread = (0.01, 1.0, 30.0)[number % 3]
                found = np.asarray(trial.weights(*rows(seed, keys, spread=spread)))
                if trial.entry.nonnegative:
                    ensure((found >= 0).all(), f"a weight of {found.min():.2g}")
                if trial.entry.sums_to_one:
                    close(found.sum(axis=0), np.ones(5), "sums of weights and one", atol=1e-6)


@rule()
def nothing_unclaimed(trial: NormalizerTrial) -> None:
    """What the normalizer does not claim does not hold: signs, sums, indifference to a common shift."""
    logits, visible, count = rows(0, 20)
    found = np.asarray(trial.weights(logits, visible, count))
    shifted = np.asarray(trial.weights(logits + 3, visible, count))
    entry = trial.entry
    ensure(entry.nonnegative or (found < 0).any(), "no negative weight: say nonnegative = True")
    ensure(entry.sums_to_one or (np.abs(found.sum(axis=0) - 1) > 0.01).any(), "sums of one: say sums_to_one = True")
    moved = (np.abs(shifted - found) > 0.01).any()
    ensure(entry.shift_invariant or moved, "no change with a common shift: say shift_invariant = True")


@rule(lambda normalizer: normalizer.shift_invariant)
def common_shift(trial: NormalizerTrial) -> None:
    """A common shift of a row's logits changes nothing, where the normalizer claims it."""
    with double_precision():
        for seed, shift in zip(SEEDS, SHIFTS, strict=True):
            logits, visible, count = rows(seed, 12)
            moved = trial.weights(logits + shift, visible, count)
            close(moved, trial.weights(logits, visible, count), f"weights with a shift of {shift:g}", atol=1e-9)


@rule()
def larger_is_heavier(trial: NormalizerTrial) -> None:
    """A larger logit never has a smaller weight, and the largest has more than the smallest."""
    for seed in SEEDS:
        for keys in (2, 7, 30):
            logits, _, _ = rows(seed, keys)
            found = np.asarray(trial.weights(logits, jnp.ones_like(logits, bool), jnp.full(5, keys)))
            ranked = np.take_along_axis(found, np.argsort(logits, axis=0), axis=0)
            ensure((np.diff(ranked, axis=0) >= 0).all(), "a larger logit with a smaller weight")
            ensure((ranked[-1] > ranked[0]).all(), "equal weights of the largest and the smallest logit")


@rule()
def hidden_keys(trial: NormalizerTrial) -> None:
    """Keys that are not visible have no weight and no influence, whatever they hold."""
    logits, visible, count = rows(1, 9)
    normalizer, _ = trial.ready()

    @quick_jit
    def outcome(logits: Any) -> Any:
        def loss(logits: Any) -> Any:
            found = normalizer.attend(logits, visible, count)
            return jnp.square(found).sum(), found

        gradient, found = jax.grad(loss, has_aux=True)(logits)
        return found, gradient

    found, gradient = outcome(logits)
    ensure((np.asarray(found)[~visible] == 0).all(), "weights of keys that are not visible")
    for junk in (1e4, -1e4, np.inf, -np.inf, np.nan):
        dirty = outcome(jnp.where(visible, logits, jnp.full_like(logits, junk)))
        same(dirty[0], found, f"weights with hidden logits of {junk:g}")
        same(dirty[1], gradient, f"gradients with hidden logits of {junk:g}")


@rule()
def hidden_keys_in_gradients(trial: NormalizerTrial) -> None:
    """Keys that are not visible do not reach the gradient of parameters and settings."""
    logits, visible, count = rows(1, 9)
    normalizer, parameters = trial.ready()

    @quick_jit
    @functools.partial(jax.grad, argnums=(0, 1))
    def gradient(settings: Any, parameters: Any, logits: Any) -> Any:
        entry = with_settings(normalizer, settings)
        return jnp.square(entry.weights(parameters, logits, visible, count)).sum()

    settings = settings_of(as_arrays(normalizer))
    clean = jax.tree.leaves(gradient(settings, parameters, logits))
    dirty = jax.tree.leaves(gradient(settings, parameters, jnp.where(visible, logits, jnp.full_like(logits, 1e4))))
    for one, other in zip(clean, dirty, strict=True):
        same(other, one, "gradients with other hidden logits")


@rule()
def empty_row(trial: NormalizerTrial) -> None:
    """A row without a visible key has weights of zero and gradients of zero."""
    logits, visible, _ = rows(2, 6)
    visible = visible.at[:, 1].set(False)
    count = visible.sum(axis=0)
    normalizer, parameters = trial.ready()
    settings = settings_of(as_arrays(normalizer))

    def row(parameters: Any, settings: Any, logits: Any) -> Any:
        return with_settings(normalizer, settings).weights(parameters, logits, visible, count)[:, 1]

    same(row(parameters, settings, logits), np.zeros(6), "weights of an empty row and zero")
    for leaf in jax.tree.leaves(jax.jacobian(row, (0, 1, 2))(parameters, settings, logits)):
        same(leaf, np.zeros_like(leaf), "gradients of an empty row and zero")


@rule()
def blocks(trial: NormalizerTrial) -> None:
    """Any split of a row into blocks of keys gives the weights of the whole row."""
    with double_precision():
        for seed, ends in zip(SEEDS, SPLITS, strict=False):
            logits, visible, count = rows(seed, 9)
            normalizer, parameters = trial.ready()
            whole = normalizer.weights(parameters, logits, visible, count)
            found = by_blocks(normalizer, parameters, logits, visible, count, ends)
            close(found, whole, f"weights of blocks that end at {ends} and of the whole", atol=1e-12)


@rule()
def stream(trial: NormalizerTrial) -> None:
    """A compiled stream of blocks gives the weights of the whole row."""
    logits, visible, count = rows(3, 32)
    normalizer, parameters = trial.ready()
    whole = normalizer.weights(parameters, logits, visible, count)
    scaled = logits * jnp.broadcast_to(normalizer.scale(parameters, count), count.shape)[None]

    @quick_jit
    def streamed(number: Any) -> Any:
        def block(index: Any) -> tuple[Any, Any]:
            logits, seen = (jax.lax.dynamic_slice_in_dim(part, index * 8, 8) for part in (scaled, visible))
            return logits, seen

        known = normalizer.stream(block, number, count)
        return jnp.concatenate([normalizer.weigh(known, *block(index), count=count) for index in range(4)])

    close(streamed(jnp.int32(4)), whole, "weights of a stream and of the whole", atol=1e-5)


@rule()
def padding(trial: NormalizerTrial) -> None:
    """Padding a row with keys that are not visible changes nothing."""
    logits, visible, count = rows(4, 11)
    more = jnp.full((21, 5), 7.0), jnp.zeros((21, 5), bool)
    padded = trial.weights(jnp.concatenate([logits, more[0]]), jnp.concatenate([visible, more[1]]), count)
    close(padded[:11], trial.weights(logits, visible, count), "weights with padding", rtol=1e-6, atol=1e-7)
    ensure((np.asarray(padded[11:]) == 0).all(), "weights of padding")


@rule()
def shared_masks(trial: NormalizerTrial) -> None:
    """One mask and one count serve all rows, of any number of axes."""
    logits, _, _ = rows(5, 8, 6)
    normalizer, parameters = trial.ready()
    visible = jnp.arange(8) < 5
    each = normalizer.weights(parameters, logits, jnp.broadcast_to(visible[:, None], (8, 6)), jnp.full(6, 5))
    shared = normalizer.weights(parameters, logits, visible[:, None], jnp.int32(5))
    cube = normalizer.weights(parameters, logits.reshape(8, 2, 3), visible[:, None, None], jnp.full((1, 3), 5))
    none = normalizer.weights(parameters, logits[:, 0], visible, jnp.int32(5))
    same(shared, each, "weights with one mask and with a mask a row")
    same(cube.reshape(8, 6), each, "weights of rows on two axes and on one")
    close(none, each[:, 0], "weights of a row alone and among others", rtol=1e-6)


@rule()
def extreme_logits(trial: NormalizerTrial) -> None:
    """Extreme logits give finite weights and gradients."""
    logits, visible, count = rows(6, 10)
    normalizer, parameters = trial.ready()

    def loss(parameters: Any, logits: Any) -> Any:
        found = normalizer.weights(parameters, logits, visible, count)
        return (found * jnp.sin(jnp.arange(10.0))[:, None]).sum()

    for scale in (1e4, -1e4, 1e-30):
        found = np.asarray(normalizer.weights(parameters, logits * scale, visible, count))
        finite(found, f"weights of logits near {scale:g}")
        if normalizer.sums_to_one:
            close(found.sum(axis=0), np.ones(5), f"sums of weights of logits near {scale:g} and one", atol=1e-5)
        finite(jax.grad(loss, (0, 1))(parameters, logits * scale), f"gradients at logits near {scale:g}")


@rule()
def precision(trial: NormalizerTrial) -> None:
    """Weights keep the type of the logits and are right to its precision."""
    with double_precision():
        for dtype in (jnp.float32, jnp.bfloat16, jnp.float64):
            logits, visible, count = rows(7, 12)
            logits = logits.astype(dtype)
            exact = trial.weights(logits.astype(float), visible, count)
            found = trial.weights(logits, visible, count)
            ensure(found.dtype == dtype, f"weights of type {found.dtype} for logits of {jnp.dtype(dtype)}")
            tolerance = 10 * float(jnp.finfo(dtype).eps)
            what = f"weights in {jnp.dtype(dtype)} and in float64"
            close(found.astype(float), exact, what, rtol=tolerance, atol=tolerance)


@rule()
def strict_bfloat16(trial: NormalizerTrial) -> None:
    """Weights of bfloat16 logits are bfloat16 where types may not widen on their own."""
    logits, visible, count = rows(7, 12)
    found = trial.weights(logits.astype(jnp.bfloat16), visible, count)
    ensure(found.dtype == jnp.bfloat16, f"weights of type {found.dtype}")


@rule()
def small_terms(trial: NormalizerTrial) -> None:
    """Sums over many blocks of bfloat16 logits keep their small terms, though 256 + 1 is 256 there."""
    normalizer, _ = trial.ready()

    @functools.partial(quick_jit, static_argnums=0)
    def weight(dtype: Any) -> Any:
        block = jnp.full((8, 1), 0.5, dtype), jnp.ones((8, 1), bool)
        known = normalizer.stream(lambda index: block, jnp.int32(512), jnp.int32(4096))
        return normalizer.weigh(known, *block, jnp.int32(4096))[0, 0].astype(jnp.float32)

    close(weight(jnp.bfloat16), weight(jnp.float32), "weights in bfloat16 and in float32", rtol=0.01)


@rule()
def compiled_equals_eager(trial: NormalizerTrial) -> None:
    """The same arguments give the same weights twice, and compiled weights equal eager ones."""
    logits, visible, count = rows(8, 12)
    normalizer, parameters = trial.ready()
    run = compiled(lambda entry, *rest: entry.weights(*rest), jit=jax.jit)
    eager = normalizer.weights(parameters, logits, visible, count)
    same(normalizer.weights(parameters, logits, visible, count), eager, "weights of two calls")
    close(
        run(normalizer, parameters, logits, visible, count), eager, "compiled and eager weights", rtol=1e-5, atol=1e-6
    )
