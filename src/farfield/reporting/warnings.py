"""Whatever is not as it should be in a folder of results, for the top of its report."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence

from farfield.reporting.model import FailedCell, ReportWarning, Setting
from farfield.reporting.names import counted
from farfield.store.status import StoreStatus

# Seeds that one line names.
MOST_SEEDS = 10
# How names of files with weights end.
WEIGHTS = ".safetensors"


def problems(
    settings: Sequence[Setting],
    failures: Sequence[FailedCell],
    state: StoreStatus,
    others: int,
    unreadable: str | None,
    missing: Mapping[str, int],
) -> list[ReportWarning]:
    """All of them, the gravest first.

    Args:
        settings: with their statistics.
        failures: cells that could not be finished.
        state: of the store.
        others: finished cells that are no part of the study.
        unreadable: why the study's record cannot be read.
        missing: cells neither finished nor failed, by setting.
    """
    found = [*_of_store(failures, state, unreadable), *_of_seeds(settings)]
    left = sum(missing.values())
    if left:
        said = f"{counted(left, 'cell')} not finished yet: every number counts those that are."
        found.append(ReportWarning("missing", said, [f"{label}: {count}" for label, count in missing.items()]))
    if others:
        said = f"{counted(others, 'cell')} of the folder left out: no part of this study."
        found.append(ReportWarning("others", said, []))
    return found


def _of_store(failures: Sequence[FailedCell], state: StoreStatus, unreadable: str | None) -> Iterator[ReportWarning]:
    if unreadable:
        said = f"What the study asked for is not known, so all cells of the folder are shown: {unreadable}."
        yield ReportWarning("record", said, [])
    if failures:
        named = [f"{_name(one)}: {one.reason}" for one in failures]
        said = f"{counted(len(failures), 'cell')} failed and enter no number."
        yield ReportWarning("failed", said, named)
    yield from _damaged(state.damaged)
    if state.older:
        said = f"{counted(state.older, 'cell')} of an older data version left out: the numbers are not comparable."
        yield ReportWarning("older", said, [])
    if state.writing:
        said = f"{counted(state.writing, 'file')} half-written: a run may be going on."
        yield ReportWarning("writing", said, [])


def _damaged(files: Mapping[str, str]) -> Iterator[ReportWarning]:
    """Of a cell whose weights alone are damaged the measurements are whole, and counted."""
    weights = {name for name in files if name.endswith(WEIGHTS)}
    cells = {name: what for name, what in files.items() if name not in weights}
    if cells:
        are, them = ("is", "it") if len(cells) == 1 else ("are", "them")
        said = f"{counted(len(cells), 'file')} {are} damaged and left out: run the study again to replace {them}."
        yield ReportWarning("damaged", said, [f"{name}: {what}" for name, what in cells.items()])
    if weights:
        its = "its" if len(weights) == 1 else "their"
        said = f"The weights of {counted(len(weights), 'cell')} are damaged or missing; {its} measurements are whole "
        said += "and counted: run the study again to make them anew."
        yield ReportWarning("weights", said, [f"{name}: {files[name]}" for name in sorted(weights)])


def _of_seeds(settings: Sequence[Setting]) -> Iterator[ReportWarning]:
    identical, shared = [], []
    for setting in settings:
        if found := setting.summary:
            identical += [f"{setting.place.label}: {_seeds(seeds)}" for seeds in found.identical]
            shared += [f"{setting.place.label}: {found.shared}"] if found.shared else []
    if identical:
        said = "Some seeds computed the same, bit for bit: they are not different seeds, and intervals are too narrow."
        yield ReportWarning("identical", said, identical)
    if shared:
        yield ReportWarning("shared", "Seeds are not drawn apart, which intervals over seeds take them to be.", shared)
    yield from _not_learned(settings)


def _not_learned(settings: Sequence[Setting]) -> Iterator[ReportWarning]:
    """Seeds that did not fit, diverged ones among them; where that cannot be told, those that diverged."""
    diverged, unfit, counts = [], [], Counter[str]()
    for setting in settings:
        found, label = setting.summary, setting.place.label
        if found is None:
            continue
        bad = found.diverged
        if found.fit is None:
            diverged += [f"{label}: {len(bad)} of {found.n} ({_seeds(bad)})"] if bad else []
            counts["alone"] += len(bad)
            continue
        out = [seed for seed in found.seeds if seed not in found.fit.fitted]
        counts.update(unfit=len(out), diverged=len(bad))
        of_them = f"; diverged: {_names(bad)}" if bad else ""
        unfit += [f"{label}: {len(out)} of {found.n} ({_seeds(out)}{of_them})"] if out else []
    if unfit:
        of_which = f", of which {counts['diverged']} diverged (the loss is not a number)" if counts["diverged"] else ""
        said = f"{counted(counts['unfit'], 'model')} did not learn the task within the trained lengths{of_which}; "
        said += "included in every mean, beside which stands the mean of those that fit."
        yield ReportWarning("unfit", said, unfit)
    if diverged:
        said = f"{counted(counts['alone'], 'model')} diverged (the loss is not a number); included in every mean."
        yield ReportWarning("diverged", said, diverged)


def _name(one: FailedCell) -> str:
    return one.identity if one.label is None else f"{one.label}, seed {one.seed}"


def _seeds(names: Sequence[str]) -> str:
    return f"{'seed' if len(names) == 1 else 'seeds'} {_names(names)}"


def _names(names: Sequence[str]) -> str:
    left = len(names) - MOST_SEEDS
    return ", ".join(names[:MOST_SEEDS]) + (f" and {left} more" if left > 0 else "")
