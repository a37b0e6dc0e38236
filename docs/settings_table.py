"""Write docs/settings.md: the tables of settings and of measures, from the code that declares them.

python docs/settings_table.py
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

from farfield.cell_settings import SETTINGS, CellSetting
from farfield.results.measures import MEASURES

PAGE = Path(__file__).parent / "settings.md"


def main() -> None:
    """Write the page."""
    PAGE.write_text(text(), encoding="utf-8")


def text() -> str:
    """The page."""
    return "\n".join(_lines()) + "\n"


def _lines() -> Iterator[str]:
    yield "# Settings and measures"
    yield ""
    yield "Written by `make settings` (`docs/settings_table.py`), not by hand."
    yield ""
    yield "## Settings of a cell"
    yield ""
    yield "Named alike in `farfield train --NAME`, in `ff.train(NAME=...)` and in a study file."
    yield ""
    yield "| setting | what it is | default | from | to |"
    yield "| --- | --- | --- | ---: | ---: |"
    for name, setting in SETTINGS.items():
        ends = (f"{setting.low:,}", f"{setting.high:,}") if setting.high else ("", "")
        yield f"| `{name}` | {setting.help} | {_default(setting)} | {ends[0]} | {ends[1]} |"
    yield ""
    yield "## Measures"
    yield ""
    yield "Each is a `probe` in the table `measurements` of a store, and may be named in `probes` of a study."
    yield ""
    yield "| probe | title | what it is | of |"
    yield "| --- | --- | --- | --- |"
    for name, measure in MEASURES.items():
        of = "each length" if measure.by == "length" else "a cell"
        yield f"| `{name}` | {measure.title} | {measure.meaning} | {of} |"


def _default(setting: CellSetting) -> str:
    value: Any = setting.default
    if setting.kind == "lengths":
        return f"`{value[0]}:{value[1]}`"
    if isinstance(value, tuple):
        return f"`{','.join(map(str, value))}`" if value else ""
    return "" if value is None else f"`{value}`"


if __name__ == "__main__":
    main()
