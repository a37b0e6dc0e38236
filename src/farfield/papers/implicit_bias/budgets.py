"""How much of the paper to run: its transformer takes most of the time."""

from farfield.papers.base import SMOKE, Budget, Effort

SHORTER = 1000
BUDGETS = {
    budget.name: budget
    for budget in (
        Budget(
            "standard",
            "The paper's steps and sequences for every one-layer head, 8 or 16 seeds a setting, the paper's own among "
            f"them; the transformer is trained for {SHORTER:,} of its 8,000 steps with one seed and not judged.",
            long_effort=Effort(most_seeds=1, steps=SHORTER),
            long_unjudged=f"Trained for {SHORTER:,} of the paper's 8,000 steps, one seed: --budget full trains all.",
        ),
        Budget(
            "full", "The paper's steps and sequences for everything, 8 or 16 seeds a setting, 2 of the transformer."
        ),
        Budget(
            "quick",
            "4 seeds a setting, fewer than most of the paper: wide intervals. The transformer is trained for 300 steps "
            "and not judged.",
            effort=Effort(most_seeds=4),
            long_effort=Effort(most_seeds=1, steps=300),
            long_unjudged="Trained for 300 of the paper's 8,000 steps, one seed: --budget full trains all.",
        ),
        SMOKE,
    )
}
