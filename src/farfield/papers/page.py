"""The HTML page of a reproduction: one self-contained file, no network."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import jinja2
from matplotlib.figure import Figure

from farfield.errors import unwritable
from farfield.papers.reproduce import PAGE, Reproduction
from farfield.papers.verdicts import LEVEL
from farfield.plotting.figures import verdict_strip
from farfield.plotting.style import save, to_svg
from farfield.printing import number
from farfield.store.files import write_text
from farfield.store.versions import versions


def write_page(outcome: Reproduction, folder: Path) -> Path:
    """Write ``index.html`` into the folder of a reproduction and return its path.

    Raises:
        FarfieldError: if the folder cannot be written.
    """
    page = folder / PAGE
    strip = verdict_strip({item.name: outcome.counts(item.name) for item in outcome.items})
    save(strip, folder / "figures" / "verdicts.png")
    try:
        write_text(page, render(outcome, strip))
    except OSError as reason:
        raise unwritable(page, reason) from None
    return page


def render(outcome: Reproduction, strip: Figure) -> str:
    """The page as text, with the picture of its verdicts."""
    environment = jinja2.Environment(
        loader=jinja2.PackageLoader("farfield.reporting"), autoescape=True, undefined=jinja2.StrictUndefined
    )
    environment.filters["number"] = number
    return environment.get_template("reproduction.html").render(
        outcome=outcome,
        counts=outcome.counts(),
        level=round(100 * LEVEL),
        strip=inline(strip, "verdicts"),
        items=[_item(outcome, item) for item in outcome.items],
        differing=[verdict for verdict in outcome.verdicts if verdict.verdict == "differs"],
        versions=versions(),
        command=outcome.command(),
    )


def _item(outcome: Reproduction, item: Any) -> dict[str, Any]:
    verdicts = [verdict for verdict in outcome.verdicts if verdict.item == item.name]
    figure = outcome.figures.get(item.name)
    return {
        "name": item.name,
        "title": item.title,
        "caption": item.caption,
        "figure": None if figure is None else inline(figure, item.name),
        "verdicts": verdicts,
        "about": _paragraphs(item.about or ""),
    }


def _paragraphs(about: str) -> list[str]:
    """A module's docstring without its first line, a bullet being a paragraph too."""
    text = about.partition("\n\n")[2].replace("``", "").strip()
    text = re.sub(r"\*(\w[^*\n]*)\*", r"\1", text)  # emphasis
    parts = [" ".join(part.split()) for part in re.split(r"\n\n|\n(?=\* )", text)]
    return [f"• {part[2:]}" if part.startswith("* ") else part for part in parts]


def inline(figure: Figure, prefix: str) -> str:
    """A figure as an SVG element for a page, its identifiers made unique by ``prefix``."""
    svg = to_svg(figure)
    svg = svg[svg.index("<svg") :]
    svg = re.sub(r'(id="|url\(#|href="#)', rf"\g<1>{prefix}-", svg)
    return re.sub(r'width="[\d.]+pt" height="[\d.]+pt"', 'role="img"', svg, count=1)
