"""How a study is made again: the command that ran it, and the Python that asks for the same."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from farfield.study.record import Record

# Columns of a page's code.
WIDTH = 100


def python_of(record: Record, folder: Path) -> str:
    """Python that runs the study into its folder; defaults are left out.

    Args:
        record: of the study.
        folder: of its results.
    """
    fields = record.study.to_json()
    seeds = fields.get("seeds")
    if isinstance(seeds, dict) and [*seeds] == ["model"]:
        fields["seeds"] = seeds["model"]
    lines = [f"    {name}={_literal(value, 4)}," for name, value in fields.items()]
    budget = f", budget={_literal(record.budget, 0)}" if record.budget else ""
    run = f"ff.run(study, {_literal(str(folder), 0)}{budget})"
    return "\n".join(["import farfield as ff", "", "study = ff.Study(", *lines, ")", run])


def _literal(value: Any, indent: int) -> str:
    """Plain data as Python has it, over several lines where one is too short."""
    if isinstance(value, dict):
        parts, ends = [f"{_literal(name, 0)}: {_literal(one, indent + 4)}" for name, one in value.items()], "{}"
    elif isinstance(value, list):
        parts, ends = [_literal(one, indent + 4) for one in value], "[]"
    else:
        return json.dumps(value, ensure_ascii=False) if isinstance(value, str) else repr(value)
    line = ends[0] + ", ".join(parts) + ends[1]
    if indent + len(line) < WIDTH - 20 and "\n" not in line:
        return line
    inside = "".join(f"{' ' * (indent + 4)}{part},\n" for part in parts)
    return f"{ends[0]}\n{inside}{' ' * indent}{ends[1]}"
