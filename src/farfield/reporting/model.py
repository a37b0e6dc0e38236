"""What a report says of a folder of results, as records."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal, NamedTuple

from farfield.cell import PARTS
from farfield.intervals import Estimate
from farfield.reporting.axes import Layout, Place
from farfield.results.measures import Counted, counted_by
from farfield.seeds.summary import Summary
from farfield.study.record import Record

# What may become of a task at the longest test; of these, it is lost in some.
Fate = Literal[
    "keeps", "rule moved", "outcompeted", "diluted", "fails", "not learned", "not tested", "diverged", "unfinished"
]


class FailedCell(NamedTuple):
    """A cell that could not be finished.

    Attributes:
        identity: of the cell.
        reason: as recorded.
        seed: in words.
        model: seeds of the model that it tests.
        setting: content hash of its configuration without seeds.
        about: that configuration as a study writes it; None if the record cannot be read.
        label: name of the setting.
    """

    identity: str
    reason: str
    seed: str
    model: tuple[Any, Any]
    setting: str
    about: dict[str, str] | None
    label: str | None = None


class ReportWarning(NamedTuple):
    """Something to know before the numbers are believed.

    Attributes:
        kind: one word for it.
        said: in a sentence.
        named: what it concerns, one by one.
    """

    kind: str
    said: str
    named: list[str]


@dataclass(frozen=True)
class Setting:
    """Cells that differ in their seeds alone.

    Attributes:
        place: where it stands, and its name.
        outcome: what became of its task at the longest test; the page states the rule.
        reach: longest test length to which it keeps its task at every tested length from training on; None if at none.
        cells: asked for.
        wanted: seeds asked for: models to train, of which each cell tests one.
        summary: over the seeds that finished; None if none did.
        estimates: of measurements of a cell as a whole, over seeds where they are numbers.
        peaks: offsets where the carrier alone would attend most, with the number of seeds; empty without rotation.
    """

    place: Place
    outcome: Fate
    reach: int | None
    cells: int
    wanted: int
    summary: Summary | None
    estimates: dict[str, Estimate]
    peaks: list[tuple[int, int]]

    @property
    def n(self) -> int:
        """Seeds that are there."""
        return self.summary.n if self.summary else 0

    @property
    def keeping(self) -> int:
        """Seeds that keep the task at the longest test, each by its own accuracy; the outcome goes by their mean."""
        return len(self.summary.at(self.longest).kept or ()) if self.summary else 0

    @property
    def losing(self) -> int:
        """Seeds that lose the task at the longest test in the way that the setting does."""
        return len(self.summary.lost.get(self.outcome.replace(" ", "_"), ())) if self.summary else 0

    @property
    def rows(self) -> str:
        """Which tokens of a sequence its task asks for: the last, or all; all where this version has not that task."""
        assert self.summary is not None
        name = self.summary.config["task"]["name"]
        return PARTS["task"][name].rows if name in PARTS["task"] else "all"

    @property
    def longest(self) -> int:
        """Longest test length, of a setting with a summary."""
        assert self.summary is not None
        return self.summary.config["lengths"][-1]


@dataclass(frozen=True)
class Content:
    """What there is to report.

    Attributes:
        folder: of the results.
        record: of the study; None where the folder says nothing of it.
        settings: in order, with :attr:`layout` where each stands.
        panels: measurements to draw against length; sequence accuracy too where it differs from that of tokens.
        problems: whatever is not as it should be.
        made_by: cells by versions and platform.
    """

    folder: Path
    record: Record | None
    settings: list[Setting]
    layout: Layout
    panels: list[str]
    problems: list[ReportWarning]
    made_by: dict[str, int]

    @property
    def name(self) -> str:
        """Of the study, or of the folder."""
        return self.record.study.name if self.record else self.folder.resolve().name

    @property
    def finished(self) -> int:
        """Cells that are there."""
        return sum(setting.summary.cells for setting in self.settings if setting.summary)

    @property
    def wanted(self) -> int:
        """Cells asked for."""
        return sum(setting.cells for setting in self.settings)

    @property
    def counted(self) -> Counted:
        """What accuracies of its settings count."""
        return counted_by(setting.rows for setting in self.settings if setting.summary)
