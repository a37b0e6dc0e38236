"""Training under way, kept so that a long one goes on after a stop: one safetensors file a model, replaced at once."""

from __future__ import annotations

import os
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import jax
import numpy as np
from safetensors import SafetensorError
from safetensors.numpy import load, save

from farfield.studies.cells import Cell

if TYPE_CHECKING:
    from farfield.studies.programs import Trained

STEP = "step"


@dataclass(frozen=True)
class Checkpoints:
    """Checkpoints beside a store's cells, in ``checkpoints/``, named by what was trained and not by its tests.

    Attributes:
        folder: the store's. Where it does not exist (a worker elsewhere), nothing is kept and nothing found.
    """

    folder: Path

    def load(self, cell: Cell, like: Trained) -> tuple[int, Trained] | None:
        """Step and state; None if there are none, or not in this shape."""
        try:
            arrays = load(self._file(cell).read_bytes())
            step = int(arrays[STEP])
            snapshots = sum(1 for kept in cell.snapshots if kept <= step)
            like = like._replace(snapshots=like.snapshots[:snapshots])
            leaves, structure = jax.tree.flatten(like)
            found = [arrays[str(index)] for index in range(len(leaves))]
        except (OSError, KeyError, SafetensorError):
            return None
        if any(one.shape != other.shape or one.dtype != other.dtype for one, other in zip(found, leaves, strict=True)):
            return None
        return step, jax.tree.unflatten(structure, found)

    def save(self, cell: Cell, step: int, state: Trained) -> None:
        """Write it under a temporary name, flush, rename. A full disk costs the checkpoint, not the training."""
        arrays: dict[str, Any] = {str(index): np.asarray(leaf) for index, leaf in enumerate(jax.tree.leaves(state))}
        path = self._file(cell)
        temporary = path.with_name(f"{path.name}.{os.getpid()}.writing")
        try:
            if self.folder.is_dir():
                path.parent.mkdir(exist_ok=True)
                with temporary.open("wb") as file:
                    file.write(save({STEP: np.array(step), **arrays}))
                    file.flush()
                    os.fsync(file.fileno())
                temporary.replace(path)
        except OSError:
            temporary.unlink(missing_ok=True)

    def remove(self, cells: Iterable[Cell]) -> None:
        """Forget trainings that are finished."""
        for cell in cells:
            self._file(cell).unlink(missing_ok=True)

    def _file(self, cell: Cell) -> Path:
        from farfield.studies.programs import as_trained

        return self.folder / "checkpoints" / f"{as_trained(cell).identity}.safetensors"
