"""The command line: thin commands over the Python interface."""

from farfield.cli.app import main

__all__ = ["main"]
