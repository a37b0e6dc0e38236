"""What can be named: entries of every registry, papers and their items, each with its first docstring line."""

from __future__ import annotations

import dataclasses
import re
from typing import Any

from farfield.encodings import encodings
from farfield.errors import unknown
from farfield.models import models
from farfield.normalizers import normalizers
from farfield.papers import PAPERS
from farfield.positions import regimes
from farfield.registry import Registry
from farfield.tasks import tasks


def catalogue(kind: str | None = None) -> dict[str, list[dict[str, Any]]]:
    """Entries by kind, or of one kind (FarfieldError if there is no such kind)."""
    kinds = {
        "encodings": _registered(encodings),
        "positions": _registered(regimes),
        "normalizers": _registered(normalizers),
        "tasks": _registered(tasks),
        "models": _registered(models),
        "papers": [{"name": paper.name, "summary": f"{paper.title} ({paper.source})"} for paper in PAPERS.values()],
        "items": [
            {"name": item.name, "summary": item.title, "paper": paper.name}
            for paper in PAPERS.values()
            for item in paper.items
        ],
    }
    if kind is None:
        return kinds
    if kind not in kinds:
        raise unknown("kind of name", kind, kinds)
    return {kind: kinds[kind]}


def _registered(registry: Registry[Any]) -> list[dict[str, Any]]:
    entries = []
    for name in registry:
        cls = registry[name]
        fields = dataclasses.fields(cls)
        required = [field.name for field in fields if field.default is dataclasses.MISSING]
        # An entry may fill in some defaults when it is made, so they are read from one.
        made = None if required else cls()
        settings = {
            field.name: None if field.name in required else getattr(made, field.name, field.default) for field in fields
        }
        required = ",".join(key.upper() for key, value in settings.items() if value is None)
        optional = ",".join(f"{key}={value}" for key, value in settings.items() if value is not None)
        written = name + (f":{required}" if required else "") + (f"[:{optional}]" if optional else "")
        summary = _plain((cls.__doc__ or "").strip().split("\n")[0])
        entries.append({"name": name, "written": written, "summary": summary, "settings": settings})
    return entries


def _plain(text: str) -> str:
    """A docstring's line without the marks of its markup."""
    return re.sub(r":\w+:`~?([^`]*)`", r"\1", text).replace("``", "")
