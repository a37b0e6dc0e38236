"""ALiBi: a penalty that grows linearly with distance."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import jax.numpy as jnp
from jaxtyping import Array, Float

from farfield._types import Key, Positions, PyTree
from farfield.encodings.base import Encoding, HeadContent, encodings
from farfield.encodings.parts import LARGEST, offsets, precise, require_real
from farfield.errors import unknown
from farfield.registry import traced

# Tells "slope left out" from every number that a user can write; never a field's value after construction.
LEFT_OUT: Any = object()


def geometric(heads: int) -> tuple[float, ...]:
    """2**(-8 (i + 1) / heads) in head i, as the paper's text says for any number of heads; its code does otherwise."""
    return tuple(2.0 ** (-8 * (head + 1) / heads) for head in range(heads))


def reference(heads: int) -> tuple[float, ...]:
    """The paper's published code, which BLOOM, Falcon and, written in another way, MPT follow.

    Where ``heads`` is no power of two, the slopes of the power below it are followed by every other slope of
    the power above: 3 heads get [1/16, 1/256, 1/4].
    """
    below = 2 ** (heads.bit_length() - 1)
    return geometric(below) + geometric(2 * below)[0::2][: heads - below]


def zero_based(heads: int) -> tuple[float, ...]:
    """2**(-8 i / heads) in head i, so that the first head has slope 1: a slip by one that was met in use."""
    return tuple(2.0 ** (-8 * head / heads) for head in range(heads))


def same(heads: int) -> tuple[float, ...]:
    """1 in every head."""
    return (1.0,) * heads


RULES: dict[str, Callable[[int], tuple[float, ...]]] = {
    "reference": reference,
    "geometric": geometric,
    "zero-based": zero_based,
    "same": same,
}


@encodings.register("alibi")
@dataclass(frozen=True)
class Alibi(Encoding):
    """ALiBi: subtract m_h (n - t) from the logit of a query at n and a key at t; every head h has a slope m_h.

    ``alibi`` alone takes the slopes of the paper's code; one head gets 2**-8. ``alibi:slope=1`` gives every head
    the slope 1, ``alibi:slope=-1`` rewards distance, ``alibi:learned=true`` trains the slopes from the rule's.
    Source: Press et al., arXiv 2108.12409, section 3. Its text and its code differ where the number of heads is
    no power of two, and projects have followed either (mlx issue 343): name the rule you mean.

    Attributes:
        slope: in logits per position. Under a named rule other than ``same`` it multiplies the rule's slopes.
        rule: ``reference``, ``geometric`` (2**(-8(i+1)/heads) for any number of heads), ``zero-based``
            (2**(-8i/heads)), or ``same`` (every head the slope itself). Left out: ``same`` where a slope is given,
            else ``reference``.
        learned: train the slope of each head, of either sign, from this start.
        symmetric: use |n - t|, so that keys after the query are distant too (bidirectional attention).
            Otherwise their bias has the other sign, which the causal mask hides.
        before_scaling: divide the bias by sqrt(d) as the dot product is, as Falcon does; the paper and BLOOM add
            it after. (T5 never divides by sqrt(d), so there the question does not arise.)
    """

    slope: float = traced(LEFT_OUT)
    rule: str = ""
    learned: bool = False
    symmetric: bool = False
    before_scaling: bool = False

    def __post_init__(self) -> None:
        given = self.slope is not LEFT_OUT
        if not self.rule:
            object.__setattr__(self, "rule", "same" if given else "reference")
        if not given:
            object.__setattr__(self, "slope", 1.0)

    def check(self, width: int, longest: int) -> None:
        if self.rule not in RULES:
            raise unknown("alibi:rule", self.rule, RULES)
        require_real("alibi:slope", self.slope, -LARGEST, LARGEST)

    def of_head(self, index: int, heads: int) -> Alibi:
        return replace(self, slope=self.slope * RULES[self.rule](heads)[index], rule="same")

    def initialize_head(self, key: Key, width: int) -> PyTree:
        return {"slope": jnp.asarray(self._slope, float)} if self.learned else {}

    @property
    def _slope(self) -> Any:
        """Of the only head there is, where :meth:`of_head` has not been asked."""
        return self.slope * RULES[self.rule](1)[0]

    def bias(
        self, parameters: PyTree, query_positions: Positions, key_positions: Positions, content: HeadContent
    ) -> Float[Array, "query key"]:
        dtype = precise(content.query.dtype)
        offset = offsets(query_positions, key_positions).astype(dtype)
        slope = jnp.asarray(parameters["slope"] if self.learned else self._slope, dtype)
        if self.before_scaling:
            slope = slope / math.sqrt(content.query.shape[-1])
        bias = slope * (-jnp.abs(offset) if self.symmetric else offset)
        return bias.astype(content.query.dtype)
