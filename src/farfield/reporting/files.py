"""The figures of a report as files, each with its data as CSV, and its tables."""

from __future__ import annotations

import csv
import io
import re
import textwrap
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any

import matplotlib as mpl
import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import FixedLocator, NullLocator

from farfield.errors import FarfieldError
from farfield.intervals import Estimate, wilson
from farfield.plotting.style import STYLE, new_figure, note, panels, save, style_of, whole_numbers
from farfield.printing import command, short
from farfield.reporting.atlas import heading, squares_of
from farfield.reporting.curves_svg import NO_SELECTION, DrawnPoint, Frame
from farfield.reporting.model import Content, Setting
from farfield.reporting.numbers import interval_kind_of
from farfield.reporting.page import frame_of, note_of, panels_of, series_of
from farfield.reporting.ways import failure_figure
from farfield.results.measures import counted_by, meaning_of, names_of, title_of
from farfield.seeds.summary import PROBES, AtLength
from farfield.store.files import write_text

FORMATS = (".svg", ".png")
# Letters of a name that stands in one line of a figure.
LONGEST_LINE = 60
# The intercept of the dilution fit is no alpha of a prediction, though its measurement is called so.
COLUMNS = {"dilution_alpha": "dilution_intercept"}
# Files of earlier reports that a report replaces even where its own tasks have other names.
CURVES = re.compile(r"curves(-[A-Za-z0-9._-]+)?\.(svg|png|csv)")
# All that a report writes, and the file by which it knows a folder again.
OURS = re.compile(rf"(atlas|ways|statistics|mechanism)\.(svg|png|csv)|{CURVES.pattern}")
MARK, MARKED = "about.txt", "Figures and numbers of a farfield report; the next one replaces them.\n"


def check_folder(figures: Path, store: Path) -> None:
    """Refuse a folder for figures where they would lie among a store's files, or replace some that no report wrote.

    Raises:
        FarfieldError: naming the file.
    """
    if figures.resolve() == store.resolve():
        raise FarfieldError(
            f"{figures} is the folder of the results: name another, as in {command('--figures', figures / 'figures')}"
        )
    if figures.is_dir() and not (figures / MARK).exists():
        for path in sorted(figures.iterdir()):
            if OURS.fullmatch(path.name):
                raise FarfieldError(
                    f"{path} is there and of no report of farfield: choose another folder with --figures"
                )


def write_files(content: Content, folder: Path) -> list[str]:
    """Write every figure as SVG and PNG with its data as CSV, and the tables as CSV; returns the names.

    Raises:
        FarfieldError: if the folder cannot be made or written to.
    """
    try:
        folder.mkdir(parents=True, exist_ok=True)
        old = [path for path in folder.iterdir() if CURVES.fullmatch(path.name)]
    except OSError as reason:
        raise FarfieldError(f"cannot write to {folder}: {reason.strerror}; choose another with --figures") from None
    written = [_write(folder / MARK, MARKED), *_write_tables(content, folder)]
    if any(setting.summary for setting in content.settings):
        written += [_write_figure(atlas_figure(content), folder / f"atlas{suffix}") for suffix in FORMATS]
        failures = failure_figure(content)
        if failures is not None:
            written += [_write_figure(failures, folder / f"ways{suffix}") for suffix in FORMATS]
        for column, name in enumerate(_file_names(content)):
            figure = curves_figure(content, column)
            if figure is not None:
                written += [_write_figure(figure, folder / f"{name}{suffix}") for suffix in FORMATS]
                written.append(_write_csv(folder / f"{name}.csv", _curve_rows(content, column)))
    for path in old:
        if path.name not in written:
            path.unlink(missing_ok=True)
    return sorted(written)


def atlas_figure(content: Content) -> Figure:
    """Token accuracy at every setting's longest test, as a heat map; a mean where a square has several settings."""
    layout, squares = content.layout, squares_of(content)
    shape = (len(layout.rows.choices), len(layout.columns.choices))
    values = np.full(shape, np.nan)
    for place, square in squares.items():
        values[place] = np.nan if square.last is None else square.last
    names = _plain(layout.rows.values)
    letters = max(len(line) for name in names for line in name.split("\n"))
    height = max(0.42, 0.17 * max(name.count("\n") + 1 for name in names))
    with mpl.rc_context({**STYLE, "axes.grid": False}):
        figure = new_figure(2.8 + 0.06 * max(0, letters - 20) + 0.85 * shape[1], 1.5 + height * shape[0])
        axes = figure.add_subplot()
        colours = mpl.colormaps["cividis"].with_extremes(bad="#eeeeee")
        image = axes.imshow(np.ma.masked_invalid(values), cmap=colours, vmin=0, vmax=1, aspect="auto")
        for (row, column), square in squares.items():
            text = square.outcome if square.last is None else f"{square.last:.2f}\n{square.outcome}"
            ink = "white" if square.last is not None and square.last < 0.5 else "black"
            axes.text(column, row, text, ha="center", va="center", fontsize=7, color=ink)
        axes.set_xticks(range(shape[1]), _plain(layout.columns.values), rotation=35, ha="right")
        axes.set_yticks(range(shape[0]), names)
        axes.set(xlabel=layout.columns.name, ylabel=layout.rows.name)
        # The figure's, not the axes': it is wider than few columns.
        figure.suptitle(heading(content).replace(", ", ",\n"), fontsize=10)
        figure.colorbar(image, ax=axes, shrink=0.8)
        return figure


def curves_figure(content: Content, column: int) -> Figure | None:
    """The curves of one column of the atlas; None if no cell of it is finished."""
    found, there = panels_of(content, column)
    counted = counted_by(setting.rows for setting in there)
    if not found:
        return None
    numbers, axis = series_of(content), content.layout.columns
    with mpl.rc_context(STYLE):
        figure, grid = panels(len(found))
        for axes, (probe, curves) in zip(np.ravel(grid), found.items(), strict=True):
            if not curves:
                axes.text(0.5, 0.5, NO_SELECTION, transform=axes.transAxes, ha="center", va="center", color="0.35")
            for setting, points in curves:
                _draw(axes, points, numbers[setting.place.series], _plain([setting.place.series])[0])
            _frame(axes, frame_of([setting for setting, _ in curves] or there, probe, ""))
            if not curves:
                axes.set_yticks([])
            meaning = textwrap.fill(re.split("[,;]", meaning_of(probe, counted))[0], 28)
            axes.set(title=title_of(probe, counted), xlabel="length L", ylabel=meaning)
        handles = {
            label: handle
            for axes in np.ravel(grid)
            for handle, label in zip(*axes.get_legend_handles_labels(), strict=True)
        }
        figure.legend(handles.values(), handles, loc="outside lower center", ncols=min(len(handles), 5),
                      title=note_of(there), title_fontsize=7.5)  # fmt: skip
        if axis.names:
            figure.suptitle(_plain([axis.said(column)])[0], fontsize=10)
        return figure


def _draw(axes: Axes, points: Sequence[DrawnPoint], series: int, label: str) -> None:
    style = style_of(series)
    axes.plot([p.length for p in points], [p.mean for p in points], label=label, **style)
    ends = [(p.length, p.low, p.high) for p in points if p.low is not None and p.high is not None]
    if ends:
        lengths, low, high = zip(*ends, strict=True)
        axes.fill_between(lengths, low, high, color=style["color"], alpha=0.18, linewidth=0)


def _frame(axes: Axes, frame: Frame) -> None:
    axes.update_datalim([(length, 0) for length in frame.lengths], updatey=False)
    if frame.logarithmic:
        axes.set_xscale("log", base=2)
        axes.xaxis.set_minor_locator(NullLocator())
        powers = [length for length in frame.lengths if length & (length - 1) == 0]
        shown = (
            powers[:: max(1, len(powers) // 5)] if len(powers) > 2 else frame.lengths[:: len(frame.lengths) // 4 or 1]
        )
        axes.xaxis.set_major_locator(FixedLocator(shown))
        axes.xaxis.set_major_formatter(lambda value, _: f"{value:g}")
    if frame.trained:
        shortest, longest = frame.trained
        first = frame.lengths[0] if shortest <= frame.lengths[0] <= longest else shortest
        axes.axvspan(first, longest, color="0.5", alpha=0.14, label="trained lengths")
    if not frame.logarithmic:
        whole_numbers(axes, "x")
    if frame.whole:
        whole_numbers(axes, "y", *(frame.bounds or ()))
    elif frame.bounds:
        axes.set_ylim(-0.06, 1.04)
    if frame.chance:
        axes.plot(*zip(*frame.chance, strict=True), color="0.35", dashes=(4, 3), linewidth=1)
        note(axes, "chance", frame.chance[-1], shift=(-2, -9))


def _write_figure(figure: Figure, path: Path) -> str:
    save(figure, path)
    return path.name


def _write_tables(content: Content, folder: Path) -> Iterator[str]:
    yield _write_csv(folder / "atlas.csv", _atlas_rows(content))
    yield _write_csv(folder / "statistics.csv", _statistic_rows(content))
    yield _write_csv(folder / "mechanism.csv", _mechanism_rows(content))


def _about(content: Content, setting: Setting) -> dict[str, Any]:
    layout = content.layout
    about = {"setting": setting.place.label}
    for axis, number in ((layout.rows, setting.place.row), (layout.columns, setting.place.column)):
        if axis.names:
            about[axis.name] = axis.values[number]
    return about | ({"others": setting.place.rest} if layout.others else {})


def _atlas_rows(content: Content) -> Iterator[dict[str, Any]]:
    for setting in content.settings:
        found = setting.summary
        row = found.at(setting.longest) if found else None
        yield _about(content, setting) | {
            "outcome": setting.outcome,
            "length": setting.longest if found else None,
            "accuracy": row.mean.mean if row and row.mean else None,
            "share_of": counted_by([setting.rows]) if found else None,
            "kept_up_to": setting.reach,
            "seeds_that_keep": setting.keeping,
            "finished": setting.n,
            "wanted": setting.wanted,
        }


def _curve_rows(content: Content, column: int) -> Iterator[dict[str, Any]]:
    for row in _statistic_rows(content, column):
        if row["measurement"] in content.panels:
            yield row


def _statistic_rows(content: Content, column: int | None = None) -> Iterator[dict[str, Any]]:
    for setting in content.settings:
        found = setting.summary
        if found is None or column not in (None, setting.place.column):
            continue
        for row in found.rows:
            yield _about(content, setting) | {
                "measurement": row.probe,
                "share_of": _share_of(setting, row.probe),
                "length": row.length,
                "range": row.range,
                **_ends("mean", row.mean),
                **_ends("mean_given_fit", row.given_fit),
                "median": row.median,
                "min": row.least,
                "max": row.most,
                "n": row.mean.n if row.mean else 0,
                "wanted": setting.wanted,
                **_share_that_keeps(row, setting.n),
                "fit": len(found.fit.fitted) if found.fit else None,
                "diverged": len(found.diverged),
                "chance": row.chance,
                "interval": interval_kind_of(row.mean) if row.mean else None,
            }


def _share_of(setting: Setting, probe: str) -> str | None:
    """What an accuracy counts; None for another measurement."""
    return counted_by([setting.rows]) if probe == "accuracy" else "sequences" if probe in PROBES else None


def _share_that_keeps(row: AtLength, seeds: int) -> dict[str, float | None]:
    """Seeds that keep the task at a length, and Wilson's interval of their share; none but for token accuracy."""
    low, high = (None, None) if row.kept is None else wilson(len(row.kept), seeds)
    return {"keep": None if row.kept is None else len(row.kept), "keep_low": low, "keep_high": high}


def _mechanism_rows(content: Content) -> Iterator[dict[str, Any]]:
    for setting in content.settings:
        numbers: dict[str, Any] = {}
        for name in names_of(mechanism=True):
            numbers |= _ends(COLUMNS.get(name, name), setting.estimates.get(name))
        seeds = {f"{name.partition('_')[0]}_n": found.n for name, found in setting.estimates.items()}
        peaks = "; ".join(f"{offset} ({count})" for offset, count in setting.peaks)
        counts = {name: seeds.get(name, 0) for name in ("dilution_n", "carrier_n")}
        yield _about(content, setting) | numbers | {"carrier_peak": peaks} | counts | {"wanted": setting.wanted}


def _ends(name: str, found: Estimate | None) -> dict[str, float | None]:
    mean, low, high = (found.mean, found.low, found.high) if found else (None, None, None)
    return {name: mean, f"{name}_low": low, f"{name}_high": high}


def _write_csv(path: Path, rows: Iterable[dict[str, Any]]) -> str:
    rows = list(rows)
    text = io.StringIO()
    writer = csv.DictWriter(text, list(rows[0]) if rows else ["setting"], lineterminator="\n")
    writer.writeheader()
    writer.writerows(rows)
    return _write(path, text.getvalue())


def _write(path: Path, text: str) -> str:
    try:
        write_text(path, text)
    except OSError as reason:
        raise FarfieldError(f"cannot write {path}: {reason.strerror}; choose another folder with --figures") from None
    return path.name


def _file_names(content: Content) -> list[str]:
    """A name for the files of every column; no two alike, also where the file system has one case."""
    names: list[str] = []
    for value in content.layout.columns.values:
        plain = re.sub(r"[^A-Za-z0-9._]+", "-", value).strip("-.")[:60]
        name = f"curves-{plain}" if plain else "curves"
        same = sum(other.lower() == name.lower() for other in names)
        names.append(f"{name}-{len(names)}" if same else name)
    return names


def _plain(texts: Sequence[str]) -> list[str]:
    """Texts that fit a figure, a long one over several lines, and that matplotlib does not read as formulas."""
    folded = (text.replace(",", ",\n") if len(text) > LONGEST_LINE else text for text in map(short, texts))
    return [text.replace("$", r"\$") for text in folded]
