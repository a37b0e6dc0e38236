"""Commands. Parse, call the interface, print: no logic of their own."""

from __future__ import annotations

import io
import json
import os
import sys
import warnings
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.console import Console

from farfield.errors import FarfieldError

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

# Exit code of a program that Ctrl-C ended, by the shell's custom.
INTERRUPTED = 130

Json = Annotated[bool, typer.Option("--json", help="Print one JSON object on standard output, nothing else.")]
Workers = Annotated[int | None, typer.Option(help="Threads; one a core by default.", min=1)]


def main(arguments: Sequence[str] | None = None) -> None:
    """Entry point. A user's mistake ends in one line on standard error and exit code 2."""
    warnings.showwarning = _show_warning
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="replace")  # a terminal that lacks a sign shows another in its place
    try:
        code = app(args=arguments, standalone_mode=False)
        if sys.stdout is not None:
            sys.stdout.flush()
    except FarfieldError as reason:
        code = _fail(str(reason))
    except ClickException as reason:
        code = _fail(reason.format_message())
    except (typer.Abort, KeyboardInterrupt):
        code = INTERRUPTED
    except BrokenPipeError:
        # The reader went away (`farfield list | head`): nothing is left to say.
        _discard_output()
        code = 141
    except OSError as reason:
        code = _fail(f"cannot write the output: {reason.strerror}")
        _discard_output()
    if code == INTERRUPTED:
        print("farfield: stopped; finished models are kept where --out names a folder", file=sys.stderr, flush=True)
        os._exit(INTERRUPTED)  # without waiting for heads in flight: what is stored is stored whole
    sys.exit(code or 0)


def _discard_output() -> None:
    """Send what is still to be flushed nowhere, since its place is gone or full."""
    if sys.stdout is not None:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def _fail(message: str) -> int:
    if message:  # empty where the help was asked for by giving no command
        print(f"farfield: error: {' '.join(message.split())}", file=sys.stderr)
    return 2


def _show_warning(message: Any, *_: Any, **__: Any) -> None:
    print(f"farfield: warning: {message}", file=sys.stderr)


def _console() -> Console:
    """Standard output; off a terminal wide enough that no table is folded."""
    return Console(width=None if sys.stdout.isatty() else 150, soft_wrap=False, highlight=False)


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


@app.command()
def train(
    encoding: Annotated[
        str, typer.Option(help="Encoding with settings: rope, rope:base=500000, learned, learned:rows=64.")
    ] = "rope",
    task: Annotated[str, typer.Option(help="Task with settings: offset:K copies the token K before the query.")] = (
        "offset:1"
    ),
    model: Annotated[
        str, typer.Option(help="Model with settings: head:heads=4, positional, transformer:layers=2,heads=4,width=192.")
    ] = "head",
    normalizer: Annotated[
        str, typer.Option(help="What turns logits into weights: softmax:temperature=0.5, ssmax, entmax, linear.")
    ] = "softmax",
    positions: Annotated[
        str, typer.Option(help="Integers that tokens are given: fixed, random-start:2048, random-subset:2048, coupled.")
    ] = "fixed",
    test_positions: Annotated[
        str | None,
        typer.Option(
            help="The same in tests, also interpolate, clamp or rescale for tables (as in training if left out)."
        ),
    ] = None,
    seeds: Annotated[int, typer.Option(help="Number of seeds, 0 .. N-1.")] = 8,
    lengths: Annotated[str, typer.Option(help="Shortest and longest training length, SHORTEST:LONGEST.")] = "8:16",
    test: Annotated[str, typer.Option(help="Test lengths, separated by commas.")] = "12,16,20,24,32,40,48",
    vocabulary: Annotated[int, typer.Option(help="Number of tokens.")] = 20,
    steps: Annotated[int, typer.Option(help="Optimizer steps.")] = 4000,
    batch: Annotated[int, typer.Option(help="Sequences a step.")] = 256,
    learning_rate: Annotated[float, typer.Option(help="Of Adam.")] = 1e-3,
    weight_decay: Annotated[float, typer.Option(help="Coupled L2 on the encoding's own parameters.")] = 0.0,
    sequences: Annotated[int, typer.Option(help="Test sequences a length.")] = 4096,
    snapshots: Annotated[
        str | None, typer.Option(help="Also show carrier and spectrum after these steps, as in 0,200,1000.")
    ] = None,
    dense: Annotated[bool, typer.Option("--dense", help="Use the slow dense reference instead of lookup.")] = False,
    out: Annotated[str | None, typer.Option(help="Keep finished models in this folder and reuse those there.")] = None,
    plot: Annotated[Path | None, typer.Option(help="Write a figure here (.png, .svg or .pdf).")] = None,
    workers: Workers = None,
    as_json: Json = False,
) -> None:
    """Train models on short sequences, test them on long ones, say what they selected.

    `farfield list` names every encoding, task, model, normalizer and position regime. They combine freely; what makes
    no sense is refused with the reason. Settings follow a colon: NAME:VALUE for the first, NAME:SETTING=VALUE,... for
    any; rows of numbers are written 1;2;3, and 0 for a length or factor often means "as the training needs".

    Examples:

        farfield train --encoding rope --task offset:2 --seeds 8

        farfield train --encoding learned --task offset:1 --lengths 8:16 --test 16,17,32 --json

        farfield train --encoding rope:base=500000 --test 16,1024,65536 --sequences 256 --plot curves.png

        farfield train --encoding yarn:factor=4 --positions random-subset:2048 --normalizer ssmax --task induction
        --model transformer:layers=2,heads=4,width=192 --steps 500 --seeds 1
    """
    from farfield.api import train as run_training
    from farfield.cli.progress import reporter
    from farfield.report.drawing import check_path
    from farfield.report.terminal import train_tables

    if plot is not None:
        check_path(plot)
    result = run_training(
        encoding,
        task,
        model=model,
        normalizer=normalizer,
        positions=positions,
        test_positions=test_positions,
        seeds=seeds,
        lengths=_range(lengths),
        test=_whole_numbers("--test", test),
        out=_folder(out),
        workers=workers,
        progress=reporter(),
        vocabulary=vocabulary,
        steps=steps,
        batch=batch,
        learning_rate=learning_rate,
        weight_decay=weight_decay,
        sequences=sequences,
        snapshots=() if snapshots is None else _whole_numbers("--snapshots", snapshots),
        path="dense" if dense else "auto",
    )
    if as_json:
        print(json.dumps(result.to_json(), indent=1))
    else:
        console = _console()
        for part in train_tables(result):
            console.print(part)
    if plot is not None:
        result.plot(plot)


@app.command()
def reproduce(
    paper: Annotated[str, typer.Argument(help="Paper, see `farfield list papers`.")],
    only: Annotated[
        list[str] | None, typer.Option(help="Items to run, for example table1; may be repeated or comma-separated.")
    ] = None,
    budget: Annotated[
        str, typer.Option(help="standard (transformer shortened), full, quick (fewer seeds) or smoke (no verdicts).")
    ] = "standard",
    out: Annotated[
        str | None,
        typer.Option(help="Folder for the results [default: farfield-results/PAPER, another name for a part of it]."),
    ] = None,
    workers: Workers = None,
    as_json: Json = False,
) -> None:
    """Regenerate a paper's tables and figures, each published number beside the measured one.

    Examples:

        farfield reproduce implicit-bias

        farfield reproduce implicit-bias --only table1 --only figure1 --budget quick

        farfield reproduce implicit-bias --budget smoke --out /tmp/smoke --json
    """
    from farfield.cli.progress import reporter
    from farfield.errors import unknown
    from farfield.papers import PAPERS
    from farfield.papers.reproduce import DEFAULT_BUDGET, select_items
    from farfield.papers.reproduce import reproduce as run_paper
    from farfield.report.page import write_page
    from farfield.report.terminal import reproduction_table

    if paper not in PAPERS:
        raise unknown("paper", paper, PAPERS)
    # A part of the paper, or a smaller budget, must not replace a whole reproduction.
    part = [] if budget == DEFAULT_BUDGET else [budget]
    part += [item.name for item in select_items(PAPERS[paper], only)] if only else []
    folder = _folder(out) or Path("farfield-results") / "-".join([paper, *part])
    outcome = run_paper(PAPERS[paper], only=only, budget=budget, out=folder, workers=workers, progress=reporter())
    page = write_page(outcome, folder)
    if as_json:
        print(json.dumps(outcome.to_json() | {"page": str(page)}, indent=1))
        return
    console = _console()
    console.print(reproduction_table(outcome))
    console.print(f"{outcome.summary()} {outcome.cells} models, {outcome.seconds:.0f} s.")
    console.print(f"Budget {outcome.budget.name}: {outcome.budget.note}")
    console.print(f"Report: {page.resolve()}", soft_wrap=True)


@app.command(context_settings={"allow_extra_args": True, "ignore_unknown_options": True})
def show(
    context: typer.Context,
    encoding: Annotated[str, typer.Argument(help="Encoding, with settings after a colon or as options.")],
    dim: Annotated[int, typer.Option(help="Dimension of the head (or model) that it acts on.")] = 64,
    length: Annotated[int, typer.Option(help="Places; the query is the last.", min=1, max=2**16)] = 64,
    trained: Annotated[int, typer.Option(help="Training length that original_length=0 stands for.", min=1)] = 16,
    head: Annotated[str, typer.Option(help="Which head of how many, INDEX/HEADS, where heads differ.")] = "0/1",
    seed: Annotated[int, typer.Option(help="Of trainable parameters, shown as training starts from them.")] = 0,
    plot: Annotated[Path | None, typer.Option(help="Write a figure here (.png, .svg or .pdf).")] = None,
    as_json: Json = False,
) -> None:
    """Print and draw an encoding's kernel and bias over offsets, before any training.

    Every setting of the encoding is an option of its name; `farfield list encodings` names them.

    Examples:

        farfield show rope --base 500000 --dim 128

        farfield show yarn:factor=4,original_length=2048 --dim 64 --length 4096 --plot yarn.png

        farfield show alibi --head 2/8 --json
    """
    from farfield.report.drawing import check_path, save
    from farfield.report.figures import encoding_response
    from farfield.report.terminal import profile_table
    from farfield.showing import show as profile_of

    if plot is not None:
        check_path(plot)
    shown = profile_of(encoding, _settings(context.args), dim=dim, length=length, trained=trained,
                       head=_pair("--head", head, "/"), seed=seed)  # fmt: skip
    if as_json:
        print(json.dumps(shown.to_json(), indent=1))
    else:
        console = _console()
        for part in profile_table(shown):
            console.print(part)
    if plot is not None:
        save(encoding_response(shown.title, shown.profile), plot)


@app.command("list")
def list_names(
    kind: Annotated[
        str | None,
        typer.Argument(help="encodings, positions, normalizers, tasks, models, papers or items; all if left out."),
    ] = None,
    as_json: Json = False,
) -> None:
    """Name the encodings, position regimes, normalizers, tasks, models, papers and items there are.

    Examples:

        farfield list

        farfield list encodings --json
    """
    from farfield.catalogue import catalogue

    entries = catalogue(kind)
    if as_json:
        print(json.dumps(entries, indent=1))
        return
    for heading, names in entries.items():
        print(heading)
        for entry in names:
            written = entry.get("written", entry["name"])
            # A name with many settings has a line of its own.
            print(
                f"  {written:<34} {entry['summary']}"
                if len(written) <= 34
                else f"  {written}\n{'':<37}{entry['summary']}"
            )


def _folder(text: str | None) -> Path | None:
    if text is not None and not text.strip():
        raise FarfieldError("--out is empty: name a folder")
    return None if text is None else Path(text)


def _settings(arguments: list[str]) -> dict[str, str]:
    """Options that the command itself does not know, as settings: ``--base 500000`` or ``--base=500000``."""
    settings: dict[str, str] = {}
    left = list(arguments)
    while left:
        name, equals, value = left.pop(0).partition("=")
        if not name.startswith("--") or not (equals or left):
            raise FarfieldError(
                f"{name!r} is not understood: the encoding comes first, then its settings, as in rope --base 500000"
            )
        key = name.removeprefix("--").replace("-", "_")
        if key in settings:
            raise FarfieldError(f"--{key} is given twice")
        settings[key] = value if equals else left.pop(0)
    return settings


def _pair(option: str, text: str, sign: str) -> tuple[int, int]:
    first, _, second = text.partition(sign)
    try:
        return int(first), int(second)
    except ValueError:
        raise FarfieldError(f"{option} {text!r}: write two whole numbers, for example 0{sign}1") from None


def _range(text: str) -> tuple[int, int]:
    shortest, _, longest = text.partition(":")
    try:
        return int(shortest), int(longest or shortest)
    except ValueError:
        raise FarfieldError(f"--lengths {text!r}: write SHORTEST:LONGEST, for example 8:16") from None


def _whole_numbers(option: str, text: str) -> list[int]:
    try:
        return [int(part) for part in text.split(",") if part.strip()]
    except ValueError:
        raise FarfieldError(f"{option} {text!r}: write whole numbers separated by commas, for example 16,32") from None
