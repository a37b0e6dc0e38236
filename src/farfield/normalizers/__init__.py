"""Normalizers of attention, one file a family. ``normalizers`` is the registry; a file put here fills it."""

from farfield.normalizers.base import MASKED, Normalizer, normalizers
from farfield.registry import import_all

import_all(__name__, __path__)

get = normalizers.get
parse = normalizers.parse
register = normalizers.register

__all__ = ["MASKED", "Normalizer", "get", "normalizers", "parse", "register"]
