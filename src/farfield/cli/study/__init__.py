"""`farfield study`: one file a command."""

from __future__ import annotations

import typer

from farfield.cli.study.export import export
from farfield.cli.study.new import new
from farfield.cli.study.plan import plan
from farfield.cli.study.run import run
from farfield.cli.study.schema import schema
from farfield.cli.study.sql import sql
from farfield.cli.study.status import status
from farfield.cli.study.verify import verify

study = typer.Typer(
    name="study", help="Grids of cells from one file: what varies, what stays, which seeds.", no_args_is_help=True
)
# In the order of use.
for command in (new, plan, run, status, verify, sql, export, schema):
    study.command()(command)

__all__ = ["study"]
