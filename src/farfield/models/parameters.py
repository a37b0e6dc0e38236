"""What a one-layer model trains."""

from __future__ import annotations

from dataclasses import dataclass

from jaxtyping import Array, Float

from farfield._pytree import pytree
from farfield._types import PyTree
from farfield.models.attention import AttentionParameters


@pytree
@dataclass(frozen=True)
class HeadParameters:
    """Everything a one-layer model trains.

    Attributes:
        embedding: token table E, one row a token.
        scored: what queries and keys are computed from where it is not ``embedding``: one vector that all places
            share, or no row where the encoding's own vectors are all there is; else None.
        attention: the heads.
        readout: U, one row a class.
        encoding: the positional encoding's parameters for the token embedding.
    """

    embedding: Float[Array, "vocabulary width"]
    scored: Float[Array, "rows width"] | None
    attention: AttentionParameters
    readout: Float[Array, "vocabulary width"]
    encoding: PyTree
