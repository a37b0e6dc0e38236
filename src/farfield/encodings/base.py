"""The interface of a positional encoding: three optional hooks, positions always an argument."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, NamedTuple

import jax
from jaxtyping import Array, Bool, Float

from farfield._types import Key, Positions, PyTree
from farfield.registry import Registry


class HeadContent(NamedTuple):
    """Projected queries and keys of one head before rotation, for a bias that depends on content.

    Attributes:
        query, key: W_Q x and W_K x; leading axes broadcast against each other.
        visible: which keys each query may attend to. None stands for those at its position and before, which is
            right where positions grow from place to place, padding included.
    """

    query: Float[Array, "... query width"]
    key: Float[Array, "... key width"]
    visible: Bool[Array, "query key"] | None = None


@dataclass(frozen=True)
class Encoding:
    """A positional encoding: settings as fields, trainable state as a separate ``parameters`` pytree.

    Every encoding of the field is some of three hooks, and a hook left out does nothing:

    1. :meth:`embed` adds a vector to the token embedding (learned, sinusoidal);
    2. :meth:`rotate` transforms queries and keys (RoPE and its family);
    3. :meth:`bias` adds to the attention logits, after the 1/sqrt(d) scaling (ALiBi, T5, KERPLE, ...).

    ``embed`` acts once a model, on the model's width; ``rotate`` and ``bias`` act in every head, on the head's
    width, with parameters of that head. Positions are integers, or real numbers where :attr:`real_positions`.

    To add one, write a frozen dataclass with one of them and register it::

        @encodings.register("triangle")
        @dataclass(frozen=True)
        class Triangle(Encoding):
            slope: float = traced(0.5)

            def bias(self, parameters, query_positions, key_positions, content):
                distance = query_positions[:, None] - key_positions[None, :]
                return -self.slope * distance.astype(float)
    """

    # Whether logits stay the same when all positions shift by the same amount. A test holds it to its word.
    relative: ClassVar[bool] = True
    # Whether positions between whole numbers have a meaning; a table of buckets has none for them.
    real_positions: ClassVar[bool] = True
    # Whether a logit depends on tokens other than the query's and the key's own, which rules the lookup out.
    reads_context: ClassVar[bool] = False
    # Whether positions change logits at all; only an encoding that does nothing says no.
    positional: ClassVar[bool] = True
    # Whether a logit depends on the largest query position in use beside its own two (dynamic NTK): the encoding
    # is then relative among short lengths and among equal ones, not across the switch.
    reads_length: ClassVar[bool] = False

    def initialize(self, key: Key, width: int) -> PyTree:
        """Trainable parameters of :meth:`embed`, an empty dict when there are none; ``width`` is the model's."""
        del key, width
        return {}

    def initialize_head(self, key: Key, width: int) -> PyTree:
        """Trainable parameters of :meth:`rotate` and :meth:`bias` in one head; ``width`` is the head's."""
        del key, width
        return {}

    def of_head(self, index: int, heads: int) -> Encoding:
        """The encoding as head ``index`` of ``heads`` sees it (ALiBi's slopes differ by head); by default itself.

        Only traced fields may differ between heads.
        """
        del index, heads
        return self

    def embed(self, parameters: PyTree, positions: Positions) -> Float[Array, "position width"] | None:
        """The vector added to the token embedding at each position, or None."""
        del parameters, positions
        return None

    def rotate(
        self,
        parameters: PyTree,
        query: Float[Array, "... width"],
        key: Float[Array, "... width"],
        query_positions: Positions,
        key_positions: Positions,
    ) -> tuple[Float[Array, "... width"], Float[Array, "... width"]]:
        """Queries and keys as they enter the dot product; positions broadcast against the leading axes."""
        del parameters, query_positions, key_positions
        return query, key

    def bias(
        self, parameters: PyTree, query_positions: Positions, key_positions: Positions, content: HeadContent
    ) -> Float[Array, "... query key"] | None:
        """What is added to the scaled logits, in logit units, or None.

        Args:
            query_positions, key_positions: one axis each.
            content: vectors of the same queries and keys; leading axes of the result are theirs.
        """
        del parameters, query_positions, key_positions, content
        return None

    def tabulated(self, width: int, longest: int) -> Encoding:
        """An equal encoding for whole positions below ``longest``, with what depends on them alone precomputed.

        Training calls it once, before its loop, with the head's width. The default is the encoding itself.
        """
        del width, longest
        return self

    def resolved(self, trained: int, longest: int) -> Encoding:
        """The encoding with settings that depend on lengths filled in; by default itself.

        Args:
            trained: the longest training length.
            longest: one more than the largest position, of training or test.
        """
        del trained, longest
        return self

    def check(self, width: int, longest: int) -> None:
        """Refuse settings that cannot work for this width and these lengths.

        Args:
            width: the dimension that the encoding acts on: the head's for ``rotate`` and ``bias``, the model's
                for ``embed``.
            longest: one more than the largest position, of training or test.

        Raises:
            FarfieldError: naming the setting, the reason and the mend.
        """
        del width, longest

    def check_together(self, width: int, span: int) -> None:
        """Refuse settings that cannot work for queries that are encoded in one call, as those of a transformer are.

        Args:
            width: as in :meth:`check`.
            span: one more than the largest distance between two positions of a sequence.

        Raises:
            FarfieldError: naming the setting, the reason and the mend.
        """
        del width, span


def adds_vectors(encoding: Encoding) -> bool:
    """Whether an encoding has the hook :meth:`Encoding.embed`."""
    return type(encoding).embed is not Encoding.embed


def is_trained(encoding: Encoding, width: int) -> bool:
    """Whether a resolved encoding has parameters of its own, in a head or a model of ``width``."""

    def start() -> PyTree:
        key = jax.random.key(0)
        return encoding.initialize(key, width), encoding.initialize_head(key, width)

    return bool(jax.tree.leaves(jax.eval_shape(start)))


encodings: Registry[Encoding] = Registry("encoding")
