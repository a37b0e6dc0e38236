"""Masks, and the positions of padded and packed sequences."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from farfield.encodings import encodings
from farfield.errors import FarfieldError
from farfield.models.masks import causal_mask, packed_mask, packed_positions, positions_from_mask
from farfield.normalizers import normalizers
from helpers.support import drawn_parameters, example, pair_logits, vectors


def test_the_last_query_sees_every_key_when_there_are_fewer_queries_than_keys():
    """pytorch issue 108108, flash-attention issue 517."""
    np.testing.assert_array_equal(causal_mask(2, 5), [[1, 1, 1, 1, 0], [1, 1, 1, 1, 1]])


@pytest.mark.parametrize(("queries", "keys"), [(1, 1), (4, 4), (3, 7), (5, 2)])
def test_a_causal_mask_is_the_last_rows_of_a_square_one(queries, keys):
    square = np.tril(np.ones((keys, keys), int))
    # Queries before the first key see nothing.
    expected = np.concatenate([np.zeros((max(queries - keys, 0), keys), int), square[max(keys - queries, 0) :]])
    np.testing.assert_array_equal(causal_mask(queries, keys), expected)


def test_padding_on_the_left_is_not_counted():
    mask = jnp.array([[0, 0, 1, 1, 1], [1, 1, 1, 0, 0], [0, 0, 0, 0, 0]])
    found = np.asarray(positions_from_mask(mask))
    assert found[0, 2:].tolist() == [0, 1, 2]
    assert found[1, :3].tolist() == [0, 1, 2]
    assert (found >= 0).all()


def test_the_rows_of_opt_are_positions_from_the_mask_and_two():
    """transformers issue 20761."""
    found = positions_from_mask(jnp.array([0, 0, 1, 1, 1]), padding=-1) + 2
    assert np.asarray(found).tolist() == [1, 1, 2, 3, 4]


@pytest.mark.parametrize("spec", list(encodings))
def test_weights_of_real_tokens_are_those_of_the_run_without_padding(spec):
    """transformers issue 22161."""
    encoding = example(spec, 8)
    parameters = drawn_parameters(encoding, 8, 0)
    query, key = vectors(0, 5, 8)
    softmax = normalizers.get("softmax")

    def weights(query, key, mask):
        positions = positions_from_mask(mask)
        logits = pair_logits(encoding, parameters, query, key, positions, positions)
        visible = causal_mask(len(mask), len(mask)) & mask.astype(bool)[None]
        return softmax.weights({}, logits.T, visible.T, visible.sum(axis=1)).T

    padded = weights(query, key, jnp.array([0, 0, 1, 1, 1]))
    np.testing.assert_allclose(padded[2:, 2:], weights(query[2:], key[2:], jnp.ones(3)), atol=1e-6)
    assert (np.asarray(padded)[:2] == 0).all()


def test_positions_restart_with_every_packed_document():
    """torchtitan issue 2559."""
    assert np.asarray(packed_positions([3, 1, 2])).tolist() == [0, 1, 2, 0, 0, 1]


def test_packed_documents_do_not_attend_to_one_another():
    expected = jax.scipy.linalg.block_diag(*(jnp.tril(jnp.ones((length, length))) for length in (3, 1, 2)))
    np.testing.assert_array_equal(packed_mask([3, 1, 2]), expected)


@pytest.mark.parametrize("lengths", [[], [3, 0], [-1]])
def test_empty_documents_are_refused(lengths):
    for pack in (packed_positions, packed_mask):
        with pytest.raises(FarfieldError, match="packed documents of lengths"):
            pack(lengths)
