"""No positional encoding."""

from __future__ import annotations

from dataclasses import dataclass

from farfield.encodings.base import Encoding, encodings


@encodings.register("none")
@dataclass(frozen=True)
class NoEncoding(Encoding):
    """NoPE: tokens are a bag; a head of one layer cannot tell positions apart.

    In deeper causal models, how many keys a row sees still tells it where it is.
    Source: Kazemnejad et al., arXiv 2305.19466; Haviv et al., arXiv 2203.16634.
    """

    positional = False
