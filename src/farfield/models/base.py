"""The interface of a model: parameters from a key, class scores from tokens, and every head's inside by name."""

from __future__ import annotations

import abc
from dataclasses import dataclass
from typing import Any, ClassVar, Literal, NamedTuple

from jaxtyping import Array, Float, Int

from farfield._types import Key, Positions, PyTree, Tokens
from farfield.encodings.base import Encoding
from farfield.encodings.parts import signed
from farfield.errors import FarfieldError
from farfield.normalizers import Normalizer
from farfield.positions.base import padded
from farfield.registry import Registry, setting

LogitPath = Literal["lookup", "dense"]
AskedRows = Literal["last", "all"]

WIDEST = 4096
MOST_HEADS = 64


class Mechanism(NamedTuple):
    """What decides where a model attends, apart from its weights."""

    encoding: Encoding
    normalizer: Normalizer


class Inputs(NamedTuple):
    """A batch, position-major and padded to a common number of positions.

    Attributes:
        tokens: token identities.
        positions: the integers (or real numbers) that the encoding sees, one a place.
        length: how many places count.
    """

    tokens: Tokens
    positions: Positions
    length: Int[Array, ""]

    def settled(self) -> Inputs:
        """The same as models read it: positions signed, and those from the length on like the last that counts.

        Weights of the places behind the length are 0, but 0 times what an encoding makes of their positions need not
        be: rows that diverged are NaN, and so are those outside a table.
        """
        return self._replace(positions=padded(signed(self.positions), self.length))


class Forward(NamedTuple):
    """What a model says of a batch; one row where the last alone is asked for, else one a place.

    Attributes:
        class_scores: unnormalized log probability of each class.
        weights: attention weights of every head (layer by layer), zero for keys that the row does not see.
    """

    class_scores: Float[Array, "row vocabulary sequence"]
    weights: Float[Array, "head row key sequence"]


class Observed(NamedTuple):
    """The inside of one head on a batch.

    Attributes:
        query, key: projections before rotation.
        logits: scaled, with the encoding's part, as they enter the normalizer; meaningless where not seen.
        weights: attention weights.
    """

    query: Float[Array, "sequence row width"]
    key: Float[Array, "sequence key width"]
    logits: Float[Array, "sequence row key"]
    weights: Float[Array, "sequence row key"]


@dataclass(frozen=True)
class Model(abc.ABC):
    """A model's shape; its weights are a separate pytree."""

    # Seeds trained side by side in one program; a large model fills a core alone.
    lanes: ClassVar[int] = 4

    width: int = setting(64, aliases=("hidden_size", "n_embd"))
    heads: int = setting(1, aliases=("num_attention_heads", "n_head"))

    @property
    def head_width(self) -> int:
        """Dimension of one head."""
        return self.width // self.heads

    @property
    def head_names(self) -> tuple[str, ...]:
        """Name of every head, in the order of :attr:`Forward.weights`."""
        return tuple(f"layer 0 head {head}" for head in range(self.heads))

    def check(self) -> None:
        """Refuse sizes that cannot work.

        Raises:
            FarfieldError: naming the size, the reason and the mend.
        """
        if not 1 <= self.width <= WIDEST:
            raise FarfieldError(f"width = {self.width} must be a whole number from 1 to {WIDEST}")
        if not 1 <= self.heads <= MOST_HEADS:
            raise FarfieldError(f"heads = {self.heads} must be a whole number from 1 to {MOST_HEADS}")
        if self.width % self.heads:
            raise FarfieldError(
                f"width = {self.width} does not divide into {self.heads} heads: make it a multiple of {self.heads}"
            )

    def lookup_obstacle(self, encoding: Encoding) -> str | None:
        """Why the lookup is not exact for this model and encoding, or None where it is."""
        if encoding.reads_context:
            return "the encoding's logits depend on the tokens between query and key"
        return None

    @abc.abstractmethod
    def initialize(self, key: Key, mechanism: Mechanism, vocabulary: int) -> PyTree:
        """Fresh weights."""

    @abc.abstractmethod
    def forward(
        self, parameters: Any, mechanism: Mechanism, inputs: Inputs, rows: AskedRows, path: LogitPath
    ) -> Forward:
        """Class scores and attention weights."""

    @abc.abstractmethod
    def observe(self, parameters: Any, mechanism: Mechanism, inputs: Inputs, rows: AskedRows) -> list[Observed]:
        """The inside of every head, in the order of :attr:`head_names`, by the dense path."""


models: Registry[Model] = Registry("model")
