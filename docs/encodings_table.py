"""Train every encoding on four rules and write docs/encodings.md: `make encodings`, about fifteen minutes on two cores.

The positional-only head shows what an encoding by itself can select. Each row is one encoding on one rule, five
seeds, trained on lengths 8 to 16 and tested to 64. Expected: rotary 1.00 in and out of range on fixed offsets and
chance elsewhere; T5 selects every offset at 64 and still loses half its accuracy to dilution; ALiBi reaches no offset
but its own place; learned absolute 1.00 in range on everything and chance outside; NoPE nothing.
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
from farfield.models.positional import PositionalHead
from farfield.results.result import CellResult
from farfield.store.store import StoreWriter
from farfield.tasks import tasks

SEEDS = 5
LENGTHS = (8, 10, 12, 14, 16, 24, 32, 48, 64)
RULES = {"offset:1": "offset 1", "offset:3": "offset 3", "position:0": "position 0", "fraction:2": "n // 2"}
# Settings beside the defaults, each for what it decides.
VARIANTS = [
    "alibi:learned=true",
    "alibi:slope=1",
    "alibi:slope=-1",
    "alibi:learned=true,symmetric=true",
    "rope:fraction=0.5",
    "rope:base=500000",
    "t5:deviation=1",
    "clipped:deviation=1",
    "sinusoidal:layout=concatenated",
]
HEAD = """# Every encoding on four rules

Written by `make encodings` (`docs/encodings_table.py`), not by hand. One attention layer with one *positional-only*
head: logits come from positions alone, values from tokens alone, so a row says what the encoding by itself can select.
{seeds} seeds, trained on lengths 8 to 16 ({steps} steps), tested to 64; the answer is one of 20 tokens, chance .05.

* **in** and **out**: accuracy, averaged over test lengths 8 to 16, and over 24, 32, 48 and 64.
* **selected**: share of seeds whose target key has the largest weight, alone, at 64.
* **mass**: weight on the target key at 64, mean over seeds.

Queries and keys are made from the encoding's own vectors where it adds any, else from one trained vector that all
places share (`src/farfield/models/positional.py`). Selection and mass are two ways to fail. T5 with its bias started
at zero selects every offset at 64 and still loses accuracy, because softmax leaves the target too little mass; ALiBi
cannot select offset 1 at all. `alibi` alone has the reference slope of a single head, 2**-8, too flat to select
anything; `deviation=1` starts a trained bias from N(0, 1) instead of zero. "n // 2" is the key halfway back, for which
neither relative nor absolute encodings carry a rule to longer sequences. Cells are the mean over seeds; ± is the
standard deviation over seeds where it is at least .05.

"""


def cells() -> list[Cell]:
    """Every encoding by its defaults and the variants, on every rule, with every seed."""
    return [
        Cell(encodings.parse(spec), tasks.parse(rule), seed, PositionalHead(), lengths=LENGTHS, sequences=2048)
        for spec in [*encodings, *VARIANTS]
        for rule in RULES
        for seed in range(SEEDS)
    ]


def number(values: list[float]) -> str:
    """Mean over seeds to two digits, with the standard deviation where it is worth a reader's time."""
    mean, deviation = over_seeds(values).mean, float(np.std(values, ddof=1))
    text = "1.00" if mean > 0.995 else f"{mean:.2f}".removeprefix("0")
    return text + (f" ± {deviation:.2f}".replace("0.", ".") if deviation >= 0.05 else "")


def columns(results: list[CellResult]) -> list[str]:
    """In range, out of range, selected, mass."""
    accuracy = np.array([[right.value for right in result.accuracy] for result in results])
    near = np.array(LENGTHS) <= 16
    return [
        number(accuracy[:, near].mean(axis=1).tolist()),
        number(accuracy[:, ~near].mean(axis=1).tolist()),
        f"{sum(result.selected[-1] > 0.5 for result in results)}/{len(results)}",
        number([float(result.target_attention[-1]) for result in results]),
    ]


def table(results: list[CellResult]) -> str:
    """The page's table, one row an encoding, four columns a rule."""
    head = "| encoding | " + " | ".join(f"{name}: in | out | selected | mass" for name in RULES.values()) + " |"
    lines = [head, "| --- |" + " ---: |" * (4 * len(RULES))]
    specs = [*encodings, *VARIANTS]
    groups = iter([results[start : start + SEEDS] for start in range(0, len(results), SEEDS)])
    for spec in specs:
        row = [part for _ in RULES for part in columns(next(groups))]
        lines.append(f"| `{spec}` | " + " | ".join(row) + " |")
    return "\n".join(lines) + "\n"


def main() -> None:
    """Train what the store lacks, then write the page."""
    arguments = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    arguments.add_argument("--store", type=Path, default=Path("farfield-results/encodings"))
    arguments.add_argument("--page", type=Path, default=Path(__file__).with_name("encodings.md"))
    given = arguments.parse_args()
    results = run(cells(), StoreWriter(given.store), progress=reporter())
    head = HEAD.format(seeds=SEEDS, steps=results[0].cell.steps)
    given.page.write_text(head + table(results))


if __name__ == "__main__":
    main()
