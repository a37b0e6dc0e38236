"""Models, one file each: a layer of heads, the positional-only head, a decoder transformer."""

from farfield.models.base import Forward, Inputs, Mechanism, Model, Observed, models
from farfield.registry import import_all

import_all(__name__, __path__)

get = models.get
parse = models.parse
register = models.register

__all__ = ["Forward", "Inputs", "Mechanism", "Model", "Observed", "get", "models", "parse", "register"]
