"""A finished cell: what was trained and counted, and the probes read from it."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator
from functools import cached_property, partial
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Float, Int

from farfield import evaluation
from farfield.encodings.rope import Rope, frequencies
from farfield.models import head
from farfield.models.head import HeadParameters
from farfield.probes import attention, dilution, position_table
from farfield.probes.accuracy import Accuracy, accuracy
from farfield.probes.carrier import Carrier, carrier
from farfield.studies.cells import Cell
from farfield.training import Knobs


class Measurement(NamedTuple):
    """One number of one cell, as it is stored; ``length`` is None where it belongs to no single length."""

    probe: str
    length: int | None
    value: float


@dataclasses.dataclass(frozen=True)
class CellResult:
    """One trained head and its tests.

    Attributes:
        cell: what was run, resolved.
        parameters: trained weights.
        losses: training loss of every step, in nats.
        correct: test sequences answered correctly, a length.
        mean_attention: attention by absolute key position, averaged over sequences, zero past each length.
        target_attention: mean weight of the target key, a length.
    """

    cell: Cell
    parameters: HeadParameters
    losses: Float[np.ndarray, " step"]
    correct: Int[np.ndarray, " length"]
    mean_attention: Float[np.ndarray, "length position"]
    target_attention: Float[np.ndarray, " length"]

    @property
    def lengths(self) -> Int[np.ndarray, " length"]:
        """Test lengths, ascending."""
        return np.array(self.cell.lengths)

    @property
    def diverged(self) -> bool:
        """Whether training ended in a loss that is not a number."""
        return not bool(np.isfinite(self.losses[-1]))

    @property
    def target_offset(self) -> int:
        """The task's offset key - query, for a query far enough in."""
        query = self.cell.longest - 1
        return int(self.cell.task.target(jnp.asarray(query))) - query

    @cached_property
    def accuracy(self) -> list[Accuracy]:
        """Accuracy at each length."""
        cell = self.cell
        return [
            accuracy(count, cell.sequences, cell.task.chance(cell.vocabulary, length))
            for count, length in zip(self.correct, cell.lengths, strict=True)
        ]

    @cached_property
    def peak_height(self) -> Float[np.ndarray, " length"]:
        """Largest mean attention at each length."""
        return attention.peak_height(self.mean_attention)

    @cached_property
    def selected_offset(self) -> Int[np.ndarray, " length"]:
        """Offset of the largest mean attention at each length."""
        return attention.selected_offset(self.mean_attention, self.lengths)

    @cached_property
    def dilution(self) -> dilution.Dilution:
        """Decay law fitted to the peak height."""
        return dilution.fit(self.peak_height, self.lengths)

    @cached_property
    def offsets(self) -> Int[np.ndarray, " offset"]:
        """Offsets -(longest test length - 1) .. 0."""
        return np.arange(1 - int(self.lengths.max()), 1)

    @cached_property
    def carrier(self) -> Carrier:
        """Carrier of the projections of every token (at every trained position, where the encoding adds one)."""
        inputs = np.asarray(self.parameters.embedding)
        added = self.cell.encoding.embed(self.parameters.encoding, jnp.arange(self.cell.longest))
        if added is not None:
            inputs = (inputs + np.asarray(added)[:, None]).reshape(-1, inputs.shape[-1])
        queries, keys = inputs @ self.parameters.query.T, inputs @ self.parameters.key.T
        theta = None
        if isinstance(self.cell.encoding, Rope):
            theta = np.asarray(frequencies(self.cell.width, np.float64(self.cell.encoding.base)), np.float64)
            if self.cell.encoding.layout == "interleaved":
                order = np.concatenate([np.arange(0, self.cell.width, 2), np.arange(1, self.cell.width, 2)])
                queries, keys = queries[:, order], keys[:, order]
        return carrier(queries, keys, self.offsets, self.cell.longest - 1, self.target_offset, theta)

    @cached_property
    def mean_logits(self) -> Float[np.ndarray, " offset"]:
        """Mean logit by offset, exact over uniform tokens, for a query at the end of the longest test."""
        positions = jnp.arange(int(self.lengths.max()))
        return np.asarray(_mean_logits(self.parameters, knobs_of(self.cell), positions[-1], positions))

    @cached_property
    def equivariance_error(self) -> float:
        """Largest distance between profiles of two lengths in relative coordinates."""
        return attention.equivariance_error(self.mean_attention, self.lengths)

    @property
    def carrier_logits(self) -> Float[np.ndarray, " offset"] | None:
        """Carrier-only profile in logit units, as it would enter the softmax; None without rotation."""
        profile = self.carrier.profile
        return None if profile is None else profile / (np.sqrt(self.cell.width) * self.cell.temperature)

    @cached_property
    def margin(self) -> float:
        """mu of Corollary 2 over the carrier-only profile, in logit units.

        The carrier-only profile includes offset 0 through the mean vectors alone, without the content
        covariance of the query with itself; where the encoding does not rotate, the mean logits are used.
        """
        profile = self.mean_logits if self.carrier_logits is None else self.carrier_logits
        return dilution.margin(profile, self.offsets, self.target_offset)

    @cached_property
    def table_norms(self) -> position_table.TableNorms | None:
        """Norms of the position vectors inside and outside the trained range; None without a table."""
        table = self.parameters.encoding.get("table")
        return None if table is None else position_table.table_norms(np.asarray(table), self.cell.longest)

    def measurements(self) -> Iterator[Measurement]:
        """Every number, in the long form of the store."""
        selected_beyond_first = attention.selected_offset(self.mean_attention, self.lengths, skip_first=True)
        pins = attention.pin(self.mean_attention, self.lengths)
        for index, length in enumerate(self.cell.lengths):
            right = self.accuracy[index]
            yield Measurement("accuracy", length, right.value)
            yield Measurement("accuracy_low", length, right.low)
            yield Measurement("accuracy_high", length, right.high)
            yield Measurement("peak_height", length, float(self.peak_height[index]))
            yield Measurement("target_attention", length, float(self.target_attention[index]))
            yield Measurement("selected_offset", length, int(self.selected_offset[index]))
            yield Measurement("selected_offset_without_first", length, int(selected_beyond_first[index]))
            yield Measurement("pin", length, int(pins[index]))
        single: dict[str, Any] = {
            "chance": self.accuracy[0].chance,
            "final_loss": self.losses[-1],
            "equivariance_error": self.equivariance_error,
            "absolute_error": attention.absolute_error(self.mean_attention, self.lengths),
            "margin": self.margin,
            **{f"carrier_{name}": value for name, value in self.carrier._asdict().items() if name != "profile"},
            **{f"dilution_{name}": getattr(self.dilution, name) for name in ("alpha", "c", "r2")},
        }
        if self.table_norms is not None:
            single |= {f"norm_{name}": value for name, value in self.table_norms._asdict().items()}
        for probe, value in single.items():
            if value is not None:
                yield Measurement(probe, None, float(value))


_mean_logits = jax.jit(evaluation.mean_logits)


def knobs_of(cell: Cell) -> Knobs:
    """The traced values of a cell."""
    return jax.tree.map(
        jnp.asarray,
        Knobs(
            seed=jnp.uint32(cell.seed),
            encoding=cell.encoding,
            task=cell.task,
            shortest=jnp.int32(cell.shortest),
            temperature=jnp.float32(cell.temperature),
            learning_rate=jnp.float32(cell.learning_rate),
            weight_decay=jnp.float32(cell.weight_decay),
        ),
    )


ARRAYS = ("losses", "correct", "mean_attention", "target_attention")


def to_arrays(result: CellResult) -> dict[str, np.ndarray]:
    """A result as named arrays, for a safetensors file."""
    leaves = jax.tree_util.tree_leaves_with_path(result.parameters)
    named = {f"parameters{jax.tree_util.keystr(path)}": np.asarray(leaf) for path, leaf in leaves}
    return named | {name: np.asarray(getattr(result, name)) for name in ARRAYS}


def from_arrays(cell: Cell, arrays: dict[str, np.ndarray]) -> CellResult:
    """The inverse of :func:`to_arrays`; KeyError if an array is missing."""
    initialize = partial(head.initialize, encoding=cell.encoding, vocabulary=cell.vocabulary, width=cell.width)
    template = jax.eval_shape(initialize, jax.random.key(0))
    paths, structure = jax.tree_util.tree_flatten_with_path(template)
    leaves = [arrays[f"parameters{jax.tree_util.keystr(path)}"] for path, _ in paths]
    parameters = jax.tree_util.tree_unflatten(structure, leaves)
    return CellResult(cell, parameters, **{name: arrays[name] for name in ARRAYS})
