"""What a report says of a folder of results: every setting over its seeds, what it adds up to, and what is wrong."""

from __future__ import annotations

import json
from collections import Counter, defaultdict
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple, cast

import numpy as np

from farfield._checks import checked_folder
from farfield.cell_text import parts_text
from farfield.errors import FarfieldError
from farfield.identity import DATA_VERSION, identity_of, model_of, seeds_in_words, setting_of
from farfield.intervals import Estimate, bootstrap, over_seeds
from farfield.probes.failure import WAYS
from farfield.reporting.axes import Layout, Place, lay_out, settings_of
from farfield.reporting.model import Content, FailedCell, Fate, Setting
from farfield.reporting.warnings import problems
from farfield.results.measures import kind_of, names_of
from farfield.seeds.scores import FIT, PROBES, ModelScores
from farfield.seeds.summary import Interval, Summary, summarize
from farfield.store.reader import Store
from farfield.store.status import StoreStatus, failure
from farfield.study import record
from farfield.study.record import Record


class _Wanted(NamedTuple):
    """Settings as they are wanted, in order.

    Attributes:
        about: of every setting, as a study writes it, by content hash.
        cells: identities of its cells, each with the model that it tests.
    """

    about: dict[str, dict[str, str]]
    cells: dict[str, dict[str, Any]]


def gather(folder: Path | str, interval: Interval = "t") -> Content:
    """Read a folder of results.

    Args:
        interval: of means over seeds.

    Raises:
        FarfieldError: if there is no such folder, or nothing in it.
    """
    folder = checked_folder("folder", folder)
    store = Store(folder)
    state = store.status()
    try:
        known, unreadable = record.read(folder), None
    except FarfieldError as reason:
        known, unreadable = None, str(reason)
    panels = list(dict.fromkeys([*(known.study.probes if known else ()), *names_of(panel=True)]))
    read = list(dict.fromkeys([*PROBES, *WAYS, *panels]))
    outcomes = {identity_of(outcome.config): outcome for outcome in store.scores(probes=read)}
    every = _failures(folder, state)
    wanted = _asked_for(known) if known else _found(store, outcomes, every)
    part = {identity for cells in wanted.cells.values() for identity in cells}
    others = len(outcomes.keys() - part)
    failures = [one for one in every if one.identity in part or one.about is None]
    outcomes = {identity: outcome for identity, outcome in outcomes.items() if identity in part}
    if not outcomes and not failures:
        raise FarfieldError(_nothing(folder, known, others, state))
    layout = lay_out([*wanted.about.values()], in_order=known is not None)
    summaries = {found.setting: found for found in summarize(outcomes.values(), interval=interval, probes=read)}
    singles = _singles(store)
    settings = []
    for place, (setting, cells) in zip(layout.places, wanted.cells.items(), strict=True):
        found = _of_models({cell: model for cell, model in cells.items() if cell in outcomes}, singles)
        settings.append(_setting(place, summaries.get(setting), found, cells, interval))
    settings.sort(key=lambda one: (one.place.row, one.place.column))
    measured = {row.probe for found in summaries.values() for row in found.rows}
    if any(sequences_differ(found) for found in summaries.values()):
        panels = list(dict.fromkeys(["accuracy", "sequence_accuracy", *panels]))
    return Content(
        folder=folder,
        record=known,
        settings=settings,
        layout=layout,
        panels=[name for name in panels if name in measured],
        problems=problems(
            settings,
            _named(failures, wanted, layout),
            state,
            others,
            unreadable,
            _missing(wanted, layout, outcomes, failures),
        ),
        made_by=state.made_by,
    )


def _asked_for(known: Record) -> _Wanted:
    """What a study asks for."""
    about, cells = {}, {}
    seeds = known.study.seeds_of(known.budget)
    for point in known.study.points(known.budget):
        config = _plain(point.cell.config())
        setting = setting_of(config)
        about[setting] = settings_of(parts_text(config), config)
        cells[setting] = {point.cell.with_seeds(one).identity: (one.model, one.data) for one in seeds}
    return _Wanted(about, cells)


def _found(store: Store, outcomes: dict[str, ModelScores], failures: Sequence[FailedCell]) -> _Wanted:
    """What is there, where nothing says what was asked for."""
    query = f"SELECT DISTINCT ON (setting) * EXCLUDE (versions) FROM cells WHERE data_version = {DATA_VERSION}"
    names, rows = store.rows(f"{query} ORDER BY setting, identity")
    about, cells = {}, defaultdict(dict)
    for row in rows:
        columns = dict(zip(names, row, strict=True))
        about[columns["setting"]] = settings_of(columns, json.loads(columns["config"]))
    for identity, outcome in outcomes.items():
        cells[setting_of(outcome.config)][identity] = model_of(outcome.config)
    for one in failures:
        if one.about is not None:
            about.setdefault(one.setting, one.about)
            cells[one.setting][one.identity] = one.model
    return _Wanted(about, {setting: cells[setting] for setting in about})


def _failures(folder: Path, state: StoreStatus) -> list[FailedCell]:
    found = []
    for identity, reason in state.failures.items():
        _, config = failure(folder / f"{identity}.failed.json")
        try:
            about: Any = settings_of(parts_text(config), config)
        except (KeyError, TypeError, ValueError):
            about = None
        found.append(FailedCell(identity, reason, seeds_in_words(config), model_of(config), setting_of(config), about))
    return found


def _named(failures: Sequence[FailedCell], wanted: _Wanted, layout: Layout) -> list[FailedCell]:
    """Failures with the names of their settings."""
    labels = {setting: place.label for setting, place in zip(wanted.about, layout.places, strict=True)}
    return [one._replace(label=labels.get(one.setting)) for one in failures]


def _missing(
    wanted: _Wanted, layout: Layout, outcomes: dict[str, ModelScores], failures: Sequence[FailedCell]
) -> dict[str, int]:
    """Cells that are neither finished nor failed, by the name of their setting."""
    there = outcomes.keys() | {one.identity for one in failures}
    left = {
        place.label: len(cells.keys() - there)
        for place, cells in zip(layout.places, wanted.cells.values(), strict=True)
    }
    return {label: count for label, count in left.items() if count}


def _nothing(folder: Path, known: Record | None, others: int, state: StoreStatus) -> str:
    if known:
        more = f"; its {others} cells are of other studies" if others else ""
        again = f": run {known.command}" if known.command else ""
        return f"no cell of the study {known.study.name} is finished in {folder}{more}{again}"
    if state.older:
        return (
            f"{folder} holds {state.older} cells of older data versions alone, which are not comparable: run it again"
        )
    return f"{folder} holds no finished cells: name a folder that a study or `farfield train --out` wrote"


def _singles(store: Store) -> dict[str, dict[str, float]]:
    """Measurements of cells as a whole, by identity."""
    names = ", ".join(f"'{name}'" for name in (*names_of(mechanism=True), "carrier_peak"))
    found: dict[str, dict[str, float]] = defaultdict(dict)
    query = f"SELECT identity, probe, value FROM measurements WHERE length IS NULL AND probe IN ({names})"
    for identity, probe, value in store.rows(query).rows:
        if np.isfinite(value):
            found[identity][probe] = value
    return found


def _of_models(models: dict[str, Any], singles: dict[str, dict[str, float]]) -> list[dict[str, float]]:
    """Measurements of every trained model as a whole: means over the cells that tested it, named with their model."""
    tests: dict[Any, dict[str, list[float]]] = defaultdict(lambda: defaultdict(list))
    for identity, model in models.items():
        for probe, value in singles[identity].items():
            tests[model][probe].append(value)
    return [{probe: float(np.mean(values)) for probe, values in found.items()} for found in tests.values()]


def _setting(
    place: Place, summary: Summary | None, models: list[dict[str, float]], cells: dict[str, Any], interval: Interval
) -> Setting:
    def estimate(name: str, found: np.ndarray) -> Estimate:
        bounds = (0.0, 1.0) if kind_of(name) == "share" else None
        return over_seeds(found, bounds=bounds) if interval == "t" else bootstrap(found)

    values = {name: [model[name] for model in models if name in model] for name in names_of(mechanism=True)}
    peaks = Counter(int(model["carrier_peak"]) for model in models if "carrier_peak" in model)
    return Setting(
        place=place,
        outcome=outcome_of(summary) if summary else "unfinished",
        reach=reach_of(summary) if summary else None,
        cells=len(cells),
        wanted=len({*cells.values()}),
        summary=summary,
        estimates={name: estimate(name, np.array(found)) for name, found in values.items() if found},
        peaks=sorted(peaks.items(), key=lambda pair: -pair[1]),
    )


def sequences_differ(summary: Summary) -> bool:
    """Whether sequence accuracy is anything else than token accuracy."""
    tokens, sequences = ({row.length: row.mean for row in summary.rows if row.probe == name} for name in PROBES)
    return tokens != sequences


def keeps(summary: Summary, length: int) -> bool:
    """Whether mean token accuracy at a length has gone nine tenths of the way from chance to 1."""
    row = summary.at(length)
    if row.mean is None or row.chance is None or not row.chance < 1:
        return False
    return (row.mean.mean - row.chance) / (1 - row.chance) >= FIT


def outcome_of(summary: Summary) -> Fate:
    """What became of the task at the longest test, by :func:`keeps` and by the way that costs most there."""
    longest = summary.config["lengths"][-1]
    if len(summary.diverged) == summary.n:
        return "diverged"
    if summary.fit is not None and 2 * len(summary.fit.fitted) < summary.n:
        return "not learned"
    if summary.at(longest).range != "longer":
        return "not tested"
    if keeps(summary, longest):
        return "keeps"
    means = {
        row.probe: row.mean.mean for row in summary.rows if row.probe in WAYS and row.length == longest and row.mean
    }
    if len(means) < len(WAYS):
        return "fails"
    way = max(WAYS, key=lambda name: means[name])
    return cast(Fate, way.replace("_", " "))


def reach_of(summary: Summary) -> int | None:
    """Longest test length to which the task is kept at every tested length, those shorter than training aside."""
    reach = None
    for length in summary.config["lengths"]:
        if summary.at(length).range == "shorter":
            continue
        if not keeps(summary, length):
            break
        reach = length
    return reach


def _plain(config: dict[str, Any]) -> dict[str, Any]:
    """A configuration as JSON holds it."""
    return json.loads(json.dumps(config))
