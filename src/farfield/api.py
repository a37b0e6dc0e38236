"""The Python interface: :func:`train` and the result it returns."""

from __future__ import annotations

import dataclasses
import time
from collections.abc import Iterable, Sequence
from functools import cached_property
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from farfield._checks import checked_out, checked_path, checked_workers, index, plain
from farfield._json import finite
from farfield.cell import PARTS, Cell
from farfield.cell_settings import SETTINGS
from farfield.encodings import Encoding, encodings
from farfield.engine.progress import Progress
from farfield.engine.scheduler import run
from farfield.environment import settled
from farfield.errors import FarfieldError, unknown
from farfield.intervals import Estimate, over_seeds
from farfield.lengths import Range
from farfield.models import Model
from farfield.normalizers import Normalizer
from farfield.positions import Regime
from farfield.probes.accuracy import Accuracy, RangeMeans, range_means
from farfield.probes.dilution import Dilution, fit
from farfield.probes.failure import Ways
from farfield.results.result import CellResult
from farfield.store.store import StoreWriter
from farfield.store.versions import versions
from farfield.tasks import Task

MOST_SEEDS = 100_000


@settled
def train(
    encoding: str | Encoding = "rope",
    task: str | Task = "offset:1",
    *,
    model: str | Model = "head",
    normalizer: str | Normalizer = "softmax",
    positions: str | Regime = "fixed",
    test_positions: str | Regime | None = None,
    seeds: int | Iterable[int] = 8,
    lengths: tuple[int, int] = SETTINGS["lengths"].default,
    test: Iterable[int] = SETTINGS["test"].default,
    out: str | Path | None = None,
    workers: int | None = None,
    progress: Progress | None = None,
    **settings: Any,
) -> TrainResult:
    """Train one model a seed on short sequences and test each on long ones.

    >>> import farfield as ff
    >>> result = ff.train("rope", "offset:2", seeds=8)      # doctest: +SKIP
    >>> result.accuracy[48]                                 # doctest: +SKIP
    Estimate(mean=0.995..., low=0.988..., high=1.0, n=8, kind='Student t 95% over 8 seeds')

    Args:
        encoding: an encoding or its name with settings, ``"rope:base=500000"``.
        task: a task or its name, ``"offset:2"``.
        model: a model or its name, ``"head:heads=4"``, ``"transformer:layers=2,heads=4,width=192"``.
        normalizer: what turns logits into attention weights, ``"softmax:temperature=0.5"``.
        positions: which integers the tokens are given in training, ``"random-subset:2048"``.
        test_positions: the same in tests; None for those of training.
        seeds: how many, 0 .. n-1, or which.
        lengths: shortest and longest training length.
        test: test lengths.
        out: folder of a store; finished seeds found there are not run again.
        workers: threads, one a core by default.
        progress: told as heads finish.
        settings: any other field of :class:`farfield.cell.Cell`: ``vocabulary``, ``steps``, ``batch``,
            ``learning_rate``, ``weight_decay``, ``sequences``, ``path``, ``snapshots``.

    Raises:
        FarfieldError: naming the setting, the reason and the mend.
    """
    chosen = chosen_seeds(seeds)
    shortest, longest = _pair_of_lengths(lengths)
    if isinstance(plain(test), str | bytes) or not isinstance(plain(test), Iterable):
        raise FarfieldError(f"test = {test!r} must be a list of test lengths, for example [16, 48]")
    folder = None if out is None else checked_out(out)
    workers = checked_workers(workers)
    started = time.perf_counter()
    parts = {
        "encoding": encoding,
        "task": task,
        "model": model,
        "normalizer": normalizer,
        "positions": positions,
        "test_positions": test_positions,
    }
    cells = cells_for(parts, chosen, (shortest, longest), tuple(test), settings)
    results = run(cells, None if folder is None else StoreWriter(folder), workers=workers, progress=progress)
    return TrainResult(tuple(results), time.perf_counter() - started)


def _pair_of_lengths(lengths: Any) -> tuple[Any, Any]:
    lengths = plain(lengths)
    if isinstance(lengths, str) or not isinstance(lengths, Iterable) or len(pair := tuple(lengths)) != 2:
        raise FarfieldError(f"lengths = {lengths!r} must be the shortest and longest training length, as in (8, 16)")
    return pair[0], pair[1]


def chosen_seeds(seeds: int | Iterable[int]) -> list[int]:
    """The seeds meant by a number of them or a list (FarfieldError if neither)."""
    seeds = plain(seeds)
    if isinstance(seeds, Iterable) and not isinstance(seeds, str | bytes):
        named = [plain(seed) for seed in seeds]
        if not named or len(set(named)) < len(named):
            raise FarfieldError(f"seeds {named} must name at least one seed, and none twice")
        return named
    number = index(seeds)
    if number is None or not 1 <= number <= MOST_SEEDS:
        raise FarfieldError(f"seeds = {seeds!r} must be a number of seeds from 1 to {MOST_SEEDS}, or a list of seeds")
    return list(range(number))


def cells_for(
    parts: dict[str, Any],
    seeds: list[int],
    lengths: tuple[int, int],
    test: tuple[int, ...],
    settings: dict[str, Any],
) -> list[Cell]:
    """One checked cell a seed (FarfieldError for anything that cannot run).

    Args:
        parts: entries of the registries of :data:`farfield.cell.PARTS`, or their names with settings.
    """
    given = {*PARTS, "seed", "shortest", "longest", "lengths"}
    fields = {field.name for field in dataclasses.fields(Cell)} - given
    for name in settings:
        if name not in fields:
            raise unknown("setting", name, fields)
    named = {name: PARTS[name].parse(part) if isinstance(part, str) else part for name, part in parts.items()}
    for name, part in named.items():
        if not (part is None and name == "test_positions") and not PARTS[name].holds(part):
            kind = PARTS[name].kind
            raise FarfieldError(f"{name} = {part!r} is no registered {kind}: give one, or its name (`farfield list`)")
    first = Cell(
        **named,
        shortest=lengths[0],
        longest=lengths[1],
        lengths=test,
        **settings,
    )
    return [dataclasses.replace(first, seed=seed).resolved() for seed in seeds]


class Moment(NamedTuple):
    """What the head has become at one step of training, over seeds.

    Attributes:
        step: how many steps were done; 0 is the start.
        key, query: carrier fractions.
        top_energy: share of the energy of W_Q^T W_K that its largest singular value holds.
    """

    step: int
    key: Estimate
    query: Estimate
    top_energy: Estimate

    @classmethod
    def over_seeds(cls, step: int, results: Sequence[CellResult]) -> Moment:
        """Measured on the weights of that step."""
        carriers = [result.carrier for result in results]
        rows = {
            "key": [carrier.key for carrier in carriers],
            "query": [carrier.query for carrier in carriers],
            "top_energy": [result.top_energy[result.head] for result in results],
        }
        return cls(step, **{name: over_seeds(row, bounds=(0, 1)) for name, row in rows.items()})

    def to_json(self) -> dict[str, Any]:
        """The moment as a JSON object."""
        return {"step": self.step} | {name: getattr(self, name)._asdict() for name in ("key", "query", "top_energy")}


@dataclasses.dataclass(frozen=True)
class CarrierSummary:
    """Carrier of several seeds.

    Attributes:
        key, query: carrier fractions.
        cos_rotated, cos_unrotated: cos(m_Q, R_{-K} m_K) and cos(m_Q, m_K); the first None without rotation.
        peak: offset where most seeds' carrier-only profile peaks; None without rotation.
        peaks: that offset, one a seed.
    """

    key: Estimate
    query: Estimate
    cos_rotated: Estimate | None
    cos_unrotated: Estimate
    peak: int | None
    peaks: tuple[int, ...]


@dataclasses.dataclass(frozen=True)
class TrainResult:
    """What several seeds of one setting did.

    Attributes:
        cells: one finished cell a seed.
        seconds: wall time, compilation included.
    """

    cells: tuple[CellResult, ...]
    seconds: float

    @property
    def lengths(self) -> tuple[int, ...]:
        """Test lengths."""
        return self.cells[0].cell.lengths

    @property
    def sound(self) -> list[CellResult]:
        """The seeds that did not diverge: means are over these, and :attr:`diverged` names the others."""
        return [result for result in self.cells if not result.diverged]

    @cached_property
    def accuracy(self) -> dict[int, Estimate]:
        """Share of supervised rows (tokens) answered correctly, by length over seeds."""
        return self._shares([result.accuracy for result in self.sound])

    @cached_property
    def sequence_accuracy(self) -> dict[int, Estimate]:
        """Share of sequences with every supervised row right, by length over seeds."""
        return self._shares([result.sequence_accuracies for result in self.sound])

    @cached_property
    def ways(self) -> dict[int, dict[str, Estimate]] | None:
        """Share of test sequences answered rightly, and lost in each of three ways, by length over seeds.

        The names are those of :class:`farfield.probes.failure.Ways`, which says what they mean. None for a task
        without positional targets.
        """
        found = [result.ways for result in self.sound]
        if any(one is None for one in found):
            return None
        by_name = {name: self._by_length([getattr(one, name) for one in found]) for name in Ways._fields}
        return {length: {name: by_name[name][length] for name in by_name} for length in self.lengths}

    @cached_property
    def range_means(self) -> RangeMeans:
        """Mean accuracy over test lengths shorter than training, trained, and longer; every length counts once."""
        means = np.array([estimate.mean for estimate in self.accuracy.values()])
        cell = self.cells[0].cell
        return range_means(means, np.array(self.lengths), cell.shortest, cell.longest)

    @property
    def ranges(self) -> dict[int, Range]:
        """Whether a length is shorter than training, trained, or longer."""
        return {length: self.cells[0].cell.range_of(length) for length in self.lengths}

    @property
    def chance(self) -> dict[int, float]:
        """Accuracy of the best guess that ignores the sequence, by length."""
        return {length: right.chance for length, right in zip(self.lengths, self.cells[0].accuracy, strict=True)}

    @property
    def overlap(self) -> dict[int, float]:
        """Expected share of test sequences that training has seen, by length."""
        return dict(zip(self.lengths, self.cells[0].overlap, strict=True))

    @cached_property
    def selected(self) -> dict[int, Estimate] | None:
        """Share of rows whose target key has the largest weight, by length over seeds; None without targets."""
        return self._of_target([result.selected for result in self.sound])

    @cached_property
    def target_attention(self) -> dict[int, Estimate] | None:
        """Mean weight of the target key, by length over seeds; None for a task without targets."""
        return self._of_target([result.target_attention for result in self.sound])

    def _of_target(self, rows: list[Any]) -> dict[int, Estimate] | None:
        return self._by_length(rows) if np.isfinite(np.array(rows)).any() else None

    @cached_property
    def peak(self) -> dict[int, Estimate]:
        """Peak height of the mean attention by length over seeds."""
        return self._by_length([result.peak_height for result in self.sound])

    @cached_property
    def selected_offset(self) -> dict[int, list[int | None]]:
        """Selected offset by length, one a seed; None where no key alone has the largest mean attention."""
        offsets = np.array([result.selected_offset for result in self.cells])
        return {
            length: [int(offset) if np.isfinite(offset) else None for offset in offsets[:, index]]
            for index, length in enumerate(self.lengths)
        }

    @cached_property
    def carrier(self) -> CarrierSummary:
        """The carrier over seeds."""
        carriers = [result.carrier for result in self.sound]
        peaks = tuple(carrier.peak for carrier in carriers if carrier.peak is not None)
        rotated = [carrier.cos_rotated for carrier in carriers if carrier.cos_rotated is not None]
        return CarrierSummary(
            key=over_seeds([carrier.key for carrier in carriers], bounds=(0, 1)),
            query=over_seeds([carrier.query for carrier in carriers], bounds=(0, 1)),
            cos_rotated=over_seeds(rotated, bounds=(-1, 1)) if rotated else None,
            cos_unrotated=over_seeds([carrier.cos_unrotated for carrier in carriers], bounds=(-1, 1)),
            peak=max(set(peaks), key=peaks.count) if peaks else None,
            peaks=peaks,
        )

    @cached_property
    def dynamics(self) -> list[Moment]:
        """Carrier and spectrum at the snapshots and after the last step, over seeds; empty without snapshots."""
        cell = self.cells[0].cell
        if not cell.snapshots:
            return []
        on_the_way = [step for step in cell.snapshots if step < cell.steps]
        moments = [Moment.over_seeds(step, [result.at(step) for result in self.sound]) for step in on_the_way]
        return [*moments, Moment.over_seeds(cell.steps, self.sound)]

    @cached_property
    def dilution(self) -> Dilution:
        """Decay law fitted to the peak height averaged over seeds."""
        heights = np.array([self.peak[length].mean for length in self.lengths])
        return fit(heights, np.array(self.lengths))

    @cached_property
    def margin(self) -> Estimate | None:
        """Margin of the target offset in logit units, over seeds; None where there is no such offset."""
        margins = [result.margin for result in self.sound if result.margin is not None]
        return over_seeds(margins) if margins else None

    @cached_property
    def equivariance_error(self) -> Estimate:
        """Largest distance between profiles of two lengths in relative coordinates, over seeds; 0 is equivariant."""
        return over_seeds([result.equivariance_error for result in self.sound], bounds=(0, 1))

    @property
    def diverged(self) -> list[int]:
        """Seeds whose training ended in a loss that is not a number."""
        return [result.cell.seed for result in self.cells if result.diverged]

    @property
    def unanswered(self) -> dict[int, list[int]]:
        """Seeds with class scores that are not numbers, by length; only lengths that have any."""
        found = {
            length: [result.cell.seed for result in self.cells if result.unanswered[index]]
            for index, length in enumerate(self.lengths)
        }
        return {length: seeds for length, seeds in found.items() if seeds}

    def plot(self, path: str | Path | None = None) -> Any:
        """Accuracy, peak height, selected offset and ways to fail against length; also written to ``path`` if given."""
        from farfield.plotting.figures import against_length
        from farfield.plotting.style import save
        from farfield.plotting.ways import panel_of

        title = f"{encodings.config(self.cells[0].cell.encoding)['name']}"
        place = None if path is None else checked_path("path", path)
        told_apart = bool(self.sound) and self.ways is not None
        figure = against_length({title: list(self.cells)}, panel_of("Ways to fail", self.cells) if told_apart else None)
        if place is not None:
            save(figure, place)
        return figure

    def to_json(self) -> dict[str, Any]:
        """Everything as one JSON-able object; numbers that do not exist are null."""
        cell = self.cells[0].cell
        config = cell.config()
        del config["seed"]
        fitted = self.dilution
        return finite(
            {
                "accuracy": {length: estimate._asdict() for length, estimate in self.accuracy.items()},
                "sequence_accuracy": {
                    length: estimate._asdict() for length, estimate in self.sequence_accuracy.items()
                },
                "range_means": self.range_means._asdict(),
                "chance": self.chance,
                "overlap": self.overlap,
                "selected": _as_dicts(self.selected),
                "target_attention": _as_dicts(self.target_attention),
                "ways": self.ways and {length: _as_dicts(found) for length, found in self.ways.items()},
                "uniform": {length: 1 / length for length in self.lengths},
                "heads": [result.head_name for result in self.cells],
                "path": cell.path,
                "in_range": {length: name == "trained" for length, name in self.ranges.items()},
                "range": self.ranges,
                "selected_offset": self.selected_offset,
                "peak": {length: estimate._asdict() for length, estimate in self.peak.items()},
                "carrier": {
                    "key": self.carrier.key.mean,
                    "query": self.carrier.query.mean,
                    "peak": self.carrier.peak,
                    "key_interval": self.carrier.key._asdict(),
                    "query_interval": self.carrier.query._asdict(),
                    "peaks": list(self.carrier.peaks),
                    "cos_rotated": self.carrier.cos_rotated and self.carrier.cos_rotated._asdict(),
                    "cos_unrotated": self.carrier.cos_unrotated._asdict(),
                },
                "dynamics": [moment.to_json() for moment in self.dynamics],
                "dilution": fitted._asdict(),
                "margin": self.margin and self.margin._asdict(),
                "equivariance_error": self.equivariance_error._asdict(),
                "seeds": [result.cell.seed for result in self.cells],
                "diverged": self.diverged,
                "unanswered": self.unanswered,
                "identities": [result.cell.identity for result in self.cells],
                "seconds": round(self.seconds, 3),
                "versions": versions(),
                "config": config,
            }
        )

    def _by_length(self, rows: list[Any]) -> dict[int, Estimate]:
        """Over the seeds whose value is a number."""
        table = np.array(rows, float).reshape(len(rows), len(self.lengths))
        return {
            length: over_seeds(column[np.isfinite(column)], bounds=(0, 1))
            for length, column in zip(self.lengths, table.T, strict=True)
        }

    def _shares(self, rows: list[list[Accuracy]]) -> dict[int, Estimate]:
        """The same, where a seed has an interval of its own: that of the draws behind it."""
        found = self._by_length([[share.value for share in row] for row in rows])
        if len(rows) != 1:
            return found
        clusters, regime = self.sound[0].clusters, self.sound[0].cell.test_positions
        draws = regime is not None and regime.random
        return {
            length: share._replace(
                low=one.low,
                high=one.high,
                kind=f"Wilson 95% over {count} {'draws of positions' if draws else 'sequences'}",
            )
            if share.n
            else share
            for (length, share), one, count in zip(found.items(), rows[0], clusters, strict=True)
        }


def _as_dicts(estimates: dict[Any, Estimate] | None) -> dict[Any, Any] | None:
    return estimates and {name: estimate._asdict() for name, estimate in estimates.items()}
