"""Training under way, kept so that a long one goes on after a stop."""

from __future__ import annotations

import contextlib
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from safetensors import SafetensorError
from safetensors.numpy import load, save

from farfield.store import files
from farfield.store.cell_file import TENSORS, file_name, hash_of

# Who looks through a store does not wait for jax.
if TYPE_CHECKING:
    from farfield.cell import Cell
    from farfield.training import Trained

FOLDER = "checkpoints"
CELL, STEP = "cell", "step"


@dataclass(frozen=True)
class Checkpoints:
    """Checkpoints beside a store's cells, in ``checkpoints/``, named by what was trained and by their content.

    Attributes:
        folder: the store's. Where it does not exist (a worker elsewhere), nothing is kept and nothing found.
    """

    folder: Path

    def load(self, cell: Cell, like: Trained) -> tuple[int, Trained] | None:
        """Step and state of the latest one that is whole and of this shape; None if there is none."""
        found = [read for path in self._files(cell) if (read := _read(path, cell, like)) is not None]
        return max(found, key=lambda read: read[0], default=None)

    def save(self, cell: Cell, step: int, state: Trained) -> None:
        """Write it, then remove those before it. A full disk costs the checkpoint, not the training."""
        import jax

        if not self.folder.is_dir():
            return
        arrays: dict[str, Any] = {str(index): np.asarray(leaf) for index, leaf in enumerate(jax.tree.leaves(state))}
        content = save({CELL: _bytes(_name(cell)), STEP: np.array(step, np.int64), **arrays})
        path = self._place / file_name(_name(cell), hash_of(content), "safetensors")
        with contextlib.suppress(OSError):
            self._place.mkdir(exist_ok=True)
            earlier = self._files(cell)
            files.write_atomically(path, lambda temporary: temporary.write_bytes(content))
            for other in earlier:
                if other != path:
                    other.unlink(missing_ok=True)

    def remove(self, cells: Iterable[Cell]) -> None:
        """Forget trainings that are finished."""
        if not self._place.exists():
            return
        with contextlib.suppress(OSError):  # what cannot be removed does no harm
            for name in {_name(cell) for cell in cells}:
                for path in self._place.glob(f"{name}-*.safetensors"):
                    path.unlink(missing_ok=True)
            self._place.rmdir()  # unless another is under way

    @property
    def _place(self) -> Path:
        return self.folder / FOLDER

    def _files(self, cell: Cell) -> list[Path]:
        return sorted(self._place.glob(f"{_name(cell)}-*.safetensors"))


def leftovers(folder: Path) -> list[Path]:
    """Everything in a store's folder of checkpoints."""
    return sorted((folder / FOLDER).glob("*"))


def whole(path: Path) -> bool:
    """Whether a checkpoint holds what was written; OSError if it is gone."""
    match = TENSORS.fullmatch(path.name)
    return match is not None and hash_of(path.read_bytes()).startswith(match[2])


def _read(path: Path, cell: Cell, like: Trained) -> tuple[int, Trained] | None:
    """What a checkpoint holds, if it is whole and a state of this cell's training."""
    import jax

    try:
        content = path.read_bytes()
        if file_name(_name(cell), hash_of(content), "safetensors") != path.name:
            return None
        arrays = load(content)
        if not np.array_equal(arrays.pop(CELL), _bytes(_name(cell))):  # renamed
            return None
        step = int(arrays.pop(STEP))
    except (OSError, KeyError, TypeError, ValueError, SafetensorError):
        return None
    like = like._replace(snapshots=like.snapshots[: sum(kept <= step for kept in cell.snapshots)])
    leaves, structure = jax.tree.flatten(like)
    expected = {str(index): (leaf.shape, leaf.dtype) for index, leaf in enumerate(leaves)}
    if not 0 < step < cell.steps or {name: (array.shape, array.dtype) for name, array in arrays.items()} != expected:
        return None
    return step, jax.tree.unflatten(structure, [arrays[str(index)] for index in range(len(leaves))])


def _bytes(text: str) -> np.ndarray:
    return np.frombuffer(text.encode(), np.uint8)


def _name(cell: Cell) -> str:
    return cell.as_trained().identity
