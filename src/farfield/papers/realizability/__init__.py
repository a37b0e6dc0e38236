"""*A Positional Realizability Theory of Length Generalization in Single-Head Attention*, its abstract's claims.

Only the abstract is at hand. It prints one number, 2,625 measurements; its claims are statements, judged case by case.
"""

from farfield.papers.base import Paper
from farfield.papers.realizability import atlas, budgets, escapes, initialization, separation, theorems

PAPER = Paper(
    name="realizability",
    title="A Positional Realizability Theory of Length Generalization in Single-Head Attention",
    source="arXiv preprint, by its abstract",
    claim="Why does a model trained on short sequences keep working on longer ones with some positional encodings and "
    "rules, and not with others? For one attention head that sees positions alone, a scalar alpha_L, computed from the "
    "encoding and the rule without training, says on what share of longer sequences the kernel that short ones select "
    "is still right. Here it is held against trained heads.",
    items=(separation.ITEM, separation.LARGER, initialization.ITEM, escapes.ITEM, theorems.ITEM, atlas.ITEM),
    budgets=budgets.BUDGETS,
)
