"""Tasks, one file a family. ``tasks`` is the registry; a file put here fills it."""

from farfield.registry import import_all
from farfield.tasks.base import Batch, Positional, Task, overlap, tasks

import_all(__name__, __path__)

get = tasks.get
parse = tasks.parse
register = tasks.register

__all__ = ["Batch", "Positional", "Task", "get", "overlap", "parse", "register", "tasks"]
