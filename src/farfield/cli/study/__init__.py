"""`farfield study`: one file a command."""

from __future__ import annotations

import typer

from farfield.cli.study.export import export
from farfield.cli.study.sql import sql
from farfield.cli.study.status import status
from farfield.cli.study.verify import verify

study = typer.Typer(
    name="study", help="Grids of cells from one file: what varies, what stays, which seeds.", no_args_is_help=True
)
study.command()(status)
study.command()(verify)
study.command()(sql)
study.command()(export)

__all__ = ["study"]
