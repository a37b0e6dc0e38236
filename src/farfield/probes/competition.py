"""How often the target is outcompeted: the share of sequences in which another key's logit reaches its own.

Tokens are independent and uniform, so the logits of a row are independent given the query's token, and the share of
sequences in which the target stays ahead is a product over the other places. Two laws, to set beside the decay law of
the peak height (:mod:`farfield.probes.dilution`):

* *exact*, for a head whose logits belong to pairs of tokens. With query token a, target token b, and F_j(. | a) the
  distribution of the logit at place j over the token there::

      selected(L) = mean over a, b of  product over j of  F_j(z_target(a, b) | a)

* *by kernel*, from a head's mean logit phi_j at every place, and the spread of single logits about it. With logits
  z_j ~ N(phi_j, spread_j^2)::

      selected(L) = E over z of  product over j of  Phi((z - phi_j) / spread_j),     z ~ N(phi_target, spread_target^2)

  It needs no table of tokens, so that a head of any model can be asked; the spread may come from short rows. The
  query's own place has a mean and a spread of its own, because the token there is the query's.

Not a law: counting keys alone, as if all far keys were drawn from what short rows show. The kernel of a rotary head
rises again at offsets that training never met, and it is those that beat the target (docs/reproduction.md has numbers).
Source: this project.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from jaxtyping import Float
from scipy import stats

# Nodes of the Gauss-Hermite quadrature over the target's logit.
NODES = 40
# Keeps a logit that is always the same from being divided by zero.
LEAST_SPREAD = 1e-9
# Comparisons of logits held at once.
MOST_COMPARISONS = 2**24


class Kernel(NamedTuple):
    """A row of logits in short.

    Attributes:
        mean: mean logit of each place, the query's own last.
        spread: standard deviation of single logits about it.
    """

    mean: Float[np.ndarray, " place"]
    spread: Float[np.ndarray, " place"]

    def selected(self, target: int) -> float:
        """Expected share of sequences in which the target's logit is the largest, by the law of kernel and spread."""
        nodes, shares = np.polynomial.hermite_e.hermegauss(NODES)
        wanted = self.mean[target] + self.spread[target] * nodes
        others = np.arange(len(self.mean)) != target
        spread = np.maximum(self.spread[others], LEAST_SPREAD)
        ahead = stats.norm.logcdf((wanted[:, None] - self.mean[others]) / spread).sum(axis=1)
        return float((np.exp(ahead) * shares).sum() / shares.sum())


def kernel_of(logits: Float[np.ndarray, "query place key"], short: Float[np.ndarray, "query place_ key"]) -> Kernel:
    """Mean logits of a row, with the spread of a short one.

    Args:
        logits: of every query token, key place and key token, the query's own place last.
        short: the same for a row within the trained lengths: it gives one spread for the query's own place, and one
            for all others.
    """
    own = np.diagonal(short[:, -1])
    mean = np.append(logits[:, :-1].mean(axis=(0, 2)), np.diagonal(logits[:, -1]).mean())
    around = short[:, :-1].std(axis=2).mean() if short.shape[1] > 1 else own.std()
    return Kernel(mean, np.append(np.full(len(mean) - 1, around), own.std()))


def exactly_selected(logits: Float[np.ndarray, "query place key"], target: int) -> float:
    """Expected share of sequences in which the target's logit is larger than every other, exactly.

    Args:
        logits: of every query token, key place and key token; the query's own place is last, and holds its token.
        target: place of the target.
    """
    tokens, places, _ = logits.shape
    own = np.diagonal(logits[:, -1])[:, None]  # [query token, 1]
    at_own = target == places - 1
    wanted = own if at_own else logits[:, target]  # [query token, target token]
    ahead = np.ones(wanted.shape) if at_own else (own < wanted).astype(float)
    others = [place for place in range(places - 1) if place != target]
    step = max(1, MOST_COMPARISONS // (wanted.size * tokens))
    for start in range(0, len(others), step):
        block = logits[:, None, others[start : start + step], :]  # [query, 1, place, key]
        ahead *= (block < wanted[:, :, None, None]).mean(axis=-1).prod(axis=-1)
    return float(ahead.mean())
