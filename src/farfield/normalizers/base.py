"""The interface of a normalizer: how a row of logits becomes attention weights, in passes over the keys."""

from __future__ import annotations

import abc
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, ClassVar

import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float, Int

from farfield._types import Key, PyTree
from farfield.registry import Registry

# Logit of a key that may not be attended to. Finite, so that a row's maximum is never inf - inf.
MASKED = -1e30


@dataclass(frozen=True)
class Normalizer(abc.ABC):
    """Turns logits into attention weights; the same code serves whole rows and rows that come in blocks.

    Logits are ``[key, ...]``: keys on the first axis, any number of rows on the others. ``visible`` has as many axes
    and broadcasts to the logits; ``count`` is the number of visible keys of each row, a scalar or an array that
    broadcasts to a row's axes. What a weight needs to know of its row is gathered in :attr:`rounds` passes::

        known = None
        for round in range(rounds):
            known = conclude(round, known, <summaries of all blocks, merged>, count)
        weights = weigh(known, logits, visible, count)

    A row without a visible key has weights of zero, and so has every key that is not visible. The logit of an
    invisible key reaches no weight and no gradient of :meth:`attend`, whatever it is, nor of :meth:`weights` where it
    is finite; that of a visible key must be above ``MASKED``. Sums are kept in float32 or better, and weights have
    the logits' type.
    """

    # Passes over the keys. All after the first are alike: a compiled loop may pass 1 for each of their numbers.
    rounds: ClassVar[int]
    # What holds for every row with a visible key. Tests hold each to its word.
    sums_to_one: ClassVar[bool] = True
    nonnegative: ClassVar[bool] = True
    # Whether weights stay the same when all logits of a row change by the same amount.
    shift_invariant: ClassVar[bool] = True

    def initialize(self, key: Key) -> PyTree:
        """Trainable parameters of one head, an empty dict when there are none."""
        del key
        return {}

    def scale(self, parameters: PyTree, count: Int[Array, "..."]) -> Float[Array, "..."]:
        """What the logits are multiplied by before anything else: a scalar, or one number a row, shaped as ``count``.

        It does not depend on the logits, so it may as well multiply the queries.
        """
        del parameters, count
        return jnp.ones(())

    @abc.abstractmethod
    def summarize(
        self, round: Any, known: PyTree, logits: Float[Array, "key ..."], visible: Bool[Array, "key ..."]
    ) -> PyTree:
        """What pass ``round`` keeps of one block of keys; ``known`` comes from the pass before, None at first."""

    @abc.abstractmethod
    def merge(self, round: Any, a: PyTree, b: PyTree) -> PyTree:
        """The summary of two blocks taken together."""

    @abc.abstractmethod
    def conclude(self, round: Any, known: PyTree, summary: PyTree, count: Int[Array, "..."]) -> PyTree:
        """What the next pass and :meth:`weigh` need, from the summary of all keys."""

    @abc.abstractmethod
    def weigh(
        self,
        known: PyTree,
        logits: Float[Array, "key ..."],
        visible: Bool[Array, "key ..."],
        count: Int[Array, "..."],
    ) -> Float[Array, "key ..."]:
        """Weights of one block of keys, zero where not visible."""

    def weights(
        self,
        parameters: PyTree,
        logits: Float[Array, "key ..."],
        visible: Bool[Array, "key ..."],
        count: Int[Array, "..."],
    ) -> Float[Array, "key ..."]:
        """Weights of whole rows: :meth:`scale`, then :meth:`attend`."""
        scale = jnp.asarray(self.scale(parameters, count), at_least_float32(logits.dtype))
        scale = scale[None] if scale.ndim else scale
        return self.attend((precise(logits) * scale).astype(logits.dtype), visible, count)

    def attend(
        self, logits: Float[Array, "key ..."], visible: Bool[Array, "key ..."], count: Int[Array, "..."]
    ) -> Float[Array, "key ..."]:
        """Weights of whole rows whose logits are scaled already."""
        known = None
        for round in range(self.rounds):
            known = self.conclude(round, known, self.summarize(round, known, logits, visible), count)
        return self.weigh(known, logits, visible, count)

    def stream(
        self, block: Callable[[Any], tuple[Array, Array]], blocks: Int[Array, ""], count: Int[Array, "..."]
    ) -> PyTree:
        """What :meth:`weigh` needs, of rows that come in blocks of equal size and are never held whole.

        Args:
            block: scaled logits and visible keys of a block, from its index; called once a round and block.
            blocks: how many there are, at least 1; may be traced.
        """

        def sweep(round: int, known: PyTree) -> PyTree:
            def add(index: Any, summary: PyTree) -> PyTree:
                return self.merge(round, summary, self.summarize(round, known, *block(index)))

            first = self.summarize(round, known, *block(0))
            return self.conclude(round, known, jax.lax.fori_loop(1, blocks, add, first), count)

        if not self.rounds:
            return None
        return jax.lax.fori_loop(1, self.rounds, lambda _, known: sweep(1, known), sweep(0, None))

    def resolved(self, trained: int) -> Normalizer:
        """The normalizer with settings that depend on ``trained``, the longest training length, filled in."""
        del trained
        return self

    def check(self) -> None:  # noqa: B027 (optional, not forgotten)
        """Refuse settings that cannot work.

        Raises:
            FarfieldError: naming the setting, the reason and the mend.
        """


def at_least_float32(dtype: Any) -> Any:
    """``dtype``, or float32 where it has fewer bits."""
    return dtype if jnp.finfo(dtype).bits >= 32 else jnp.dtype(jnp.float32)


def precise(logits: Float[Array, "*shape"]) -> Float[Array, "*shape"]:
    """``logits`` in float32 or better, in which sums over many keys keep their small terms."""
    return logits.astype(at_least_float32(logits.dtype))


def masked(logits: Float[Array, "key ..."], visible: Bool[Array, "key ..."]) -> Float[Array, "key ..."]:
    """``logits`` in float32 or better, ``MASKED`` where not visible."""
    logits = precise(logits)
    return jnp.where(visible, logits, jnp.asarray(MASKED, logits.dtype))


normalizers: Registry[Normalizer] = Registry("normalizer")
