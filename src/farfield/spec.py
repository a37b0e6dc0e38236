"""The one writer of ``name:setting=value``, which :meth:`farfield.registry.Registry.parse` reads back.

Free of JAX, because a store writes the settings of configurations that it does not build.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Collection, Mapping
from typing import Any


def format_spec(config: Mapping[str, Any], defaults: Mapping[str, Any], spelled: Collection[str] = ()) -> str:
    """Write the configuration of an entry in one line.

    >>> format_spec({"name": "rope", "base": 500000.0, "layout": "half"}, {"base": 10000.0, "layout": "half"})
    'rope:base=500000'

    Args:
        config: name and settings, as :meth:`farfield.registry.Registry.config` gives them.
        defaults: by setting, in order; a setting that has its default is left out. ``dataclasses.MISSING`` for one
            without a default: if it is the first, its value is written bare.
        spelled: names of settings that are written even where they have their defaults.
    """
    first = next(iter(defaults), None)
    parts = []
    for name, value in config.items():
        if name == "name" or (name in defaults and name not in spelled and same_value(value, defaults[name])):
            continue
        bare = name == first and defaults[name] is dataclasses.MISSING
        parts.append(value_text(value) if bare else f"{name}={value_text(value)}")
    return ":".join(filter(None, (config["name"], ",".join(parts))))


def value_text(value: Any) -> str:
    """Write a setting's value as :meth:`farfield.registry.Registry.parse` reads it back.

    >>> value_text(1e6), value_text((1.5, 2.0)), value_text(True), value_text(1e-05)
    ('1000000', '1.5;2', 'true', '1e-05')
    """
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, list | tuple):
        return ";".join(map(value_text, value))
    # A larger float is not exactly the whole number that its digits suggest.
    if isinstance(value, float) and value.is_integer() and abs(value) < 1e16:
        return str(int(value))
    return str(value)


def same_value(value: Any, default: Any) -> bool:
    """Whether a value is the default; JSON holds a tuple as a list."""
    return value == (list(default) if isinstance(default, tuple) and isinstance(value, list) else default)
