"""The rules of position regimes."""

from __future__ import annotations

import json
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from farfield.encodings import Encoding, encodings
from farfield.environment import settled
from farfield.errors import FarfieldError
from farfield.positions import Regime, regimes
from farfield.tasks import Task
from farfield.testing._compare import close, ensure, same
from farfield.testing._programs import compiled, double_precision
from farfield.testing._rules import Rules

TRAINED, LONGEST = 16, 40
# Every kind of length with several draws each: alone, short, around the trained one, the longest.
DRAWS = [(length, seed) for length in (1, 2, 7, 15, 16, 17, 39, 40) for seed in (0, 41, 99)]

POSITION_RULES = Rules(regimes)
rule = POSITION_RULES.rule


@settled
def check_positions(regime: Regime, *, only: Iterable[str] | None = None) -> None:
    """Hold a position regime to the rules of all regimes.

    >>> from farfield.testing import check_positions
    >>> from farfield.positions import regimes
    >>> check_positions(regimes.get("clamp"))

    Args:
        only: names of the rules to run, of ``POSITION_RULES``; by default all.

    Raises:
        BrokenRule: with a line for each rule that the regime breaks.
        FarfieldError: for an unknown rule.
    """
    POSITION_RULES.check(_Trial(regime), only)


class CoupledPairs(Task):
    """A task whose coupled positions are 1 .. h, 1 .. h for two halves, and 0 for a token left over."""

    def draw(self, key: Any, length: Any, positions: int, sequences: int, vocabulary: int) -> Any:
        raise NotImplementedError

    def chance(self, vocabulary: int, length: int) -> float:
        raise NotImplementedError

    def sample_space(self, vocabulary: int, length: int) -> float:
        raise NotImplementedError

    def coupled_positions(self, length: Any, positions: int) -> Any:
        half = jnp.asarray(length) // 2
        place = jnp.arange(positions)
        return jnp.where(place < 2 * half, place % jnp.maximum(half, 1) + 1, jnp.zeros_like(place))


@dataclass(frozen=True)
class WholeOnly(Encoding):
    """An encoding by a table of whole distances."""

    real_positions = False


@dataclass(frozen=True)
class _Trial:
    """A regime under test."""

    entry: Regime

    def ready(self) -> Regime:
        """The regime for the lengths of the rules, checked."""
        regime = self.entry.resolved(TRAINED, LONGEST)
        regime.check(LONGEST, TRAINED, CoupledPairs(), encodings.get("rope"))
        return regime


def _eager(regime: Regime, length: Any, count: int = LONGEST, seed: Any = 0) -> Any:
    """Positions of one batch, computed step by step where nothing is traced."""
    key = jax.random.key(seed) if regime.random else None
    return regime.positions(key, length, count, TRAINED, CoupledPairs())


_compiled = compiled(lambda regime, length, seed, count: _eager(regime, length, count, seed), static_argnames="count")


def _positions(regime: Regime, length: Any, count: int = LONGEST, seed: int = 0) -> Any:
    return _compiled(regime, length, seed, count=count)


@rule()
def padding_repeats_the_last(trial: _Trial) -> None:
    """Places from the length on repeat the last position."""
    regime = trial.ready()
    for length, seed in DRAWS:
        found = np.asarray(_positions(regime, length, seed=seed))
        ensure(found.shape == (LONGEST,), f"positions of shape {found.shape} for {LONGEST} places")
        ensure((found[length:] == found[length - 1]).all(), f"other positions behind a length of {length}")


@rule()
def inside_the_table(trial: _Trial) -> None:
    """Positions are 0 or more and below `largest`, the size of a table for the longest length."""
    regime = trial.ready()
    size = regime.largest(LONGEST, TRAINED, CoupledPairs())
    ensure(isinstance(size, int), f"a size of {size!r}, which is not an int")
    for length, seed in DRAWS:
        found = np.asarray(_positions(regime, length, seed=seed))
        ensure(found.min() >= 0, f"position {found.min()} at length {length}")
        ensure(found.max() <= size - 1, f"position {found.max()} at length {length} in a table of {size}")


@rule()
def independent_of_padding(trial: _Trial) -> None:
    """Positions do not depend on what the batch is padded to."""
    regime = trial.ready()
    for length in (1, 7, 17):
        for seed in range(5):
            alone = _positions(regime, length, count=length, seed=seed)
            for count in (LONGEST, 100):
                padded = _positions(regime, length, count=count, seed=seed)[:length]
                same(padded, alone, f"positions of {length} tokens padded to {count} and to {length} places")


@rule()
def one_program(trial: _Trial) -> None:
    """One compiled program serves every length and key, and gives what uncompiled code gives."""
    regime = trial.ready()
    traces = []

    def run(regime: Regime, key: Any, length: Any) -> Any:
        traces.append(length)
        return regime.positions(key, length, LONGEST, TRAINED, CoupledPairs())

    program = compiled(run)
    for length in (1, 2, TRAINED, TRAINED + 1, LONGEST):
        key = jax.random.key(length) if regime.random else None
        same(program(regime, key, length), _eager(regime, length, seed=length), f"positions of {length} tokens")
    ensure(len(traces) == 1, f"{len(traces)} programs for five lengths")


@rule()
def batched(trial: _Trial) -> None:
    """A batch of lengths and keys has the positions of one at a time."""
    regime = trial.ready()
    lengths, seeds = jnp.array([1, 7, 16, 17, 40]), jnp.arange(5)
    together = jax.vmap(lambda length, seed: _eager(regime, length, seed=seed))(lengths, seeds)
    for row, length, seed in zip(together, lengths, seeds, strict=True):
        same(row, _eager(regime, length, seed=seed), f"positions of {length} tokens in a batch and alone")


@rule()
def random_as_claimed(trial: _Trial) -> None:
    """Positions follow from the key, and differ between keys exactly where `random` says so."""
    regime = trial.ready()
    draws = [np.asarray(_positions(regime, 5, count=5, seed=seed)) for seed in range(8)]
    same(_positions(regime, 5, count=5, seed=0), draws[0], "positions of two calls with the same key")
    different = len({tuple(draw) for draw in draws})
    ensure((different > 1) == regime.random, f"{different} different draws of eight where random is {regime.random}")


@rule()
def kind_as_claimed(trial: _Trial) -> None:
    """Positions are whole numbers of one type unless `real` says otherwise, in double precision too."""
    regime, claimed = trial.ready(), trial.entry.real
    single = _positions(regime, 30)
    with double_precision():
        double = _positions(regime, jnp.asarray(30))
    for found in (_positions(regime, 7), single, double):
        right = jnp.issubdtype(found.dtype, jnp.floating if claimed else jnp.integer)
        ensure(right, f"positions of type {found.dtype} where real is {claimed}")
    if not regime.random:
        close(double, single, "positions in double and in single precision", rtol=1e-6)


@rule()
def never_falling(trial: _Trial) -> None:
    """Positions never fall from place to place unless the task couples them."""
    regime = trial.ready()
    if not _reads_task(regime):
        steps = np.diff(_positions(regime, LONGEST))
        ensure((steps >= 0).all(), f"a step of {steps.min()}")


@rule()
def configuration(trial: _Trial) -> None:
    """The configuration survives JSON, and the regime is hashable."""
    regime = trial.ready()
    again = regimes.from_config(json.loads(json.dumps(regimes.config(regime))))
    ensure(again == regime, f"{again} from the configuration of {regime}")
    ensure(hash(again) == hash(regime), "another hash")


@rule()
def resolved_once(trial: _Trial) -> None:
    """Resolving a resolved regime for other lengths changes nothing."""
    regime = trial.ready()
    again = regime.resolved(99, 999)
    ensure(again == regime, f"{again} after {regime}")


@rule()
def real_positions_refused(trial: _Trial) -> None:
    """Real positions, and no others, are refused for an encoding that has no values for them."""
    try:
        trial.entry.check(LONGEST, TRAINED, CoupledPairs(), WholeOnly())
    except FarfieldError as refusal:
        ensure(trial.entry.real, f"a refusal of whole positions: {refusal}")
        ensure("lie between whole numbers" in str(refusal), f"a refusal that does not say why: {refusal}")
    else:
        ensure(not trial.entry.real, "no refusal")


def _reads_task(regime: Regime) -> bool:
    """Whether a regime's positions are those of the task, without which it has none or others."""
    key = jax.random.key(0) if regime.random else None
    try:
        without = regime.positions(key, jnp.int32(LONGEST), LONGEST, TRAINED, None)
    except FarfieldError:
        return True
    return bool((np.asarray(without) != np.asarray(_eager(regime, jnp.int32(LONGEST)))).any())
