"""Progress of long work on standard error: a bar on a terminal, rare plain lines elsewhere."""

from __future__ import annotations

import math
import sys
import time
from collections.abc import Generator, Sequence

from rich.console import Console
from rich.progress import BarColumn, TextColumn, TimeElapsedColumn
from rich.progress import Progress as RichProgress

from farfield.engine.progress import Progress, Silent

# Off a terminal a line is written at the start, at the end, and at most this often in between.
SECONDS_BETWEEN_LINES = 15.0
# Models finish chunk by chunk. What a model takes, compiling and tests included, is known once so many chunks have.
FEWEST_CHUNKS = 3


def reporter() -> Progress:
    """The way of reporting that suits standard error."""
    if sys.stderr is None:  # closed by whoever started this
        return Silent()
    return Bar() if sys.stderr.isatty() else Lines()


def rate(models: float, seconds: float) -> str:
    """Models a second, minute or hour, whichever reads as a number from 1 up; empty where nothing is known."""
    if models <= 0 or seconds <= 0:
        return ""
    each = models / seconds
    number, unit = (each, "s") if each >= 1 else (60 * each, "min") if 60 * each >= 1 else (3600 * each, "h")
    return f"{number:.2g} models/{unit}" if number < 10 else f"{number:.0f} models/{unit}"


def duration(seconds: float) -> str:
    """Seconds, minutes or hours."""
    if seconds < 120:
        return f"{seconds:.0f} s"
    if (whole := round(seconds)) < 600:
        return f"{whole // 60} min {whole % 60:02} s"
    return f"{seconds / 60:.0f} min" if seconds < 7200 else f"{seconds / 3600:.1f} h"


class _Pace:
    """How far a run is, and how long the rest of it takes.

    Attributes:
        total, stored, done: models wanted, finished before this run, and finished by now.
        trained: training done in this run, in models.
        started: when this run began.
    """

    def __init__(self, total: int, stored: int) -> None:
        self.total, self.stored, self.done, self.trained = total, stored, stored, 0.0
        self.started = time.monotonic()
        self._chunks, self._in_chunk = 0, False

    def train(self, cells: float) -> None:
        self.trained += cells
        self._in_chunk = False

    def advance(self) -> None:
        self.done += 1
        # Models of a chunk finish one after another, with no training told of between them.
        self._chunks += not self._in_chunk
        self._in_chunk = True

    @property
    def share(self) -> float:
        """Share of all training that is done, in this run and before it."""
        return (self.stored + self.trained) / max(1, self.total)

    def left(self, passed: float) -> float | None:
        """Seconds to go; None while that cannot be told.

        By the models that are finished, since training alone tells nothing of programs that are still to compile and
        tests still to run; by training where that takes longer.
        """
        fresh, finished = self.total - self.stored, self.done - self.stored
        if self._chunks < FEWEST_CHUNKS:
            return None
        return max(0.0, passed * (fresh / min(finished, self.trained or finished) - 1))


class Bar:
    """A bar that disappears when the work is done."""

    def start(self, total: int, stored: int) -> None:
        columns = (
            TextColumn("training models"),
            BarColumn(),
            TextColumn("{task.fields[done]}/{task.fields[models]}"),
            TextColumn("{task.fields[rate]}"),
            TimeElapsedColumn(),
            TextColumn("{task.fields[left]}"),
        )
        self._bar = RichProgress(*columns, console=Console(stderr=True), transient=True)
        self._pace = _Pace(total, stored)
        self._task = self._bar.add_task("", total=total, completed=stored, done=stored, models=total, rate="", left="")
        self._bar.start()

    def train(self, cells: float) -> None:
        self._pace.train(cells)
        self._bar.update(self._task, advance=cells)
        self._show()

    def advance(self) -> None:
        self._pace.advance()
        self._show()

    def _show(self) -> None:
        passed = time.monotonic() - self._pace.started
        left = self._pace.left(passed)
        said = "" if left is None else f"about {duration(left)} left"
        self._bar.update(self._task, done=self._pace.done, rate=rate(self._pace.trained, passed), left=said)

    def say(self, text: str) -> None:
        self._bar.console.print(f"farfield: {text}", highlight=False, soft_wrap=True, markup=False)

    def finish(self) -> None:
        self._bar.stop()

    def each(self, doing: str, names: Sequence[str]) -> Generator[str]:
        count = TextColumn("{task.fields[number]} of {task.total}")
        columns = (TextColumn("{task.description}"), BarColumn(), count, TimeElapsedColumn())
        with RichProgress(*columns, console=Console(stderr=True), transient=True) as bar:
            task = bar.add_task(doing, total=len(names), number=0)
            for number, name in enumerate(names, 1):
                bar.update(task, description=f"{doing} {name}", number=number, completed=number - 1)
                yield name


def _beginning(total: int, stored: int) -> str:
    models = "1 model" if total == 1 else f"{total} models"
    if total and stored == total:
        return f"nothing to train: {models} finished before"
    return f"training {models}" + (f", {stored} of them finished before" if stored else "")


class Lines:
    """Plain lines without carriage returns, few enough for a log file."""

    def start(self, total: int, stored: int) -> None:
        self._pace = _Pace(total, stored)
        self._spoken = self._pace.started
        self.say(_beginning(total, stored))

    def train(self, cells: float) -> None:
        self._pace.train(cells)
        self._speak()

    def advance(self) -> None:
        self._pace.advance()
        self._speak()

    def _speak(self) -> None:
        now, pace = time.monotonic(), self._pace
        if now - self._spoken < SECONDS_BETWEEN_LINES or pace.done == pace.total:
            return
        self._spoken = now
        passed = now - pace.started
        left = pace.left(passed)
        said = "" if left is None else f", {rate(pace.trained, passed)}, about {duration(left)} left"
        self.say(f"{pace.done} of {pace.total} done, {pace.share:.0%} of the training, after {duration(passed)}{said}")

    def finish(self) -> None:
        pace = self._pace
        passed = time.monotonic() - pace.started
        speed = rate(pace.done - pace.stored, passed)
        self.say(f"{pace.done} of {pace.total} done after {duration(passed)}{f', {speed}' if speed else ''}")

    def each(self, doing: str, names: Sequence[str]) -> Generator[str]:
        started = time.monotonic()
        spoken = -math.inf
        for number, name in enumerate(names, 1):
            if (now := time.monotonic()) - spoken >= SECONDS_BETWEEN_LINES:
                spoken = now
                self.say(f"{doing} {name}, {number} of {len(names)}")
            yield name
        self.say(f"{doing}: {len(names)} of {len(names)} done after {duration(time.monotonic() - started)}")

    @staticmethod
    def say(text: str) -> None:
        print(f"farfield: {text}", file=sys.stderr, flush=True)
