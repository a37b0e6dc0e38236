"""Position regimes, one file a family. ``regimes`` is the registry; a file put here fills it."""

from farfield.positions.base import Regime, regimes
from farfield.registry import import_all

import_all(__name__, __path__)

get = regimes.get
parse = regimes.parse
register = regimes.register

__all__ = ["Regime", "get", "parse", "regimes", "register"]
