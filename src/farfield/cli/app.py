"""The commands put together, and what becomes of their errors. A command parses, calls the interface and prints."""

from __future__ import annotations

import contextlib
import errno
import io
import os
import re
import signal
import sys
import threading
import traceback
import warnings
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Any

import typer

from farfield.cli.conjecture import conjecture
from farfield.cli.kernel import kernel
from farfield.cli.listing import list_names
from farfield.cli.predict import predict
from farfield.cli.report import report
from farfield.cli.reproduce import reproduce
from farfield.cli.show import show
from farfield.cli.stopping import Terminated, stoppable
from farfield.cli.study import study
from farfield.cli.train import train
from farfield.errors import FarfieldError, ListedError
from farfield.printing import short

app = typer.Typer(
    name="farfield",
    help="Train short, test long: measure and explain length generalization in attention.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)

# Typer carries its own copy of click in some releases; these names reach the classes in either case.
UsageError: Any = typer.BadParameter.__mro__[1]
ClickException: Any = UsageError.__mro__[1]

# Exit codes of a program that Ctrl-C and the signal TERM ended, by the shell's custom.
INTERRUPTED, TERMINATED = 130, 143


def main(arguments: Sequence[str] | None = None) -> None:
    """Entry point. A user's mistake ends in one line on standard error and exit code 2."""
    warnings.showwarning = _show_warning
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="replace")  # a terminal that lacks a sign shows another in its place
    try:
        with stoppable():
            code = app(args=arguments, standalone_mode=False)
        if sys.stdout is not None:
            sys.stdout.flush()
    except ListedError as reason:
        code = _fail(*reason.lines)
    except FarfieldError as reason:
        code = _fail(str(reason))
    except ClickException as reason:
        code = _fail(reason.format_message())
    except (typer.Abort, KeyboardInterrupt):
        code = INTERRUPTED
    except Terminated:
        code = TERMINATED
    except BrokenPipeError:
        code = _unread()
    except SystemExit as reason:  # as click and rich make of a broken pipe
        if not isinstance(reason.__context__, BrokenPipeError):
            raise
        code = _unread()
    except Exception as reason:
        if _out_of_memory(reason):
            code = _fail("there is not enough memory; what is finished is kept: run it again where there is more")
        elif _importing_jax(reason):
            code = _fail(f"JAX cannot be imported: {reason}; correct or unset that variable")
        elif isinstance(reason, OSError):
            code = _fail(f"cannot write the output: {reason.strerror}")
            _discard_output()
        else:
            raise
    if code in (INTERRUPTED, TERMINATED):
        said = "stopped"
        if "farfield.engine.scheduler" in sys.modules:
            said += "; finished models are kept where there is a folder of results: the same command goes on from there"
        if threading.current_thread() is threading.main_thread():
            signal.signal(signal.SIGINT, signal.SIG_DFL)  # another Ctrl-C ends the process on the spot
        print(f"farfield: {said}", file=sys.stderr)
    _leave(code or 0)


def _leave(code: int) -> None:
    """End, without waiting for models still in training or a query: what is stored is stored whole."""
    modules = map(sys.modules.get, ("farfield.engine.base", "farfield.store.interrupting"))
    if any(module.busy() for module in modules if module is not None):
        for stream in (sys.stdout, sys.stderr):
            with contextlib.suppress(OSError, AttributeError):
                stream.flush()
        os._exit(code)
    sys.exit(code)


def _unread() -> int:
    """The exit code where the reader went away (`farfield list | head`): nothing is left to say."""
    _discard_output()
    return 141


def _out_of_memory(reason: Exception) -> bool:
    """Whether memory ran out, which everyone who asks for it tells in their own way."""
    duckdb: Any = sys.modules.get("duckdb")
    kinds = (MemoryError, *(() if duckdb is None else (duckdb.OutOfMemoryException,)))
    refused = isinstance(reason, OSError) and reason.errno == errno.ENOMEM
    unloaded = isinstance(reason, ImportError) and "failed to map segment" in str(reason)
    return isinstance(reason, kinds) or refused or unloaded or "RESOURCE_EXHAUSTED" in str(reason)


def _importing_jax(reason: Exception) -> bool:
    """Whether JAX's import failed, as it does on a setting that it cannot read."""
    last = traceback.extract_tb(reason.__traceback__)[-1].filename
    return isinstance(reason, ValueError) and "jax" not in sys.modules and "jax" in Path(last).parts


def _discard_output() -> None:
    """Send what is still to be flushed nowhere, since its place is gone or full."""
    if sys.stdout is not None:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def _fail(*messages: str) -> int:
    for message in filter(None, messages):  # empty where the help was asked for by giving no command
        print(f"farfield: error: {_line(message)}", file=sys.stderr)
    return 2


def _line(message: str) -> str:
    """A message in one line, rows of numbers short, every sign that a terminal would act on or lacks as its escape.

    Spaces stay as they are, since they may be a path's.
    """
    return "".join(
        sign if sign.isprintable() else ascii(sign)[1:-1] for sign in re.sub(r"\s*\n\s*", " ", short(message).strip())
    )


def _show_warning(message: Any, *_: Any, **__: Any) -> None:
    print(f"farfield: warning: {_line(str(message))}", file=sys.stderr)


def _version(wanted: bool) -> None:
    if wanted:
        from farfield import __version__

        print(f"farfield {__version__}")
        raise typer.Exit


@app.callback()
def _root(
    version: Annotated[
        bool, typer.Option("--version", callback=_version, is_eager=True, help="Print the version and exit.")
    ] = False,
) -> None:
    del version


app.command()(train)
app.command()(reproduce)
app.command(context_settings={"allow_extra_args": True, "ignore_unknown_options": True})(show)
app.command()(kernel)
app.command()(predict)
app.command()(conjecture)
app.command()(report)
app.command("list")(list_names)
app.add_typer(study)
