"""Positional encodings, one file a family. ``encodings`` is the registry; importing a family fills it."""

from farfield.encodings import learned, rope
from farfield.encodings.base import Encoding, encodings
from farfield.encodings.learned import Learned
from farfield.encodings.rope import Rope

get = encodings.get
parse = encodings.parse
register = encodings.register

__all__ = ["Encoding", "Learned", "Rope", "encodings", "get", "learned", "parse", "register", "rope"]
