"""`farfield report`."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated

import typer

from farfield.cli.common import Json, file_path, folder_path
from farfield.cli.study.status import Folder
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
    from farfield.reporting.report import report as write_report
    from farfield.reporting.sentences import sentences

    found = write_report(folder, output, figures, interval)
    if as_json:
        print(json.dumps(found.to_json(), indent=1, ensure_ascii=False))
        return
    for line in [*sentences(found.content), *(f"Note: {problem.said}" for problem in found.content.problems)]:
        print(short(line))
    print(f"wrote {found.page}; figures and numbers in {found.figures}")
