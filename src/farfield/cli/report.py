"""`farfield report`."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated, Any

import typer

from farfield.cli.common import Json, file_path, folder_path
from farfield.cli.study.status import Folder
from farfield.errors import unknown
from farfield.printing import short


def report(
    folder: Folder,
    output: Annotated[
        Path | None,
        typer.Option("--output", "-o", help="The page; report.html in the folder if left out.", parser=file_path),
    ] = None,
    figures: Annotated[
        Path | None,
        typer.Option(
            help="Folder for figures (SVG, PNG) and numbers (CSV); report/ in the folder if left out.",
            parser=folder_path,
        ),
    ] = None,
    interval: Annotated[str, typer.Option(help="Of means over seeds: t, or the percentile bootstrap.")] = "t",
    as_json: Json = False,
) -> None:
    """Write what a folder of results says as one HTML page that needs no network, with its figures and numbers.

    The page tells which settings keep their task to the longest test and which lose it, and how; what failed, diverged
    or is missing stands first. A page and figures of an earlier report are replaced, any other file is not.

    Examples:

        farfield report runs

        farfield report runs -o carry-over.html --figures figures

        farfield report runs --interval bootstrap --json
    """
    from farfield.store.folder import FIGURES, PAGE

    page, beside = output or folder / PAGE, figures or folder / FIGURES
    if interval not in ("t", "bootstrap"):
        raise unknown("interval", interval, ("t", "bootstrap"))
    from farfield.reporting.files import check_folder, write_files
    from farfield.reporting.gather import gather
    from farfield.reporting.page import check_page, command_of, write_page
    from farfield.reporting.sentences import sentences, to_json

    chosen: Any = interval
    if output is not None:
        check_page(page)
    if figures is not None:
        check_folder(figures, folder)
    content = gather(folder, chosen)
    check_page(page)
    files = write_files(content, beside)
    write_page(content, page, command_of(folder, output, figures, interval), str(beside))
    if as_json:
        found = to_json(content) | {"page": str(page), "figures": str(beside), "files": files}
        print(json.dumps(found, indent=1, ensure_ascii=False))
        return
    for line in [*sentences(content), *(f"Note: {problem.said}" for problem in content.problems)]:
        print(short(line))
    print(f"wrote {page}; figures and numbers in {beside}")
