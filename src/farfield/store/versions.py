"""Versions of the software that a number depends on."""

from __future__ import annotations

import functools
import platform
from importlib import metadata

PACKAGES = ("farfield", "jax", "jaxlib", "numpy", "optax")


def versions() -> dict[str, str]:
    """Return the versions of packages, Python and platform, which are stored with every cell."""
    return dict(_versions())


@functools.cache
def _versions() -> dict[str, str]:
    packages = {name: metadata.version(name) for name in PACKAGES}
    return packages | {"python": platform.python_version(), "platform": platform.platform()}
