"""Run a study: what its folder lacks, on an engine."""

from __future__ import annotations

from concurrent.futures import Executor
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from farfield._checks import checked_out
from farfield.engine.open import open_engine
from farfield.engine.progress import Progress
from farfield.engine.scheduler import Failure, RunSummary, complete
from farfield.errors import FarfieldError
from farfield.store.store import StoreWriter
from farfield.study import record
from farfield.study.record import Record
from farfield.study.study import Study


@dataclass(frozen=True)
class StudyRun:
    """A run of a study.

    Attributes:
        folder: of its results.
        budget: name of the budget, None for the study's own settings.
        outcome: what became of its cells.
    """

    study: Study
    budget: str | None
    folder: Path
    outcome: RunSummary

    def summary(self) -> str:
        """The outcome in a sentence."""
        outcome = self.outcome
        finished = outcome.total - len(outcome.failures)
        parts = [f"{finished} of {outcome.total} cells finished, {outcome.stored} of them before"]
        if outcome.failures:
            parts.append(f"{len(outcome.failures)} failed")
        if outcome.diverged:
            parts.append(f"{len(outcome.diverged)} diverged (kept as such)")
        return "; ".join(parts) + "."

    def to_json(self) -> dict[str, Any]:
        """The outcome as one JSON-able object."""
        outcome = self.outcome
        return {
            "study": self.study.name,
            "budget": self.budget,
            "folder": str(self.folder),
            "total": outcome.total,
            "finished": outcome.total - len(outcome.failures),
            "stored": outcome.stored,
            "failed": [{"identity": failure.cell.identity, "reason": failure.reason} for failure in outcome.failures],
            "diverged": [cell.identity for cell in outcome.diverged],
        }


def run(
    study: Study,
    out: Path | str | None = None,
    *,
    budget: str | None = None,
    engine: str = "local",
    workers: int | None = None,
    address: str | None = None,
    executor: Executor | None = None,
    progress: Progress | None = None,
    command: str | None = None,
) -> StudyRun:
    """Train and test the cells that ``out`` lacks; what is there is not run again, what failed before is.

    Args:
        out: folder of results, made if it is missing; ``farfield-results/NAME``, or ``NAME-BUDGET``, if None.
        budget: one of the study's.
        engine, workers, address, executor: where, see :func:`farfield.engine.open.open_engine`.
        progress: told as cells finish.
        command: that runs the study again, for the report to show.

    Raises:
        FarfieldError: for a budget that the study lacks, a folder that cannot be written, an engine that is not there.
    """
    cells = study.cells(budget)
    if command is not None and not isinstance(command, str):
        raise FarfieldError(f"command = {command!r} must be the text of a command")
    default = Path("farfield-results") / "-".join(filter(None, (study.name, budget)))
    folder = default if out is None else checked_out(out)
    with open_engine(engine, workers=workers, address=address, executor=executor) as on:
        store = StoreWriter(folder)
        record.write(folder, Record(study, budget, command), [cell.identity for cell in cells])
        finished = store.finished()
        stored = {cell for cell in cells if cell.identity in finished}

        def lose(failure: Failure) -> None:
            store.write_failure(failure.cell, failure.reason)

        outcome = complete(cells, stored, store, on, progress, lose=lose)
    return StudyRun(study, budget, folder, outcome)
