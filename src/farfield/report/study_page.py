"""The HTML page of a folder of results: one self-contained file that asks no network for anything."""

from __future__ import annotations

import json
import shlex
import tempfile
from collections import defaultdict
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

import jinja2
import matplotlib as mpl
import numpy as np
from markupsafe import Markup
from matplotlib.colors import to_hex

from farfield.errors import FarfieldError
from farfield.report.curves_svg import Curve, Frame, Point, picture, sample
from farfield.report.study_content import Content, Setting
from farfield.statistics import Estimate
from farfield.studies.shards import write_atomically
from farfield.studies.summary import FIT, PROBES, SHARES

# What tells a page of this module from any other file.
GENERATOR = "farfield report"
# Steps of the atlas's colours, 0 to 1.
LEVELS = 20
NONE = "\N{EN DASH}"
# Rows by length that a page holds; the files beside it hold all.
MOST_ROWS = 4000

TITLES = {
    "accuracy": ("Token accuracy", "share of tokens answered correctly"),
    "sequence_accuracy": ("Sequence accuracy", "share of sequences with every token right"),
    "selected": ("Selection", "queries whose largest weight is on the right key"),
    "peak_height": ("Peak height", "largest mean attention weight"),
    "target_attention": ("Mass on the target", "mean attention weight of the right key"),
    "selected_offset": ("Selected offset", "key minus query, where mean attention is largest"),
    "selected_offset_without_first": ("Selected offset but the first key", "key minus query"),
    "pin": ("Pin", "key position where mean attention is largest"),
    "overlap": ("Overlap", "expected share of test sequences that training has seen"),
    "chance": ("Chance", "accuracy of the best guess that ignores the sequence"),
}


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


class Square(NamedTuple):
    """Settings of one row and column: how many, what became of them, and their mean by measurement and length."""

    settings: int
    outcome: str
    values: dict[str, dict[int, float]]


def check_page(path: Path) -> None:
    """Refuse a path that the page cannot be written to, before any work (FarfieldError)."""
    if not path.name or path.is_dir():
        raise FarfieldError(f"{path} is a folder: name a file in it, as in -o {path / 'report.html'}")
    if not path.parent.is_dir():
        raise FarfieldError(f"cannot write {path}: there is no folder {path.parent}")
    try:
        with tempfile.TemporaryFile(dir=path.parent):
            pass
        ours = GENERATOR in path.read_text(encoding="utf-8", errors="replace")[:2000] if path.exists() else True
    except OSError as reason:
        raise FarfieldError(f"cannot write {path}: {reason.strerror}; choose another place with -o") from None
    if not ours:
        raise FarfieldError(f"{path} is there and is no report of farfield: choose another name with -o")


def write_page(content: Content, path: Path, command: str, files: str) -> None:
    """Write the page, whole or not at all.

    Args:
        command: that makes it again.
        files: where the figures and numbers are kept.

    Raises:
        FarfieldError: if it cannot be written.
    """
    text = render(content, command, files)
    try:
        write_atomically(path, lambda temporary: temporary.write_text(text, encoding="utf-8"))
    except OSError as reason:
        raise FarfieldError(f"cannot write {path}: {reason.strerror}; choose another place with -o") from None


def command_of(folder: Path, page: Path | None, figures: Path | None, interval: str) -> str:
    """The command that makes a page again; None for what was left out."""
    parts = ["farfield", "report", str(folder)]
    parts += [] if page is None else ["-o", str(page)]
    parts += [] if figures is None else ["--figures", str(figures)]
    parts += ["--interval", interval] if interval != "t" else []
    return shlex.join(parts)


def render(content: Content, command: str, files: str) -> str:
    """The page as text."""
    environment = jinja2.Environment(
        loader=jinja2.PackageLoader("farfield.report"), autoescape=True, undefined=jinja2.StrictUndefined,
        trim_blocks=True, lstrip_blocks=True,
    )  # fmt: skip
    environment.filters |= {"three": three, "interval": interval_of}
    squares = _squares(content)
    shown = [setting for setting in content.settings if setting.summary]
    atlas = _atlas(content, squares)
    return environment.get_template("study.html").render(
        content=content,
        generator=GENERATOR,
        command=command,
        files=files,
        squares=squares,
        atlas=atlas,
        start=atlas["measures"][0] if atlas["measures"] else None,
        palette=_palette(),
        level=_level,
        legend=legend_of(content),
        facets=[_facet(content, column) for column in range(len(content.layout.columns.values))] if shown else [],
        titles=TITLES,
        shown=shown,
        became=content.what_became(),
        longest=sorted({setting.longest for setting in shown}),
        kinds=", ".join(_kinds(shown)),
        probes=[name for name in PROBES if name in content.panels],
        rows_by_length=_by_length(content),
        most_rows=MOST_ROWS,
        fit=FIT,
        study=_study_text(content),
    )


def legend_of(content: Content) -> list[tuple[int, int, str, Markup]]:
    """Series, row, name and sample of every entry of the legend."""
    found = {setting.place.series: setting.place.row for setting in content.settings if setting.summary}
    numbers = series_of(content)
    return [(numbers[name], row, name, sample(numbers[name])) for name, row in found.items()]


def series_of(content: Content) -> dict[str, int]:
    """The number of every series, which gives its colour, dash and marker."""
    names = dict.fromkeys(setting.place.series for setting in content.settings)
    return {name: number for number, name in enumerate(names)}


def curves_of(content: Content, column: int, probe: str) -> list[tuple[Setting, list[Point]]]:
    """Means over seeds by length of every setting of a column that has them."""
    found = []
    for setting in content.settings:
        if setting.place.column == column and setting.summary:
            rows = [row for row in setting.summary.rows if row.probe == probe and row.mean is not None]
            points = [Point(row.length, row.mean.mean, row.mean.low, row.mean.high) for row in rows if row.mean]
            found += [(setting, points)] if points else []
    return found


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
        bounds=(0.0, 1.0) if probe in SHARES else None,
        trained=trained.pop() if len(trained) == 1 else None,
        chance=chances.pop() if probe == "accuracy" and len(chances) == 1 else (),
        label=label,
    )


def _facet(content: Content, column: int) -> Facet:
    axis = content.layout.columns
    title = axis.said(axis.values[column])
    numbers, panels, there = series_of(content), [], []
    for probe in content.panels:
        found = curves_of(content, column, probe)
        if not found:
            continue
        there = there or [setting for setting, _ in found]
        curves = [
            Curve(one.place.label, one.place.row, column, numbers[one.place.series], points) for one, points in found
        ]
        name, about = TITLES.get(probe, (probe, ""))
        label = f"{name} against length{', ' + title if title else ''}: {', '.join(one.name for one in curves)}"
        frame = frame_of([setting for setting, _ in found], probe, label)
        panels.append(Panel(name, about, picture(curves, frame)))
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
    return sorted({kind_of(row.mean) for row in rows if row.mean is not None and row.mean.low is not None})


def _squares(content: Content) -> dict[tuple[int, int], Square]:
    groups: dict[tuple[int, int], list[Setting]] = defaultdict(list)
    for setting in content.settings:
        groups[setting.place.row, setting.place.column].append(setting)
    return {place: _square(group) for place, group in groups.items()}


def _square(group: list[Setting]) -> Square:
    outcomes = {setting.outcome for setting in group}
    values: dict[str, dict[int, list[float]]] = defaultdict(lambda: defaultdict(list))
    for setting in group:
        for row in setting.summary.rows if setting.summary else ():
            if row.mean is not None and row.probe in SHARES:
                values[row.probe][row.length].append(row.mean.mean)
    means = {
        probe: {length: round(float(np.mean(found)), 4) for length, found in by_length.items()}
        for probe, by_length in values.items()
    }
    return Square(len(group), outcomes.pop() if len(outcomes) == 1 else "mixed", means)


def _atlas(content: Content, squares: dict[tuple[int, int], Square]) -> dict[str, Any]:
    """What the page's script needs to show another measurement or length."""
    lengths = sorted({n for square in squares.values() for found in square.values.values() for n in found})
    measured = {probe for square in squares.values() for probe in square.values}
    return {
        "measures": [[name, TITLES.get(name, (name, ""))[0]] for name in content.panels if name in measured],
        "lengths": lengths,
        "values": {f"{row},{column}": square.values for (row, column), square in squares.items()},
    }


def _level(value: float) -> int:
    return round(LEVELS * min(max(value, 0.0), 1.0))


def _palette() -> list[tuple[str, str]]:
    """Ground and ink of every level."""
    colours = [mpl.colormaps["cividis"](level / LEVELS) for level in range(LEVELS + 1)]
    return [
        (to_hex(colour), "#fff" if np.dot(colour[:3], (0.2126, 0.7152, 0.0722)) < 0.45 else "#000")
        for colour in colours
    ]


def _by_length(content: Content) -> int:
    summaries = [setting.summary for setting in content.settings if setting.summary]
    return sum(row.probe in content.panels for summary in summaries for row in summary.rows)


def _study_text(content: Content) -> str | None:
    record = content.record
    return json.dumps(record.study.to_json(), indent=1, ensure_ascii=False) if record else None


def three(value: float | None) -> str:
    """A number to three decimals, or more where it is small."""
    if value is None:
        return NONE
    return f"{value:.3f}" if abs(value) >= 0.001 or value == 0 else f"{value:.1e}"


def interval_of(found: Estimate | None) -> str:
    """A mean with its interval, if it has one."""
    if found is None:
        return NONE
    ends = "" if found.low is None else f" [{three(found.low)}, {three(found.high)}]"
    return three(found.mean) + ends


def kind_of(found: Estimate) -> str:
    """How an interval was made, without the number of seeds."""
    return found.kind.partition(" over ")[0]
