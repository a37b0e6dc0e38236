"""Parity with Hugging Face transformers, where it is installed: frequencies, attention factors, rotated vectors."""

from __future__ import annotations

from typing import Any

import jax.numpy as jnp
import numpy as np
import pytest

from farfield.encodings import encodings
from farfield.encodings.rotary import RotaryFamily
from helpers.support import double_precision

pytest.importorskip("transformers", minversion="5.0", reason="the reference is an optional extra")
torch = pytest.importorskip("torch")

from transformers import LlamaConfig  # noqa: E402
from transformers.modeling_rope_utils import ROPE_INIT_FUNCTIONS  # noqa: E402
from transformers.models.llama.modeling_llama import LlamaRotaryEmbedding, apply_rotary_pos_emb  # noqa: E402

LONGROPE = {"short_factor": [1 + i / 64 for i in range(32)], "long_factor": [1 + i / 4 for i in range(32)]}


def longrope(factor: float, original: int, extra: str = "") -> str:
    """The same factors in this project's spelling."""
    factors = ",".join(f"{name}={';'.join(map(str, values))}" for name, values in LONGROPE.items())
    return f"longrope:{factor},original_length={original},{factors}{extra}"


# Ours, theirs: `original` enters as both names that transformers has for it.
CASES = [
    ("rope", {"rope_type": "default"}, 2048),
    ("rope:base=500000", {"rope_type": "default", "rope_theta": 5e5}, 2048),
    ("position-interpolation:4", {"rope_type": "linear", "factor": 4.0}, 2048),
    ("p-rope:0.25", {"rope_type": "proportional", "partial_rotary_factor": 0.25}, 2048),
    ("p-rope:0.7", {"rope_type": "proportional", "partial_rotary_factor": 0.7}, 2048),
    ("dynamic-ntk:2,original_length=2048", {"rope_type": "dynamic", "factor": 2.0}, 2048),
    ("dynamic-ntk:8,original_length=32,base=500", {"rope_type": "dynamic", "factor": 8.0, "rope_theta": 500.0}, 32),
    ("yarn:4,original_length=2048", {"rope_type": "yarn", "factor": 4.0}, 2048),
    ("yarn:1,original_length=2048", {"rope_type": "yarn", "factor": 1.0}, 2048),
    ("yarn:40,original_length=4096,truncate=false", {"rope_type": "yarn", "factor": 40.0, "truncate": False}, 4096),
    ("yarn:8,original_length=16", {"rope_type": "yarn", "factor": 8.0}, 16),
    (
        "yarn:4,original_length=4096,beta_fast=16,beta_slow=2,attention_factor=1.25,base=1000000",
        {"rope_type": "yarn", "factor": 4.0, "beta_fast": 16, "beta_slow": 2, "attention_factor": 1.25}
        | {"rope_theta": 1e6},
        4096,
    ),
    (
        "llama3",
        {"rope_type": "llama3", "factor": 8.0, "low_freq_factor": 1.0, "high_freq_factor": 4.0, "rope_theta": 5e5},
        8192,
    ),
    (
        "llama3:32,low=2,high=16,original_length=512,base=10000",
        {"rope_type": "llama3", "factor": 32.0, "low_freq_factor": 2.0, "high_freq_factor": 16.0},
        512,
    ),
    (longrope(32, 4096), {"rope_type": "longrope", "factor": 32.0} | LONGROPE, 4096),
    (longrope(1, 64), {"rope_type": "longrope", "factor": 1.0} | LONGROPE, 64),
    (
        longrope(4, 64, ",attention_factor=1.5"),
        {"rope_type": "longrope", "factor": 4.0, "attention_factor": 1.5} | LONGROPE,
        64,
    ),
]
IDS = [ours[:60] for ours, _, _ in CASES]


def rotary(spec: str) -> RotaryFamily:
    encoding = encodings.parse(spec)
    assert isinstance(encoding, RotaryFamily)
    encoding.check(64, 1)
    return encoding


def config(parameters: dict[str, Any], original: int) -> LlamaConfig:
    """A tiny model's configuration: two heads of 64."""
    stretched = {"yarn", "llama3", "longrope"} & {parameters["rope_type"]}
    named = {"original_max_position_embeddings": original} if stretched else {}
    return LlamaConfig(
        hidden_size=128,
        num_attention_heads=2,
        max_position_embeddings=original,
        rope_parameters={"rope_theta": 10000.0} | parameters | named,
    )


@pytest.mark.parametrize(("ours", "theirs", "original"), CASES, ids=IDS)
@pytest.mark.parametrize("times", [None, 1, 2, 5])
def test_frequencies_and_attention_factor_equal_the_reference(ours, theirs, original, times):
    """At no given length, at the original one, and past it."""
    length = None if times is None else times * original
    reference = config(theirs, original)
    if theirs["rope_type"] == "default":
        expected, factor = LlamaRotaryEmbedding.compute_default_rope_parameters(reference)
    else:
        expected, factor = ROPE_INIT_FUNCTIONS[theirs["rope_type"]](reference, torch.device("cpu"), seq_len=length)
    encoding = rotary(ours)
    with double_precision():
        found, gain = encoding.frequencies(64, length), float(encoding.gain(jnp.float64))
    # The reference computes in float32.
    np.testing.assert_allclose(found, expected.double().numpy(), rtol=1e-6)
    assert gain == pytest.approx(factor, rel=1e-12)


@pytest.mark.parametrize(("ours", "theirs", "original"), CASES, ids=IDS)
@pytest.mark.parametrize("times", [0.5, 2])
def test_rotated_queries_and_keys_equal_the_reference(ours, theirs, original, times):
    places = np.unique(np.linspace(0, min(int(times * original), 4096) - 1, 16).astype(int))
    draws = np.random.default_rng(0).normal(size=(2, len(places), 64)).astype(np.float32)
    query, key = (torch.tensor(x)[None, None] for x in draws)
    module = LlamaRotaryEmbedding(config(theirs, original))
    cos, sin = module(query, torch.tensor(places)[None])
    expected = apply_rotary_pos_emb(query, key, cos, sin)
    found = rotary(ours).rotate({}, *(jnp.asarray(x) for x in draws), jnp.asarray(places), jnp.asarray(places))
    for ours_turned, theirs_turned in zip(found, expected, strict=True):
        # A float32 angle near 4096 radians is off by up to 2**-12 on either side.
        np.testing.assert_allclose(ours_turned, theirs_turned[0, 0].numpy(), atol=3e-3)
