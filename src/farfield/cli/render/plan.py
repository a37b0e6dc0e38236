"""The plan of a study as tables for the terminal."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from rich import box
from rich.markup import escape
from rich.table import Table

from farfield.printing import short
from farfield.study.plan import Plan, TimeEstimate

# Rows and values shown; `--json` has all.
MOST_ROWS = 20


def plan_tables(plan: Plan) -> Iterator[Any]:
    """Question, axes, programs and estimate."""
    content = plan.to_json()
    yield f"[bold]{escape(plan.study.name)}[/] {escape(plan.study.question)}"
    if content["axes"]:
        yield _axes(content["axes"])
    missing = content["missing"]
    held = f", of which {plan.held} are there and {missing} missing" if plan.held else ""
    yield (
        f"{_count(content['configurations'], 'configuration')} x {_count(len(content['seeds']), 'seed')} = "
        f"{_count(plan.cells, 'cell')}{held}"
    )
    if not missing:
        yield "Nothing is left to run."
        return
    yield _programs(plan)
    yield (
        f"{_count(len(plan.programs), 'training program')} and {_count(plan.test_programs, 'test program')} to "
        f"compile, {_count(plan.chunks, 'chunk')} of cells side by side"
    )
    if plan.estimate is not None:
        yield _estimate(plan.estimate, len(plan.programs))


def _axes(axes: dict[str, list[str]]) -> Table:
    table = Table(box=box.SIMPLE_HEAD, pad_edge=False)
    for name in ("axis", "values", ""):
        table.add_column(name, overflow="fold")
    for name, values in axes.items():
        more = f" and {len(values) - MOST_ROWS} more" if len(values) > MOST_ROWS else ""
        table.add_row(name, str(len(values)), escape(short(", ".join(values[:MOST_ROWS]) + more)))
    return table


def _programs(plan: Plan) -> Table:
    table = Table(box=box.SIMPLE_HEAD, pad_edge=False)
    table.add_column("training program", overflow="fold")
    for name in ("cells", "chunks", "tests compiled"):
        table.add_column(name, justify="right")
    for program in plan.programs[:MOST_ROWS]:
        counts = program.cells, program.chunks, len(program.tests)
        table.add_row(escape(short(program.description)), *map(str, counts))
    if len(plan.programs) > MOST_ROWS:
        table.add_row(f"and {len(plan.programs) - MOST_ROWS} more", "", "", "")
    return table


def _estimate(estimate: TimeEstimate, programs: int) -> str:
    memory = "unknown" if estimate.memory is None else f"{estimate.memory / 2**20:.0f} MB"
    others = "" if estimate.measured == programs else "; the others are scaled by the attention weights they form"
    return (
        f"About {duration(estimate.seconds)} with {_count(estimate.workers, 'worker')}: {duration(estimate.compiling)} "
        f"to compile, {duration(estimate.training)} to train and {duration(estimate.testing)} to test on one core. "
        f"Memory about {memory}. From {estimate.measured} of {_count(programs, 'program')} measured on this machine "
        f"just now{others}."
    )


def duration(seconds: float) -> str:
    """A time in the unit that suits it."""
    for size, unit in ((86400, "days"), (3600, "h"), (60, "min")):
        if seconds >= 2 * size:
            return f"{seconds / size:.1f} {unit}"
    return f"{seconds:.1f} s"


def _count(number: int, noun: str) -> str:
    return f"{number:,} {noun}{'' if number == 1 else 's'}"
