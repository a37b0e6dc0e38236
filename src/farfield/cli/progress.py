"""Progress of long work on standard error: a bar on a terminal, rare plain lines elsewhere."""

from __future__ import annotations

import math
import sys
import time
from collections.abc import Generator, Sequence

from rich.console import Console
from rich.progress import BarColumn, TextColumn, TimeElapsedColumn, TimeRemainingColumn
from rich.progress import Progress as RichProgress

from farfield.engine.progress import Progress, Silent

# Off a terminal a line is written at the start, at the end, and at most this often in between.
SECONDS_BETWEEN_LINES = 15.0


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


class Bar:
    """A bar that disappears when the work is done."""

    def start(self, total: int, stored: int) -> None:
        columns = (
            TextColumn("training models"),
            BarColumn(),
            TextColumn("{task.fields[done]}/{task.fields[models]}"),
            TextColumn("{task.fields[rate]}"),
            TimeElapsedColumn(),
            TextColumn("left"),
            TimeRemainingColumn(),
        )
        self._bar = RichProgress(*columns, console=Console(stderr=True), transient=True)
        self._done, self._trained, self._started = stored, 0.0, time.monotonic()
        self._task = self._bar.add_task("", total=total, completed=stored, done=stored, models=total, rate="")
        self._bar.start()

    def train(self, cells: float) -> None:
        self._trained += cells
        self._bar.update(self._task, advance=cells, rate=rate(self._trained, time.monotonic() - self._started))

    def advance(self) -> None:
        self._done += 1
        self._bar.update(self._task, done=self._done)

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
        self._total, self._stored, self._done, self._trained = total, stored, stored, 0.0
        self._started = self._spoken = time.monotonic()
        self.say(_beginning(total, stored))

    def train(self, cells: float) -> None:
        self._trained += cells
        self._speak()

    def advance(self) -> None:
        self._done += 1
        self._speak()

    def _speak(self) -> None:
        now = time.monotonic()
        if now - self._spoken < SECONDS_BETWEEN_LINES or self._done == self._total:
            return
        self._spoken = now
        passed, fresh = now - self._started, self._total - self._stored
        speed = rate(self._trained, passed)
        left = f", {speed}, about {duration(passed * (fresh / self._trained - 1))} left" if speed else ""
        share = self._trained / max(1, fresh)
        self.say(f"{self._done} of {self._total} done, {share:.0%} of the training, after {duration(passed)}{left}")

    def finish(self) -> None:
        passed = time.monotonic() - self._started
        speed = rate(self._done - self._stored, passed)
        self.say(f"{self._done} of {self._total} done after {duration(passed)}{f', {speed}' if speed else ''}")

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
