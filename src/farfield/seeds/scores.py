"""What cells measured, read from results or from a store, and what each trained model did over its tests."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from farfield.identity import every_seed, model_of
from farfield.lengths import Range, range_of
from farfield.probes.failure import WAYS

# Share of the way from chance to 1 that must be gone, by a seed or a mean, for the task to count as done.
FIT = 0.9
# Of tokens, and of whole sequences.
PROBES = ("accuracy", "sequence_accuracy")


@dataclass(frozen=True)
class ModelScores:
    """What one cell measured, or one trained model over the cells that tested it.

    Attributes:
        config: of the cell.
        values: by probe and length.
        diverged: whether training ended in a loss that is not a number.
        content: hash of its weights and counts: two seeds that share it computed the same.
        cells: how many it is made of.
    """

    config: Mapping[str, Any]
    values: Mapping[tuple[str, int], float]
    diverged: bool
    content: str
    cells: int = 1

    @property
    def lengths(self) -> list[int]:
        """Test lengths."""
        return list(self.config["lengths"])

    def range_of(self, length: int) -> Range:
        """Whether a length is shorter than training, trained, or longer."""
        return range_of(length, self.config["shortest"], self.config["longest"])

    def progress(self, length: int) -> float | None:
        """How far token accuracy at a length has come from chance (0) to 1; None where chance is 1."""
        chance = self.values["chance", length]
        return (self.values["accuracy", length] - chance) / (1 - chance) if chance < 1 else None

    def keeps(self, length: int) -> bool:
        """Whether :meth:`progress` at a length is at least :data:`FIT`."""
        progress = self.progress(length)
        return progress is not None and progress >= FIT

    def lost_by(self, length: int) -> str | None:
        """Which of three ways costs most at a length where the task is not kept; None where that is not known."""
        shares = {way: self.values.get((way, length), np.nan) for way in WAYS}
        if self.keeps(length) or not np.isfinite([*shares.values()]).all():
            return None
        return max(shares, key=lambda way: shares[way])

    def skill(self) -> float | None:
        """:meth:`progress` averaged over tested lengths that training met; None where there is none."""
        found = [self.progress(length) for length in self.lengths if self.range_of(length) == "trained"]
        reached = [progress for progress in found if progress is not None]
        return float(np.mean(reached)) if reached else None


def by_model(outcomes: Iterable[ModelScores]) -> list[ModelScores]:
    """One outcome a trained model, in order of seeds: cells that tested one model are its mean."""
    groups: dict[tuple[Any, Any], list[ModelScores]] = defaultdict(list)
    for outcome in outcomes:
        groups[model_of(outcome.config)].append(outcome)
    return [_mean(sorted(groups[model], key=_evaluation)) for model in sorted(groups)]


def _mean(tests: list[ModelScores]) -> ModelScores:
    if len(tests) == 1:
        return tests[0]
    places = dict.fromkeys(place for test in tests for place in test.values)
    return ModelScores(
        config=tests[0].config,
        values={place: float(np.mean([test.values.get(place, np.nan) for test in tests])) for place in places},
        diverged=any(test.diverged for test in tests),
        content=" ".join(test.content for test in tests),
        cells=len(tests),
    )


def _evaluation(outcome: ModelScores) -> Any:
    return every_seed(outcome.config)["evaluation_seed"]


def names_of(models: Sequence[ModelScores]) -> list[str]:
    """The models' seeds: ``3``, or ``model 3, data 4`` for all if any trained on batches of another seed."""
    seeds = [model_of(model.config) for model in models]
    if all(weights == batches for weights, batches in seeds):
        return [str(weights) for weights, _ in seeds]
    return [f"model {weights}, data {batches}" for weights, batches in seeds]


def shared_by(models: Sequence[ModelScores]) -> str:
    """What the models have in common so that they are not independent draws, in words; empty if nothing."""
    weights, batches = ({*seeds} for seeds in zip(*(model_of(model.config) for model in models), strict=True))
    count = len(models)
    if count == 1 or len(weights) == len(batches) == count:
        return ""
    if len(batches) == 1 and len(weights) == count:
        return f"all models trained on the batches of data seed {batches.pop()}: the spread is that of weights alone"
    if len(weights) == 1 and len(batches) == count:
        return f"all models began from the weights of seed {weights.pop()}: the spread is that of batches alone"
    return (
        f"{count} models of {len(weights)} seeds of weights and {len(batches)} of batches: those that share one are "
        "not independent, and intervals are too narrow"
    )
