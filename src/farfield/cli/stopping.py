"""What Ctrl-C and the signal TERM do to a command."""

from __future__ import annotations

import contextlib
import signal
import threading
from collections.abc import Iterator
from typing import Any

# Seconds after which a command that was told to stop is told again.
AGAIN = 3.0


class Terminated(BaseException):
    """The signal TERM came."""


@contextlib.contextmanager
def stoppable() -> Iterator[None]:
    """Have Ctrl-C raise KeyboardInterrupt and TERM :class:`Terminated`; a second TERM ends the process on the spot.

    Where a handler raises inside a callback, as of the garbage collector, Python prints the exception and goes on. So
    it is raised again until it comes through.
    """
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    usual = {signal.SIGINT: signal.default_int_handler, signal.SIGTERM: signal.SIG_DFL}
    # A command in the background leaves Ctrl-C alone, and so does whoever has a handler of his own.
    ours = [number for number, handler in usual.items() if signal.getsignal(number) is handler]
    for number in ours:
        signal.signal(number, _stop)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        for number in ours:
            signal.signal(number, usual[number])


def _stop(number: int, _: Any) -> None:
    reason = KeyboardInterrupt if number == signal.SIGINT else Terminated
    if number == signal.SIGTERM:
        signal.signal(signal.SIGTERM, signal.SIG_DFL)

    def again(*_: Any) -> None:
        signal.setitimer(signal.ITIMER_REAL, AGAIN)
        raise reason

    signal.signal(signal.SIGALRM, again)
    again()
