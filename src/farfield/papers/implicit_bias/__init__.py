"""*Relative Positions Generalize, Absolute Positions Memorize* (arXiv 2607.18759v1), item by item.

The published numbers are data, ``published.json``; each table or figure is one module with one ``ITEM``.
"""

from farfield.papers.base import Paper
from farfield.papers.implicit_bias import (
    budgets,
    figure1,
    figure2,
    figure3,
    figure4,
    figure5,
    figure6,
    offsets,
    table1,
    table2,
    table3,
    table4,
    table5,
    table6,
    table7,
    table8,
    theory,
)

PAPER = Paper(
    name="implicit-bias",
    title="Relative Positions Generalize, Absolute Positions Memorize",
    source="arXiv 2607.18759v1",
    claim="The task: copy the token K places back, with one layer of attention (a head) trained on short sequences. "
    "With rotary positions (rope) the head keeps attending to the right key at any length, and only its share of "
    "attention thins out (dilution); with learned absolute positions it is lost at the first length it has not seen. "
    "What rotary heads learn is a carrier: a direction that all keys, and all queries, share.",
    # In the order of the print.
    items=(
        figure1.ITEM,
        table1.ITEM,
        figure2.ITEM,
        figure3.ITEM,
        table2.ITEM,
        figure4.ITEM,
        figure5.ITEM,
        offsets.ITEM,
        figure6.ITEM,
        table3.ITEM,
        table4.ITEM,
        table5.ITEM,
        table6.ITEM,
        table7.ITEM,
        table8.ITEM,
        theory.ITEM,
    ),
    budgets=budgets.BUDGETS,
)
