"""Escapes: content and depth carry rules that no positional kernel carries.

``farfield reproduce realizability --only escapes``: 20 heads and 9 small transformers, 130 processor-seconds, all
trained on lengths 8 to 16 and tested to 64. The abstract names the two mechanisms; tasks and models are this
project's choice.

* *Content.* ``marker``: copy the marked token, which may stand anywhere. ``mode``: the query's token says whether to
  copy one or three places back. Their targets do not follow from the query's place, so alpha does not exist, and a
  positional-only head selects the target no more often than one guess for all sequences can. An ordinary head, whose
  logits see the tokens, selects it at every length.
* Accuracy is not selection: the positional-only head *answers* ``marker`` without selecting anything, since values see
  tokens too: it makes those of unmarked tokens small, so that an average over all keys speaks of the marked one.
* *Depth.* ``position:3`` with rotary positions is an offset n - 3 that grows with the query's place n. No relative
  kernel is right on the trained rows, and one layer fails. Two layers can do it: what the first writes at a key
  depends on the tokens before it alone, so a key that has found out there that it is the fourth stays marked at every
  length. Half of each head's coordinates do not rotate (``rope:fraction=0.5``), or the second layer's match would fade
  in and out with distance.
* *What depth does not give.* The same two layers on n // 2 (``fraction:2``) are lost beyond the trained lengths. Two
  layers set by hand can do it, where the first token is recognizable: uniform attention to it leaves c_j = 1 / (j + 1)
  at place j, and 4 c_n c_j - c_j^2 is largest at j = n // 2 for every n. The margins shrink with n, so at a fixed
  logit scale the mass dilutes.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import matplotlib as mpl
import numpy as np
from jaxtyping import Float
from matplotlib.figure import Figure

from farfield.cell import Cell
from farfield.encodings import Encoding
from farfield.encodings.none import NoEncoding
from farfield.encodings.rope import Rope
from farfield.encodings.shaw import Shaw
from farfield.models import Model
from farfield.models.head import Head
from farfield.models.positional import PositionalHead
from farfield.models.transformer import Transformer
from farfield.papers.base import Item, Results, Series
from farfield.papers.realizability.setup import by_seed, number
from farfield.papers.verdicts import Comparison, statement
from farfield.plotting.style import STYLE, curve, legend, mark_training, note, panels
from farfield.prediction import predict
from farfield.results.result import CellResult
from farfield.tasks import Task
from farfield.tasks.growing import Fraction
from farfield.tasks.marker import Marker
from farfield.tasks.mode import Mode
from farfield.tasks.position import FixedPosition

LENGTHS = (8, 12, 16, 24, 32, 48, 64)
SHORTEST, TRAINED = 8, 16
HEAD_SEEDS, DEEP_SEEDS = 4, 3
PARTIAL = Rope(fraction=0.5)
PLACE, HALF = FixedPosition(3), Fraction(2)

# A rule is kept at a length if the target is selected, or the answer right, in nine of ten sequences.
KEPT = 0.9
EVERYWHERE = f"At least {KEPT:g} of sequences at each length from {LENGTHS[0]} to {LENGTHS[-1]}."
# One guess for all sequences: a seventh of markers at length 8, half of the modes; and what noise adds to it.
MOST_MARKERS, MOST_MODES = 0.25, 0.6
LOST, FAR = 0.5, 32
# The longest query place that the layers set by hand are tried on.
FARTHEST = 1023

MARKED = "marker, positional-only head (rope)"
CHOSEN = "mode, positional-only head (shaw)"
TWO, ONE, GROWING = "position:3, two layers", "position:3, one layer", "n // 2, two layers"
# Columns of the figure: title, and the series that it shows by their legend and style.
COLUMNS = {
    "content: copy the marked token": {
        "ordinary head": (0, "marker, ordinary head (rope)"),
        "positional-only head": (1, MARKED),
    },
    "content: the query says 1 or 3 back": {
        "ordinary head": (0, "mode, ordinary head (shaw)"),
        "positional-only head": (1, CHOSEN),
    },
    "depth: copy place 3, or place n // 2": {
        "two layers, place 3": (2, TWO),
        "one layer, place 3": (3, ONE),
        "two layers, place n // 2": (4, GROWING),
    },
}


def series() -> Series:
    ordinary, positional = Head(), PositionalHead()
    return {
        "marker, ordinary head (none)": _heads(NoEncoding(), Marker(), ordinary),
        "marker, ordinary head (rope)": _heads(Rope(), Marker(), ordinary),
        MARKED: _heads(Rope(), Marker(), positional),
        "mode, ordinary head (shaw)": _heads(Shaw(reach=4), Mode(1, 3), ordinary),
        CHOSEN: _heads(Shaw(reach=4), Mode(1, 3), positional),
        TWO: _transformers(PLACE, layers=2),
        ONE: _transformers(PLACE, layers=1),
        GROWING: _transformers(HALF, layers=2),
    }


def _heads(encoding: Encoding, task: Task, model: Model) -> list[Cell]:
    settings: dict[str, Any] = {"steps": 2000, "lengths": LENGTHS, "sequences": 1024}
    return [
        Cell(encoding, task, seed, model=model, shortest=SHORTEST, longest=TRAINED, **settings)
        for seed in range(HEAD_SEEDS)
    ]


def _transformers(task: Task, layers: int) -> list[Cell]:
    return [
        Cell(
            PARTIAL,
            task,
            seed,
            model=Transformer(width=32, heads=4, layers=layers),
            shortest=SHORTEST,
            longest=TRAINED,
            steps=1500,
            batch=128,
            learning_rate=5e-3,
            lengths=LENGTHS,
            sequences=512,
        )
        for seed in range(DEEP_SEEDS)
    ]


def compare(results: Results) -> list[Comparison]:
    measured = [line for name, found in results.items() for line in _numbers(name, found)]
    return [*_content(results), *_depth(results), *_by_hand(), *measured]


def answered(results: Sequence[CellResult]) -> Float[np.ndarray, "seed length"]:
    """Accuracy by length."""
    return np.array([[right.value for right in result.accuracy] for result in results])


def selected(results: Sequence[CellResult]) -> Float[np.ndarray, "seed length"]:
    """Share of sequences in which the target has the largest weight, alone; in a transformer, of the head that looks
    at it most within the trained range."""
    return np.array([result.selected for result in results])


def _kept(shares: Float[np.ndarray, "seed length"]) -> Float[np.ndarray, " seed"]:
    """Whether each seed keeps a rule at every length, the trained ones among them."""
    return np.all(shares >= KEPT, axis=1)


def _content(results: Results) -> list[Comparison]:
    lines = []
    for name in ("marker, ordinary head (none)", "marker, ordinary head (rope)", "mode, ordinary head (shaw)"):
        lines += [
            by_seed(f"{name}: {verb} at every length", _kept(shares(results[name])), EVERYWHERE)
            for verb, shares in (("selects the target", selected), ("answers", answered))
        ]
    for name, most in ((MARKED, MOST_MARKERS), (CHOSEN, MOST_MODES)):
        holds = np.all(selected(results[name]) <= most, axis=1)
        why = f"At most {most:g} of sequences at each length: one guess for all, and noise."
        lines.append(by_seed(f"{name}: selects it no more often than one guess can", holds, why))
    unable = np.all(answered(results[CHOSEN]) <= MOST_MODES, axis=1)
    return [
        *lines,
        by_seed(f"{CHOSEN}: answers no more often either", unable, f"At most {MOST_MODES:g} at each length."),
        number(
            f"{MARKED}: how much louder the values of marked tokens are",
            [loudness(result) for result in results[MARKED]],
            "Deviation over the marked classes of what a token's value adds to their scores, marked to unmarked "
            "tokens: why this head answers without selecting.",
        ),
    ]


def loudness(result: CellResult) -> float:
    """Class scores by the value of a marked token, against those of an unmarked one: ratio of mean deviations."""
    parameters = result.parameters
    values = np.asarray(parameters.embedding) @ np.asarray(parameters.attention.head(0).value).T
    scores = values @ np.asarray(parameters.readout).T
    plain = result.cell.vocabulary - result.cell.vocabulary // 2
    spread = scores[:, plain:].std(axis=1)
    return float(spread[plain:].mean() / spread[:plain].mean())


def _depth(results: Results) -> list[Comparison]:
    cell = results[TWO][0].cell
    prediction = predict(
        cell.encoding,
        PLACE,
        trained=cell.longest,
        tested=LENGTHS[-1],
        shortest=cell.shortest,
        width=cell.model.head_width,
        with_openness=False,
    )
    one, growing = answered(results[ONE]), answered(results[GROWING])[:, LENGTHS.index(FAR) :]
    lost = f"Fewer than {LOST:g} of sequences at each length"
    return [
        statement(
            "position:3: no positional kernel of the encoding is right on the trained rows",
            [not prediction.realizable_at_trained],
        ),
        by_seed(f"{TWO}: selects the target at every length", _kept(selected(results[TWO])), EVERYWHERE),
        by_seed(f"{TWO}: answers at every length", _kept(answered(results[TWO])), EVERYWHERE),
        by_seed(f"{ONE}: fails at every length", np.all(one < LOST, axis=1), f"{lost}."),
        by_seed(f"{GROWING}: fails beyond training", np.all(growing < LOST, axis=1), f"{lost} from {FAR} on."),
    ]


def _by_hand() -> list[Comparison]:
    """Two layers set by hand that select n // 2, with their dilution."""
    scores = two_layers_by_hand(FARTHEST + 1)
    wins = [_leads(scores[n, : n + 1], n // 2) for n in range(1, FARTHEST + 1)]
    masses = {n: _mass_at_half(scores[n, : n + 1], _scale_for(scores, TRAINED - 1)) for n in (TRAINED - 1, 31, 63)}
    return [
        statement(f"n // 2, two layers set by hand: select it in every row to {FARTHEST}", wins),
        *(
            number(f"n // 2, two layers set by hand: mass on it at n = {n}", [mass], "Logit scale: .9 at n = 15.")
            for n, mass in masses.items()
        ),
    ]


def two_layers_by_hand(length: int) -> Float[np.ndarray, "query key"]:
    """Logits of the second layer, up to a scale, after a first one that counts; no positional encoding.

    The first attends evenly to all places so far, and its value is 1 for the first token, 0 for all others: it writes
    c_j = 1 / (j + 1). The second has the query (4 c_n, -1) and the keys (c_j, c_j^2). Its logit is
    4 c_n^2 - (c_j - 2 c_n)^2, and c_j = 1 / (j + 1) comes nearest to 2 c_n = 2 / (n + 1) at j = n // 2.
    """
    even = np.tril(np.ones((length, length)))
    even /= even.sum(axis=1, keepdims=True)
    counted = even @ (np.arange(length) == 0)
    queries = np.stack([4 * counted, np.full(length, -1.0)], axis=1)
    keys = np.stack([counted, counted**2], axis=1)
    return queries @ keys.T


def _leads(logits: Float[np.ndarray, " key"], target: int) -> bool:
    """Whether a key leads all others."""
    return bool(logits[target] > np.delete(logits, target).max())


def _mass_at_half(logits: Float[np.ndarray, " key"], scale: float) -> float:
    """Softmax weight of the key in the middle."""
    weights = np.exp(scale * (logits - logits.max()))
    return float(weights[(len(logits) - 1) // 2] / weights.sum())


def _scale_for(scores: Float[np.ndarray, "query key"], n: int, wanted: float = 0.9) -> float:
    """The logit scale that leaves the middle of row n so much mass, by bisection."""
    low, high = 0.0, 1e9
    for _ in range(200):
        middle = (low + high) / 2
        low, high = (middle, high) if _mass_at_half(scores[n, : n + 1], middle) < wanted else (low, middle)
    return high


def _numbers(name: str, found: Sequence[CellResult]) -> list[Comparison]:
    """Selection and accuracy apart: over the trained lengths, and at the longest."""
    trained = np.array(LENGTHS) <= TRAINED
    return [
        number(f"{name}: {what}, {where}", over(shares(found)))
        for what, shares in (("selection", selected), ("accuracy", answered))
        for where, over in (
            ("trained lengths", lambda rows: rows[:, trained].mean(axis=1)),
            (f"L={LENGTHS[-1]}", lambda rows: rows[:, -1]),
        )
    ]


def draw(results: Results) -> Figure:
    """Selection above, accuracy below; content in two columns, depth in the third."""
    with mpl.rc_context(STYLE):
        figure, axes = panels(len(COLUMNS), rows=2, height=2.5)
        for (above, below), (title, shown) in zip(axes.T, COLUMNS.items(), strict=True):
            for label, (index, name) in shown.items():
                curve(above, index, label, np.array(LENGTHS), selected(results[name]), (0, 1))
                curve(below, index, label, np.array(LENGTHS), answered(results[name]), (0, 1))
            for panel in (above, below):
                mark_training(panel, TRAINED)
                panel.set(ylim=(-0.04, 1.04))
            above.set_title(title)
            below.set_xlabel("length L")
            chance = results[next(iter(shown.values()))[1]][0].accuracy[-1].chance
            below.axhline(chance, color="0.35", dashes=(4, 3), linewidth=1)
        first = next(iter(results.values()))[0]
        note(axes[1][0], "chance", (LENGTHS[-1], first.accuracy[-1].chance), shift=(0, 3))
        axes[0][0].set_ylabel("right key selected,\nshare of sequences")
        axes[1][0].set_ylabel("answered right,\nshare of sequences")
        legend(figure, list(axes.flat), map(len, results.values()))
        return figure


ITEM = Item(
    "escapes",
    "Content and depth carry what no positional kernel can",
    __doc__,
    series,
    compare,
    draw,
    "Share of sequences; trained up to the dotted line. Left, middle: a head that sees the tokens finds the right key "
    "at every length, one that sees positions alone at none. Left below: it answers all the same, as long as the many "
    "unmarked tokens, whose values it has learned to make small, do not drown the marked one. Right: two layers with "
    "a relative encoding carry a fixed place, which one layer never learns; depth does not carry n // 2.",
)
