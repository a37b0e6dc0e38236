"""The uniqueness condition of Lemma 2 over long contexts: where the rotary kernel re-aligns (table 5's column)."""

from __future__ import annotations

from collections.abc import Mapping

import jax.numpy as jnp
import numpy as np

from farfield.encodings.rope import Rope
from farfield.papers.implicit_bias.theory.carrier import trained_phases
from farfield.papers.implicit_bias.theory.lines import double_precision, measured
from farfield.papers.verdicts import Comparison
from farfield.probes.kernel import kernel, kernel_shape
from farfield.results.result import CellResult

REACH = 2**17
TESTED = 47  # the farthest offset at the longest test length, 48


def compare(bases: Mapping[float, list[CellResult]]) -> list[Comparison]:
    comparisons = []
    for base, cells in bases.items():
        width = cells[0].cell.model.width
        with double_precision():
            theta = np.asarray(Rope(base=base).frequencies(width, dtype=jnp.float64))
        trained = np.array([trained_phases(cell).amplitude for cell in cells])
        columns = kernel(theta, REACH, np.concatenate([np.ones((1, width // 2)), trained])).T
        for name, rows in (("equal weights", columns[:1]), ("trained weights, K=2", columns[1:])):
            shapes = [kernel_shape(row) for row in rows]
            places = sorted(shape.realignment_at for shape in shapes)
            comparisons += [
                measured(
                    f"base={base:g} {name}: far re-alignment",
                    [shape.realignment for shape in shapes],
                    f"Not in the paper: largest g(s)/g(0) past the first valley, s up to {REACH:,}; at s = "
                    + (f"{places[0]:,}." if len(places) == 1 else f"{places[0]:,} to {places[-1]:,} by seed."),
                ),
                measured(
                    f"base={base:g} {name}: largest g(s)/g(0) past s = {TESTED}",
                    [row[TESTED + 1 :].max() / row[0] for row in rows],
                    f"Not in the paper: s from {TESTED + 1}, where its own lengths end, to {REACH:,}.",
                ),
                measured(
                    f"base={base:g} {name}: s = 0 is the only maximum",
                    [float(row[1:].max() < row[0]) for row in rows],
                    f"Not in the paper, which looks at s up to {TESTED}; 1 if so for s up to {REACH:,}.",
                ),
            ]
    return comparisons
