"""What JSON can hold."""

from __future__ import annotations

import math
from typing import Any


def finite(value: Any) -> Any:
    """The same structure with NaN and infinity as None, which JSON can hold."""
    if isinstance(value, dict):
        return {key: finite(entry) for key, entry in value.items()}
    if isinstance(value, list | tuple):
        return [finite(entry) for entry in value]
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    return value
