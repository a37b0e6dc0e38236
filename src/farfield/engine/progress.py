"""What a run tells of its progress."""

from __future__ import annotations

from collections.abc import Generator, Sequence
from typing import Protocol, runtime_checkable


@runtime_checkable
class Progress(Protocol):
    """What is told of a run's progress; all calls come from one thread at a time."""

    def start(self, total: int, stored: int) -> None:
        """Everything is checked; ``total`` cells are wanted, ``stored`` of them were finished before."""

    def train(self, cells: float) -> None:
        """So much more training is done, in cells: a quarter of the steps of two cells is half a cell."""

    def advance(self) -> None:
        """One more cell is finished."""

    def say(self, text: str) -> None:
        """Something happened that the user should know of."""

    def finish(self) -> None:
        """Nothing more will run, be it that all is done or that something failed."""

    def each(self, doing: str, names: Sequence[str]) -> Generator[str]:
        """The names one after another, each told of as what is being dealt with; to be closed where that fails.

        Args:
            doing: what is done to them, as in "analysing".
        """
        ...


class Silent:
    """Progress that nobody hears."""

    def start(self, total: int, stored: int) -> None:
        pass

    def train(self, cells: float) -> None:
        pass

    def advance(self) -> None:
        pass

    def say(self, text: str) -> None:
        pass

    def finish(self) -> None:
        pass

    def each(self, doing: str, names: Sequence[str]) -> Generator[str]:
        del doing
        yield from names
