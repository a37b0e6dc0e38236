"""Read a study from a TOML file, every mistake with its line."""

from __future__ import annotations

import re
import tomllib
from importlib import resources
from pathlib import Path
from typing import Any

from farfield._checks import checked_path
from farfield.errors import FarfieldError
from farfield.study.problems import StudyError
from farfield.study.study import Study
from farfield.study.toml_lines import lines_of

# Bytes; a study of a hundred thousand listed cells has fewer.
LARGEST_FILE = 16 * 2**20
# What the reader's own words mean for a study.
HINTS = {
    "overwrite": "something is set twice",
    "twice": "something is set twice",
    "already": "something is set twice",
    "digits": "a number is too long",
}
PLACE = re.compile(r"\s*\(at line (\d+), column (\d+)\)")


def load_study(path: str | Path) -> Study:
    """The study that a TOML file describes; `farfield study new` writes an example, `study schema` all keys.

    Raises:
        FarfieldError: every mistake found, each with file and line, ten at most.
    """
    path = checked_path("path", path, "study file")
    text = _text(path)
    table = _table(path, text)
    try:
        return Study(**table)
    except StudyError as reason:
        raise reason.located(str(path), lines_of(text)) from None


def example() -> str:
    """The text of the example that `farfield study new` writes."""
    return (resources.files("farfield.study") / "example.toml").read_text(encoding="utf-8")


def schema() -> dict[str, Any]:
    """JSON schema of a study file, for editors that complete and check TOML."""
    return {"$schema": "https://json-schema.org/draft/2020-12/schema", **Study.model_json_schema()}


def _text(path: Path) -> str:
    try:
        with path.open("rb") as file:
            content = file.read(LARGEST_FILE + 1)
    except (OSError, ValueError) as reason:
        hint = "; `farfield study new` writes an example" if isinstance(reason, FileNotFoundError) else ""
        said = reason.strerror if isinstance(reason, OSError) else reason
        raise FarfieldError(f"cannot read {path}: {said}{hint}") from None
    if len(content) > LARGEST_FILE:
        raise FarfieldError(f"{path} is larger than {LARGEST_FILE // 2**20} MB: no study file is")
    try:
        return content.decode("utf-8-sig")
    except UnicodeDecodeError as reason:
        line = content.count(b"\n", 0, reason.start) + 1
        raise FarfieldError(f"{path}:{line}: not text in UTF-8: save the file in that encoding") from None


def _table(path: str | Path, text: str) -> dict[str, Any]:
    try:
        table = tomllib.loads(text)
    except RecursionError:
        raise FarfieldError(f"{path}: lists or tables are nested too deeply to be a study") from None
    except ValueError as reason:  # TOMLDecodeError, and what Python says of a number with thousands of digits
        found = PLACE.search(str(reason))
        line = f":{found[1]}" if found else ""
        said = PLACE.sub(f" at column {found[2]}" if found else "", str(reason))
        hint = next((hint for words, hint in HINTS.items() if words in said), "text stands in quotes, lists in [ ]")
        raise FarfieldError(f"{path}{line}: not TOML: {said[:200]} ({hint})") from None
    if not table:
        raise FarfieldError(f"{path} is empty: `farfield study new` writes an example")
    return table
