"""Figures, drawn to files and never to a screen, so that a user's choice of a backend of matplotlib does not matter."""

import contextlib
import os
import sys


def _import_matplotlib() -> None:
    """Import matplotlib, which fails where MPLBACKEND names a backend that is not installed, all the same.

    A backend that is there stays the user's choice.
    """
    if "matplotlib" in sys.modules or (backend := os.environ.pop("MPLBACKEND", None)) is None:
        return
    try:
        import matplotlib

        with contextlib.suppress(ValueError):
            matplotlib.rcParams["backend"] = backend
    finally:
        os.environ["MPLBACKEND"] = backend


_import_matplotlib()
