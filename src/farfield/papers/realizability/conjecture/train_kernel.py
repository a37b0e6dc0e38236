"""Trained positional kernels: scores <w, Phi(n, j)>, from w = 0, by gradients of the cross-entropy of t_n, in batches.

Cases of one shape train together, the number of the case last, so that every operation is on long rows. Constraint i
of a case is one trained row with one key j besides its target, d_i = Phi(n, t_n) - Phi(n, j). Row n has n such keys,
so constraints of a row stand in the same place in every case.

Three ways of training are compared with the selected kernel w*:

* ``limit``: gradient steps divided by the loss, with momentum (Ji, Srebro and Telgarsky, arXiv 2107.00595), which
  reach the limit direction of gradient descent, that of w* (Soudry et al., arXiv 1710.10345), after thousands of steps
  where steps of a fixed size take exponentially many.
* ``descent``: gradient descent with steps of a fixed size, stopped after a number of steps as training is.
* ``adam``: the same with Adam (b1 = .9, b2 = .999, eps = 1e-8), whose limit without eps is another one, the kernel of
  the largest margin in units of its largest coordinate (Zhang, Zou and Cao, arXiv 2406.10650).
"""

from __future__ import annotations

import functools
from typing import Any, Literal, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Bool, Float, Int

Way = Literal["limit", "descent", "adam"]
WAYS: tuple[Way, ...] = ("limit", "descent", "adam")

ADAM_RATE = 0.02
ADAM_B1, ADAM_B2, ADAM_EPS = 0.9, 0.999, 1e-8
# e**50 beside 1 is all that a row's loss can tell.
SATURATED = 50.0


class Constraints(NamedTuple):
    """Constraints of one case.

    Attributes:
        slots: place of each constraint among those of all rows, n (n - 1) / 2 + the key's place among row n's rivals.
        matrix: d_i.
    """

    slots: Int[np.ndarray, " constraint"]
    matrix: Float[np.ndarray, "constraint feature"]


def slots_of(rows: Int[np.ndarray, " case"]) -> Int[np.ndarray, " case"]:
    """Slots of constraints given in order of their rows n, each row with all its n rivals."""
    _, first = np.unique(rows, return_index=True)
    starts = np.zeros(len(rows), np.int64)
    starts[first] = first
    return rows * (rows - 1) // 2 + np.arange(len(rows)) - np.maximum.accumulate(starts)


def train(
    problems: list[Constraints], way: Way, steps: int, *, length: int, size: int, batch: int
) -> list[Float[np.ndarray, " feature"]]:
    """Kernels of up to ``batch`` cases after so many steps from 0.

    Args:
        length: rows of the longest trained grid, the last n plus 1.
        size: features of the largest map.
        batch: cases that the program is compiled for.
    """
    matrix = np.zeros((length * (length - 1) // 2, size, batch))
    present = np.zeros((len(matrix), batch), bool)
    present[0] = True  # cases that fill the batch up, without effect on others
    for case, problem in enumerate(problems):
        present[:, case] = False
        present[problem.slots, case] = True
        matrix[problem.slots, : problem.matrix.shape[1], case] = problem.matrix
    with jax.enable_x64(True):
        kernels = np.asarray(_train(matrix, present, np.asarray(steps), way=way, length=length))
    return [kernels[: problem.matrix.shape[1], case] for case, problem in enumerate(problems)]


class _Start(NamedTuple):
    """What a batch trains from.

    Attributes:
        matrix: d_i over the longest of its case, 0 where not present.
        radius: that length, 1 where all are 0.
        rows: asked rows of a case.
    """

    matrix: Any
    present: Any
    radius: Any
    rows: Any
    member: Any


@functools.partial(jax.jit, static_argnames=("way", "length"))
def _train(matrix: Any, present: Bool[Any, "slot case"], steps: Any, *, way: Way, length: int) -> Any:
    row = np.repeat(np.arange(length - 1), np.arange(1, length))  # of each slot, counted from n = 1
    radius = jnp.sqrt(jnp.square(matrix).sum(1).max(0))
    radius = jnp.where(radius > 0, radius, 1.0)
    member = jnp.asarray((row == np.arange(length - 1)[:, None]).astype(float))
    asked = (member @ present.astype(float) > 0).sum(0)
    start = _Start(matrix / radius[None, None], present, radius, asked, member)
    one = {"limit": _limit_step, "descent": _descent_step, "adam": _adam_step}[way]
    zero = jnp.zeros(matrix.shape[1:])
    state = jax.lax.fori_loop(0, steps, lambda step, state: one(start, row, step, state), (zero, zero, zero))
    return state[0] / radius[None]


def _gradient(start: _Start, row: np.ndarray, kernel: Any) -> tuple[Any, Any]:
    """Minus the gradient of the summed loss, sum q_i d_i in units of e**shift; then the q_i, and the shift.

    q_i = e**-m_i / (1 + the sum of these over its row), with m_i = <w, d_i>; ``shift`` is the largest -m_i.
    """
    negative = jnp.where(start.present, -(start.matrix * kernel[None]).sum(1), -jnp.inf)
    shift = negative.max(0)
    share = jnp.exp(negative - shift[None])
    weight = share / (1 + jnp.exp(jnp.minimum(shift, SATURATED))[None] * (start.member @ share))[row]
    return (start.matrix * weight[:, None]).sum(0), (weight, shift)


def _limit_step(start: _Start, row: np.ndarray, step: Any, state: Any) -> Any:
    kernel, momentum, unused = state
    gradient, (weight, _) = _gradient(start, row, kernel)
    gradient = gradient / weight.sum(0)[None]
    momentum = step / (step + 1.0) * (momentum + gradient)
    return kernel + momentum + gradient, momentum, unused


def _descent_step(start: _Start, row: np.ndarray, step: Any, state: Any) -> Any:
    # Kernels are in units of 1 / radius, where the mean loss has a smoothness of at most 1: so steps of 1.
    kernel, *unused = state
    gradient, (_, shift) = _gradient(start, row, kernel)
    return kernel + gradient * jnp.exp(jnp.minimum(shift, SATURATED))[None] / start.rows[None], *unused


def _adam_step(start: _Start, row: np.ndarray, step: Any, state: Any) -> Any:
    kernel, mean, square = state
    gradient, (_, shift) = _gradient(start, row, kernel)
    gradient = gradient * jnp.exp(jnp.minimum(shift, SATURATED))[None] / start.rows[None]
    mean = ADAM_B1 * mean + (1 - ADAM_B1) * gradient
    square = ADAM_B2 * square + (1 - ADAM_B2) * gradient**2
    ahead = (mean / (1 - ADAM_B1 ** (step + 1.0))) / (jnp.sqrt(square / (1 - ADAM_B2 ** (step + 1.0))) + ADAM_EPS)
    return kernel + ADAM_RATE * ahead, mean, square
