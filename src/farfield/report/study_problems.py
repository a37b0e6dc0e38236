"""Whatever is not as it should be in a folder of results, for the top of its report."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

from farfield.studies.standing import Standing

if TYPE_CHECKING:
    from farfield.report.study_content import Setting

# Seeds that one line names.
MOST_SEEDS = 10


class Failure(NamedTuple):
    """A cell that could not be finished.

    Attributes:
        identity: of the cell.
        reason: as recorded.
        seed: in words.
        model: seeds of the model that it tests.
        setting: content hash of its configuration without seeds.
        about: that configuration as a study writes it; None if the record cannot be read.
    """

    identity: str
    reason: str
    seed: str
    model: tuple[Any, Any]
    setting: str
    about: dict[str, str] | None


class Problem(NamedTuple):
    """Something to know before the numbers are believed.

    Attributes:
        kind: one word for it.
        said: in a sentence.
        named: what it concerns, one by one.
    """

    kind: str
    said: str
    named: list[str]


def problems(
    settings: Sequence[Setting],
    failures: Sequence[Failure],
    state: Standing,
    others: int,
    unreadable: str | None,
    missing: Mapping[str, int],
) -> list[Problem]:
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
        said = f"{_count(left, 'cell')} not finished yet: every number counts those that are."
        found.append(Problem("missing", said, [f"{label}: {count}" for label, count in missing.items()]))
    if others:
        said = f"{_count(others, 'cell')} of the folder left out: no part of this study."
        found.append(Problem("others", said, []))
    return found


def _of_store(failures: Sequence[Failure], state: Standing, unreadable: str | None) -> Iterator[Problem]:
    if unreadable:
        said = f"What the study asked for is not known, so all cells of the folder are shown: {unreadable}."
        yield Problem("record", said, [])
    if failures:
        named = [f"{_name(one)}: {one.reason}" for one in failures]
        said = f"{_count(len(failures), 'cell')} failed and enter no number."
        yield Problem("failed", said, named)
    if state.damaged:
        said = f"{_count(len(state.damaged), 'file')} damaged and left out: run the study again to replace them."
        named = [f"{name}: {what}" for name, what in state.damaged.items()]
        yield Problem("damaged", said, named)
    if state.older:
        said = f"{_count(state.older, 'cell')} of an older data version left out: the numbers are not comparable."
        yield Problem("older", said, [])
    if state.writing:
        said = f"{_count(state.writing, 'file')} half-written: a run may be going on."
        yield Problem("writing", said, [])


def _of_seeds(settings: Sequence[Setting]) -> Iterator[Problem]:
    diverged, identical, shared, unfit, count = [], [], [], [], 0
    for setting in settings:
        found, label = setting.summary, setting.place.label
        if found is None:
            continue
        diverged += [f"{label}: seed {seed}" for seed in found.diverged]
        identical += [f"{label}: {_seeds(seeds)}" for seeds in found.identical]
        shared += [f"{label}: {found.shared}"] if found.shared else []
        if found.fit is not None and len(found.fit.fitted) < found.n:
            out = [seed for seed in found.seeds if seed not in found.fit.fitted]
            count += len(out)
            unfit.append(f"{label}: {len(out)} of {found.n} ({_seeds(out)})")
    if diverged:
        said = f"{_count(len(diverged), 'cell')} diverged (the loss is not a number); included in every mean."
        yield Problem("diverged", said, diverged)
    if identical:
        said = "Some seeds computed the same, bit for bit: they are not different seeds, and intervals are too narrow."
        yield Problem("identical", said, identical)
    if shared:
        yield Problem("shared", "Seeds are not drawn apart, which intervals over seeds take them to be.", shared)
    if unfit:
        said = f"{_count(count, 'cell')} did not learn the task within the trained lengths; included in every mean, "
        said += "beside which stands the mean of those that fit."
        yield Problem("unfit", said, unfit)


def _name(one: Failure) -> str:
    if one.about is None:
        return one.identity
    return f"{one.about['encoding']} on {one.about['task']}, seed {one.seed}"


def _count(count: int, thing: str) -> str:
    return f"{count} {thing}{'' if count == 1 else 's'}"


def _seeds(names: Sequence[str]) -> str:
    left = len(names) - MOST_SEEDS
    return f"{'seed' if len(names) == 1 else 'seeds'} {', '.join(names[:MOST_SEEDS])}" + (
        f" and {left} more" if left > 0 else ""
    )
