"""Tasks, one file each. ``tasks`` is the registry; importing a file fills it."""

from farfield.tasks import offset
from farfield.tasks.base import Task, tasks
from farfield.tasks.offset import FixedOffset

get = tasks.get
parse = tasks.parse
register = tasks.register

__all__ = ["FixedOffset", "Task", "get", "offset", "parse", "register", "tasks"]
