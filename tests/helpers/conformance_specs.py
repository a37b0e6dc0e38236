"""Every registered normalizer, position regime and model with its defaults, and settings that change what it does."""

from __future__ import annotations

from farfield.models import models
from farfield.normalizers import normalizers
from farfield.positions import regimes

NORMALIZERS = [
    *normalizers,
    "softmax:0.5",
    "log-n:4",
    "ssmax:1.5",
    "linear-normalized:count",
    "linear-normalized:floor=0.01",
    "sigmoid:offset=-2,log_n=0",
]
REGIMES = [*regimes, "fixed:3", "random-start:64", "random-subset:40", "coupled:most=50", "rescale:nearest"]
MODELS = [*models, "head:heads=2", "positional:heads=2", "transformer:heads=2,layers=3"]
# Parameters of a model and settings of a normalizer that nothing depends on.
UNREAD = {
    # In a positional-only head the logits are one bias a pair, so queries and keys matter through positions alone.
    "positional": (".query", ".key", ".scored"),
    "positional:heads=2": (".query", ".key", ".scored"),
    "linear-normalized:count": ("floor",),
}
