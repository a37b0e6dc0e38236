"""Tables for the terminal."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Sequence

import numpy as np
from rich import box
from rich.table import Table

from farfield.analysis.show import Shown
from farfield.api import TrainResult
from farfield.intervals import Estimate
from farfield.printing import number
from farfield.probes.failure import Ways


def train_tables(result: TrainResult) -> Iterable[Table | str]:
    """Summary of one setting over its seeds, which says nothing of what no seed has a number for."""
    cell = result.cells[0].cell
    if result.diverged:
        left = f"means are over the other {len(result.sound)}" if result.sound else "nothing is left to average"
        yield f"Diverged (loss is not a number): seeds {', '.join(map(str, result.diverged))}; {left}."
    if result.sound:
        yield _lengths_table(result)
        yield from _rows_read(result)
        yield from _ways_table(result)
        yield from _accuracy_lines(result)
    yield f"Trained on lengths {cell.shortest} to {cell.longest}."
    yield from _notes(result)
    if result.sound:
        yield from _mechanism(result)
    n = len(result.cells)
    yield f"{n} {'model' if n == 1 else 'models'} in {result.seconds:.1f} s, compilation included."


def _counted(result: TrainResult) -> str:
    """What accuracy is a share of."""
    return "tokens" if result.cells[0].cell.task.rows == "all" else "sequences"


def _lengths_table(result: TrainResult) -> Table:
    """Accuracy and attention by length."""
    cell = result.cells[0].cell
    chance = sorted(set(result.chance.values()))
    table = Table(box=box.SIMPLE_HEAD, pad_edge=False)
    guess = f"{chance[0]:.2f}" if len(chance) == 1 else f"{chance[0]:.2f}-{chance[-1]:.2f}"
    columns = ["length", "", f"{_counted(result)} right (chance {guess})"]
    columns += ["whole sequences right"] if cell.task.rows == "all" else []
    columns += ["target selected", "mass on target"] if result.selected is not None else []
    for name in (*columns, "peak height"):
        table.add_column(name)
    table.add_column("selected offset (seeds)")
    for length in result.lengths:
        values = [result.accuracy[length]]
        values += [result.sequence_accuracy[length]] if cell.task.rows == "all" else []
        if result.selected is not None and result.target_attention is not None:
            values += [result.selected[length], result.target_attention[length]]
        table.add_row(
            str(length),
            result.ranges[length],
            *(estimate(value) for value in [*values, result.peak[length]]),
            _offsets(result.selected_offset[length]),
        )
    return table


def _rows_read(result: TrainResult) -> Iterable[str]:
    """Which tokens the columns are of, where these are not the same in all."""
    if result.cells[0].cell.task.rows != "all":
        return
    last = "peak height and selected offset are of the last token alone, which shares its attention among most keys"
    if result.selected is None:
        yield f"{last.capitalize()}."
    else:
        yield f"Target selected and mass on target are means over all tokens asked for; {last}."


def _accuracy_lines(result: TrainResult) -> Iterable[str]:
    """How intervals were made, and means over lengths."""
    yield f"Intervals: {result.accuracy[result.lengths[0]].kind}."
    means = result.range_means._asdict()
    shown = ", ".join(f"{name} {value:.3f}" for name, value in means.items() if math.isfinite(value))
    if shown:
        yield f"Mean share of {_counted(result)} right, each test length counting once: {shown}."


def _mechanism(result: TrainResult) -> Iterable[Table | str]:
    """Carrier, equivariance and dilution."""
    carrier, width = result.carrier, result.cells[0].cell.model.head_width
    if math.isfinite(carrier.key.mean):
        peak = "" if carrier.peak is None else f"; carrier-only profile peaks at offset {carrier.peak}"
        fractions = f"keys {estimate(carrier.key)}, queries {estimate(carrier.query)}"
        yield f"Carrier: {fractions} (1/d = {1 / width:.3f}){peak}."
    if result.dynamics:
        yield _dynamics_table(result)
    if math.isfinite(result.equivariance_error.mean):
        distance, nearest = estimate(result.equivariance_error), min(result.lengths)
        profiles = f"Profiles of two lengths over the nearest {nearest} offsets, scaled to one,"
        yield f"{profiles} differ by at most {distance}."
    fitted = result.dilution
    if fitted.holds:
        yield f"Dilution: peak height ≈ 1/({fitted.alpha:.3f} + {fitted.c:.4f} (L - 1)), R² = {fitted.r2:.3f}."
    elif math.isfinite(fitted.c):
        yield f"Dilution: no law fits (R² = {fitted.r2:.3f}, slope {fitted.c:.4f})."
    else:
        yield "Dilution: not fitted, which takes three test lengths and attention that is not zero."


def _ways_table(result: TrainResult) -> Iterable[Table | str]:
    """Shares of test sequences lost in each way, and the share that the weights alone predict to be won."""
    if result.ways is None:
        yield from _why_no_ways(result)
        return
    table = Table(box=box.SIMPLE_HEAD, pad_edge=False, title="Of all test sequences", title_justify="left")
    names = {name: name.replace("_", " ") for name in Ways._fields}
    won = [found for cell in result.sound if (found := cell.competition) is not None]
    for column in ("length", *names.values(), *(["target selected, by weights"] if won else [])):
        table.add_column(column)
    for index, length in enumerate(result.lengths):
        shares = [estimate(result.ways[length][name]) for name in names]
        expected = [f"{np.mean([one.exact[index] for one in won]):.3f}"] if won else []
        table.add_row(str(length), *shares, *expected)
    yield table
    yield "Right, rule moved, outcompeted and diluted add up to one; docs/failure.md says what they are."


def _why_no_ways(result: TrainResult) -> Iterable[str]:
    """Why the ways to fail are not told apart, of a task that has targets all the same."""
    if result.selected is None:
        return
    many = result.cells[0].cell.task.rows == "all"
    needed = "only the last token is asked for" if many else "the target is at the same place in all sequences"
    yield f"Ways to fail are left out: they are told apart where {needed}, unlike here."


def _offsets(offsets: Sequence[int | None]) -> str:
    """Selected offsets of the seeds, those of most seeds first."""
    counts = Counter("none" if offset is None else str(offset) for offset in offsets).most_common()
    shown = ", ".join(f"{offset} ({count})" for offset, count in counts[:4])
    return shown + (f", {len(counts) - 4} more" if len(counts) > 4 else "")


def _dynamics_table(result: TrainResult) -> Table:
    """How carrier and spectrum grew in training."""
    table = Table(box=box.SIMPLE_HEAD, pad_edge=False)
    for name in ("after step", "key carrier", "query carrier", "top-1 energy of W"):
        table.add_column(name)
    for moment in result.dynamics:
        table.add_row(str(moment.step), *map(estimate, (moment.key, moment.query, moment.top_energy)))
    return table


BAR = 40


def profile_table(shown: Shown) -> Iterable[Table | str]:
    """An encoding's kernel and bias at chosen offsets, each with a bar."""
    profile = shown.profile
    yield shown.title
    length = len(profile.offsets)
    chosen = [s for s in range(length) if s <= 8 or s & (s - 1) == 0 or s == length - 1]
    nothing = True
    for name, label in (("rotation", "rotation"), ("bias", "bias (logits)"), ("added", "added vectors")):
        values = getattr(profile, name)
        if values is None:
            continue
        nothing = False
        table = Table(box=box.SIMPLE_HEAD, pad_edge=False)
        table.add_column("offset", justify="right")
        table.add_column(label, justify="right")
        table.add_column(f"from {number(float(values.min()))} to {number(float(values.max()))}")
        low, span = float(values.min()), float(values.max() - values.min()) or 1.0
        values = np.where(values == 0, 0.0, values)  # no -0.0000
        for s in chosen:
            filled = round(BAR * (float(values[s]) - low) / span) if math.isfinite(span) else 0
            table.add_row(str(-s), f"{values[s] + 0.0:.4f}", "█" * filled)
        yield table
        if not values.any():
            yield "All are zero: what is trained starts there. A `deviation`, where there is one, starts it elsewhere."
    if nothing:
        yield "It adds nothing, turns nothing and biases nothing: all offsets are alike."
    if shown.kernel is not None:
        kernel = shown.kernel
        yield f"Kernel: g(1)/g(0) = {kernel.breadth:.4f}."
        if kernel.realignment_at:
            yield (
                f"Past its first valley it rises again to {kernel.realignment:.4f} of its value at 0, at offset "
                f"-{kernel.realignment_at} (within {length} places)."
            )
    moves = "do not change" if shown.encoding.relative else "change"
    yield f"Logits {moves} when all positions shift by the same amount."


def _notes(result: TrainResult) -> Iterable[str]:
    """What a reader must know of how the numbers came about, where it is not the plain case."""
    cell = result.cells[0].cell
    if len(cell.model.head_names) > 1:
        names = sorted({head.head_name for head in result.cells})
        yield f"Attention is that of the head that attends to its target most: {', '.join(names)}."
    yield f"Logits were computed by the {cell.path} path."
    seen = {length: share for length, share in result.overlap.items() if share > 0.01}
    if seen:
        parts = ", ".join(f"{share:.0%} at {length}" for length, share in seen.items())
        yield f"Test sequences that training is expected to have seen: {parts}."


def estimate(value: Estimate) -> str:
    """A mean with its interval."""
    if value.low is None or value.high is None:
        return f"{value.mean:.3f}"
    return f"{value.mean:.3f} [{value.low:.3f}, {value.high:.3f}]".replace("[", "\\[")
