"""A finished cell: what was trained and counted, and the probes read from it."""

from __future__ import annotations

import dataclasses
import hashlib
import itertools
from collections.abc import Iterator
from functools import cached_property, partial
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Float, Int
from safetensors.numpy import save

from farfield.cell import PARTS, Cell
from farfield.encodings.rope import Rotary
from farfield.environment import settled
from farfield.errors import FarfieldError
from farfield.models import Mechanism, Observed
from farfield.models.head import Head
from farfield.positions.shifted import Fixed
from farfield.printing import short
from farfield.probes import attention, dilution, failure, position_table
from farfield.probes.accuracy import Accuracy, accuracy
from farfield.probes.carrier import Carrier, carrier
from farfield.probes.competition import exactly_selected, kernel_of
from farfield.probes.spectrum import top_energy
from farfield.results import observe
from farfield.results.measures import measured
from farfield.tasks import Positional
from farfield.tasks.base import overlap

EVERY = slice(None)
# Largest vocabulary and longest test whose logits are compared pair by pair.
LARGEST_TABLED, LONGEST_TABLED = 64, 4096


class Competition(NamedTuple):
    """Expected share of sequences in which the target is ahead, by length and by the two laws of
    :mod:`farfield.probes.competition`; to be compared with the measured ``selected``.

    Attributes:
        exact: from the logits of all pairs of tokens.
        by_kernel: from the mean logit of every place and the spread within the trained lengths.
    """

    exact: Float[np.ndarray, " length"]
    by_kernel: Float[np.ndarray, " length"]


class Measurement(NamedTuple):
    """One number of one cell, as it is stored; ``length`` is None where it belongs to no single length."""

    probe: str
    length: int | None
    value: float


@dataclasses.dataclass(frozen=True)
class CellResult:
    """One trained model and its tests.

    Attributes:
        cell: what was run, resolved.
        parameters: trained weights.
        losses: training loss of every step, in nats.
        correct, tested: supervised rows answered correctly, and all of them, a length.
        unanswered: supervised rows without an answer, because their class scores are not numbers, a length.
        correct_sequences: sequences with every supervised row right, a length.
        clusters, wrong_moments: what intervals rest on, as in :class:`farfield.evaluation.Evaluation`.
        head_attention: attention of the last row by key place, averaged over sequences, zero past each length.
        head_attention_error: its standard error.
        head_target_attention: mean weight of the target key, NaN for a task without one.
        head_selected: share of rows where the target key has the largest weight, alone.
        head_wrong_selected: how many of those rows are answered wrongly all the same.
        snapshots: weights after each of the cell's ``snapshots``, on a leading axis; None where it has none.
    """

    cell: Cell
    parameters: Any
    losses: Float[np.ndarray, " step"]
    correct: Int[np.ndarray, " length"]
    tested: Int[np.ndarray, " length"]
    unanswered: Int[np.ndarray, " length"]
    correct_sequences: Int[np.ndarray, " length"]
    clusters: Int[np.ndarray, " length"]
    wrong_moments: Float[np.ndarray, "length 2 3"]
    head_attention: Float[np.ndarray, "length head position"]
    head_attention_error: Float[np.ndarray, "length head position"]
    head_target_attention: Float[np.ndarray, "length head"]
    head_selected: Float[np.ndarray, "length head"]
    head_wrong_selected: Int[np.ndarray, "length head"]
    snapshots: Any = None

    def __repr__(self) -> str:
        """Short: the weights and counts are arrays of thousands of numbers."""
        parts = PARTS["encoding"].format(self.cell.encoding), PARTS["task"].format(self.cell.task)
        accuracy = f"accuracy {self.accuracy[-1].value:.3f} at length {self.cell.lengths[-1]}"
        return f"<result {short(' on '.join(parts))}, seed {self.cell.seed}: {'diverged, ' * self.diverged}{accuracy}>"

    @property
    def lengths(self) -> Int[np.ndarray, " length"]:
        """Test lengths, ascending."""
        return np.array(self.cell.lengths)

    @property
    def diverged(self) -> bool:
        """Whether training ended in a loss that is not a number."""
        return not bool(np.isfinite(self.losses[-1]))

    @cached_property
    def head(self) -> int:
        """The head that the probes of one head look at: the one that gives its target most within the trained range.

        Where the task has no single target, the one whose mean attention has the highest peak there.
        """
        trained = np.array([self.cell.range_of(length) == "trained" for length in self.cell.lengths])
        near = trained if trained.any() else np.arange(len(self.lengths)) == 0
        mass = self.head_target_attention[near].mean(axis=0)
        if not np.isfinite(mass).all():
            mass = self.head_attention[near].max(axis=-1).mean(axis=0)
        return int(np.argmax(mass))

    @property
    def head_name(self) -> str:
        """Layer and number of :attr:`head`."""
        return self.cell.model.head_names[self.head]

    @property
    def mean_attention(self) -> Float[np.ndarray, "length position"]:
        """Mean attention of :attr:`head`."""
        return self.head_attention[:, self.head]

    @property
    def attention_error(self) -> Float[np.ndarray, "length position"]:
        """Standard error of :attr:`mean_attention`."""
        return self.head_attention_error[:, self.head]

    @property
    def target_attention(self) -> Float[np.ndarray, " length"]:
        """Mean weight that :attr:`head` gives the target."""
        return self.head_target_attention[:, self.head]

    @property
    def selected(self) -> Float[np.ndarray, " length"]:
        """Share of rows where :attr:`head` selects the target."""
        return self.head_selected[:, self.head]

    @property
    @settled
    def target_offset(self) -> int | None:
        """The task's offset key - query, where it is the same for every query, else None."""
        if not isinstance(self.cell.task, Positional):
            return None
        queries = np.arange(self.cell.shortest - 1, max(self.cell.longest, *self.cell.lengths))
        offsets = set((np.asarray(self.cell.task.target(jnp.asarray(queries))) - queries).tolist())
        return offsets.pop() if len(offsets) == 1 else None

    @property
    @settled
    def target_offsets(self) -> Int[np.ndarray, " length"] | None:
        """The task's offset key - query at the end of each test length; None without positional targets."""
        if not isinstance(self.cell.task, Positional):
            return None
        queries = self.lengths - 1
        return np.asarray(self.cell.task.target(jnp.asarray(queries))) - queries

    @cached_property
    def accuracy(self) -> list[Accuracy]:
        """Share of supervised rows (tokens) answered correctly, at each length."""
        return self._accuracies(self.correct, self.tested, rows_or_sequences=0)

    @cached_property
    def sequence_accuracies(self) -> list[Accuracy]:
        """Share of sequences with every supervised row right; equal to the accuracy where only one row counts.

        The chance beside it is that of a row.
        """
        return self._accuracies(self.correct_sequences, np.full_like(self.tested, self.cell.sequences), 1)

    @property
    def sequence_accuracy(self) -> Float[np.ndarray, " length"]:
        """The values of :attr:`sequence_accuracies`."""
        return np.array([share.value for share in self.sequence_accuracies])

    def _accuracies(self, correct: Any, tested: Any, rows_or_sequences: int) -> list[Accuracy]:
        cell = self.cell
        return [
            accuracy(
                correct[index],
                tested[index],
                cell.task.chance(cell.vocabulary, length),
                clusters=self.clusters[index],
                wrong_moments=self.wrong_moments[index, rows_or_sequences],
                unanswered=self.unanswered[index],
            )
            for index, length in enumerate(cell.lengths)
        ]

    @cached_property
    def ways(self) -> failure.Ways | None:
        """Right, and three ways to fail, as shares of all test sequences by :attr:`head`; NaN where an answer is
        missing. None for a task without positional targets.
        """
        offsets = self.target_offsets
        if offsets is None:
            return None
        kept = failure.keeps_rule(self.mean_attention, self.attention_error, self.lengths, self.lengths - 1 + offsets)
        selected = np.round(self.selected * self.tested)
        found = failure.ways(self.tested, self.correct, selected, self.head_wrong_selected[:, self.head], kept)
        return failure.Ways(*(np.where(self.unanswered > 0, np.nan, shares) for shares in found))

    @cached_property
    def overlap(self) -> list[float]:
        """Expected share of test sequences that training has seen, at each length; 0 outside the trained range."""
        cell = self.cell
        draws = round(cell.steps * cell.batch / (cell.longest - cell.shortest + 1))
        return [
            overlap(cell.task, cell.vocabulary, length, draws) if cell.range_of(length) == "trained" else 0.0
            for length in cell.lengths
        ]

    @cached_property
    def peak_height(self) -> Float[np.ndarray, " length"]:
        """Largest mean attention at each length."""
        return attention.peak_height(self.mean_attention, self.lengths)

    @cached_property
    def selected_offset(self) -> Float[np.ndarray, " length"]:
        """Offset of the largest mean attention at each length; NaN where no key alone has it."""
        return attention.selected_offset(self.mean_attention, self.lengths, self.attention_error)

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
        """Carrier of :attr:`head`'s queries and keys before rotation."""
        return self.carrier_of(self.head)

    @settled
    def carrier_of(self, head: int, query_tokens: slice = EVERY, key_tokens: slice = EVERY) -> Carrier:
        """Carrier of one head's queries and keys before rotation.

        Of a one-layer head: exact, over every token (at every position of a longest training sequence, where the
        encoding adds a vector). Of a transformer: over the observed sequences of the longest training length.

        Args:
            query_tokens, key_tokens: of a one-layer head, the tokens that query and that are keys.
        """
        theta, encoding, width = None, self.cell.encoding, self.cell.model.head_width
        queries, keys = self._projections(head, query_tokens, key_tokens)
        if isinstance(encoding, Rotary):
            theta = np.asarray(encoding.frequencies(width), np.float64)
            order = encoding.order(width)
            queries, keys = queries[:, order], keys[:, order]
        return carrier(queries, keys, self.offsets, self.cell.longest - 1, self.target_offset, theta)

    def _projections(self, head: int, query_tokens: slice, key_tokens: slice) -> tuple[np.ndarray, np.ndarray]:
        if not isinstance(self.cell.model, Head):
            inside = self.observe(self.cell.longest)[self.cell.model.head_names[head]]
            width = inside.query.shape[-1]
            return np.asarray(inside.query).reshape(-1, width), np.asarray(inside.key).reshape(-1, width)
        scored = self.parameters.scored
        inputs = np.asarray(self.parameters.embedding if scored is None else scored.sum(axis=0, keepdims=True))
        asking, asked = (inputs[query_tokens], inputs[key_tokens]) if scored is None else (inputs, inputs)
        added = self.cell.encoding.embed(self.parameters.encoding, observe.trained_positions(self.cell))
        if added is not None:
            asking, asked = (
                (vectors + np.asarray(added)[:, None]).reshape(-1, vectors.shape[-1]) for vectors in (asking, asked)
            )
        parameters = self.parameters.attention.head(head)
        return asking @ np.asarray(parameters.query).T, asked @ np.asarray(parameters.key).T

    @cached_property
    def top_energy(self) -> Float[np.ndarray, " head"]:
        """Share of the energy of each head's W_Q^T W_K that its largest singular value holds."""
        layers = [self.parameters] if isinstance(self.cell.model, Head) else self.parameters.layers
        heads = [layer.attention.head(index) for layer in layers for index in range(len(layer.attention))]
        return np.array([top_energy(np.asarray(head.query), np.asarray(head.key)) for head in heads])

    def at(self, step: int) -> CellResult:
        """The same with the weights kept after ``step``: for probes of weights alone, as tests saw the final ones."""
        if step not in self.cell.snapshots:
            raise FarfieldError(f"no weights were kept after step {step}: the snapshots are {self.cell.snapshots}")
        index = self.cell.snapshots.index(step)
        return dataclasses.replace(self, parameters=jax.tree.map(lambda leaf: leaf[index], self.snapshots))

    def observe(self, length: int, sequences: int = 256) -> dict[str, Observed]:
        """Queries, keys, logits and weights of every layer's heads, by name, on fresh sequences of one length."""
        return observe.observe(self.cell, self.parameters, length, sequences)

    def accuracy_by_place(self, length: int, sequences: int = 512) -> Float[np.ndarray, " place"]:
        """Share of fresh sequences of one length answered correctly at each place; NaN where none is supervised."""
        return observe.accuracy_by_place(self.cell, self.parameters, length, sequences)

    @cached_property
    def mean_logits(self) -> Float[np.ndarray, " offset"] | None:
        """Mean logit by offset, exact over uniform tokens, for a query at the end of the longest test.

        None where logits do not belong to pairs of tokens (a transformer, a context-dependent encoding).
        """
        if self.cell.model.lookup_obstacle(self.cell.encoding) is not None:
            return None
        return observe.mean_logits(self.cell, self.parameters, int(self.lengths.max()), self.head)

    @cached_property
    def competition(self) -> Competition | None:
        """Expected share of sequences in which the target's logit is the largest, from the weights alone.

        None where logits do not belong to pairs of tokens, without positional targets, where positions are drawn, and
        for vocabularies or tests too large for a table.
        """
        cell, offsets = self.cell, self.target_offsets
        if offsets is None or not cell.streams or cell.test_positions != cell.positions or cell.positions.random:
            return None
        if cell.vocabulary > LARGEST_TABLED or cell.lengths[-1] > LONGEST_TABLED:
            return None
        padded = max(cell.longest, cell.lengths[-1])
        table = partial(observe.logit_table, cell, self.parameters, longest=padded, head=self.head)
        short, exact, by_kernel = table(cell.longest), [], []
        for length, offset in zip(cell.lengths, offsets, strict=True):
            logits, target = table(length), int(length - 1 + offset)
            exact.append(exactly_selected(logits, target))
            by_kernel.append(kernel_of(logits, short).selected(target))
        return Competition(np.array(exact), np.array(by_kernel))

    @cached_property
    def equivariance_error(self) -> float:
        """Largest distance between profiles of two lengths in relative coordinates."""
        return attention.equivariance_error(self.mean_attention, self.lengths)

    @property
    @settled
    def carrier_logits(self) -> Float[np.ndarray, " offset"] | None:
        """Carrier-only profile in logit units, as it would enter the normalizer.

        None where the carrier alone does not give it: no rotation, one that depends on the length, changes sizes
        as well or those of some pairs alone, or layers before this one.
        """
        encoding, width = self.cell.encoding, self.cell.model.head_width
        if not isinstance(encoding, Rotary) or encoding.reads_length or not isinstance(self.cell.model, Head):
            return None
        gains = encoding.gains(width)
        if gains.min() != gains.max():
            return None
        profile, place = self.carrier.profile, jnp.arange(1)
        if profile is None or encoding.magnitudes(place, place, width, jnp.float32) is not None:
            return None
        head = self.parameters.attention.head(self.head)
        scale = float(self.cell.normalizer.scale(head.normalizer, jnp.asarray(int(self.lengths.max()))))
        return profile * float(encoding.gain(jnp.float32)) ** 2 * scale / np.sqrt(width)

    @cached_property
    def margin(self) -> float | None:
        """mu of Corollary 2 over the carrier-only profile, in logit units; None without a fixed target offset.

        The carrier-only profile includes offset 0 through the mean vectors alone, without the content
        covariance of the query with itself; where the encoding does not rotate, the mean logits are used.
        """
        profile = self.mean_logits if self.carrier_logits is None else self.carrier_logits
        if profile is None or self.target_offset is None:
            return None
        return dilution.margin(profile, self.offsets, self.target_offset)

    @cached_property
    def table_norms(self) -> position_table.TableNorms | None:
        """Norms of the position vectors inside and outside the trained range.

        None without a table, or where the regime trains other rows than the first.
        """
        table = self.parameters.encoding.get("table")
        if self.cell.positions != Fixed():
            return None
        return None if table is None else position_table.table_norms(np.asarray(table), self.cell.longest)

    def measurements(self) -> Iterator[Measurement]:
        """Every number of :data:`farfield.results.measures.MEASURES`, in the long form of the store."""
        return itertools.starmap(Measurement, measured(self))


ARRAYS = (
    "losses",
    "correct",
    "tested",
    "unanswered",
    "correct_sequences",
    "clusters",
    "wrong_moments",
    "head_attention",
    "head_attention_error",
    "head_target_attention",
    "head_selected",
    "head_wrong_selected",
)


def to_arrays(result: CellResult) -> dict[str, np.ndarray]:
    """A result as named arrays, for a safetensors file."""
    leaves = jax.tree_util.tree_leaves_with_path(result.parameters)
    named = {f"parameters{jax.tree_util.keystr(path)}": np.asarray(leaf) for path, leaf in leaves}
    if result.snapshots is not None:
        kept = jax.tree_util.tree_leaves_with_path(result.snapshots)
        named |= {f"snapshots{jax.tree_util.keystr(path)}": np.asarray(leaf) for path, leaf in kept}
    return named | {name: np.asarray(getattr(result, name)) for name in ARRAYS}


def to_bytes(result: CellResult) -> bytes:
    """A result as the content of a safetensors file; equal for results that agree bit for bit."""
    return save({name: np.ascontiguousarray(array) for name, array in to_arrays(result).items()})


def content_of(result: CellResult) -> str:
    """SHA-256 of :func:`to_bytes`."""
    return hashlib.sha256(to_bytes(result)).hexdigest()


@settled
def from_arrays(cell: Cell, arrays: dict[str, np.ndarray]) -> CellResult:
    """The inverse of :func:`to_arrays`; KeyError if an array is missing."""
    mechanism = Mechanism(cell.encoding, cell.normalizer)
    initialize = partial(cell.model.initialize, mechanism=mechanism, vocabulary=cell.vocabulary)
    template = jax.eval_shape(initialize, jax.random.key(0))
    paths, structure = jax.tree_util.tree_flatten_with_path(template)

    def read(name: str) -> Any:
        leaves = [arrays[f"{name}{jax.tree_util.keystr(path)}"] for path, _ in paths]
        return jax.tree_util.tree_unflatten(structure, leaves)

    snapshots = read("snapshots") if cell.snapshots else None
    return CellResult(cell, read("parameters"), **{name: arrays[name] for name in ARRAYS}, snapshots=snapshots)
