"""Feature maps Phi(n, j): what a positional kernel w can say about a query at n and a key at j, <w, Phi(n, j)>.

A map is one of five kinds, by what it reads: the offset n - j, the key, a cell of a table (one-hot), the product of a
vector of the query and one of the key, or any function of the two. Positions are whole or real numbers, as position
regimes give them. No map ever holds features of all pairs: relative ones are a table over offsets, and one-hot cells
are numbers.
"""

from __future__ import annotations

import abc
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Any, Literal

import numpy as np
from jaxtyping import Float, Int, Real

from farfield.errors import FarfieldError

Reads = Literal["offset", "key", "pair"]
Position = Real[np.ndarray, "..."]
# Numbers pairs of positions without overlap; position regimes stop below it.
FARTHEST = 2**25
# Entries of an array of features that are held at a time.
HELD = 2**22


@dataclass(frozen=True)
class FeatureMap(abc.ABC):
    """Phi(n, j) in R^size.

    Attributes:
        reads: what features depend on.
        one_signed: whether kernels have no negative coordinate, as where the encoding's own sign is fixed.
        note: what the linear kernel leaves out of the encoding, in words; empty where it leaves out nothing.
    """

    reads: Reads = field(default="pair", kw_only=True)
    one_signed: bool = field(default=False, kw_only=True)
    note: str = field(default="", kw_only=True)

    @property
    @abc.abstractmethod
    def size(self) -> int:
        """How many features there are."""

    @abc.abstractmethod
    def features(self, query: Position, key: Position) -> Float[np.ndarray, "... size"]:
        """Phi at pairs of positions, which broadcast against each other."""

    def cells(self, query: Position, key: Position) -> Int[np.ndarray, "..."] | None:
        """Numbers that are equal only where features are; None where positions are not whole numbers."""
        query, key = np.broadcast_arrays(query, key)
        if not _whole(query, key):
            return None
        of_key = key.astype(np.int64)
        if self.reads == "key":
            return np.asarray(of_key)
        of_query = query.astype(np.int64)
        return np.asarray(of_query - of_key if self.reads == "offset" else of_query * FARTHEST + of_key)

    def differences(
        self, query: Real[np.ndarray, " case"], winner: Real[np.ndarray, " case"], loser: Real[np.ndarray, " case"]
    ) -> Float[np.ndarray, "case columns"]:
        """Phi(query, winner) - Phi(query, loser). Columns past :attr:`size` are features that w does not hold yet."""
        return self.features(query, winner) - self.features(query, loser)

    def scores(
        self, kernel: Float[np.ndarray, " size"], query: Real[np.ndarray, " row"], keys: Position
    ) -> Float[np.ndarray, "row key"]:
        """<w, Phi> of each query with its keys.

        Args:
            keys: one row for all queries, or a row for each.
        """
        keys = np.broadcast_to(keys, (len(query), keys.shape[-1]))
        rows = max(1, HELD // max(1, keys.shape[-1] * self.size))
        parts = [
            self.features(query[start : start + rows, None], keys[start : start + rows]) @ kernel
            for start in range(0, len(query), rows)
        ]
        return np.concatenate(parts) if parts else np.zeros((0, keys.shape[-1]))

    def distances(self, query: Any, winner: Any, losers: Real[np.ndarray, " loser"]) -> Float[np.ndarray, " loser"]:
        """||Phi(query, winner) - Phi(query, loser)|| of one query and winner."""
        shape = losers.shape
        return np.linalg.norm(self.differences(np.full(shape, query), np.full(shape, winner), losers), axis=1)

    def energy(
        self, basis: Float[np.ndarray, "size rank"], query: Any, keys: Real[np.ndarray, " key"]
    ) -> tuple[Float[np.ndarray, " key"], Float[np.ndarray, " key"]]:
        """||Phi||**2 of a query with each key, and that of its part in the span of an orthonormal basis."""
        features = self.features(np.full(keys.shape, query), keys)
        return np.square(features).sum(axis=1), np.square(features @ basis).sum(axis=1)

    def spectrum_rank(self, positions: int) -> bool:
        """Whether features of all different cells up to so many positions are linearly independent, by an argument."""
        del positions
        return False


@dataclass(frozen=True)
class OneNumber(FeatureMap):
    """Features of one number: the offset n - j, or the key's position, as :attr:`reads` says.

    Attributes:
        of: features of an array of numbers, shape ``[..., size]``.
        width: how many.
        frequencies: where features are cosines and sines of multiples of these, in radians a position; else empty.
    """

    of: Callable[[Position], Float[np.ndarray, "... size"]]
    width: int
    frequencies: tuple[float, ...] = ()

    @property
    def size(self) -> int:
        return self.width

    def features(self, query: Position, key: Position) -> Float[np.ndarray, "... size"]:
        query, key = np.broadcast_arrays(query, key)
        return self.of(key if self.reads == "key" else query - key)

    def scores(
        self, kernel: Float[np.ndarray, " size"], query: Real[np.ndarray, " row"], keys: Position
    ) -> Float[np.ndarray, "row key"]:
        keys = np.broadcast_to(keys, (len(query), keys.shape[-1]))
        read = keys if self.reads == "key" else query[:, None] - keys
        if not _whole(read) or not read.size:
            return super().scores(kernel, query, keys)
        least = int(read.min())
        profile = self.of(np.arange(least, int(read.max()) + 1)) @ kernel
        return profile[read - least]

    def spectrum_rank(self, positions: int) -> bool:
        return independent(self.frequencies, positions)


@dataclass(frozen=True)
class OneHot(FeatureMap):
    """A table with one entry a cell: Phi is the one-hot vector of the pair's cell.

    Attributes:
        cell: the cell's number for a query and a key position.
        support: numbers of the cells that the kernel holds, rising. Others count as entries of 0. None are given
            where there are as many as the grid has; those that it trains are then held.
    """

    cell: Callable[[Position, Position], Int[np.ndarray, "..."]]
    support: Int[np.ndarray, " size"] = field(default_factory=lambda: np.zeros(0, np.int64))

    @property
    def size(self) -> int:
        return len(self.support)

    def cells(self, query: Position, key: Position) -> Int[np.ndarray, "..."]:
        if not _whole(query, key):
            raise FarfieldError(
                "a table has no entry for a position between whole numbers, and what it reads in between is no "
                "one-hot vector: predict with positions such as fixed, clamp or rescale"
            )
        return np.asarray(self.cell(*np.broadcast_arrays(query, key)))

    def features(self, query: Position, key: Position) -> Float[np.ndarray, "... size"]:
        index, known = self._index(self.cells(query, key))
        return ((index[..., None] == np.arange(self.size)) & known[..., None]).astype(float)

    def differences(
        self, query: Real[np.ndarray, " case"], winner: Real[np.ndarray, " case"], loser: Real[np.ndarray, " case"]
    ) -> Float[np.ndarray, "case columns"]:
        pair = np.stack([self.cells(query, winner), self.cells(query, loser)])
        index, known = self._index(pair)
        new, of_new = np.unique(pair[~known], return_inverse=True)
        index[~known] = self.size + of_new
        matrix = np.zeros((len(query), self.size + len(new)))
        rows = np.arange(len(query))
        np.add.at(matrix, (rows, index[0]), 1.0)
        np.add.at(matrix, (rows, index[1]), -1.0)
        return matrix

    def scores(
        self, kernel: Float[np.ndarray, " size"], query: Real[np.ndarray, " row"], keys: Position
    ) -> Float[np.ndarray, "row key"]:
        index, known = self._index(self.cells(query[:, None], np.broadcast_to(keys, (len(query), keys.shape[-1]))))
        if not self.size:
            return np.zeros(index.shape)
        return np.where(known, kernel[index], 0.0)

    def distances(self, query: Any, winner: Any, losers: Real[np.ndarray, " loser"]) -> Float[np.ndarray, " loser"]:
        pair = self.cells(np.asarray(query), np.asarray(winner)), self.cells(np.asarray(query), losers)
        return np.where(pair[0] == pair[1], 0.0, np.sqrt(2.0))

    def holding(self, cells: Int[np.ndarray, "..."]) -> OneHot:
        """The same map with the entries of ``cells`` as its kernel's coordinates."""
        return replace(self, support=np.unique(cells))

    def _index(self, cells: Int[np.ndarray, "..."]) -> tuple[Int[np.ndarray, "..."], np.ndarray]:
        if not self.size:
            return np.zeros(cells.shape, np.int64), np.zeros(cells.shape, bool)
        index = np.minimum(np.searchsorted(self.support, cells), self.size - 1)
        return index, self.support[index] == cells

    def spectrum_rank(self, positions: int) -> bool:
        return True


@dataclass(frozen=True)
class Product(FeatureMap):
    """phi(n) (x) phi(j): a matrix W between a vector of the query's position and one of the key's.

    Attributes:
        of: phi of an array of positions, shape ``[..., width]``.
        width: d; the kernel has d**2 entries, W row by row.
        frequencies: as in :class:`OneNumber`, where phi is of that form.
    """

    of: Callable[[Position], Float[np.ndarray, "... width"]]
    width: int
    frequencies: tuple[float, ...] = ()

    @property
    def size(self) -> int:
        return self.width**2

    def features(self, query: Position, key: Position) -> Float[np.ndarray, "... size"]:
        return self._product(self.of(np.asarray(query)), self.of(np.asarray(key)))

    def _product(self, left: np.ndarray, right: np.ndarray) -> np.ndarray:
        product = left[..., :, None] * right[..., None, :]
        return product.reshape(*product.shape[:-2], self.size)

    def differences(
        self, query: Real[np.ndarray, " case"], winner: Real[np.ndarray, " case"], loser: Real[np.ndarray, " case"]
    ) -> Float[np.ndarray, "case columns"]:
        return self._product(self.of(query), self.of(winner) - self.of(loser))

    def distances(self, query: Any, winner: Any, losers: Real[np.ndarray, " loser"]) -> Float[np.ndarray, " loser"]:
        apart = np.linalg.norm(self.of(np.asarray(winner)) - self.of(losers), axis=1)
        return float(np.linalg.norm(self.of(np.asarray(query)))) * apart

    def energy(
        self, basis: Float[np.ndarray, "size rank"], query: Any, keys: Real[np.ndarray, " key"]
    ) -> tuple[Float[np.ndarray, " key"], Float[np.ndarray, " key"]]:
        left, right = self.of(np.asarray(query)), self.of(keys)
        met = np.tensordot(left, basis.reshape(self.width, self.width, -1), axes=1)
        return float(left @ left) * np.square(right).sum(axis=1), np.square(right @ met).sum(axis=1)

    def scores(
        self, kernel: Float[np.ndarray, " size"], query: Real[np.ndarray, " row"], keys: Position
    ) -> Float[np.ndarray, "row key"]:
        met = self.of(query) @ kernel.reshape(self.width, self.width)
        if keys.ndim == 1:
            return met @ self.of(keys).T
        return np.einsum("rd,rkd->rk", met, self.of(keys))

    def spectrum_rank(self, positions: int) -> bool:
        return independent(self.frequencies, positions)


@dataclass(frozen=True)
class Pairs(FeatureMap):
    """Features of the query's and the key's position by any function of the two.

    Attributes:
        of: features of arrays of equal shape, ``[..., size]``.
        width: how many.
    """

    of: Callable[[Position, Position], Float[np.ndarray, "... size"]]
    width: int

    @property
    def size(self) -> int:
        return self.width

    def features(self, query: Position, key: Position) -> Float[np.ndarray, "... size"]:
        return self.of(*np.broadcast_arrays(query, key))


def independent(frequencies: tuple[float, ...], positions: int) -> bool:
    """Whether cosines and sines of these frequencies are linearly independent on 0 .. positions - 1, in exact numbers.

    They are combinations of exp(i x t) at the different nodes x = +-theta: with as many nodes as positions or more,
    any ``positions`` of them form a Vandermonde matrix, which is regular, so every function on the positions is a
    combination. A frequency of 0 has the one node 0. True says that every profile *exists*; its norm may be beyond
    any float.
    """
    nodes = {float(x) for x in frequencies if 0 <= x < np.pi}
    return len(nodes) + len(nodes - {0.0}) >= positions


def _whole(*positions: Any) -> bool:
    return all(np.issubdtype(np.asarray(part).dtype, np.integer) for part in positions)
