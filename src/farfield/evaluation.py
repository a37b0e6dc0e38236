"""Measure a trained model at many lengths.

A head whose task has positional targets is tested by *streaming* over keys, in bounded memory at any length:
keys come in blocks of at most ``BLOCK`` places, a first pass or more brings what the normalizer needs to know
of a row (the online softmax of Milakov and Gimelshein, arXiv 1805.02867, is one such pass), and a last pass
forms the weights, sums the values and averages the attention. Everything else is tested *at once*, on chunks
of whole sequences. The length is a traced value in both, so one program serves every length.
"""

from __future__ import annotations

import dataclasses
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, Int

from farfield._types import Key, Positions, PyTree, Tokens
from farfield.models import lookup
from farfield.models.base import Inputs, Model, Path
from farfield.random import PIECE, Purpose, key_for
from farfield.tasks.base import NO_TARGET, Positional
from farfield.training import Knobs

BLOCK = 512
# Most entries of a block's table of logits.
MOST_LOGITS = 2**24
# Most attention weights, of all heads, held at once where sequences are tested whole.
MOST_WEIGHTS = 2**24
# Draws of positions that the sequences of a length are shared out to, where a regime is random.
DRAWS = 16


@dataclasses.dataclass(frozen=True)
class EvaluationShape:
    """What decides the compiled evaluation program.

    Attributes:
        model: kind and sizes.
        vocabulary: number of tokens.
        sequences: sequences a length.
        longest: longest test length; mean attention is padded to it.
        trained: longest training length, which some position regimes refer to.
        streams: whether keys are streamed; else sequences are tested whole.
        path: how logits are computed where sequences are tested whole.
    """

    model: Model
    vocabulary: int = 20
    sequences: int = 4096
    longest: int = 48
    trained: int = 16
    streams: bool = True
    path: Path = "lookup"

    @property
    def block(self) -> int:
        """Key places handled at once, whole pieces: fewer where a large vocabulary makes tables large."""
        positions = min(BLOCK, self.longest, MOST_LOGITS // self.vocabulary**2)
        return max(1, -(-positions // PIECE)) * PIECE

    @property
    def blocks(self) -> int:
        """Blocks that the longest length needs."""
        return -(-self.longest // self.block)


class Evaluation(NamedTuple):
    """What a model did at each test length.

    Attributes:
        correct: supervised rows answered correctly, the largest class score winning.
        tested: supervised rows.
        correct_sequences: sequences with every supervised row right.
        mean_attention: attention weight of the last row by key place, averaged over sequences, a head; zero from
            the length on.
        target_attention: weight of the target key, averaged over supervised rows that have one, a head.
        selected: share of those rows where the target's weight is the largest, alone, a head.
    """

    correct: Int[Array, " length"]
    tested: Int[Array, " length"]
    correct_sequences: Int[Array, " length"]
    mean_attention: Float[Array, "length head position"]
    target_attention: Float[Array, "length head"]
    selected: Float[Array, "length head"]


def evaluate(shape: EvaluationShape, parameters: PyTree, knobs: Knobs, lengths: Int[Array, " length"]) -> Evaluation:
    """Evaluate one model at every length. Pure and jittable; ``shape`` is static.

    The sequences of a length depend on the evaluation seed and that length alone.
    """
    one = _stream_length if shape.streams else _whole_length
    return jax.lax.map(lambda length: one(shape, parameters, knobs, length), lengths)


def test_positions(shape: EvaluationShape, knobs: Knobs, length: Int[Array, ""], draw: Any, count: int) -> Positions:
    """Positions of the draw numbered ``draw`` at one test length."""
    key = jax.random.fold_in(key_for(knobs.evaluation_seed, Purpose.EVALUATE_POSITIONS, length), draw)
    return knobs.test_positions.positions(key, length, count, shape.trained, knobs.task)


def _stream_length(shape: EvaluationShape, parameters: PyTree, knobs: Knobs, length: Int[Array, ""]) -> Evaluation:
    key = key_for(knobs.evaluation_seed, Purpose.EVALUATE_TOKENS, length)
    if not knobs.test_positions.random:
        return _stream_group(shape, parameters, knobs, length, key, 0)
    draws = min(DRAWS, shape.sequences)
    group = dataclasses.replace(shape, sequences=-(-shape.sequences // draws))
    groups = jax.lax.map(
        lambda draw: _stream_group(group, parameters, knobs, length, jax.random.fold_in(key, draw), draw),
        jnp.arange(draws),
    )
    return _together(groups)


def _together(groups: Evaluation) -> Evaluation:
    """One evaluation from equal groups of sequences: counts added, shares averaged."""
    counts = {name: getattr(groups, name).sum(axis=0) for name in ("correct", "tested", "correct_sequences")}
    shares = {name: getattr(groups, name).mean(axis=0) for name in ("mean_attention", "target_attention", "selected")}
    return Evaluation(**counts, **shares)


def _stream_group(
    shape: EvaluationShape, parameters: Any, knobs: Knobs, length: Int[Array, ""], key: Key, draw: Any
) -> Evaluation:
    """Every sequence that shares one draw of positions."""
    assert isinstance(knobs.task, Positional)
    normalizer = knobs.normalizer
    heads = lookup.head_views(parameters, knobs.mechanism)
    query = length - 1
    target = knobs.task.target(query)
    positions = test_positions(shape, knobs, length, draw, shape.blocks * shape.block)
    query_tokens = _tokens_at(shape, knobs, key, query)
    blocks = -(-length // shape.block)

    def logits(head: lookup.HeadView, index: Any) -> tuple[lookup.Tables, Tokens, Array, Array]:
        places = index * shape.block + jnp.arange(shape.block)
        here = jax.lax.dynamic_slice_in_dim(positions, index * shape.block, shape.block)
        tokens = _tokens_of_block(shape, knobs, key, index)
        table = lookup.tables(head, lookup.logit_scale(head, normalizer, length), positions[query], here)
        scored = lookup.scored_tokens(head, query_tokens), lookup.scored_tokens(head, tokens)
        return table, tokens, lookup.gather_logits(table.logits, *scored), (places < length)[:, None]

    known = [normalizer.stream(lambda index, head=head: logits(head, index)[2:], blocks, length) for head in heads]

    def attend(index: Int[Array, ""], carry: Any) -> Any:
        scores, profile, at_target, elsewhere = carry
        is_target = (index * shape.block + jnp.arange(shape.block) == target)[:, None]
        for number, head in enumerate(heads):
            table, tokens, found, visible = logits(head, index)
            weights = normalizer.weigh(known[number], found, visible, length)
            scores = scores + lookup.class_scores(head, table, weights, tokens)
            profile = profile.at[number, index].set(weights.mean(axis=1))
            here = jnp.where(is_target, weights, jnp.zeros_like(weights)).sum(axis=0)
            others = jnp.where(is_target | ~visible, -jnp.inf, weights).max(axis=0)
            at_target = at_target.at[number].add(here)
            elsewhere = elsewhere.at[number].max(others)
        return scores, profile, at_target, elsewhere

    dtype, sequences = parameters.embedding.dtype, shape.sequences
    start = (
        jnp.zeros((shape.vocabulary, sequences), dtype),
        jnp.zeros((len(heads), shape.blocks, shape.block), dtype),
        jnp.zeros((len(heads), sequences), dtype),
        jnp.full((len(heads), sequences), -jnp.inf, dtype),
    )
    scores, profile, at_target, elsewhere = jax.lax.fori_loop(0, blocks, attend, start)
    answers = _tokens_at(shape, knobs, key, target)
    correct = (scores.argmax(axis=0) == answers).sum()
    return Evaluation(
        correct=correct,
        tested=jnp.asarray(sequences, correct.dtype),
        correct_sequences=correct,
        mean_attention=profile.reshape(len(heads), -1)[:, : shape.longest],
        target_attention=at_target.mean(axis=1),
        selected=(at_target > elsewhere).astype(dtype).mean(axis=1),
    )


def _tokens_of_block(shape: EvaluationShape, knobs: Knobs, key: Key, index: Int[Array, ""]) -> Tokens:
    pieces = shape.block // PIECE
    tokens = jax.vmap(lambda piece: _tokens_of_piece(shape, knobs, key, piece))(index * pieces + jnp.arange(pieces))
    return tokens.reshape(shape.block, shape.sequences)


def _tokens_of_piece(shape: EvaluationShape, knobs: Knobs, key: Key, piece: Int[Array, ""]) -> Tokens:
    assert isinstance(knobs.task, Positional)
    return knobs.task.sample(jax.random.fold_in(key, piece), PIECE, shape.sequences, shape.vocabulary)


def _tokens_at(shape: EvaluationShape, knobs: Knobs, key: Key, position: Int[Array, ""]) -> Int[Array, " sequence"]:
    return _tokens_of_piece(shape, knobs, key, position // PIECE)[position % PIECE]


def _whole_length(shape: EvaluationShape, parameters: PyTree, knobs: Knobs, length: Int[Array, ""]) -> Evaluation:
    """Whole sequences in chunks; each chunk draws its positions anew where the regime is random."""
    rows = shape.longest if knobs.task.rows == "all" else 1
    weights = rows * shape.longest * len(shape.model.head_names)
    size = max(1, min(shape.sequences, MOST_WEIGHTS // weights))
    if knobs.test_positions.random:
        size = min(size, -(-shape.sequences // DRAWS))
    key = key_for(knobs.evaluation_seed, Purpose.EVALUATE_TOKENS, length)

    def chunk(index: Int[Array, ""]) -> Evaluation:
        left = jnp.arange(size) < shape.sequences - index * size  # the last chunk may hold sequences too many
        return _whole_chunk(shape, parameters, knobs, length, jax.random.fold_in(key, index), index, left)

    totals = jax.lax.map(chunk, jnp.arange(-(-shape.sequences // size)))
    summed: Evaluation = jax.tree.map(lambda leaf: leaf.sum(axis=0), totals)
    targets = jnp.where(summed.selected[-1:] > 0, summed.selected[-1:], jnp.nan)
    return summed._replace(
        mean_attention=summed.mean_attention / shape.sequences,
        target_attention=summed.target_attention / targets,
        selected=summed.selected[:-1] / targets,
    )


def _whole_chunk(
    shape: EvaluationShape,
    parameters: PyTree,
    knobs: Knobs,
    length: Int[Array, ""],
    key: Key,
    index: Int[Array, ""],
    counted: Array,
) -> Evaluation:
    """Sums over one chunk's sequences; ``selected`` ends in the number of rows that have a target."""
    batch = knobs.task.draw(key, length, shape.longest, len(counted), shape.vocabulary)
    positions = test_positions(shape, knobs, length, index, shape.longest)
    inputs = Inputs(batch.tokens, positions, length)
    forward = shape.model.forward(parameters, knobs.mechanism, inputs, knobs.task.rows, shape.path)
    if knobs.task.rows == "last":
        batch = batch._replace(
            **{name: getattr(batch, name)[length - 1][None] for name in ("answers", "supervised", "targets")}
        )
    supervised = batch.supervised & counted[None]
    right = (forward.class_scores.argmax(axis=1) == batch.answers) & supervised
    wrong = supervised & ~right
    weights = forward.weights  # [head, row, key, sequence]
    dtype = weights.dtype
    last = weights[:, 0] if knobs.task.rows == "last" else weights[:, length - 1]
    aimed = supervised & (batch.targets != NO_TARGET)
    is_target = batch.targets[:, None] == jnp.arange(shape.longest)[None, :, None]  # [row, key, sequence]
    at_target = jnp.where(is_target[None], weights, jnp.zeros_like(weights)).sum(axis=2)
    seen = jnp.arange(shape.longest)[None] <= (
        jnp.arange(shape.longest)[:, None] if knobs.task.rows == "all" else (length - 1)[None, None]
    )
    others = jnp.where(is_target[None] | ~seen[None, :, :, None], -jnp.inf, weights).max(axis=2)
    selected = ((at_target > others) & aimed[None]).sum(axis=(1, 2)).astype(dtype)
    return Evaluation(
        correct=right.sum(),
        tested=supervised.sum(),
        correct_sequences=(~wrong.any(axis=0) & counted).sum(),
        mean_attention=jnp.where(counted[None, None], last, jnp.zeros_like(last)).sum(axis=-1),
        target_attention=jnp.where(aimed[None], at_target, jnp.zeros_like(at_target)).sum(axis=(1, 2)),
        selected=jnp.concatenate([selected, aimed.sum().astype(dtype)[None]]),
    )


def mean_logits(parameters: Any, knobs: Knobs, positions: Positions, head: int = 0) -> Float[Array, " position"]:
    """Exact mean logit of each key over uniform tokens, in logit units (as it enters the normalizer).

    The query is at the last of ``positions``. For its own place the key's token is the query's; for all others it is
    independent. This is phi of Corollary 2 (arXiv 2607.18759), and for rotary heads m_Q^T R_delta m_K / sqrt(d) off
    the diagonal.
    """
    view = lookup.head_views(parameters, knobs.mechanism)[head]
    scale = lookup.logit_scale(view, knobs.normalizer, len(positions))
    logits = lookup.tables(view, scale, positions[-1], positions).logits  # [query token, position, key token]
    own = jnp.diagonal(logits, axis1=0, axis2=2).mean(axis=1)
    return jnp.where(jnp.arange(len(positions)) == len(positions) - 1, own, logits.mean(axis=(0, 2)))
