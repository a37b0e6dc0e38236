"""What single models promise beyond the rules of all: refused sizes, the positional head, the transformer's formula."""

from __future__ import annotations

import jax
import numpy as np
import pytest

from farfield.encodings import encodings
from farfield.errors import FarfieldError
from farfield.models import models
from farfield.models.transformer import Transformer
from farfield.testing.models import LENGTH, SEQUENCES, ModelTrial, inputs
from helpers.support import double_precision


def ready(spec: str, encoding: str):
    """A model of eight dimensions, its mechanism and parameters far from those that training starts from."""
    return ModelTrial(models.parse(spec)).ready(encoding)


@pytest.mark.parametrize("name", list(models))
@pytest.mark.parametrize(
    ("settings", "reason"),
    [
        ("width=0", "width = 0 must be a whole number from 1"),
        ("heads=0", "heads = 0 must be a whole number from 1"),
        ("width=10,heads=4", "width = 10 does not divide into 4 heads: make it a multiple of 4"),
        ("colour=1", "unknown setting of model"),
        ("width=1.5", "is not a whole number"),
    ],
)
def test_sizes_that_cannot_work_are_refused(name, settings, reason):
    with pytest.raises(FarfieldError, match=reason):
        models.parse(f"{name}:{settings}").check()


@pytest.mark.parametrize("rows", ["last", "all"])
def test_logits_of_the_positional_only_head_do_not_depend_on_tokens(rows):
    head = ready("positional", "learned")
    one, other = (head.forward(inputs(seed), rows, "dense").weights for seed in (0, 1))
    np.testing.assert_array_equal(one, other)
    assert (one == one[..., :1]).all()


def test_the_transformer_is_its_formula():
    """Written out with plain loops: pre-LayerNorm, causal softmax, GELU, one output map a layer."""
    with double_precision():
        transformer = ready("transformer:heads=2,layers=2", "none")
        found = transformer.forward(inputs(), "all", "dense").class_scores
        p = jax.tree.map(np.asarray, transformer.parameters)

        def norm(x, n):
            return (x - x.mean()) / np.sqrt(x.var() + 1e-5) * n.scale + n.shift

        def gelu(x):
            return np.asarray(jax.scipy.stats.norm.cdf(x)) * x

        for sequence in range(SEQUENCES):
            x = p.embedding[np.asarray(inputs().tokens)[:LENGTH, sequence]]
            for layer in p.layers:
                normed = np.stack([norm(row, layer.attention_norm) for row in x])
                out = np.zeros_like(x)
                for h in range(2):
                    q, k, v = (normed @ getattr(layer.attention, name)[h].T for name in ("query", "key", "value"))
                    for n in range(LENGTH):
                        w = np.exp(q[n] @ k[: n + 1].T / 2)  # the root of a head's width of 4
                        out[n, 4 * h : 4 * h + 4] = w @ v[: n + 1] / w.sum()
                x = x + out @ layer.output.T
                hidden = np.stack([gelu(norm(row, layer.mlp_norm) @ layer.up.T + layer.up_bias) for row in x])
                x = x + hidden @ layer.down.T + layer.down_bias
            expected = np.stack([norm(row, p.norm) for row in x]) @ p.readout.T
            np.testing.assert_allclose(found[:LENGTH, :, sequence], expected, atol=1e-9)


def test_a_transformer_has_a_lane_of_its_own_and_no_lookup():
    assert Transformer.lanes == 1
    assert Transformer().lookup_obstacle(encodings.parse("rope")) is not None
    assert Transformer(heads=2).head_names == ("layer 0 head 0", "layer 0 head 1", "layer 1 head 0", "layer 1 head 1")
