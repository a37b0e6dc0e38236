"""Train six encodings on three offsets and write docs/failure.md with its picture: `make failure`.

About three minutes on two cores. Expected: T5 selects the target in every sequence and loses to dilution alone;
rotary loses to competition, and at K = 1 the rule itself moves from about 96 on; with learned and sinusoidal positions
it moves at the first unseen length.
"""

from __future__ import annotations

import argparse
from pathlib import Path

import numpy as np

from farfield.cell import Cell
from farfield.cli.progress import reporter
from farfield.encodings import encodings
from farfield.engine.scheduler import run
from farfield.intervals import over_seeds
from farfield.plotting.style import save
from farfield.plotting.ways import panel_of, ways_figure
from farfield.probes.failure import WAYS
from farfield.results.result import CellResult
from farfield.store.store import StoreWriter
from farfield.tasks import tasks

SEEDS = 16
NAMES = {
    "rope": "RoPE",
    "t5:buckets=32,distance=128": "T5",
    "alibi:slope=0.5": "ALiBi, slope 1/2",
    "learned": "learned",
    "sinusoidal": "sinusoidal",
    "fire": "FIRE",
}
OFFSETS = (1, 2, 3)
LENGTHS = (12, 16, 20, 24, 32, 48, 64, 96, 128, 192)
SHOWN = (12, 16, 24, 48, 96, 192)
# How far the laws of competition hold: longer tests of the encodings that keep their rule, with fewer sequences.
LAW = ("rope", "t5:buckets=32,distance=128", "alibi:slope=0.5")
LAW_LENGTHS, LAW_SEQUENCES = (16, 48, 96, 192, 384, 1024, 4096), 1024
HEAD = """# Three ways to fail

Written by `make failure` (`docs/failure_table.py`), not by hand.

A head that was trained on short sequences answers fewer long ones rightly. Why is a question of each sequence. Where
the answer is wrong, one of three things is:

* **rule moved**: the mean attention of all sequences of this length is largest elsewhere than on the target, or on
  several keys alike (equal within 3 standard errors). The head as a whole follows the rule no more.
* **outcompeted**: the mean attention keeps the target, but in this sequence another key's weight is at least as large.
* **diluted**: in this sequence the target's weight is the largest, alone, and the answer is wrong all the same, because
  the weights of all other keys add up.

Together with **right** they are shares of all test sequences, and add up to one. Besides, a sequence may be *right
although outcompeted*: the other key holds the answer too, or its value does not win. The definition is in
`src/farfield/probes/failure.py`; `farfield train` prints the shares, stores keep them (`rule_moved`, `outcompeted`,
`diluted`, `right_although_outcompeted`), and a report draws them. Where a model has several heads, the head that gives
its target most within the trained lengths decides.

![Stacked shares of sequences by length for six encodings at offset 1](images/ways.png)

*{seeds} seeds each, offset 1, trained on lengths 8 to 16, tested to 192.*

## The table

One attention layer with one head, d = 64, 20 tokens, {steps} steps, lengths 8 to 16, 4,096 test sequences a
length, mean over {seeds} seeds. K: the target is K places before the query. *r/o*: right although outcompeted, a part
of right.

"""
LAWS = """
## A law for competition

The decay law of the peak height (arXiv 2607.18759, Corollary 2) is about dilution. Competition has laws of its own,
which need the weights and no test (`src/farfield/probes/competition.py`): tokens are independent, so the share of
sequences in which the target has the largest logit is a product over the other keys.

* **exact**: over the logits of all pairs of tokens at each place.
* **by kernel**: from the mean logit at each place, and one spread of single logits about it, from rows of 16.

Below, the share of sequences in which the target has the largest weight: measured on {sequences} sequences a length,
and by either law, mean over {few} seeds. *Worst* is the largest distance of a single seed from what is measured of it;
a measured share has itself a standard error of up to .016. Counting keys does not do (*by count*: every key as one of
those within 16 places): it knows nothing of the offsets, never trained, at which a rotary kernel rises again, and takes
ALiBi's near rivals for far ones.

"""


def results_of(out: str | None, names, lengths, seeds: int, sequences: int) -> dict[tuple[str, int], list[CellResult]]:
    cells = [
        Cell(encodings.parse(name), tasks.parse(f"offset:{k}"), seed, lengths=lengths, sequences=sequences).resolved()
        for name in names
        for k in OFFSETS
        for seed in range(seeds)
    ]
    found = run(cells, None if out is None else StoreWriter(Path(out)), progress=reporter())
    keys = [(name, k) for name in names for k in OFFSETS]
    return {key: found[index * seeds : (index + 1) * seeds] for index, key in enumerate(keys)}


def two(value: float) -> str:
    return f"{value:.3f}".lstrip("0") if value < 0.9995 else "1"


def table(results: dict[tuple[str, int], list[CellResult]]) -> list[str]:
    lines = [
        "| encoding | K | L | right | rule moved | outcompeted | diluted | sum | r/o | seeds whose rule stands |",
        "| --- | ---: | ---: | ---: | ---: | ---: | ---: | ---: | ---: | ---: |",
    ]
    for (name, k), heads in results.items():
        for length in SHOWN:
            index = LENGTHS.index(length)
            shares = [
                over_seeds([getattr(head.ways, way)[index] for head in heads], bounds=(0, 1)).mean
                for way in ("right", *WAYS, "right_although_outcompeted")
            ]
            stands = sum(head.selected_offset[index] == -k for head in heads)
            columns = [*map(two, shares[:4]), f"{sum(shares[:4]):.3f}", two(shares[4]), f"{stands} of {len(heads)}"]
            lines.append(f"| {NAMES[name]} | {k} | {length} | {' | '.join(columns)} |")
    return lines


def by_count(head: CellResult) -> np.ndarray:
    """The law that counting keys would give: every other key as one of those within the trained length."""
    from farfield.results import observe

    cell = head.cell
    logits = observe.logit_table(cell, head.parameters, cell.longest, cell.longest, head.head)
    target = cell.longest - 1 + head.target_offset
    others = logits[:, [place for place in range(cell.longest - 1) if place != target]].reshape(len(logits), -1)
    below = (others[:, None, :] < logits[:, target][:, :, None]).mean(axis=-1)
    return np.array([(below ** (length - 1)).mean() for length in cell.lengths])


def laws(results: dict[tuple[str, int], list[CellResult]]) -> list[str]:
    lines = [
        f"| encoding | K | | {' | '.join(map(str, LAW_LENGTHS))} | worst |",
        f"| --- | ---: | --- | {' | '.join(['---:'] * len(LAW_LENGTHS))} | ---: |",
    ]
    for (name, k), heads in results.items():
        measured = np.array([head.selected for head in heads])
        rows = {
            "measured": measured,
            "exact": np.array([head.competition.exact for head in heads]),
            "by kernel": np.array([head.competition.by_kernel for head in heads]),
            "by count": np.array([by_count(head) for head in heads]),
        }
        for label, row in rows.items():
            worst = "" if label == "measured" else two(float(np.abs(row - measured).max()))
            lines.append(f"| {NAMES[name]} | {k} | {label} | {' | '.join(map(two, row.mean(axis=0)))} | {worst} |")
    return lines


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seeds", type=int, default=SEEDS)
    parser.add_argument("--out", help="keep finished heads in this folder")
    parser.add_argument("--page", type=Path, default=Path(__file__).with_name("failure.md"))
    arguments = parser.parse_args()
    results = results_of(arguments.out, NAMES, LENGTHS, arguments.seeds, 4096)
    few = max(1, arguments.seeds // 2)
    far = results_of(arguments.out, LAW, LAW_LENGTHS, few, LAW_SEQUENCES)
    figure = ways_figure([panel_of(NAMES[name], heads) for (name, k), heads in results.items() if k == OFFSETS[0]])
    images = arguments.page.parent / "images"
    images.mkdir(exist_ok=True)
    save(figure, images / "ways.png")
    steps = next(iter(results.values()))[0].cell.steps
    head = HEAD.format(seeds=arguments.seeds, steps=f"{steps:,}")
    law = LAWS.format(few=few, sequences=f"{LAW_SEQUENCES:,}")
    arguments.page.write_text(head + "\n".join(table(results)) + "\n" + law + "\n".join(laws(far)) + "\n")


if __name__ == "__main__":
    main()
