"""Many predictions at once: which encodings carry a task over, and the table of encodings by tasks."""

from __future__ import annotations

import csv
import io
from collections.abc import Iterable, Sequence
from typing import Any

from farfield.encodings import encodings
from farfield.errors import FarfieldError
from farfield.prediction.feature_maps import feature_map, named
from farfield.prediction.predict import Prediction, predict

# Fixed offsets, fixed positions, and offsets that grow with the length.
ATLAS_TASKS = (
    "offset:1",
    "offset:2",
    "offset:3",
    "position:0",
    "position:3",
    "fraction:2",
    "fraction:3",
    "root",
    "logarithm",
)
# What encodings are asked about: any head and lengths will do.
WIDTH, TRAINED, TESTED = 64, 16, 64
COLUMNS = (
    "encoding",
    "task",
    "verdict",
    "alpha",
    "low",
    "high",
    "start_decides",
    "realizable_at_trained",
    "realizable_at_tested",
    "mass",
)


def atlas_encodings() -> list[str]:
    """Every encoding that has a feature map at its default settings."""
    found = []
    for name in encodings:
        try:
            feature_map(named(name, TRAINED, TESTED), WIDTH)
        except FarfieldError:
            continue
        found.append(name)
    return found


def atlas(
    names: Iterable[str] | None = None, asked: Sequence[str] = ATLAS_TASKS, **settings: Any
) -> list[list[Prediction]]:
    """Predictions of each encoding (rows) on each task (columns).

    Args:
        names: encodings; all that have a feature map if None.
        asked: tasks.
        settings: of :func:`farfield.prediction.predict.predict`.
    """
    rows = atlas_encodings() if names is None else list(names)
    return [[predict(name, task, **settings) for task in asked] for name in rows]


def carrying_over(prediction: Prediction) -> list[str]:
    """Other encodings, at their defaults, whose alpha is 1 on the same task and lengths."""
    settings = {name: getattr(prediction, name) for name in ("trained", "tested", "shortest", "width")}
    found = []
    for name in atlas_encodings():
        try:
            other = predict(name, prediction.task, with_openness=False, **settings)
        except FarfieldError:
            continue
        if other.alpha == 1 and name != prediction.encoding_name:
            found.append(name)
    return found


def to_csv(rows: Sequence[Sequence[Prediction]]) -> str:
    """The atlas as text, one line a pair; ``mass`` is at the longest test."""
    buffer = io.StringIO()
    writer = csv.writer(buffer, lineterminator="\n")
    writer.writerow(COLUMNS)
    for row in rows:
        for cell in row:
            known = cell.to_json()
            low, high = cell.interval or (None, None)
            names = {"encoding": cell.encoding_name, "task": cell.task_name}
            values = {**known, **names, "low": low, "high": high, "mass": cell.mass_at(cell.tested)}
            writer.writerow([values[name] for name in COLUMNS])
    return buffer.getvalue()
