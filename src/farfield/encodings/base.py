"""The interface of a positional encoding: three optional hooks, positions always an argument."""

from __future__ import annotations

from dataclasses import dataclass

from jaxtyping import Array, Float, Int

from farfield._types import Key, PyTree
from farfield.registry import Registry


@dataclass(frozen=True)
class Encoding:
    """A positional encoding: settings as fields, trainable state as a separate ``parameters`` pytree.

    Every encoding of the field is some of three hooks, and a hook left out does nothing:

    1. :meth:`embed` adds a vector to the token embedding (learned, sinusoidal);
    2. :meth:`rotate` transforms queries and keys (RoPE and its family);
    3. :meth:`bias` adds to the attention logits, after the 1/sqrt(d) scaling (ALiBi, T5, KERPLE, ...).

    To add one, write a frozen dataclass with one of them and register it::

        @encodings.register("triangle")
        @dataclass(frozen=True)
        class Triangle(Encoding):
            slope: float = traced(0.5)

            def bias(self, parameters, query_positions, key_positions):
                distance = query_positions[:, None] - key_positions[None, :]
                return -self.slope * distance.astype(float)
    """

    def initialize(self, key: Key, width: int) -> PyTree:
        """Trainable parameters, an empty dict when there are none."""
        del key, width
        return {}

    def embed(self, parameters: PyTree, positions: Int[Array, " position"]) -> Float[Array, "position width"] | None:
        """The vector added to the token embedding at each position, or None."""
        del parameters, positions
        return None

    def rotate(
        self,
        parameters: PyTree,
        query: Float[Array, "... width"],
        key: Float[Array, "... width"],
        query_positions: Int[Array, "..."],
        key_positions: Int[Array, "..."],
    ) -> tuple[Float[Array, "... width"], Float[Array, "... width"]]:
        """Queries and keys as they enter the dot product; positions broadcast against the leading axes."""
        del parameters, query_positions, key_positions
        return query, key

    def bias(
        self, parameters: PyTree, query_positions: Int[Array, " query"], key_positions: Int[Array, " key"]
    ) -> Float[Array, "query key"] | None:
        """What is added to the scaled logits, in logit units, or None."""
        del parameters, query_positions, key_positions
        return None

    def tabulated(self, width: int, longest: int) -> Encoding:
        """An equal encoding for positions below ``longest`` with what depends on positions alone precomputed.

        Training calls it once, before its loop. The default is the encoding itself.
        """
        del width, longest
        return self

    def resolved(self, longest: int) -> Encoding:
        """The encoding with settings that depend on the longest sequence filled in; by default itself."""
        del longest
        return self

    def check(self, width: int, longest: int) -> None:
        """Refuse settings that cannot work for this width and these lengths.

        Args:
            width: the head's dimension.
            longest: the longest sequence, of training or test, that positions must serve.

        Raises:
            FarfieldError: naming the setting, the reason and the mend.
        """
        del width, longest


encodings: Registry[Encoding] = Registry("encoding")
