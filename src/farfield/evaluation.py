"""Measure a trained head at many lengths, streaming over keys in bounded memory.

Keys come in blocks of at most ``BLOCK`` positions. A first pass keeps, for every sequence, the running
maximum of its logits, the sum of exponentials and the class scores (the online softmax of Milakov and
Gimelshein, arXiv 1805.02867); a second pass, with the normalizer known, averages the attention weights over
sequences. The length is a traced value, so one program serves every length.
"""

from __future__ import annotations

import dataclasses
from typing import NamedTuple

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, Int

from farfield._types import Key, Tokens
from farfield.models import lookup
from farfield.models.head import MASKED, HeadParameters
from farfield.random import Purpose, key_for
from farfield.training import Knobs

BLOCK = 512
# Most entries of a block's table of logits.
MOST_LOGITS = 2**24
# Positions drawn from one key. Blocks are made of whole pieces, so that the sequences of a length do not depend on
# the size of a block, and so not on which other lengths are tested.
PIECE = 16


@dataclasses.dataclass(frozen=True)
class EvaluationShape:
    """What decides the compiled evaluation program.

    Attributes:
        vocabulary: number of tokens.
        sequences: sequences a length.
        longest: longest test length; mean attention is padded to it.
    """

    vocabulary: int = 20
    sequences: int = 4096
    longest: int = 48

    @property
    def block(self) -> int:
        """Key positions handled at once, whole pieces: fewer where a large vocabulary makes tables large."""
        positions = min(BLOCK, self.longest, MOST_LOGITS // self.vocabulary**2)
        return max(1, -(-positions // PIECE)) * PIECE

    @property
    def blocks(self) -> int:
        """Blocks that the longest length needs."""
        return -(-self.longest // self.block)


class Evaluation(NamedTuple):
    """What a head did at each test length.

    Attributes:
        correct: sequences answered correctly, the largest class score winning.
        mean_attention: attention weight by absolute key position, averaged over sequences; zero from the
            length on.
        target_attention: weight of the target key, averaged over sequences.
    """

    correct: Int[Array, " length"]
    mean_attention: Float[Array, "length position"]
    target_attention: Float[Array, " length"]


def evaluate(
    shape: EvaluationShape, parameters: HeadParameters, knobs: Knobs, lengths: Int[Array, " length"]
) -> Evaluation:
    """Evaluate one head at every length. Pure and jittable; ``shape`` is static.

    The sequences of a length depend on the seed and that length alone.
    """
    return jax.lax.map(lambda length: _evaluate_length(shape, parameters, knobs, length), lengths)


def _evaluate_length(
    shape: EvaluationShape, parameters: HeadParameters, knobs: Knobs, length: Int[Array, ""]
) -> Evaluation:
    key = key_for(knobs.seed, Purpose.EVALUATE_TOKENS, length)
    query_position = length - 1
    target = knobs.task.target(query_position)
    query_tokens = _tokens_at(shape, knobs, key, query_position)
    blocks = -(-length // shape.block)

    def logits(index: Int[Array, ""]) -> tuple[lookup.Tables, Tokens, Float[Array, "position sequence"]]:
        positions = index * shape.block + jnp.arange(shape.block)
        visible = positions < length
        tokens = _tokens_of_block(shape, knobs, key, index)
        # Positions past the length are masked; moving them to the query keeps them inside any table.
        positions = jnp.where(visible, positions, query_position)
        table = lookup.tables(parameters, knobs.encoding, knobs.temperature, query_position, positions)
        logits = lookup.gather_logits(table.logits, query_tokens, tokens)
        return table, tokens, jnp.where(visible[:, None], logits, jnp.asarray(MASKED, logits.dtype))

    def accumulate(index: Int[Array, ""], carry: tuple[Array, Array, Array]) -> tuple[Array, Array, Array]:
        peak, total, scores = carry
        table, tokens, block_logits = logits(index)
        new_peak = jnp.maximum(peak, block_logits.max(axis=0))
        weights = jnp.exp(block_logits - new_peak[None])
        shrink = jnp.exp(peak - new_peak)
        scores = scores * shrink[None] + lookup.class_scores(table, weights, tokens)
        return new_peak, total * shrink + weights.sum(axis=0), scores

    dtype = parameters.embedding.dtype
    sequences = shape.sequences
    start = (
        jnp.full((sequences,), MASKED, dtype),
        jnp.zeros((sequences,), dtype),
        jnp.zeros((shape.vocabulary, sequences), dtype),
    )
    peak, total, scores = jax.lax.fori_loop(0, blocks, accumulate, start)

    def average(index: Int[Array, ""], profile: Float[Array, "block position"]) -> Float[Array, "block position"]:
        weights = jnp.exp(logits(index)[2] - peak[None]) / total[None]
        return profile.at[index].set(weights.mean(axis=1))

    profile = jax.lax.fori_loop(0, blocks, average, jnp.zeros((shape.blocks, shape.block), dtype)).reshape(-1)
    answers = _tokens_at(shape, knobs, key, target)
    return Evaluation(
        correct=(scores.argmax(axis=0) == answers).sum(),
        mean_attention=profile[: shape.longest],
        target_attention=profile[target],
    )


def _tokens_of_block(shape: EvaluationShape, knobs: Knobs, key: Key, index: Int[Array, ""]) -> Tokens:
    pieces = shape.block // PIECE
    tokens = jax.vmap(lambda piece: _tokens_of_piece(shape, knobs, key, piece))(index * pieces + jnp.arange(pieces))
    return tokens.reshape(shape.block, shape.sequences)


def _tokens_of_piece(shape: EvaluationShape, knobs: Knobs, key: Key, piece: Int[Array, ""]) -> Tokens:
    return knobs.task.sample(jax.random.fold_in(key, piece), PIECE, shape.sequences, shape.vocabulary)


def _tokens_at(shape: EvaluationShape, knobs: Knobs, key: Key, position: Int[Array, ""]) -> Int[Array, " sequence"]:
    return _tokens_of_piece(shape, knobs, key, position // PIECE)[position % PIECE]


def mean_logits(
    parameters: HeadParameters, knobs: Knobs, query_position: Int[Array, ""], key_positions: Int[Array, " position"]
) -> Float[Array, " position"]:
    """Exact mean logit of each key over uniform tokens, in logit units (as it enters the softmax).

    For the query's own position the key's token is the query's; for all others it is independent. This is
    phi of Corollary 2 (arXiv 2607.18759), and for rotary heads m_Q^T R_delta m_K / sqrt(d) off the diagonal.
    """
    logits = lookup.tables(
        parameters, knobs.encoding, knobs.temperature, query_position, key_positions
    ).logits  # [query token, position, key token]
    own = jnp.diagonal(logits, axis1=0, axis2=2).mean(axis=1)
    return jnp.where(key_positions == query_position, own, logits.mean(axis=(0, 2)))
