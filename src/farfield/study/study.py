"""A study: a question, the settings that vary and those that stay, seeds and budgets; and the cells it asks for."""

from __future__ import annotations

import itertools
import re
from collections.abc import Iterable, Mapping
from typing import Annotated, Any

import pydantic
from pydantic import BeforeValidator, Field, model_validator

from farfield.cell import Cell, Seeds
from farfield.errors import FarfieldError, unknown
from farfield.results.measures import MEASURES, names_of
from farfield.study.axes import Configuration, Varied, resolve, size_problems, structure_problems
from farfield.study.problems import StudyError, told
from farfield.study.settings import (
    LONGEST_TEXT,
    Axes,
    BudgetSettings,
    GivenSeeds,
    Section,
    SeedAxes,
    Settings,
    SettingType,
    shown,
)

NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,99}")


def _name(value: Any) -> str:
    if not isinstance(value, str) or not NAME.fullmatch(value):
        raise FarfieldError(
            f"name = {shown(value)} must be letters, digits, dots and dashes, at most 100, since it names a folder"
        )
    return value


def _budget_name(value: Any) -> str:
    if not isinstance(value, str) or not NAME.fullmatch(value):
        raise FarfieldError(f"[budget.{shown(value)}]: name a budget with letters, digits, dots and dashes")
    return value


def _sentence(value: Any) -> str:
    text = " ".join(value.split()) if isinstance(value, str) else ""
    if not 0 < len(text) <= LONGEST_TEXT or not text.isprintable():
        raise FarfieldError(f"question = {shown(value)} must be a sentence of at most {LONGEST_TEXT} characters")
    return text


def _probes(value: Any) -> tuple[str, ...]:
    if not isinstance(value, list | tuple) or not all(isinstance(name, str) for name in value):
        raise FarfieldError(f"probes = {shown(value)} must be a list of names, as in {list(names_of(panel=True))}")
    for name in value:
        if name not in MEASURES:
            raise unknown("probe", name[:LONGEST_TEXT], MEASURES)
    if not value or len(set(value)) < len(value):
        raise FarfieldError(f"probes = {shown(value)} must name at least one probe, and none twice")
    return tuple(value)


def _sections(value: Any) -> Any:
    return value if isinstance(value, str | bytes | Mapping) or not isinstance(value, Iterable) else list(value)


class Study(Section):
    """A question and the cells that answer it.

    Axes multiply: each axis of ``grid`` is one factor, those of ``zip`` go along side by side as one, and so do the
    listed cells of ``cell``. A setting stands in one of these or in ``common``, never in two, so that no order of
    precedence has to be known; what stands nowhere has the default of ``farfield train``.

    >>> study = Study(
    ...     name="carry", question="Who carries an offset?", seeds=2,
    ...     common={"task": "offset:2", "steps": 500}, grid={"encoding": ["rope", "learned"]},
    ... )
    >>> [(cell.encoding, cell.seed) for cell in study.cells()][1]
    (Rope(base=10000.0, layout='half', fraction=1.0), 1)

    Args:
        name: of the study, and of its folder of results.
        question: what is asked, a sentence; it heads the report.
        seeds: how many, 0 .. n-1, or which, or a table with those of ``model``, ``data`` and ``evaluation``.
        probes: measurements that the report shows first. Every measurement of every cell is stored whatever is named
            here, since a probe costs nothing beside training; so nothing is run anew when another one is wanted.
        common: settings that all cells share, those of :class:`farfield.study.settings.Settings`.
        grid: lists of values; every combination is run.
        zip: lists of values, all of one length; the first of each belong together, and so on.
        cell: cells one by one, each naming the same settings.
        budget: by name, settings and seeds that take the place of the study's when that budget is asked for.

    Raises:
        FarfieldError: every mistake found, each with its mend, ten at most.
    """

    name: Annotated[str, SettingType(_name, str, {"type": "string", "pattern": f"^{NAME.pattern}$"})] = Field(
        description="Letters, digits, dots and dashes: the results' folder is called so."
    )
    question: Annotated[str, SettingType(_sentence, str, {"type": "string", "maxLength": LONGEST_TEXT})] = Field(
        description="What is asked, in a sentence."
    )
    seeds: GivenSeeds = Field(
        default_factory=SeedAxes, description="How many seeds, which, or a section that tells them apart."
    )
    probes: Annotated[
        tuple[str, ...],
        SettingType(
            _probes, list, {"type": "array", "minItems": 1, "uniqueItems": True, "items": {"enum": list(MEASURES)}}
        ),
    ] = Field(default=names_of(panel=True), description="Measurements that the report shows first; all are stored.")
    common: Settings = Field(default_factory=Settings, description="Settings that all cells share.")
    grid: Axes = Field(default_factory=Axes, description="Axes of which every combination is run.")
    zip: Axes = Field(default_factory=Axes, description="Axes of one length that go along side by side.")
    cell: Annotated[tuple[Settings, ...], BeforeValidator(_sections)] = Field(
        default=(), description="Cells one by one."
    )
    budget: dict[Annotated[str, SettingType(_budget_name, str, {"type": "string"})], BudgetSettings] = Field(
        default={}, description="Other settings and seeds, by name."
    )
    _points: dict[str | None, tuple[Configuration, ...]] = pydantic.PrivateAttr(default_factory=dict)

    def __init__(self, /, **settings: Any) -> None:
        try:
            super().__init__(**settings)
        except pydantic.ValidationError as reason:
            problems = told(reason.errors(include_url=False))
        else:
            return
        raise StudyError(problems)

    @model_validator(mode="after")
    def _check(self) -> Study:
        """Refuse axes that do not fit each other and cells that cannot run, under every budget."""
        varied, common = self._varied, self.common.given()
        tiers = {name: _shared(tier) for name, tier in self.budget.items()}
        problems = structure_problems(varied, common, tiers)
        if not problems:
            problems = size_problems(varied, len(self.seeds_of()))
            for name in tiers:
                problems += size_problems(varied, len(self.seeds_of(name)), ("budget", name))
        if not problems:
            self._points[None], problems = resolve(varied, common, None)
        if not problems:
            for name, settings in tiers.items():
                self._points[name], more = (
                    resolve(varied, {**common, **settings}, name) if settings else (self._points[None], [])
                )
                problems += more
        if problems:
            raise StudyError(problems)
        return self

    @property
    def _varied(self) -> Varied:
        return Varied(self.grid.given(), self.zip.given(), [row.given() for row in self.cell])

    @property
    def axes(self) -> tuple[str, ...]:
        """Names of the settings that vary."""
        return self._varied.axes

    def points(self, budget: str | None = None) -> tuple[Configuration, ...]:
        """Every configuration, that of the last axis moving fastest (FarfieldError: no such budget)."""
        self._tier(budget)
        return self._points[budget]

    def cells(self, budget: str | None = None) -> list[Cell]:
        """Every resolved cell, those of a configuration one after another (FarfieldError: no such budget)."""
        seeds = self.seeds_of(budget)
        return [point.cell.with_seeds(one) for point in self.points(budget) for one in seeds]

    def seeds_of(self, budget: str | None = None) -> list[Seeds]:
        """The seeds of each configuration (FarfieldError: no such budget)."""
        given = self._tier(budget).seeds or self.seeds
        triples = itertools.product(given.model, given.data or [None], given.evaluation or [None])
        return [
            Seeds(model, model if data is None else data, model if evaluation is None else evaluation)
            for model, data, evaluation in triples
        ]

    def to_json(self) -> dict[str, Any]:
        """Plain data from which ``Study(**data)`` makes the same study."""
        return self.model_dump(mode="json", exclude_unset=True)

    def _tier(self, budget: str | None) -> BudgetSettings:
        if budget is None:
            return BudgetSettings()
        if not isinstance(budget, str):
            raise FarfieldError(f"budget = {budget!r} must be the name of one, or None")
        if budget not in self.budget:
            if not self.budget:
                raise FarfieldError(f"the study has no budget {budget!r}: it has none; write one under [budget.NAME]")
            raise unknown("budget", budget, self.budget)
        return self.budget[budget]


def _shared(tier: BudgetSettings) -> dict[str, Any]:
    """What a budget sets besides seeds."""
    return {name: value for name, value in tier.given().items() if name != "seeds"}
