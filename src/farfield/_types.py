"""Type aliases, in one place.

Axis names used in annotations throughout the package:

* ``position``: place in a sequence, 0-based; ``sequence``: one row of a batch;
* ``vocabulary``: token identities (as inputs) or classes (as outputs);
* ``width``: the dimension d of a model or a head; ``length``: one entry of a list of test lengths;
* ``query``, ``key``: rows and columns of attention; ``head``: one attention head.

Batches are stored position-major, ``tokens[position, sequence]``: the arithmetic of a small head is
elementwise over sequences, and sequences on the last axis are what vector instructions want.
"""

from typing import Any

from jaxtyping import Array, Float, Int, PRNGKeyArray, Real

Key = PRNGKeyArray
PyTree = Any
Scalar = Float[Array, ""]
Tokens = Int[Array, "position sequence"]
# Whole numbers; real ones where a regime interpolates between trained positions.
Positions = Real[Array, "..."]
