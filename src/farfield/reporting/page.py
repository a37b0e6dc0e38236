"""The HTML page of a folder of results: one self-contained file that asks no network for anything."""

from __future__ import annotations

import re
from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import NamedTuple

import jinja2
from markupsafe import Markup

from farfield.errors import FarfieldError
from farfield.plotting.style import to_svg
from farfield.printing import command, short
from farfield.reporting.atlas import atlas_of, level_of, palette, squares_of
from farfield.reporting.curves_svg import NO_SELECTION, DrawnCurve, DrawnPoint, Frame, picture, sample
from farfield.reporting.model import Content, Setting
from farfield.reporting.numbers import interval_kind_of, interval_of, of, share_of, three
from farfield.reporting.rerun import python_of
from farfield.reporting.sentences import what_became, what_ran
from farfield.reporting.ways import MOST_CHARTS, failure_figure, left_out_of, notes_on_charts
from farfield.results.measures import counted_by, kind_of, meaning_of, title_of
from farfield.seeds.summary import FIT, PROBES, bounds_of
from farfield.store.files import check_writable, write_text

# What tells a page of this module from any other file.
GENERATOR = "farfield report"
# Rows by length that a page holds; the files beside it hold all.
MOST_ROWS = 4000


class Panel(NamedTuple):
    """One picture of a facet."""

    title: str
    about: str
    svg: Markup


class Facet(NamedTuple):
    """The curves of one column of the atlas."""

    column: int
    title: str
    panels: list[Panel]
    note: str


def check_page(path: Path) -> None:
    """Refuse a path that the page cannot be written to, before any work (FarfieldError)."""
    try:
        if not path.name or path.is_dir():
            inside = command("-o", path / "report.html")
            raise FarfieldError(f"{path} is a folder: name a file in it, as in {inside}")
        if path.is_symlink() and not path.exists():
            raise FarfieldError(f"{path} is a link that leads nowhere: choose another name with -o")
        if not path.parent.is_dir():
            raise FarfieldError(f"cannot write {path}: there is no folder {path.parent}")
        check_writable(path)
        ours = GENERATOR in path.read_text(encoding="utf-8", errors="replace")[:2000] if path.exists() else True
    except OSError as reason:
        raise FarfieldError(f"cannot write {path}: {reason.strerror}; choose another place with -o") from None
    if not ours:
        raise FarfieldError(f"{path} is there and is no report of farfield: choose another name with -o")


def write_page(content: Content, path: Path, again: str, files: str) -> None:
    """Write the page, whole or not at all.

    Args:
        again: the command that makes it again.
        files: where the figures and numbers are kept.

    Raises:
        FarfieldError: if it cannot be written.
    """
    text = render(content, again, files)
    try:
        write_text(path.resolve(), text)
    except OSError as reason:
        raise FarfieldError(f"cannot write {path}: {reason.strerror}; choose another place with -o") from None


def command_of(folder: Path, page: Path | None, figures: Path | None, interval: str) -> str:
    """The command that makes a page again; None for what was left out."""
    parts: list[str | Path] = ["farfield", "report", folder]
    parts += [] if page is None else ["-o", page]
    parts += [] if figures is None else ["--figures", figures]
    parts += ["--interval", interval] if interval != "t" else []
    return command(*parts)


def render(content: Content, again: str, files: str) -> str:
    """The page as text."""
    environment = jinja2.Environment(
        loader=jinja2.PackageLoader("farfield.reporting"), autoescape=True, undefined=jinja2.StrictUndefined,
        trim_blocks=True, lstrip_blocks=True,
    )  # fmt: skip
    environment.filters |= {"short": short, "three": three, "interval": interval_of, "share": share_of, "of": of}
    squares = squares_of(content)
    shown = [setting for setting in content.settings if setting.summary]
    atlas = atlas_of(content, squares)
    failures = failure_figure(content)
    return environment.get_template("study.html").render(
        content=content,
        generator=GENERATOR,
        again=again,
        export=command("farfield", "study", "export", content.folder, "--table", "cells", "-o", "cells.csv"),
        files=files,
        squares=squares,
        atlas=atlas,
        start=atlas["measures"][0] if atlas["measures"] else None,
        palette=palette(),
        level=level_of,
        legend=legend_of(content),
        facets=[_facet(content, column) for column in range(len(content.layout.columns.choices))] if shown else [],
        failures=None if failures is None else inline(to_svg(failures)),
        most_charts=MOST_CHARTS,
        charts_left_out=left_out_of(content),
        notes_on_charts=notes_on_charts(content),
        title_of=title_of,
        counted_by=counted_by,
        range_at=partial(range_at, shown),
        shown=shown,
        ran=what_ran(content),
        became=what_became(content),
        longest=sorted({setting.longest for setting in shown}),
        kinds=", ".join(_kinds(shown)),
        probes=[name for name in PROBES if name in content.panels],
        sequences_equal="sequence_accuracy" not in content.panels,
        rows_by_length=_by_length(content),
        most_rows=MOST_ROWS,
        fit=FIT,
        python=python_of(content.record, content.folder) if content.record else None,
    )


def inline(svg: str) -> Markup:
    """A picture of matplotlib as a part of the page, as wide as there is room."""
    body = re.sub(r'<metadata>.*?</metadata>|\sxmlns(:\w+)?="[^"]*"', "", svg[svg.index("<svg") :], flags=re.DOTALL)
    return Markup(body.replace("<svg", '<svg class="chart"', 1))


def range_at(settings: Sequence[Setting], length: int) -> str:
    """Where a length stands to the lengths of training, in brackets; empty where the settings differ in that."""
    found = {row.range for one in settings if one.summary for row in one.summary.rows if row.length == length}
    return f" ({found.pop()})" if len(found) == 1 else ""


def legend_of(content: Content) -> list[tuple[int, int, str, Markup]]:
    """Series, row, name and sample of every entry of the legend."""
    found = {setting.place.series: setting.place.row for setting in content.settings if setting.summary}
    numbers = series_of(content)
    return [(numbers[name], row, name, sample(numbers[name])) for name, row in found.items()]


def series_of(content: Content) -> dict[str, int]:
    """The number of every series, which gives its colour, dash and marker."""
    names = dict.fromkeys(setting.place.series for setting in content.settings)
    return {name: number for number, name in enumerate(names)}


def curves_of(content: Content, column: int, probe: str) -> list[tuple[Setting, list[DrawnPoint]]]:
    """Means over seeds by length of every setting of a column that has them."""
    found = []
    for setting in content.settings:
        if setting.place.column == column and setting.summary:
            rows = [row for row in setting.summary.rows if row.probe == probe and row.mean is not None]
            points = [DrawnPoint(row.length, row.mean.mean, row.mean.low, row.mean.high) for row in rows if row.mean]
            found += [(setting, points)] if points else []
    return found


def panels_of(content: Content, column: int) -> tuple[dict[str, list[tuple[Setting, list[DrawnPoint]]]], list[Setting]]:
    """What a column's panels show, and all settings that any shows; a place that is nowhere selected has no curve."""
    found = {probe: curves_of(content, column, probe) for probe in content.panels}
    there = next(([setting for setting, _ in curves] for curves in found.values() if curves), [])
    return {probe: curves for probe, curves in found.items() if curves or (there and kind_of(probe) == "place")}, there


def frame_of(settings: Sequence[Setting], probe: str, label: str) -> Frame:
    """What curves of these settings share."""
    configs = [setting.summary.config for setting in settings if setting.summary]
    lengths = sorted({length for config in configs for length in config["lengths"]})
    trained = {(config["shortest"], config["longest"]) for config in configs}
    chances = {
        tuple((row.length, row.chance) for row in setting.summary.rows if row.chance is not None)
        for setting in settings
        if setting.summary
    }
    return Frame(
        lengths=lengths,
        bounds=bounds_of(probe, lengths[-1]),
        whole=kind_of(probe) == "place",
        trained=trained.pop() if len(trained) == 1 else None,
        chance=chances.pop() if probe == "accuracy" and len(chances) == 1 else (),
        label=label,
    )


def _facet(content: Content, column: int) -> Facet:
    axis = content.layout.columns
    title = short(axis.said(column))
    numbers, panels = series_of(content), []
    shown, there = panels_of(content, column)
    counted = counted_by(setting.rows for setting in there)
    for probe, found in shown.items():
        curves = [
            DrawnCurve(short(one.place.label), one.place.row, column, numbers[one.place.series], points)
            for one, points in found
        ]
        name = title_of(probe, counted)
        said = ", ".join(one.name for one in curves) or NO_SELECTION
        label = f"{name} against length{', ' + title if title else ''}: {said}"
        frame = frame_of([setting for setting, _ in found] or there, probe, label)
        panels.append(Panel(name, meaning_of(probe, counted), picture(curves, frame)))
    return Facet(column, title, panels, note_of(there) if there else "No cell of these is finished.")


def note_of(settings: Sequence[Setting]) -> str:
    """What lines and bands are, and what differs between the settings so that it is not drawn."""
    summaries = [setting.summary for setting in settings if setting.summary]
    kinds = _kinds(settings)
    counts = sorted({(one.n, setting.wanted) for setting in settings if (one := setting.summary)})
    said = ", ".join(f"n = {n} of {wanted}" for n, wanted in counts)
    parts = [f"Lines: mean over seeds ({said})"]
    parts.append(f"bands: {', '.join(kinds)} over seeds" if kinds else "one seed has no band")
    if len({(one.config["shortest"], one.config["longest"]) for one in summaries}) > 1:
        parts.append("trained lengths differ between these settings and are not marked")
    if not frame_of(settings, "accuracy", "").chance:
        parts.append("chance differs between these settings: the table has it")
    return "; ".join(parts) + "."


def _kinds(settings: Sequence[Setting]) -> list[str]:
    """How the intervals of these settings were made."""
    rows = [row for setting in settings if setting.summary for row in setting.summary.rows]
    return sorted({interval_kind_of(row.mean) for row in rows if row.mean is not None and row.mean.low is not None})


def _by_length(content: Content) -> int:
    summaries = [setting.summary for setting in content.settings if setting.summary]
    return sum(row.probe in content.panels for summary in summaries for row in summary.rows)
