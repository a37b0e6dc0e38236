"""Measure a trained model at many lengths.

A head whose task has positional targets is tested by *streaming* over keys, in bounded memory at any length:
keys come in blocks of at most ``BLOCK`` places, a first pass or more brings what the normalizer needs to know
of a row (the online softmax of Milakov and Gimelshein, arXiv 1805.02867, is one such pass), and a last pass
forms the weights, sums the values and averages the attention. Everything else is tested *at once*, on chunks
of whole sequences. The length is a traced value in both, so one program serves every length.

The sequences of a length depend on the evaluation seed, their number and that length alone: not on the other lengths
that are tested, which decide how far arrays are padded and how many sequences fit into memory at once.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float, Int

from farfield._types import Key, Positions, PyTree, Tokens
from farfield.models import lookup
from farfield.models.base import Inputs, LogitPath, Model
from farfield.rng import PIECE, Purpose, key_for
from farfield.tasks.base import NO_TARGET, Positional
from farfield.training import Knobs

BLOCK = 512
# Most entries of a block's table of logits.
MOST_LOGITS = 2**24
# Most attention weights, of all heads, held at once where sequences are tested whole.
MOST_WEIGHTS = 2**24
# Draws of positions that the sequences of a length are shared out to, where a regime is random. Sequences that share
# a draw are one cluster, so that an interval rests on so many independent values.
DRAWS = 128


# Rows of each cluster; whether, where a cluster has one row.
Counts = Int[Array, " cluster"] | Bool[Array, " cluster"]


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
    path: LogitPath = "lookup"

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
        unanswered: supervised rows whose class scores are not all numbers, so that none wins.
        correct_sequences: sequences with every supervised row right.
        clusters: independent draws behind the counts: sequences, or draws of positions that sequences share.
        wrong_moments: sums over clusters of y y, y m and m m, where m is what a cluster tested and y what of it is
            wrong: first of supervised rows, then of sequences. An interval of a share needs no more.
        mean_attention: attention weight of the last row by key place, averaged over sequences, a head; zero from
            the length on.
        attention_error: its standard error, over clusters.
        target_attention: weight of the target key, averaged over supervised rows that have one, a head.
        selected: share of those rows where the target's weight is the largest, alone, a head.
        wrong_selected: how many of those rows are answered wrongly all the same, a head.
    """

    correct: Int[Array, " length"]
    tested: Int[Array, " length"]
    unanswered: Int[Array, " length"]
    correct_sequences: Int[Array, " length"]
    clusters: Int[Array, " length"]
    wrong_moments: Float[Array, "length 2 3"]
    mean_attention: Float[Array, "length head position"]
    attention_error: Float[Array, "length head position"]
    target_attention: Float[Array, "length head"]
    selected: Float[Array, "length head"]
    wrong_selected: Int[Array, "length head"]


def evaluate(shape: EvaluationShape, parameters: PyTree, knobs: Knobs, lengths: Int[Array, " length"]) -> Evaluation:
    """Evaluate one model at every length. Pure and jittable; ``shape`` is static."""
    one = _stream_length if shape.streams else _whole_length
    return jax.lax.map(lambda length: one(shape, parameters, knobs, length), lengths)


def test_positions(shape: EvaluationShape, knobs: Knobs, length: Int[Array, ""], draw: Any, count: int) -> Positions:
    """Positions of the draw numbered ``draw`` at one test length."""
    key = jax.random.fold_in(key_for(knobs.evaluation_seed, Purpose.EVALUATE_POSITIONS, length), draw)
    return knobs.test_positions.positions(key, length, count, shape.trained, knobs.task)


class _Counts(NamedTuple):
    """Counts over some sequences of one length; those of a group are the sums of its parts'.

    Attributes:
        rows, right, unanswered, aimed: supervised rows, those answered correctly, those without an answer, and those
            that have a target.
        sequences, right_sequences: sequences counted, and those with every supervised row right.
        moments: of clusters of one sequence each, as in :class:`Evaluation`.
        at_target, selected, wrong_selected: by head.
    """

    rows: Int[Array, ""]
    right: Int[Array, ""]
    unanswered: Int[Array, ""]
    aimed: Int[Array, ""]
    sequences: Int[Array, ""]
    right_sequences: Int[Array, ""]
    moments: Float[Array, "2 3"]
    at_target: Float[Array, " head"]
    selected: Int[Array, " head"]
    wrong_selected: Int[Array, " head"]


class _Profile(NamedTuple):
    """Attention of the last row by key place, and its square, summed over sequences."""

    attention: Float[Array, "head position"]
    squares: Float[Array, "head position"]


Group = tuple[_Counts, _Profile]


def _draws(shape: EvaluationShape, knobs: Knobs) -> int:
    return min(DRAWS, shape.sequences) if knobs.test_positions.random else 1


def _moments(wrong: Counts, tested: Counts) -> Float[Array, " 3"]:
    y, m = wrong.astype(jnp.float32), tested.astype(jnp.float32)
    return jnp.stack([(y * y).sum(), (y * m).sum(), (m * m).sum()])


def _over_draws(of_draw: Callable[[Any], Group], draws: int) -> Evaluation:
    """One evaluation from every draw of positions. Profiles are long, so that only their sums are kept."""
    if draws == 1:
        counts, profile = of_draw(0)
        return _evaluation(counts, profile, counts.sequences)

    def add(total: _Profile, draw: Int[Array, ""]) -> tuple[_Profile, _Counts]:
        counts, profile = of_draw(draw)
        mean = profile.attention / counts.sequences.astype(profile.attention.dtype)
        return _Profile(total.attention + profile.attention, total.squares + mean * mean), counts

    of_none = jax.tree.map(lambda leaf: jnp.zeros(leaf.shape, leaf.dtype), jax.eval_shape(of_draw, jnp.int32(0))[1])
    profile, by_draw = jax.lax.scan(add, of_none, jnp.arange(draws))
    counts: _Counts = jax.tree.map(lambda leaf: leaf.sum(axis=0), by_draw)
    of_rows = _moments(by_draw.rows - by_draw.right, by_draw.rows)
    of_sequences = _moments(by_draw.sequences - by_draw.right_sequences, by_draw.sequences)
    counts = counts._replace(moments=jnp.stack([of_rows, of_sequences]))
    return _evaluation(counts, profile, jnp.asarray(draws, counts.sequences.dtype))


def _evaluation(counts: _Counts, profile: _Profile, clusters: Int[Array, ""]) -> Evaluation:
    dtype = profile.attention.dtype
    aimed = jnp.where(counts.aimed > 0, counts.aimed.astype(dtype), jnp.nan)
    n = clusters.astype(dtype)
    mean = profile.attention / counts.sequences.astype(dtype)
    variance = jnp.maximum(profile.squares / n - mean * mean, jnp.zeros((), dtype))
    return Evaluation(
        correct=counts.right,
        tested=counts.rows,
        unanswered=counts.unanswered,
        correct_sequences=counts.right_sequences,
        clusters=clusters,
        wrong_moments=counts.moments,
        mean_attention=mean,
        attention_error=jnp.sqrt(variance / n),
        target_attention=counts.at_target / aimed,
        selected=counts.selected.astype(dtype) / aimed,
        wrong_selected=counts.wrong_selected,
    )


def _stream_length(shape: EvaluationShape, parameters: PyTree, knobs: Knobs, length: Int[Array, ""]) -> Evaluation:
    key = key_for(knobs.evaluation_seed, Purpose.EVALUATE_TOKENS, length)
    draws = _draws(shape, knobs)
    group = dataclasses.replace(shape, sequences=-(-shape.sequences // draws))

    def of_draw(draw: Any) -> Group:
        counted = draw + draws * jnp.arange(group.sequences) < shape.sequences
        tokens_key = jax.random.fold_in(key, draw) if knobs.test_positions.random else key
        return _stream_group(group, parameters, knobs, length, tokens_key, draw, counted)

    return _over_draws(of_draw, draws)


def _stream_group(
    shape: EvaluationShape,
    parameters: Any,
    knobs: Knobs,
    length: Int[Array, ""],
    key: Key,
    draw: Any,
    counted: Bool[Array, " sequence"],
) -> Group:
    """The sequences that share one draw of positions; those not ``counted`` fill up the array."""
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
        scores, profile, squares, at_target, elsewhere = carry
        is_target = (index * shape.block + jnp.arange(shape.block) == target)[:, None]
        for number, head in enumerate(heads):
            table, tokens, found, visible = logits(head, index)
            weights = normalizer.weigh(known[number], found, visible, length)
            scores = scores + lookup.class_scores(head, table, weights, tokens)
            shown = jnp.where(counted, weights, jnp.zeros_like(weights))
            profile = profile.at[number, index].set(shown.sum(axis=1))
            squares = squares.at[number, index].set((shown * shown).sum(axis=1))
            here = jnp.where(is_target, weights, jnp.zeros_like(weights)).sum(axis=0)
            others = jnp.where(is_target | ~visible, -jnp.inf, weights).max(axis=0)
            at_target = at_target.at[number].add(here)
            elsewhere = elsewhere.at[number].max(others)
        return scores, profile, squares, at_target, elsewhere

    dtype, sequences = parameters.embedding.dtype, shape.sequences
    start = (
        jnp.zeros((shape.vocabulary, sequences), dtype),
        *[jnp.zeros((len(heads), shape.blocks, shape.block), dtype)] * 2,
        jnp.zeros((len(heads), sequences), dtype),
        jnp.full((len(heads), sequences), -jnp.inf, dtype),
    )
    scores, *profiles, at_target, elsewhere = jax.lax.fori_loop(0, blocks, attend, start)
    answered = jnp.isfinite(scores).all(axis=0)
    right = (scores.argmax(axis=0) == _tokens_at(shape, knobs, key, target)) & answered & counted
    counts = _count(right[None], counted[None], answered[None], counted[None], at_target[:, None], elsewhere[:, None])
    return counts, _Profile(*(profile.reshape(len(heads), -1)[:, : shape.longest] for profile in profiles))


def _count(
    right: Bool[Array, "row sequence"],
    supervised: Bool[Array, "row sequence"],
    answered: Bool[Array, "row sequence"],
    aimed: Bool[Array, "row sequence"],
    at_target: Float[Array, "head row sequence"],
    elsewhere: Float[Array, "head row sequence"],
) -> _Counts:
    """Count what a group of sequences did.

    Args:
        right: supervised rows answered correctly.
        supervised: none in a sequence that does not count.
        answered: rows whose class scores are numbers.
        aimed: supervised rows that have a target.
        at_target, elsewhere: weight of the target, and the largest of all other keys.
    """
    rows, rights = supervised.sum(axis=0), right.sum(axis=0)  # of each sequence
    counted, whole = rows > 0, (rows > 0) & (rights == rows)
    selected = (at_target > elsewhere) & aimed[None]
    return _Counts(
        rows=rows.sum(),
        right=rights.sum(),
        unanswered=(supervised & ~answered).sum(),
        aimed=aimed.sum(),
        sequences=counted.sum(),
        right_sequences=whole.sum(),
        moments=jnp.stack([_moments(rows - rights, rows), _moments(counted & ~whole, counted)]),
        at_target=jnp.where(aimed[None], at_target, jnp.zeros_like(at_target)).sum(axis=(1, 2)),
        selected=selected.sum(axis=(1, 2)),
        wrong_selected=(selected & ~right[None]).sum(axis=(1, 2)),
    )


def _tokens_of_block(shape: EvaluationShape, knobs: Knobs, key: Key, index: Int[Array, ""] | int) -> Tokens:
    pieces = shape.block // PIECE
    tokens = jax.vmap(lambda piece: _tokens_of_piece(shape, knobs, key, piece))(index * pieces + jnp.arange(pieces))
    return tokens.reshape(shape.block, shape.sequences)


def _tokens_of_piece(shape: EvaluationShape, knobs: Knobs, key: Key, piece: Int[Array, ""]) -> Tokens:
    assert isinstance(knobs.task, Positional)
    return knobs.task.sample(jax.random.fold_in(key, piece), PIECE, shape.sequences, shape.vocabulary)


def _tokens_at(shape: EvaluationShape, knobs: Knobs, key: Key, position: Int[Array, ""]) -> Int[Array, " sequence"]:
    return _tokens_of_piece(shape, knobs, key, position // PIECE)[position % PIECE]


def _whole_length(shape: EvaluationShape, parameters: PyTree, knobs: Knobs, length: Int[Array, ""]) -> Evaluation:
    """Whole sequences, in chunks of those that share a draw of positions."""
    rows = shape.longest if knobs.task.rows == "all" else 1
    weights = rows * shape.longest * len(shape.model.head_names)
    draws = _draws(shape, knobs)
    group = -(-shape.sequences // draws)
    size = max(1, min(group, MOST_WEIGHTS // weights))
    chunks = -(-group // size)
    key = key_for(knobs.evaluation_seed, Purpose.EVALUATE_TOKENS, length)

    def of_draw(draw: Any) -> Group:
        positions = test_positions(shape, knobs, length, draw, shape.longest)

        def of_chunk(chunk: Int[Array, ""]) -> Group:
            numbers = draw + draws * (chunk * size + jnp.arange(size))
            keys = jax.vmap(lambda number: jax.random.fold_in(key, number))(numbers)
            return _whole_chunk(shape, parameters, knobs, length, positions, keys, numbers < shape.sequences)

        return jax.tree.map(lambda leaf: leaf.sum(axis=0), jax.lax.map(of_chunk, jnp.arange(chunks)))

    return _over_draws(of_draw, draws)


def _whole_chunk(
    shape: EvaluationShape,
    parameters: PyTree,
    knobs: Knobs,
    length: Int[Array, ""],
    positions: Positions,
    keys: Any,
    counted: Bool[Array, " sequence"],
) -> Group:
    """One chunk's sequences, each drawn from a key of its own."""
    batch = knobs.task.draw_each(keys, length, shape.longest, shape.vocabulary)
    inputs = Inputs(batch.tokens, positions, length)
    forward = shape.model.forward(parameters, knobs.mechanism, inputs, knobs.task.rows, shape.path)
    if knobs.task.rows == "last":
        batch = batch._replace(
            **{name: getattr(batch, name)[length - 1][None] for name in ("answers", "supervised", "targets")}
        )
    supervised = batch.supervised & counted[None]
    answered = jnp.isfinite(forward.class_scores).all(axis=1)
    weights = forward.weights  # [head, row, key, sequence]
    last = weights[:, 0] if knobs.task.rows == "last" else weights[:, length - 1]
    is_target = batch.targets[:, None] == jnp.arange(shape.longest)[None, :, None]  # [row, key, sequence]
    seen = jnp.arange(shape.longest)[None] <= (
        jnp.arange(shape.longest)[:, None] if knobs.task.rows == "all" else (length - 1)[None, None]
    )
    counts = _count(
        right=(forward.class_scores.argmax(axis=1) == batch.answers) & answered & supervised,
        supervised=supervised,
        answered=answered,
        aimed=supervised & (batch.targets != NO_TARGET),
        at_target=jnp.where(is_target[None], weights, jnp.zeros_like(weights)).sum(axis=2),
        elsewhere=jnp.where(is_target[None] | ~seen[None, :, :, None], -jnp.inf, weights).max(axis=2),
    )
    shown = jnp.where(counted[None, None], last, jnp.zeros_like(last))
    return counts, _Profile(shown.sum(axis=-1), (shown * shown).sum(axis=-1))


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
