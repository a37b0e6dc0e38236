"""The rules of encodings that are about their settings and their heads."""

from __future__ import annotations

import json
from typing import Any

import jax
import jax.numpy as jnp

from farfield.encodings import encodings
from farfield.testing._compare import close, ensure, finite, same
from farfield.testing._encoding_trial import (
    ENCODING_RULES,
    LONGEST,
    SPREAD,
    TRAINED,
    WIDTH,
    EncodingTrial,
    Parameters,
    drawn_parameters,
    logits_of,
    pair_logits,
    vectors,
)
from farfield.testing._programs import (
    as_arrays,
    compiled,
    held,
    mapped,
    quick_jit,
    settings_of,
    traced_fields,
    with_settings,
)

rule = ENCODING_RULES.rule


@rule()
def settings_matter(trial: EncodingTrial) -> None:
    """A finite gradient reaches every traced setting, in the logits or in the initialization."""
    encoding = as_arrays(trial.resolved(SPREAD), float)
    query, key = vectors(5, SPREAD, WIDTH)

    @quick_jit
    @jax.grad
    def by_setting(settings: Any) -> Any:
        encoding_here = with_settings(encoding, settings)
        draws = encoding_here.initialize, encoding_here.initialize_head
        start = Parameters(*(draw(jax.random.key(0), WIDTH) for draw in draws))
        # Some settings act within the training length, some beyond.
        return sum(
            jnp.square(pair_logits(encoding_here, start, query[:n], key[:n], jnp.arange(n), jnp.arange(n))).sum()
            for n in (7, SPREAD)
        )

    gradient = by_setting(settings_of(encoding)) if traced_fields(encoding) else {}
    for name, found in gradient.items():
        leaves = jax.tree.leaves(found)
        ensure(leaves, f"no number in {name}")
        for leaf in leaves:
            finite(leaf, f"gradients of {name}")
            ensure(leaf != 0, f"no gradient of {name}")


@rule()
def batched(trial: EncodingTrial) -> None:
    """A batch of settings and parameters has the logits of one at a time."""
    encoding, _ = trial.plain()
    factors = (1.0, 1.5, 3.0)
    variants = [jax.tree.map(lambda x, k=k: jnp.asarray(x * k, float), settings_of(encoding)) for k in factors]
    parameters = [trial.plain(seed=k)[1] for k in range(3)]
    query, key = vectors(9, 6, WIDTH)
    arguments = (query, key, jnp.arange(6), jnp.arange(6))
    stacked, tables = (jax.tree.map(lambda *leaves: jnp.stack(leaves), *rows) for rows in (variants, parameters))
    if not jax.tree.leaves((stacked, tables)):
        return

    def logits(settings: Any, table: Any) -> Any:
        return pair_logits(with_settings(encoding, settings), table, *arguments)

    together = quick_jit(jax.vmap(logits))(stacked, tables)
    for row, variant, table in zip(together, variants, parameters, strict=True):
        alone = logits_of(with_settings(encoding, variant), table, *arguments)
        close(row, alone, "logits in a batch and alone", rtol=1e-5, atol=1e-5)


@rule()
def heads(trial: EncodingTrial) -> None:
    """Every head has an encoding and parameters of the same structure: heads are stacked, so only numbers differ."""
    encoding, _ = trial.plain()
    each = [encoding.of_head(index, 3) for index in range(3)]
    query, key = vectors(11, 6, WIDTH)
    shapes = set()
    for head in each:
        head.check(WIDTH, LONGEST)
        ensure(head.resolved(TRAINED, LONGEST) == head, f"{head.resolved(TRAINED, LONGEST)} resolved from {head}")
        for other in (each[0], head.of_head(0, 1)):
            alike = jax.tree.structure(held(other)) == jax.tree.structure(held(head))
            ensure(alike, f"heads of different structures: {head} and {other}")
        parameters = drawn_parameters(head, WIDTH, 0)
        shapes.add(str(jax.tree.map(lambda leaf: leaf.shape, parameters)))
        logits = logits_of(as_arrays(head, float), parameters, query, key, jnp.arange(6), jnp.arange(6))
        finite(logits, "logits of a head")
    ensure(len(shapes) == 1, f"parameters of the shapes {' and '.join(sorted(shapes))}")


@rule()
def only_head(trial: EncodingTrial) -> None:
    """The encoding of the only head is the encoding itself."""
    encoding, parameters = trial.plain()
    arguments = (parameters, *vectors(12, 6, WIDTH), jnp.arange(6), jnp.arange(6))
    alone, of_one = (logits_of(as_arrays(one, float), *arguments) for one in (encoding, encoding.of_head(0, 1)))
    close(of_one, alone, "logits of the only head", rtol=1e-6)


@rule()
def whole_settings(trial: EncodingTrial) -> None:
    """A whole number given for a real setting acts as the real number."""
    real = mapped(lambda leaf: float(max(1, round(leaf))), trial.plain()[0])
    if not traced_fields(real):
        return
    whole = mapped(int, real)
    positions = jnp.arange(LONGEST)
    arguments = (drawn_parameters(real, WIDTH, 0), *vectors(10, LONGEST, WIDTH), positions, positions)
    with jax.numpy_dtype_promotion("standard"):
        expected = logits_of(real, *arguments)
        for encoding in (whole, whole.tabulated(WIDTH, LONGEST)):
            close(logits_of(encoding, *arguments), expected, "logits with whole settings", rtol=1e-6, atol=1e-6)
        start = compiled(lambda encoding: encoding.initialize_head(jax.random.key(0), WIDTH))
        for one, other in zip(jax.tree.leaves(start(whole)), jax.tree.leaves(start(real)), strict=True):
            same(one, other, "initial parameters with whole settings")


@rule()
def configuration(trial: EncodingTrial) -> None:
    """The configuration survives JSON."""
    encoding = trial.resolved()
    again = encodings.from_config(json.loads(json.dumps(encodings.config(encoding), allow_nan=False)))
    ensure(again == encoding, f"{again} from the configuration of {encoding}")
    ensure(hash(again) == hash(encoding), "another hash")


@rule()
def resolved_once(trial: EncodingTrial) -> None:
    """Resolving a resolved encoding changes nothing."""
    encoding = trial.resolved()
    again = encoding.resolved(TRAINED, LONGEST)
    ensure(again == encoding, f"{again} after {encoding}")
    ensure(hash(again) == hash(encoding), "another hash")
