"""Statistics over seeds, of cells that differ in nothing else: all seeds, and beside them those that fit.

An average over the seeds that happened to finish, or to work, is no result. So every record says how many seeds were
wanted, how many finished, which diverged, which share fits within the trained lengths, and the mean over all of them
before the mean over those that fit.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal, NamedTuple

import numpy as np

from farfield.arguments import plain, real
from farfield.errors import FarfieldError, unknown
from farfield.statistics import LEVEL, Estimate, bootstrap, over_seeds, wilson
from farfield.studies.columns import written
from farfield.studies.identity import seeds_of, setting_of
from farfield.studies.outcomes import FIT, PROBES, Outcome, by_model, names_of, shared_by

# Probes that are shares, whose intervals end at 0 and 1.
SHARES = {*PROBES, "selected", "target_attention", "peak_height", "overlap", "chance"}

Interval = Literal["t", "bootstrap"]


class FitRate(NamedTuple):
    """Share of seeds that learned their task within the trained lengths; a diverged seed did not.

    Attributes:
        rate: fitted / n.
        low, high: Wilson's interval.
        fitted: seeds that fit.
        n: seeds that finished.
        kind: how the interval was made.
        rule: what fitting means.
    """

    rate: float
    low: float
    high: float
    fitted: list[str]
    n: int
    kind: str
    rule: str


class AtLength(NamedTuple):
    """One probe at one length, over seeds.

    Attributes:
        probe, length: what.
        in_range: whether training met this length.
        chance: token accuracy of the best guess that ignores the sequence; None for all other probes.
        mean: over all seeds that finished, with its interval; None if no value is a number.
        given_fit: over seeds that fit; None if none does or that cannot be told.
        median, least, most: over all seeds that finished.
        left_out: seeds whose value is not a number, which diverged seeds' attention is.
        kept: seeds that keep the task at this length, :meth:`Outcome.keeps`; None for probes other than accuracy.
    """

    probe: str
    length: int
    in_range: bool
    chance: float | None
    mean: Estimate | None
    given_fit: Estimate | None
    median: float | None
    least: float | None
    most: float | None
    left_out: list[str]
    kept: list[str] | None


@dataclass(frozen=True)
class Summary:
    """Statistics of cells that differ in their seeds alone.

    What counts as a seed is a trained model: where a study tells seeds apart, weights of one seed trained on batches
    of another. Cells that test one model with several evaluation seeds are one value, their mean.

    Attributes:
        setting: content hash of the configuration without seeds.
        config: that configuration.
        wanted: how many seeds were asked for.
        seeds: those that finished.
        cells: how many cells they are made of.
        shared: what the seeds have in common, in words, where they are no independent draws; else empty.
        missing: seeds asked for by name that have not finished.
        diverged: seeds whose training ended in a loss that is not a number; they count in every mean.
        identical: groups of seeds whose weights and counts agree bit for bit, which different seeds never do.
        fit: share that fits; None where no trained length is tested.
        rows: every probe at every length.
    """

    setting: str
    config: dict[str, Any]
    wanted: int
    seeds: list[str]
    cells: int
    shared: str
    missing: list[str]
    diverged: list[str]
    identical: list[list[str]]
    fit: FitRate | None
    rows: list[AtLength] = field(repr=False)

    @property
    def n(self) -> int:
        """How many seeds finished."""
        return len(self.seeds)

    @property
    def label(self) -> str:
        """Encoding and task as a user writes them: ``rope:base=500000 on offset:2``."""
        parts = written(self.config)
        return " on ".join(parts[name] for name in ("encoding", "task") if name in parts)

    def at(self, length: int, probe: str = "accuracy") -> AtLength:
        """One row; FarfieldError if it was not measured."""
        for row in self.rows:
            if (row.probe, row.length) == (probe, length):
                return row
        raise unknown("measurement", f"{probe} at {length}", [f"{row.probe} at {row.length}" for row in self.rows])

    def to_json(self) -> dict[str, Any]:
        """As a JSON-able object; numbers that do not exist are null."""
        from farfield.jsonable import finite

        rows = [
            row._asdict() | {name: (found := getattr(row, name)) and found._asdict() for name in ("mean", "given_fit")}
            for row in self.rows
        ]
        names = ("setting", "label", "config", "wanted", "n", "seeds", "cells", "shared", "missing")
        plain = {name: getattr(self, name) for name in names}
        plain |= {"diverged": self.diverged, "identical": self.identical, "fit": self.fit and self.fit._asdict()}
        return finite(plain | {"rows": rows})


def summarize(
    outcomes: Iterable[Outcome],
    *,
    wanted: int | Collection[int] | None = None,
    fit: float = FIT,
    interval: Interval = "t",
    probes: Sequence[str] = PROBES,
) -> list[Summary]:
    """Statistics over seeds, one record for each setting.

    Args:
        outcomes: of any cells.
        wanted: seeds asked for of every setting, their number or themselves; those that are there if left out.
        fit: share of the way from chance to 1 that makes a seed fit, in (0, 1].
        interval: of means: Student's ``t``, or the percentile ``bootstrap``.
        probes: those to summarize.

    Raises:
        FarfieldError: for a share or an interval that makes no sense.
    """
    if not 0 < (share := real(fit)) <= 1:
        raise FarfieldError(f"fit = {fit} must be a share of the way from chance to 1, above 0 and at most 1")
    if interval not in ("t", "bootstrap"):
        raise unknown("interval", str(interval), ("t", "bootstrap"))
    if isinstance(probes, str) or not probes:
        raise FarfieldError(f"probes = {probes!r} must be a list of names, for example ['accuracy']")
    wanted = plain(wanted)
    number = isinstance(wanted, int) and not isinstance(wanted, bool) and wanted >= 1
    several = isinstance(wanted, Collection) and not isinstance(wanted, str)
    if not (wanted is None or number or several):
        raise FarfieldError(f"wanted = {wanted!r} must be a number of seeds, or a list of them")
    groups: dict[str, list[Outcome]] = defaultdict(list)
    for outcome in outcomes:
        groups[setting_of(outcome.config)].append(outcome)
    return [_summarize(setting, group, wanted, share, interval, probes) for setting, group in groups.items()]


def _summarize(
    setting: str,
    outcomes: list[Outcome],
    wanted: int | Collection[int] | None,
    fit: float,
    interval: Interval,
    probes: Sequence[str],
) -> Summary:
    models = by_model(outcomes)
    seeds = dict(zip(names_of(models), models, strict=True))
    asked = [] if wanted is None or isinstance(wanted, int) else [str(seed) for seed in wanted]
    number = len(asked) if asked else len(seeds) if wanted is None else int(wanted)  # pyright: ignore[reportArgumentType]
    skills = {name: model.skill() for name, model in seeds.items()}
    known = any(skill is not None for skill in skills.values())
    fitted = [name for name, skill in skills.items() if skill is not None and skill >= fit and not seeds[name].diverged]
    config, estimate = models[0].config, _estimator(interval)
    return Summary(
        setting=setting,
        config={name: value for name, value in config.items() if name not in seeds_of(config)},
        wanted=number,
        seeds=[*seeds],
        cells=len(outcomes),
        shared=shared_by(models),
        missing=[seed for seed in asked if seed not in seeds],
        diverged=[name for name, model in seeds.items() if model.diverged],
        identical=_identical(seeds),
        fit=_fit_rate(len(seeds), fitted, fit) if known else None,
        rows=[
            _row(probe, length, seeds, fitted, estimate)
            for probe in probes
            for length in models[0].lengths
            if any((probe, length) in model.values for model in models)
        ],
    )


def _estimator(interval: Interval) -> Callable[[str, np.ndarray], Estimate]:
    def by_t(probe: str, values: np.ndarray) -> Estimate:
        return over_seeds(values, bounds=(0, 1) if probe in SHARES else None)

    return by_t if interval == "t" else lambda probe, values: bootstrap(values)


def _fit_rate(n: int, fitted: list[str], share: float) -> FitRate:
    count = len(fitted)
    rule = (
        f"token accuracy, averaged over tested lengths within the trained ones, at least {share:g} of the way from "
        "chance to 1"
    )
    return FitRate(count / n, *wilson(count, n), fitted, n, f"Wilson {LEVEL:.0%} over {n} seeds", rule)


def _row(
    probe: str,
    length: int,
    seeds: Mapping[str, Outcome],
    fitted: list[str],
    estimate: Callable[[str, np.ndarray], Estimate],
) -> AtLength:
    models = seeds.values()
    values = np.array([model.values.get((probe, length), np.nan) for model in models], float)
    sound = np.isfinite(values)
    kept, given_fit = values[sound], values[sound & np.array([name in fitted for name in seeds])]
    first, of_tokens = next(iter(models)), probe == "accuracy"
    return AtLength(
        probe=probe,
        length=length,
        in_range=first.in_range(length),
        chance=first.values["chance", length] if of_tokens else None,
        mean=estimate(probe, kept) if kept.size else None,
        given_fit=estimate(probe, given_fit) if given_fit.size else None,
        median=float(np.median(kept)) if kept.size else None,
        least=float(kept.min()) if kept.size else None,
        most=float(kept.max()) if kept.size else None,
        left_out=[name for name, is_sound in zip(seeds, sound, strict=True) if not is_sound],
        kept=[name for name, model in seeds.items() if model.keeps(length)] if of_tokens else None,
    )


def _identical(seeds: Mapping[str, Outcome]) -> list[list[str]]:
    same: dict[str, list[str]] = defaultdict(list)
    for name, model in seeds.items():
        same[model.content].append(name)
    return [names for names in same.values() if len(names) > 1]
