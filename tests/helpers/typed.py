"""How annotations of functions on arrays are checked in tests: by beartype, an int being allowed for a float."""

from __future__ import annotations

from typing import Any

from beartype import BeartypeConf, beartype

_checked = beartype(conf=BeartypeConf(is_pep484_tower=True))


def checked(function: Any) -> Any:
    """A function with its arguments and result checked.

    Constructors are left out: an entry of a registry holds numbers where a user writes it and tracers inside a
    program, and refuses what is neither in words of its own.
    """
    return function if function.__name__ == "__init__" else _checked(function)
