"""How much of the regime to run: the atlas of every encoding takes most of the time."""

from farfield.papers.base import SMOKE, Budget, Effort

BUDGETS = {
    budget.name: budget
    for budget in (
        Budget(
            "standard",
            "All seeds of every item but the atlas, which has 2 of its 10.",
            long_effort=Effort(most_seeds=2),
        ),
        Budget("full", "All seeds of every item, the atlas's 10 among them."),
        Budget(
            "quick",
            "2 seeds a setting, so fewer than 2,625 measurements.",
            effort=Effort(most_seeds=2),
            long_effort=Effort(most_seeds=1),
        ),
        SMOKE,
    )
}
