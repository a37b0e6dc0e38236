"""What a study will do before it does it: cells, programs to compile, and estimates of time and memory.

The estimates rest on a measurement on this machine: the programs that most of the work falls to are compiled and run
for a moment, each a few steps and one test, until the seconds allowed are spent. The others are taken to need as much,
in proportion to the attention weights that they form. Compiling is counted one program at a time, training and tests
shared out evenly to the workers.
"""

from __future__ import annotations

import dataclasses
import resource
import sys
import time
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from farfield._checks import checked_out
from farfield.cell import PARTS, Cell
from farfield.encodings import encodings
from farfield.engine.base import cores
from farfield.engine.programs import (
    Chunk,
    chunks,
    evaluation_shape,
    program_key,
    program_of_tests,
    programs_of_training,
    training_key,
)
from farfield.environment import settled
from farfield.errors import FarfieldError
from farfield.models import models
from farfield.store import manifest
from farfield.store.store import StoreWriter, unusable
from farfield.study.study import Study
from farfield.tasks import tasks

# Steps of a training that is measured, and how long its timing goes on.
MEASURED_STEPS = 200
SECONDS_TO_TIME = 0.2
# Attention weights that a measured step or test may form, of one lane.
MOST_MEASURED_WEIGHTS = 2**23


@dataclasses.dataclass(frozen=True)
class Program:
    """Cells of one training program.

    Attributes:
        first: one of its cells.
        cells: how many there are.
        chunks: how many groups of lanes they fill.
        columns: how many times a chunk's lanes are tested, over all chunks.
        tests: cells, one of each of the test programs.
    """

    first: Cell
    cells: int
    chunks: int
    columns: int
    tests: tuple[Cell, ...]

    @property
    def description(self) -> str:
        """Encoding, task, model, lengths and path in words; normalizer and positions where they are not the usual."""
        cell = self.first
        parts = encodings.name_of(cell.encoding), tasks.name_of(cell.task), models.format(cell.model)
        unusual = [
            PARTS[name].format(getattr(cell, name))
            for name in ("normalizer", "positions")
            if getattr(cell, name) != getattr(Cell, name)
        ]
        return ", ".join([" / ".join(parts), *unusual, f"lengths to {cell.longest}", cell.path])


class Measured(NamedTuple):
    """What a program needs on this machine.

    Attributes:
        compiling, compiling_tests: seconds to compile training and a test program.
        step: seconds a training step of all lanes.
        test: seconds a unit of tests of all lanes, :func:`test_units`.
        memory: bytes of a chunk under way, by the compiler's own account; None where it gives none.
    """

    compiling: float
    compiling_tests: float
    step: float
    test: float
    memory: int | None


@dataclasses.dataclass(frozen=True)
class TimeEstimate:
    """How long the missing cells take, and how much memory.

    Attributes:
        seconds: wall time with ``workers``.
        compiling: seconds of it for compilation.
        training, testing: seconds of one core for all steps and tests.
        memory: bytes at most; None where the compiler does not tell.
        workers: chunks at once.
        measured: programs that were measured, of all.
    """

    seconds: float
    compiling: float
    training: float
    testing: float
    memory: int | None
    workers: int
    measured: int


@dataclasses.dataclass(frozen=True)
class Plan:
    """What a study asks for.

    Attributes:
        study: as read.
        budget: by name; None for the study's own settings.
        cells: all of them.
        held: how many a folder of results holds already.
        programs: training programs of the missing cells.
        estimate: None where none was asked for.
    """

    study: Study
    budget: str | None
    cells: int
    held: int
    programs: tuple[Program, ...]
    estimate: TimeEstimate | None

    @property
    def test_programs(self) -> int:
        """Test programs of the missing cells."""
        return sum(len(program.tests) for program in self.programs)

    @property
    def chunks(self) -> int:
        """Groups of cells that train side by side."""
        return sum(program.chunks for program in self.programs)

    def to_json(self) -> dict[str, Any]:
        """The plan as a JSON object."""
        points = self.study.points(self.budget)
        values = {axis: list(dict.fromkeys(point.values[axis] for point in points)) for axis in self.study.axes}
        return {
            "name": self.study.name,
            "question": self.study.question,
            "budget": self.budget,
            "axes": values,
            "configurations": len(points),
            "seeds": [seeds._asdict() for seeds in self.study.seeds_of(self.budget)],
            "cells": self.cells,
            "held": self.held,
            "missing": self.cells - self.held,
            "chunks": self.chunks,
            "training_programs": [
                {"description": program.description, "cells": program.cells, "chunks": program.chunks}
                for program in self.programs
            ],
            "test_programs": self.test_programs,
            "estimate": self.estimate and dataclasses.asdict(self.estimate),
        }


@settled
def plan(
    study: Study,
    budget: str | None = None,
    *,
    out: str | Path | None = None,
    workers: int | None = None,
    seconds: float = 8.0,
) -> Plan:
    """What running a study would do. Nothing is trained but a few steps to measure, nothing is written.

    Args:
        budget: one of the study's.
        out: folder of results; cells that it holds are not counted as work.
        workers: chunks at once, one a core by default.
        seconds: no further program is measured where it would take longer; 0 for no estimate at all.

    Raises:
        FarfieldError: if the study has no such budget, or ``out`` is no folder.
    """
    cells = study.cells(budget)
    missing = cells
    if out is not None:
        folder = checked_out(out)
        manifest.check_owner(folder, study.name)
        missing = _missing(cells, folder)
    programs = _programs(chunks(missing))
    estimated = estimate(programs, workers or cores(), seconds) if programs and seconds > 0 else None
    return Plan(study, budget, len(cells), len(cells) - len(missing), programs, estimated)


def _missing(cells: Sequence[Cell], folder: Path) -> list[Cell]:
    """Cells that a store's folder does not hold whole, one warning a damaged file; one that is not there holds none.

    Raises:
        FarfieldError: for what is no folder, or cannot be one.
    """
    try:
        folder.stat()
    except FileNotFoundError:
        return list(cells)
    except OSError as reason:
        raise unusable(folder, reason) from None
    held = StoreWriter(folder, reading=True).finished()
    return [cell for cell in cells if cell.identity not in held]


def _programs(found: Iterable[Chunk]) -> tuple[Program, ...]:
    groups: dict[Any, list[Chunk]] = {}
    for chunk in found:
        groups.setdefault(training_key(chunk[0][0]), []).append(chunk)
    return tuple(
        Program(
            first=group[0][0][0],
            cells=sum(len(lane) for chunk in group for lane in chunk),
            chunks=len(group),
            columns=sum(len(chunk[0]) for chunk in group),
            tests=tuple({program_key(cell): cell for chunk in group for cell in chunk[0]}.values()),
        )
        for group in groups.values()
    )


def step_weights(cell: Cell) -> int:
    """Attention weights that a training step of one lane forms: what programs are compared by."""
    rows = cell.longest if cell.task.rows == "all" else 1
    return cell.batch * cell.longest * rows * len(cell.model.head_names)


def test_units(cell: Cell) -> float:
    """What the tests of a cell cost, in multiples of one sequence through one block of keys, or of one whole."""
    if not cell.streams:
        return cell.sequences * len(cell.lengths)
    block = evaluation_shape(cell).block
    return cell.sequences * sum(-(-length // block) for length in cell.lengths)


def test_weights(cell: Cell) -> int:
    """Attention weights that one unit of tests forms."""
    if cell.streams:
        return evaluation_shape(cell).block * len(cell.model.head_names)
    longest = max(cell.lengths)
    return longest * (longest if cell.task.rows == "all" else 1) * len(cell.model.head_names)


def estimate(programs: Sequence[Program], workers: int, seconds: float) -> TimeEstimate:
    """Measure the programs with most of the work, until ``seconds`` are spent, and sum up."""
    measured = _measure_some(programs, seconds)
    compiling = training = testing = longest = 0.0
    memory: list[int | None] = []
    for program in programs:
        near = min(measured, key=lambda other: _distance(program.first, other.first))
        found, base, cell = measured[near], near.first, program.first
        step = found.step * step_weights(cell) / step_weights(base) * cell.steps
        tests = np.mean([test_units(test) * test_weights(test) for test in program.tests])
        test = float(found.test * tests / test_weights(base))
        compiling += found.compiling + found.compiling_tests * len(program.tests)
        training += step * program.chunks
        testing += test * program.columns
        longest = max(longest, step + test * program.columns / program.chunks)
        ratio = max(1.0, step_weights(cell) / step_weights(base))
        memory.append(None if found.memory is None else int(found.memory * ratio))
    at_once = max(1, min(workers, sum(program.chunks for program in programs)))
    wall = compiling + max(longest, (training + testing) / at_once)
    most = None if None in memory else _own_memory() + at_once * max(filter(None, memory), default=0)
    return TimeEstimate(wall, compiling, training, testing, most, at_once, len(measured))


def _measure_some(programs: Sequence[Program], seconds: float) -> dict[Program, Measured]:
    """Measurements of the programs that matter most: first one of each kind of model and path, then the others."""
    started, measured = time.perf_counter(), {}
    by_work = sorted(programs, key=lambda program: -step_weights(program.first) * program.first.steps * program.chunks)
    kinds = {(type(one.first.model), one.first.path): one for one in reversed(by_work)}
    for program in dict.fromkeys([*sorted(kinds.values(), key=by_work.index), *by_work]):
        begun = time.perf_counter()
        try:
            measured[program] = measure(program.first)
        except (MemoryError, jax.errors.JaxRuntimeError) as reason:
            said = str(reason).splitlines()[0] if str(reason) else "out of memory"
            raise FarfieldError(
                f"{program.description} cannot be measured here: {said}; --seconds 0 leaves the estimate out"
            ) from None
        now = time.perf_counter()
        if now - started + (now - begun) > seconds:
            break
    return measured


def _distance(cell: Cell, other: Cell) -> tuple[bool, bool, float]:
    """How unlike two cells are in what a step costs: kind of model and path first, then size."""
    size = abs(np.log(step_weights(cell) / step_weights(other)))
    return type(cell.model) is not type(other.model), cell.path != other.path, float(size)


@settled
def measure(cell: Cell) -> Measured:
    """Compile a cell's programs, smaller ones where they are large, and time some steps and one round of tests."""
    batch = max(1, min(cell.batch, MOST_MEASURED_WEIGHTS * cell.batch // step_weights(cell)))
    sequences = max(1, min(cell.sequences, MOST_MEASURED_WEIGHTS // test_weights(cell)))
    small = dataclasses.replace(
        cell, steps=min(cell.steps, MEASURED_STEPS), snapshots=(), batch=batch, sequences=sequences
    )
    started = time.perf_counter()
    begin, advance = programs_of_training(small)
    between = time.perf_counter()
    tests = program_of_tests(small)
    compiled = time.perf_counter()
    lanes = cell.model.lanes
    knobs = jax.tree.map(lambda leaf: jnp.stack([leaf] * lanes), small.knobs)
    run, draws = begin(knobs)
    run, seconds_a_step = _time_steps(advance, knobs, draws, run, small.steps)
    shortest = jnp.full((lanes, len(cell.lengths)), min(cell.lengths), jnp.int32)
    begun = time.perf_counter()
    jax.block_until_ready(tests(run.parameters, knobs, shortest))
    timed = dataclasses.replace(small, lengths=(min(cell.lengths),))
    units = test_units(timed) * len(cell.lengths) if cell.streams else test_units(small)
    return Measured(
        compiling=between - started,
        compiling_tests=compiled - between,
        step=seconds_a_step * step_weights(cell) / step_weights(small),
        test=(time.perf_counter() - begun) / units,
        memory=_chunk_memory(cell, small, advance, tests, draws),
    )


def _time_steps(advance: Any, knobs: Any, draws: Any, run: Any, steps: int) -> tuple[Any, float]:
    """The run after some steps, and seconds a step: of ever longer stretches, the last before the time is up."""
    run = jax.block_until_ready(advance(knobs, draws, run, np.int32(0), np.int32(1)))
    stretch, begun = 1, time.perf_counter()
    while True:
        before = time.perf_counter()
        run = jax.block_until_ready(advance(knobs, draws, run, np.int32(steps - stretch), np.int32(steps)))
        now = time.perf_counter()
        if now - begun > SECONDS_TO_TIME or stretch == steps:
            return run, (now - before) / stretch
        stretch = min(steps, 2 * stretch)


def _chunk_memory(cell: Cell, small: Cell, advance: Any, tests: Any, draws: Any) -> int | None:
    """Bytes of a chunk of ``cell``, from what the compiler says of the ``small`` one's programs."""
    training, testing = _program_memory(advance), _program_memory(tests)
    if training is None or testing is None:
        return None
    drawn = sum(leaf.nbytes for leaf in jax.tree.leaves(draws)) * (cell.steps / small.steps - 1)
    training = training * step_weights(cell) / step_weights(small) + drawn
    return int(max(training, testing * cell.sequences / small.sequences))


def _program_memory(program: Any) -> int | None:
    found = program.memory_analysis()
    if found is None:
        return None
    return found.argument_size_in_bytes + found.output_size_in_bytes + found.temp_size_in_bytes


def _own_memory() -> int:
    """Bytes that this process has needed so far, JAX and a compilation among them."""
    most = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return most if sys.platform == "darwin" else most * 1024
