"""`farfield study`: one file a command."""

from __future__ import annotations

import typer

from farfield.cli.study.new import new
from farfield.cli.study.plan import plan
from farfield.cli.study.schema import schema

study = typer.Typer(
    name="study", help="Grids of cells from one file: what varies, what stays, which seeds.", no_args_is_help=True
)
study.command()(new)
study.command()(plan)
study.command()(schema)

__all__ = ["study"]
