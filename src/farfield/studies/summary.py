"""Statistics over seeds, of cells that differ in nothing else: all seeds, and beside them those that fit.

An average over the seeds that happened to finish, or to work, is no result. So every record says how many seeds were
wanted, how many finished, which diverged, which share fits within the trained lengths, and the mean over all of them
before the mean over those that fit.
"""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

import numpy as np

from farfield.errors import FarfieldError, unknown
from farfield.statistics import LEVEL, Estimate, bootstrap, over_seeds, wilson
from farfield.studies.columns import written
from farfield.studies.identity import seeds_of, setting_of

if TYPE_CHECKING:
    from farfield.studies.query import OpenStore
    from farfield.studies.results import CellResult

# Share of the way from chance to 1 that a seed must go, within the trained lengths, to have learned its task.
FIT = 0.9
# Of tokens, and of whole sequences.
PROBES = ("accuracy", "sequence_accuracy")
# Probes that are shares, whose intervals end at 0 and 1.
SHARES = {*PROBES, "selected", "target_attention", "peak_height", "overlap", "chance"}

Interval = Literal["t", "bootstrap"]


@dataclass(frozen=True)
class Outcome:
    """What one cell measured.

    Attributes:
        config: of the cell.
        values: by probe and length.
        diverged: whether training ended in a loss that is not a number.
        content: hash of its weights and counts: two seeds that share it computed the same.
    """

    config: Mapping[str, Any]
    values: Mapping[tuple[str, int], float]
    diverged: bool
    content: str

    @property
    def seed(self) -> str:
        """Its seeds, as text: 3, or model_seed 3, data_seed 4 where they are apart."""
        seeds = seeds_of(self.config)
        return str(seeds["seed"]) if [*seeds] == ["seed"] else ", ".join(f"{name} {seeds[name]}" for name in seeds)

    @property
    def lengths(self) -> list[int]:
        """Test lengths."""
        return list(self.config["lengths"])

    def in_range(self, length: int) -> bool:
        """Whether training met this length."""
        return self.config["shortest"] <= length <= self.config["longest"]

    def skill(self) -> float | None:
        """How far accuracy has come from chance (0) to 1, averaged over tested lengths that training met.

        None where no such length is tested.
        """
        reached = [
            (self.values["accuracy", length] - chance) / (1 - chance)
            for length in self.lengths
            if self.in_range(length) and (chance := self.values["chance", length]) < 1
        ]
        return float(np.mean(reached)) if reached else None


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
        chance: accuracy of the best guess that ignores the sequence; of tokens.
        mean: over all seeds that finished, with its interval; None if no value is a number.
        given_fit: over seeds that fit; None if none does or that cannot be told.
        median, least, most: over all seeds that finished.
        left_out: seeds whose value is not a number, which diverged seeds' attention is.
    """

    probe: str
    length: int
    in_range: bool
    chance: float
    mean: Estimate | None
    given_fit: Estimate | None
    median: float | None
    least: float | None
    most: float | None
    left_out: list[str]


@dataclass(frozen=True)
class Summary:
    """Statistics of cells that differ in their seeds alone.

    Attributes:
        setting: content hash of the configuration without seeds.
        config: that configuration.
        wanted: how many seeds were asked for.
        seeds: those that finished.
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
        plain = {
            name: getattr(self, name) for name in ("setting", "label", "config", "wanted", "n", "seeds", "missing")
        }
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
    if not 0 < fit <= 1:
        raise FarfieldError(f"fit = {fit} must be a share of the way from chance to 1, above 0 and at most 1")
    if interval not in ("t", "bootstrap"):
        raise unknown("interval", str(interval), ("t", "bootstrap"))
    groups: dict[str, list[Outcome]] = defaultdict(list)
    for outcome in outcomes:
        groups[setting_of(outcome.config)].append(outcome)
    return [_summarize(setting, group, wanted, fit, interval, probes) for setting, group in groups.items()]


def _summarize(
    setting: str,
    group: list[Outcome],
    wanted: int | Collection[int] | None,
    fit: float,
    interval: Interval,
    probes: Sequence[str],
) -> Summary:
    group = sorted(group, key=lambda outcome: (*seeds_of(outcome.config).values(),))
    seeds = [outcome.seed for outcome in group]
    asked = [] if wanted is None or isinstance(wanted, int) else [str(seed) for seed in wanted]
    number = len(asked) if asked else len(seeds) if wanted is None else int(wanted)  # pyright: ignore[reportArgumentType]
    skills = [outcome.skill() for outcome in group]
    fitted = [
        skill is not None and not outcome.diverged and skill >= fit
        for skill, outcome in zip(skills, group, strict=True)
    ]
    known = any(skill is not None for skill in skills)
    estimate = _estimator(interval)
    return Summary(
        setting=setting,
        config={name: value for name, value in group[0].config.items() if name not in seeds_of(group[0].config)},
        wanted=number,
        seeds=seeds,
        missing=[seed for seed in asked if seed not in seeds],
        diverged=[outcome.seed for outcome in group if outcome.diverged],
        identical=_identical(group),
        fit=_fit_rate(seeds, fitted, fit) if known else None,
        rows=[
            _row(probe, length, group, fitted if known else [False] * len(group), estimate)
            for probe in probes
            for length in group[0].lengths
            if any((probe, length) in outcome.values for outcome in group)
        ],
    )


def _estimator(interval: Interval) -> Callable[[str, np.ndarray], Estimate]:
    def by_t(probe: str, values: np.ndarray) -> Estimate:
        return over_seeds(values, bounds=(0, 1) if probe in SHARES else None)

    return by_t if interval == "t" else lambda probe, values: bootstrap(values)


def _fit_rate(seeds: list[str], fitted: list[bool], share: float) -> FitRate:
    count, n = sum(fitted), len(seeds)
    rule = (
        f"token accuracy, averaged over tested lengths within the trained ones, at least {share:g} of the way from "
        "chance to 1"
    )
    names = [seed for seed, fits in zip(seeds, fitted, strict=True) if fits]
    return FitRate(count / n, *wilson(count, n), names, n, f"Wilson {LEVEL:.0%} over {n} seeds", rule)


def _row(
    probe: str, length: int, group: list[Outcome], fitted: list[bool], estimate: Callable[[str, np.ndarray], Estimate]
) -> AtLength:
    values = np.array([outcome.values.get((probe, length), np.nan) for outcome in group], float)
    sound = np.isfinite(values)
    kept, given_fit = values[sound], values[sound & np.array(fitted)]
    return AtLength(
        probe=probe,
        length=length,
        in_range=group[0].in_range(length),
        chance=group[0].values.get(("chance", length), float("nan")),
        mean=estimate(probe, kept) if kept.size else None,
        given_fit=estimate(probe, given_fit) if given_fit.size else None,
        median=float(np.median(kept)) if kept.size else None,
        least=float(kept.min()) if kept.size else None,
        most=float(kept.max()) if kept.size else None,
        left_out=[outcome.seed for outcome, is_sound in zip(group, sound, strict=True) if not is_sound],
    )


def _identical(group: list[Outcome]) -> list[list[str]]:
    same: dict[str, list[str]] = defaultdict(list)
    for outcome in group:
        same[outcome.content].append(outcome.seed)
    return [seeds for seeds in same.values() if len(seeds) > 1]


def from_results(results: Iterable[CellResult]) -> list[Outcome]:
    """Outcomes of results in memory."""
    from farfield.studies.results import content_of

    return [
        Outcome(
            config=json.loads(json.dumps(result.cell.config())),
            values={
                (found.probe, found.length): found.value for found in result.measurements() if found.length is not None
            },
            diverged=result.diverged,
            content=content_of(result),
        )
        for result in results
    ]


def from_store(store: OpenStore, where: str = "true", probes: Sequence[str] = PROBES) -> list[Outcome]:
    """Outcomes of a store's cells, of the current data version.

    Args:
        where: which cells, in the columns of ``cells``.
        probes: those to read, beside what fitting is told by.
    """
    from farfield.studies.identity import DATA_VERSION

    chosen = f"(SELECT * FROM cells WHERE data_version = {DATA_VERSION} AND (\n{where}\n))"
    names = ", ".join("'" + probe.replace("'", "''") + "'" for probe in {*probes, *PROBES, "chance"})
    values: dict[str, dict[tuple[str, int], float]] = defaultdict(dict)
    measured = f"SELECT identity, probe, length, value FROM measurements SEMI JOIN {chosen} USING (identity)"
    for identity, probe, length, value in store.rows(
        f"{measured} WHERE length IS NOT NULL AND probe IN ({names})"
    ).rows:
        values[identity][probe, length] = value
    order = "encoding, task, model, normalizer, positions, test_positions, identity"
    cells = store.rows(f"SELECT identity, config, diverged, tensors_sha256 FROM {chosen} ORDER BY {order}").rows
    return [
        Outcome(json.loads(config), values[identity], diverged, content)
        for identity, config, diverged, content in cells
    ]
