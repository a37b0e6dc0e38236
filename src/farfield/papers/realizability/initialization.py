"""What training leaves open: heads that start elsewhere end elsewhere, and alpha alone does not say where.

``farfield reproduce realizability --only initialization``. Training moves a kernel only within the span of the
features that it has seen; the rest keeps its start. So T5's far buckets, which no trained offset reaches, stay level
from a start at zero and jump from a start at N(0, 1); key-only biases likewise; learned pairs are open beyond
training from any start. The prediction is *alpha under initialization*: the selected kernel at a logit scale, plus
the unseen part of an untrained head, averaged over 256 untrained heads. Beside it stands what trained heads do, 20
seeds a setting.

How far the trained part rises above the untrained decides, so the logit scale matters. By default it leaves each
trained target nine tenths of its row's mass, which takes no training to say; a bias moved by Adam for 4,000 steps of
.001 rises by 4 logits at most. The second prediction takes its logit scale from the trained heads: the mean lead of
their target over the other keys of the longest training length. It is still too high for starts at N(0, 1): in the
kernel of least norm nearly all of a table's lead is the target's own rise, while Adam, which moves every bias about
alike, gains much of it by lowering the others, and so rises less above buckets that it never touches.

Ordinary heads, whose tokens enter the logits, part in the same way (``head:``).
"""

from __future__ import annotations

from dataclasses import replace

import matplotlib as mpl
import numpy as np
from matplotlib.figure import Figure

from farfield.cell import Cell
from farfield.models.head import Head
from farfield.models.positional import PositionalHead
from farfield.papers.base import Item, Results, Series
from farfield.papers.realizability.setup import LENGTHS, SHORTEST, TRAINED, by_seed, number, score, series_of
from farfield.papers.verdicts import Comparison, statement
from farfield.plotting.style import STYLE, curve, legend, mark_training, panels
from farfield.prediction import Prediction, predict
from farfield.results.observe import mean_logits
from farfield.results.result import CellResult
from farfield.training import initial_parameters

SEEDS, DRAWS = 20, 256
# What moved less was not trained, but rounded otherwise.
STILL = 1e-5
# Encodings from zero and from N(0, 1), with a task that they carry over from zero, and learned pairs.
PAIRS = (("t5", "t5:deviation=1", "offset:2"), ("key-only", "key-only:deviation=1", "position:3"))
OPEN = ("learned", "offset:2")


def series() -> Series:
    found: dict[str, list] = {}
    for level, drawn, task in PAIRS:
        found |= series_of([level, drawn], [task], SEEDS)
    found |= series_of([OPEN[0]], [OPEN[1]], SEEDS)
    level, drawn, task = PAIRS[0]
    ordinary = series_of([level, drawn], [task], SEEDS // 2)
    heads = {f"head: {name}": [replace(cell, model=Head()) for cell in cells] for name, cells in ordinary.items()}
    return found | heads


def compare(results: Results) -> list[Comparison]:
    lines = []
    for name, heads in results.items():
        outcome = score(name, heads)
        lines.append(number(f"{name}: share of longer lengths selected", outcome.selected.mean(axis=1)))
        if isinstance(heads[0].cell.model, PositionalHead):
            lines += predictions(name, heads)
        lines.append(number(f"{name}: accuracy over longer lengths", outcome.accuracy.mean(axis=1)))
    for level, drawn, task in PAIRS:
        kept, jumped = (score(name, results[name]) for name in (f"{level} on {task}", f"{drawn} on {task}"))
        lines += [
            by_seed(f"{kept.name}, from zero: every head selects every length", kept.generalizes),
            statement(
                f"{jumped.name}, the same from N(0, 1): some head loses a length", [not jumped.generalizes.all()]
            ),
            number(
                f"{jumped.name}: share of the target's lead that is its own rise",
                [own_rise(head) for head in results[jumped.name]],
                f"{1 - 1 / TRAINED:.2f} in the kernel of least norm.",
            ),
        ]
    return lines


def predictions(name: str, heads: list[CellResult]) -> list[Comparison]:
    """alpha under initialization at the default logit scale, and at the trained heads' own."""
    lines = []
    own = float(np.mean([trained_scale(head) for head in heads]))
    for scale, said in ((None, "default"), (own, "the heads' own")):
        if scale is not None and scale <= 0:
            continue  # heads that do not lead have no scale
        found = prediction(heads[0].cell, scale)
        assert found.initial is not None and found.open is not None
        low, high = found.open.interval
        lines.append(
            number(
                f"{name}: alpha under initialization, {said} logit scale",
                [found.initial.mean],
                f"Logit scale {found.logit_scale:.2f}, {found.initial.draws} untrained heads, deviation "
                f"{found.initial.deviation:.2f}; attainable interval [{low:.2f}, {high:.2f}].",
            )
        )
    return lines


def trained_scale(head: CellResult) -> float:
    """Lead of the target over the mean of the other keys at the longest training length, in logits.

    The selected kernel of a table leads every key by 1, so this is the trained kernel's component along it.
    """
    cell = head.cell
    logits = mean_logits(cell, head.parameters, cell.longest, 0)
    target = int(cell.task.target(np.array(cell.longest - 1)))  # pyright: ignore[reportAttributeAccessIssue]
    return float(logits[target] - np.delete(logits, target).mean())


def own_rise(head: CellResult) -> float:
    """What part of that lead is the target's bias having risen, and not the others having fallen."""
    start = initial_parameters(head.cell.shape, head.cell.knobs)
    before, after = (of.attention.encoding["bias"] for of in (start, head.parameters))
    moved = np.ravel(np.asarray(after) - np.asarray(before))
    moved = moved[np.abs(moved) > STILL]
    return float(moved.max() / (moved.max() - np.delete(moved, moved.argmax()).mean()))


def prediction(cell: Cell, logit_scale: float | None) -> Prediction:
    """With alpha under initialization, for the lengths that the heads are tested at."""
    return predict(
        cell.encoding,
        cell.task,
        trained=TRAINED,
        tested=LENGTHS[-1],
        shortest=SHORTEST,
        width=cell.model.head_width,
        logit_scale=logit_scale,
        draws=DRAWS,
    )


def draw(results: Results) -> Figure:
    """A column an encoding: the same heads from two starts, selection above accuracy."""
    (t5, t5_drawn, offset), (key, key_drawn, place) = PAIRS
    columns = {
        f"{t5} on {offset}": (f"{t5} on {offset}", f"{t5_drawn} on {offset}"),
        f"{key} on {place}": (f"{key} on {place}", f"{key_drawn} on {place}"),
        f"{t5} on {offset}, ordinary head": (f"head: {t5} on {offset}", f"head: {t5_drawn} on {offset}"),
    }
    with mpl.rc_context(STYLE):
        figure, axes = panels(3, rows=2, height=2.4)
        for column, (title, names) in zip(axes.T, columns.items(), strict=True):
            for index, (name, start) in enumerate(zip(names, ("from zero", "from N(0, 1)"), strict=True)):
                heads = results[name]
                lengths = np.array(heads[0].cell.lengths)
                curve(column[0], index, start, lengths, np.array([head.selected for head in heads]), (0, 1))
                answers = np.array([[right.value for right in head.accuracy] for head in heads])
                curve(column[1], index, start, lengths, answers, (0, 1))
            column[0].set_title(title)
            column[1].set_xlabel("length L")
            for panel in column:
                mark_training(panel, TRAINED)
                panel.set_ylim(-0.04, 1.04)
        axes[0, 0].set_ylabel("target selected,\nshare of sequences")
        axes[1, 0].set_ylabel("answered right,\nshare of sequences")
        legend(figure, list(axes.ravel()), [len(heads) for heads in results.values()])
        return figure


ITEM = Item(
    "initialization",
    "Starts from zero and from N(0, 1) part",
    __doc__,
    series,
    compare,
    draw,
    "The same encoding and rule, from two starts. From zero (t5, key-only) every longer length is selected; from "
    "N(0, 1) what training never touched outweighs what it taught in a part of the heads.",
)
