"""Biases against the transformers library, where it is installed (the extra `hf`)."""

from __future__ import annotations

import jax.numpy as jnp
import numpy as np
import pytest

from farfield.encodings import HeadContent, get
from farfield.encodings.alibi import reference
from farfield.encodings.t5 import bucket_of

pytest.importorskip("transformers")
torch = pytest.importorskip("torch")

from transformers import FalconConfig  # noqa: E402
from transformers.models.bloom import modeling_bloom  # noqa: E402
from transformers.models.falcon import modeling_falcon  # noqa: E402
from transformers.models.mpt import modeling_mpt  # noqa: E402
from transformers.models.t5.modeling_t5 import T5Attention  # noqa: E402

LENGTH = 9


def alibi(heads: int, **settings) -> np.ndarray:
    """The bias of the last of ``LENGTH`` positions in each head, [head, key]."""
    positions = jnp.arange(LENGTH)
    content = HeadContent(jnp.zeros((1, 4)), jnp.zeros((LENGTH, 4)))
    of_heads = [get("alibi", **settings).of_head(index, heads) for index in range(heads)]
    return np.stack([head.bias({}, positions[-1:], positions, content)[0] for head in of_heads])


@pytest.mark.parametrize("bidirectional", [False, True])
@pytest.mark.parametrize(("buckets", "distance"), [(32, 128), (8, 20), (64, 1000), (16, 300)])
def test_t5_buckets_equal_those_of_transformers(buckets, distance, bidirectional):
    offsets = np.arange(-3000, 3001)
    expected = T5Attention._relative_position_bucket(torch.tensor(offsets), bidirectional, buckets, distance)
    found = bucket_of(jnp.asarray(offsets), buckets, distance, bidirectional=bidirectional)
    np.testing.assert_array_equal(found, expected.numpy())


@pytest.mark.parametrize("heads", [1, 2, 3, 5, 6, 8, 12, 16, 20, 40, 112])
def test_alibi_equals_that_of_bloom_up_to_a_constant_a_row(heads):
    mask = torch.ones(1, LENGTH)
    expected = modeling_bloom.build_alibi_tensor(mask, heads, torch.float32).numpy()[:, 0]
    np.testing.assert_allclose(alibi(heads), expected - expected[:, -1:], rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("heads", [1, 2, 3, 5, 6, 8, 12, 16, 20, 40, 112])
def test_alibi_equals_that_of_mpt_whose_rule_is_the_same_in_other_words(heads):
    expected = modeling_mpt.build_mpt_alibi_tensor(heads, LENGTH).numpy()[:, 0]
    np.testing.assert_allclose(alibi(heads), expected, rtol=1e-5, atol=1e-6)


def test_the_bias_before_the_scaling_is_where_falcon_adds_it():
    heads, width = 2, 8
    torch.manual_seed(0)
    config = FalconConfig(hidden_size=heads * width, num_attention_heads=heads, alibi=True, multi_query=False)
    config._attn_implementation = "eager"
    attention = modeling_falcon.FalconAttention(config, layer_idx=0).eval()
    x = torch.randn(1, LENGTH, heads * width)
    added = modeling_falcon.build_alibi_tensor(torch.ones(1, LENGTH), heads, torch.float32)
    mask = torch.full((LENGTH, LENGTH), -1e30).triu(1)[None, None]
    with torch.no_grad():
        _, expected = attention(x, added, mask, output_attentions=True)
        query, key, _ = (part[0].numpy() for part in attention._split_heads(attention.query_key_value(x)))
    positions = jnp.arange(LENGTH)
    for index, slope in enumerate(reference(heads)):
        q, k = query[:, index], key[:, index]
        bias = get("alibi", slope=slope, before_scaling=True).bias(
            {}, positions, positions, HeadContent(jnp.asarray(q), jnp.asarray(k))
        )
        logits = np.where(np.tri(LENGTH, dtype=bool), q @ k.T / np.sqrt(width) + np.asarray(bias), -np.inf)
        weights = np.exp(logits - logits.max(axis=1, keepdims=True))
        np.testing.assert_allclose(weights / weights.sum(axis=1, keepdims=True), expected[0, index], atol=1e-6)
