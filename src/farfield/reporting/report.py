"""Write the report of a folder of results: page, figures and numbers."""

from __future__ import annotations

from pathlib import Path
from typing import Any, NamedTuple

from farfield._checks import checked_folder, checked_path
from farfield.errors import unknown
from farfield.reporting.files import check_folder, write_files
from farfield.reporting.gather import gather
from farfield.reporting.model import Content
from farfield.reporting.page import check_page, command_of, write_page
from farfield.reporting.sentences import to_json
from farfield.store.folder import FIGURES, PAGE

INTERVALS = ("t", "bootstrap")


class Report(NamedTuple):
    """A report that was written.

    Attributes:
        page: its HTML page.
        figures: folder of its figures (SVG, PNG) and numbers (CSV).
        files: names of the files in that folder.
        content: what the page says, as records.
    """

    page: Path
    figures: Path
    files: list[str]
    content: Content

    def to_json(self) -> dict[str, Any]:
        """The report as one JSON-able object."""
        return to_json(self.content) | {"page": str(self.page), "figures": str(self.figures), "files": self.files}


def report(
    folder: Path | str, page: Path | str | None = None, figures: Path | str | None = None, interval: str = "t"
) -> Report:
    """Write what a folder of results says as one HTML page, with its figures and numbers beside it.

    >>> import farfield as ff
    >>> ff.report("runs").page                              # doctest: +SKIP
    PosixPath('runs/report.html')

    A page and figures of an earlier report are replaced; any other file is not.

    Args:
        folder: what a study, or ``train(out=...)``, wrote.
        page: the page; ``report.html`` in the folder if None.
        figures: folder of figures and numbers; ``report/`` in the folder if None.
        interval: of means over seeds, Student's ``t`` or the percentile ``bootstrap``.

    Raises:
        FarfieldError: for a folder without results, or a file that cannot be written.
    """
    if interval not in INTERVALS:
        raise unknown("interval", str(interval), INTERVALS)
    folder = checked_folder("folder", folder)
    chosen_page = None if page is None else checked_path("page", page)
    chosen_figures = None if figures is None else checked_folder("figures", figures)
    written, beside = chosen_page or folder / PAGE, chosen_figures or folder / FIGURES
    # What was asked for by name is looked at before anything is read, the rest once there is something to write.
    if chosen_page is not None:
        check_page(written)
    if chosen_figures is not None:
        check_folder(beside, folder)
    content = gather(folder, interval)  # pyright: ignore[reportArgumentType]
    check_page(written)
    files = write_files(content, beside)
    write_page(content, written, command_of(folder, chosen_page, chosen_figures, interval), str(beside))
    return Report(written, beside, files, content)
