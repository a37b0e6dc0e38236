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

from farfield._checks import plain, real
from farfield.cell_text import parts_text
from farfield.errors import FarfieldError, unknown
from farfield.identity import seeds_of, setting_of
from farfield.intervals import LEVEL, Estimate, bootstrap, over_seeds, wilson
from farfield.lengths import Range
from farfield.results.measures import kind_of
from farfield.seeds.scores import FIT, PROBES, ModelScores, by_model, names_of, shared_by

Interval = Literal["t", "bootstrap"]
# Of a probe's values at a length.
Estimator = Callable[[str, int, np.ndarray], Estimate]


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
        range: whether this length is shorter than training, trained, or longer.
        chance: token accuracy of the best guess that ignores the sequence; None for all other probes.
        mean: over all seeds that finished and did not diverge, with its interval; None if no value is a number.
        given_fit: over seeds that fit; None if none does or that cannot be told.
        median, least, most: over the same.
        left_out: seeds whose value is not a number, and those that diverged.
        kept: seeds that keep the task at this length, :meth:`ModelScores.keeps`; None for probes other than accuracy.
    """

    probe: str
    length: int
    range: Range
    chance: float | None
    mean: Estimate | None
    given_fit: Estimate | None
    median: float | None
    least: float | None
    most: float | None
    left_out: list[str]
    kept: list[str] | None

    @property
    def in_range(self) -> bool:
        """Whether training met this length."""
        return self.range == "trained"


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
        diverged: seeds whose training ended in a loss that is not a number: they fit nothing, and no mean counts them.
        identical: groups of seeds whose weights and counts agree bit for bit, which different seeds never do.
        fit: share that fits; None where no trained length is tested.
        lost: seeds that do not keep the task at the longest test, by the way that costs them most, one of
            :data:`farfield.probes.failure.WAYS`; empty for a task without positional targets.
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
    lost: dict[str, list[str]]
    rows: list[AtLength] = field(repr=False)

    @property
    def n(self) -> int:
        """How many seeds finished."""
        return len(self.seeds)

    @property
    def label(self) -> str:
        """Encoding and task as a user writes them: ``rope:base=500000 on offset:2``."""
        parts = parts_text(self.config)
        return " on ".join(parts[name] for name in ("encoding", "task") if name in parts)

    def at(self, length: int, probe: str = "accuracy") -> AtLength:
        """One row; FarfieldError if it was not measured."""
        for row in self.rows:
            if (row.probe, row.length) == (probe, length):
                return row
        raise unknown("measurement", f"{probe} at {length}", [f"{row.probe} at {row.length}" for row in self.rows])

    def to_json(self) -> dict[str, Any]:
        """As a JSON-able object; numbers that do not exist are null."""
        from farfield._json import finite

        rows = [
            row._asdict()
            | {"in_range": row.in_range}
            | {name: (found := getattr(row, name)) and found._asdict() for name in ("mean", "given_fit")}
            for row in self.rows
        ]
        names = ("setting", "label", "config", "wanted", "n", "seeds", "cells", "shared", "missing")
        plain = {name: getattr(self, name) for name in names}
        plain |= {
            "diverged": self.diverged,
            "identical": self.identical,
            "lost": self.lost,
            "fit": self.fit and self.fit._asdict(),
        }
        return finite(plain | {"rows": rows})


def summarize(
    outcomes: Iterable[ModelScores],
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
    groups: dict[str, list[ModelScores]] = defaultdict(list)
    for outcome in outcomes:
        groups[setting_of(outcome.config)].append(outcome)
    return [_summarize(setting, group, wanted, share, interval, probes) for setting, group in groups.items()]


def _summarize(
    setting: str,
    outcomes: list[ModelScores],
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
        lost=_lost(seeds),
        rows=[
            _row(probe, length, seeds, fitted, estimate)
            for probe in probes
            for length in models[0].lengths
            if any((probe, length) in model.values for model in models)
        ],
    )


def bounds_of(probe: str, length: int) -> tuple[float, float] | None:
    """Least and most that a probe can be at a length; None where it has no ends."""
    if kind_of(probe) == "share":
        return 0.0, 1.0
    # Of the key that counts, from the first or the second one to the query's own.
    places = {"selected_offset": (1 - length, 0), "selected_offset_without_first": (2 - length, 0)}
    return (places | {"pin": (0, length - 1)}).get(probe)


def _estimator(interval: Interval) -> Estimator:
    def by_t(probe: str, length: int, values: np.ndarray) -> Estimate:
        return over_seeds(values, bounds=bounds_of(probe, length))

    return by_t if interval == "t" else lambda probe, length, values: bootstrap(values)


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
    seeds: Mapping[str, ModelScores],
    fitted: list[str],
    estimate: Estimator,
) -> AtLength:
    models = seeds.values()
    values = np.array([model.values.get((probe, length), np.nan) for model in models], float)
    sound = np.isfinite(values) & np.array([not model.diverged for model in models])
    kept, given_fit = values[sound], values[sound & np.array([name in fitted for name in seeds])]
    first, of_tokens = next(iter(models)), probe == "accuracy"
    return AtLength(
        probe=probe,
        length=length,
        range=first.range_of(length),
        chance=first.values["chance", length] if of_tokens else None,
        mean=estimate(probe, length, kept) if kept.size else None,
        given_fit=estimate(probe, length, given_fit) if given_fit.size else None,
        median=float(np.median(kept)) if kept.size else None,
        least=float(kept.min()) if kept.size else None,
        most=float(kept.max()) if kept.size else None,
        left_out=[name for name, is_sound in zip(seeds, sound, strict=True) if not is_sound],
        kept=[name for name, model in seeds.items() if model.keeps(length)] if of_tokens else None,
    )


def _lost(seeds: Mapping[str, ModelScores]) -> dict[str, list[str]]:
    lost: dict[str, list[str]] = defaultdict(list)
    for name, model in seeds.items():
        way = None if model.diverged else model.lost_by(model.lengths[-1])
        if way is not None:
            lost[way].append(name)
    return dict(lost)


def _identical(seeds: Mapping[str, ModelScores]) -> list[list[str]]:
    same: dict[str, list[str]] = defaultdict(list)
    for name, model in seeds.items():
        same[model.content].append(name)
    return [names for names in same.values() if len(names) > 1]
