"""What the files of the encodings' conformance suite share."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np

from support import drawn_parameters, example, pair_logits, quick_jit

WIDTH = 8
LONGEST = 48
FAR = 10**6

logits_of = quick_jit(pair_logits)


def ready(spec: str, longest: int = LONGEST, width: int = WIDTH, seed: int = 0):
    """An encoding for positions 0 .. longest, and its parameters."""
    encoding = example(spec, longest)
    encoding.check(width, longest)
    return encoding, drawn_parameters(encoding, width, seed)


def as_arrays(encoding):
    """The encoding with its settings as a compiled program has them, so that one program serves all settings."""
    return jax.tree.map(lambda leaf: jnp.asarray(leaf, float), encoding)


def assert_finite(tree):
    for path, leaf in jax.tree_util.tree_leaves_with_path(tree):
        assert np.isfinite(leaf).all(), path
