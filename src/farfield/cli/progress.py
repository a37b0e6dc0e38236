"""Progress of long work on standard error: a bar on a terminal, rare plain lines elsewhere."""

from __future__ import annotations

import sys
import time

from rich.console import Console
from rich.progress import BarColumn, TextColumn, TimeElapsedColumn, TimeRemainingColumn
from rich.progress import Progress as RichProgress

from farfield.studies.progress import Progress, Silent

# Off a terminal a line is written at the start, at the end, and at most this often in between.
SECONDS_BETWEEN_LINES = 15.0


def reporter() -> Progress:
    """The way of reporting that suits standard error."""
    if sys.stderr is None:  # closed by whoever started this
        return Silent()
    return Bar() if sys.stderr.isatty() else Lines()


class Bar:
    """A bar that disappears when the work is done."""

    def start(self, total: int, stored: int) -> None:
        columns = (
            TextColumn("training models"),
            BarColumn(),
            TextColumn("{task.fields[done]}/{task.fields[models]}"),
            TimeElapsedColumn(),
            TextColumn("left"),
            TimeRemainingColumn(),
        )
        self._bar = RichProgress(*columns, console=Console(stderr=True), transient=True)
        self._done = stored
        self._task = self._bar.add_task("", total=total, completed=stored, done=stored, models=total)
        self._bar.start()

    def train(self, cells: float) -> None:
        self._bar.advance(self._task, cells)

    def advance(self) -> None:
        self._done += 1
        self._bar.update(self._task, done=self._done)

    def say(self, text: str) -> None:
        self._bar.console.print(f"farfield: {text}", highlight=False, soft_wrap=True)

    def finish(self) -> None:
        self._bar.stop()


class Lines:
    """Plain lines without carriage returns, few enough for a log file."""

    def start(self, total: int, stored: int) -> None:
        self._total, self._stored, self._done, self._trained = total, stored, stored, 0.0
        self._started = self._spoken = time.monotonic()
        kept = f", {stored} of them finished before" if stored else ""
        self.say(f"training {total} {'model' if total == 1 else 'models'}{kept}")

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
        share = self._trained / max(1, self._total - self._stored)
        passed = now - self._started
        left = f", about {passed / share - passed:.0f} s left" if 0 < share < 1 else ""
        self.say(f"{self._done} of {self._total} done, {share:.0%} of the training, after {passed:.0f} s{left}")

    def finish(self) -> None:
        self.say(f"{self._done} of {self._total} done after {time.monotonic() - self._started:.0f} s")

    @staticmethod
    def say(text: str) -> None:
        print(f"farfield: {text}", file=sys.stderr, flush=True)
