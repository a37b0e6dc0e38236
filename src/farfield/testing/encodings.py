"""The rules of positional encodings."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from farfield.encodings import Encoding, HeadContent
from farfield.environment import settled
from farfield.testing import _encoding_settings as _encoding_settings
from farfield.testing._compare import close, ensure, finite, same
from farfield.testing._encoding_trial import (
    ENCODING_RULES,
    FAR,
    LONGEST,
    SPREAD,
    WIDTH,
    EncodingTrial,
    Parameters,
    drawn_parameters,
    logits_of,
    pair_logits,
    rounded,
    value_and_gradient,
    vectors,
)
from farfield.testing._programs import (
    as_arrays,
    compiled,
    double_precision,
)

SEEDS = (0, 7, 13, 28, 36, 42, 59, 64, 87, 99)
# Single steps, lengths of studies, both sides of where phases change their arithmetic, and far beyond.
SHIFTS = (1, 2, 31, 1024, 4096, 16_383, 16_384, 131_072, 777_777, FAR)

rule = ENCODING_RULES.rule


@settled
def check_encoding(
    encoding: Encoding, *, only: Iterable[str] | None = None, unread: Mapping[str, int] | None = None
) -> None:
    """Hold an encoding to the rules of all encodings, in heads of four and eight dimensions.

    >>> from farfield.testing import check_encoding
    >>> from farfield.encodings import encodings
    >>> check_encoding(encodings.get("rope"))

    Args:
        only: names of the rules to run, of ``ENCODING_RULES``; by default all.
        unread: a row of a head's parameter that no position reads, by the parameter's name.

    Raises:
        BrokenRule: with a line for each rule that the encoding breaks.
        FarfieldError: for an unknown rule.
    """
    ENCODING_RULES.check(EncodingTrial(encoding, dict(unread or {})), only)


@rule()
def shapes_and_types(trial: EncodingTrial) -> None:
    """Each hook keeps the shapes and the type of its inputs."""
    encoding, parameters = trial.ready()
    query, key = vectors(0, 5, WIDTH)
    positions = jnp.arange(5)

    @compiled
    def outcomes(encoding: Encoding, parameters: Parameters, query: Any, key: Any) -> Any:
        added = encoding.embed(parameters.model, positions)
        # One query against a table of keys [position, vocabulary, width], as the heads call it.
        many = jnp.broadcast_to(key[:, None], (5, 3, WIDTH))
        turned = encoding.rotate(parameters.head, query, many, positions[:1], positions[:, None])
        bias = encoding.bias(parameters.head, positions[:2], positions, HeadContent(query[:2], key))
        content = HeadContent(query[:, None, None], many.swapaxes(0, 1)[None])
        return added, *turned, bias, encoding.bias(parameters.head, positions[:1], positions, content)

    added, query_turned, key_turned, bias, many = outcomes(encoding, parameters, query, key)
    ensure((bias is None) == (many is None), "a bias for one kind of content and none for another")
    wanted = [
        ("embed", added, (5, WIDTH)),
        ("rotate", query_turned, query.shape),
        ("rotate", key_turned, (5, 3, WIDTH)),
    ]
    for hook, found, shape in [*wanted, ("bias", bias, (2, 5)), ("bias", many, None)]:
        if found is not None:
            ensure(found.dtype == query.dtype, f"{hook} gives {found.dtype} for {query.dtype}")
            ensure(shape is None or found.shape == shape, f"{hook} gives the shape {found.shape} for {shape}")
    if many is not None:
        fits = np.broadcast_shapes(many.shape, (5, 3, 1, 5)) == (5, 3, 1, 5)
        ensure(fits, f"bias gives the shape {many.shape}, which does not fit (5, 3, 1, 5)")


@rule()
def single_token(trial: EncodingTrial) -> None:
    """A single token has a finite logit and gradient."""
    encoding, parameters = trial.ready(longest=1)
    finite(value_and_gradient(encoding, parameters, *vectors(1, 1, WIDTH), jnp.arange(1)), "logits and gradients")


@rule()
def far_positions(trial: EncodingTrial) -> None:
    """Logits and gradients are finite at positions up to a million, for keys after the query too.

    The mask hides their logits, but inf * 0 in a gradient would not be hidden.
    """
    encoding, parameters = trial.ready(longest=FAR, width=4)
    positions = jnp.array([0, 1, 1000, FAR])
    (_, gradient) = value_and_gradient(encoding, parameters, *vectors(2, 4, 4), positions)
    finite(logits_of(encoding, parameters, *vectors(2, 4, 4), positions, positions), "logits")
    finite(gradient, "gradients")


@rule(lambda encoding: encoding.relative)
def relative(trial: EncodingTrial) -> None:
    """Logits do not change when all positions shift, where `relative` says so."""
    with double_precision():
        for shift, seed in zip(SHIFTS, SEEDS, strict=True):
            _shifted(trial, shift, seed, atol=1e-8)


@rule(lambda encoding: encoding.relative)
def relative_in_float32(trial: EncodingTrial) -> None:
    """Logits of a relative encoding do not change in float32 when all positions shift by a study's lengths."""
    for shift in (1, 1024, 4096):
        # A float32 angle near 4096 radians is off by at most 2**-12.
        _shifted(trial, shift, 3, atol=2e-3)


def _shifted(trial: EncodingTrial, shift: int, seed: int, atol: float) -> None:
    encoding, parameters = trial.ready(seed=seed)
    query, key = vectors(seed, 6, WIDTH)
    positions = jnp.arange(6)
    here = logits_of(encoding, parameters, query, key, positions, positions)
    there = logits_of(encoding, parameters, query, key, positions + shift, positions + shift)
    close(there, here, f"logits with and without a shift of {shift}", atol=atol)


@rule(lambda encoding: not encoding.relative)
def absolute(trial: EncodingTrial) -> None:
    """Logits change when all positions shift, where `relative` is denied.

    From within the training length to past it, where those that depend on the length in use must show it.
    """
    positions = jnp.arange(6)
    far = positions + LONGEST - 6
    for seed in SEEDS:
        encoding, parameters = trial.ready(seed=seed)
        query, key = vectors(seed, 6, WIDTH)
        here = logits_of(encoding, parameters, query, key, positions, positions)
        there = logits_of(encoding, parameters, query, key, far, far)
        # Rounding is a thousand times smaller.
        ensure(np.abs(there - here).max() > 1e-2, f"the same logits after a shift of {LONGEST - 6}")


@rule(lambda encoding: encoding.reads_length)
def relative_at_one_length(trial: EncodingTrial) -> None:
    """Logits of an encoding that reads the length are relative at any one length."""
    shifts = (1, 2, 5, 9, 10, 17, 24, 32, 40, LONGEST - 7)
    with double_precision():
        for shift, seed in zip(shifts, SEEDS, strict=True):
            encoding, parameters = trial.ready(seed=seed)
            query, key = vectors(seed, 7, WIDTH)
            here, there = (jnp.append(jnp.arange(6) + start, LONGEST - 1) for start in (0, shift))
            here = logits_of(encoding, parameters, query, key, here, here)[:6, :6]
            there = logits_of(encoding, parameters, query, key, there, there)[:6, :6]
            close(there, here, f"logits with and without a shift of {shift}", atol=1e-8)


@rule(lambda encoding: encoding.reads_length)
def reads_length(trial: EncodingTrial) -> None:
    """Logits of an encoding that reads the length change past the trained one, and not before."""
    encoding, parameters = trial.plain()
    query, key = vectors(3, 6, WIDTH)
    short, still_short, long = (
        pair_logits(encoding, parameters, query, key, jnp.arange(6) + shift, jnp.arange(6) + shift)
        for shift in (0, 2, LONGEST - 6)
    )
    close(still_short, short, "logits at two lengths below the trained one", rtol=1e-5, atol=1e-5)
    ensure(np.abs(long - short).max() > 1e-3, "the same logits past the trained length")


@rule()
def positional(trial: EncodingTrial) -> None:
    """Equal keys have logits that differ by position, unless `positional` is denied."""
    encoding, parameters = trial.ready()
    query, key = vectors(4, 1, WIDTH)
    keys = jnp.tile(key, (4, 1))
    logits = logits_of(encoding, parameters, query, keys, jnp.array([3]), jnp.arange(4))[0]
    different = len(np.unique(np.round(np.asarray(logits), 4)))
    claimed = trial.entry.positional
    ensure((different > 1) == claimed, f"{different} different logits of four where positional is {claimed}")


@rule()
def parameters_matter(trial: EncodingTrial) -> None:
    """A finite gradient reaches every parameter, but for the rows that are said to be unread."""
    # A table for one position fewer than are asked for, since `learned` keeps a spare row.
    encoding = as_arrays(trial.resolved(SPREAD - 1), float)
    reached = jax.tree.map(lambda leaf: np.zeros(leaf.shape, bool), drawn_parameters(encoding, WIDTH, 0))
    for name, row in trial.unread.items():
        reached.head[name][row] = True
    # A unit of a network may be at rest for every position under one draw of its weights, not under all of them.
    for seed in range(12):
        parameters = drawn_parameters(encoding, WIDTH, seed)
        _, gradient = value_and_gradient(encoding, parameters, *vectors(seed, SPREAD, WIDTH), jnp.arange(SPREAD))
        finite(gradient, "gradients")
        reached = jax.tree.map(lambda seen, leaf: seen | (np.asarray(leaf) != 0), reached, gradient[1])
        if all(leaf.all() for leaf in jax.tree.leaves(reached)):
            return
    for path, leaf in jax.tree_util.tree_leaves_with_path(reached):
        where = np.argwhere(~leaf)[:1].tolist()
        ensure(leaf.all(), f"no gradient of {jax.tree_util.keystr(path)} at {where}")


@rule()
def bfloat16(trial: EncodingTrial) -> None:
    """bfloat16 vectors are encoded with float32 phases.

    transformers issues 25681 and 29285: in bfloat16, positions past 256 are no longer whole numbers.
    """
    encoding, parameters = trial.ready(longest=4102)
    query, key = vectors(6, 3, WIDTH)
    positions = jnp.array([4099, 4100, 4101]), jnp.array([4001, 4099, 4101])
    exact = np.asarray(logits_of(encoding, parameters, query, key, *positions))
    with jax.numpy_dtype_promotion("standard"):
        found = logits_of(encoding, *rounded((parameters, query, key), jnp.bfloat16), *positions)
    ensure(found.dtype == jnp.bfloat16, f"logits of type {found.dtype}")
    # Inputs, products and sums keep 8 bits: hundredths of logits of size one to four.
    close(found.astype(jnp.float32), exact, "logits in bfloat16 and in float32", atol=0.15, rtol=0.03)


@rule()
def bfloat16_bias(trial: EncodingTrial) -> None:
    """A bias of bfloat16 vectors is the float32 one rounded once."""
    encoding, parameters = trial.ready(longest=4200)
    positions = 4000 + jnp.arange(SPREAD)

    @compiled
    def bias_of(encoding: Encoding, parameters: Any, query: Any, key: Any) -> Any:
        bias = encoding.bias(parameters, positions[-2:], positions, HeadContent(query[-2:], key))
        return jnp.zeros((2, SPREAD), query.dtype) if bias is None else bias.astype(query.dtype)

    coarse = rounded((parameters.head, *vectors(16, SPREAD, WIDTH)), jnp.bfloat16)
    exact = bias_of(encoding, *rounded(coarse, jnp.float32))
    found = bias_of(encoding, *coarse)
    ensure(found.dtype == jnp.bfloat16, f"a bias of type {found.dtype}")
    # One rounding to 8 bits is off by 2**-9 at most.
    close(found.astype(jnp.float32), exact, "biases in bfloat16 and in float32", rtol=2**-8)


@rule()
def tabulated(trial: EncodingTrial) -> None:
    """The tabulated encoding equals the original in value and type."""
    encoding, parameters = trial.plain()
    positions = jnp.arange(LONGEST)
    for dtype, tolerance in ((jnp.float32, 1e-6), (jnp.bfloat16, 0.05)):
        arguments = (rounded(parameters, dtype), *vectors(7, LONGEST, WIDTH, dtype), positions, positions)
        with jax.numpy_dtype_promotion("standard"):
            table = encoding.tabulated(WIDTH, LONGEST)
            if table == encoding:
                return  # nothing to compare
            original, found = logits_of(encoding, *arguments), logits_of(table, *arguments)
        ensure(found.dtype == original.dtype, f"logits of types {found.dtype} and {original.dtype}")
        close(found, original, f"logits of the table in {jnp.dtype(dtype)}", rtol=tolerance, atol=tolerance)


@rule()
def repeatable(trial: EncodingTrial) -> None:
    """The same arguments give the same logits twice, in a compiled program and out of it."""
    encoding, parameters = trial.plain()
    arguments = (encoding, parameters, *vectors(8, 6, WIDTH), jnp.arange(6), jnp.arange(6) + 3)
    first, second = pair_logits(*arguments), pair_logits(*arguments)
    same(second, first, "logits of two calls")
    # Traced anew, so that what a trace has fixed is not taken for what the hooks say.
    run = compiled(lambda *arguments: pair_logits(*arguments), jit=jax.jit)
    once, twice = run(*arguments), run(*arguments)
    same(twice, once, "logits of two compiled calls")
    close(once, first, "logits of a compiled call and of a plain one", rtol=1e-5, atol=1e-5)


@rule()
def later_keys(trial: EncodingTrial) -> None:
    """Keys after the query change no logit before it."""
    query, key, positions, run = _nine(trial)
    alone = run(query[4:5], key[:5], positions[4:5], positions[:5])
    for keys in (key, key.at[5:].set(-3 * key[5:])):
        more = run(query[4:5], keys, positions[4:5], positions)[:, :5]
        close(more, alone, "logits with and without later keys", rtol=1e-5, atol=1e-5)


@rule(lambda encoding: not encoding.reads_length)
def number_of_keys(trial: EncodingTrial) -> None:
    """A pair's logit does not depend on how many queries and keys there are, unless `reads_length` says so."""
    query, key, positions, run = _nine(trial)
    alone = run(query[4:5], key[:5], positions[4:5], positions[:5])
    for keys in (key, key.at[5:].set(-3 * key[5:])):
        every = run(query, keys, positions, positions)[4:5, :5]
        close(every, alone, "logits among nine and among five tokens", rtol=1e-5, atol=1e-5)
    if not trial.entry.reads_context:
        fewer = run(query[4:5], key[2:5], positions[4:5], positions[2:5])
        close(fewer, alone[:, 2:], "logits among three and among five keys", rtol=1e-5, atol=1e-5)


def _nine(trial: EncodingTrial) -> tuple[Any, Any, Any, Any]:
    """Nine queries, keys and positions, and the logits of some of them."""
    encoding, parameters = trial.ready()
    query, key = vectors(13, 9, WIDTH)
    return query, key, jnp.arange(9) * 2, lambda *given: logits_of(encoding, parameters, *given)


@rule()
def reads_context(trial: EncodingTrial) -> None:
    """A key between changes the logits of other keys exactly where `reads_context` says so."""
    encoding, parameters = trial.ready()
    query, key = vectors(14, 6, WIDTH)
    positions = jnp.arange(6)
    here, changed = (
        np.delete(logits_of(encoding, parameters, query[5:], keys, positions[5:], positions)[0], 3)
        for keys in (key, key.at[3].set(-2 * key[3]))
    )
    gap, claimed = np.abs(here - changed).max(), trial.entry.reads_context
    ensure((gap > 1e-3) == claimed, f"a change of {gap:.2g} where reads_context is {claimed}")


@rule(lambda encoding: encoding.real_positions)
def real_positions(trial: EncodingTrial) -> None:
    """Real positions have finite logits and whole ones those of whole numbers, unless `real_positions` is denied."""
    encoding, parameters = trial.ready()
    query, key = vectors(15, 6, WIDTH)
    whole = jnp.arange(6)
    real = whole.astype(float)
    expected = logits_of(encoding, parameters, query, key, whole, whole)
    found = logits_of(encoding, parameters, query, key, real, real)
    close(found, expected, "logits at real and at whole positions", rtol=1e-5, atol=1e-5)
    finite(logits_of(encoding, parameters, query, key, real * 1.5, real * 1.5), "logits between whole positions")
