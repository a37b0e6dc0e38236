"""The search for a counterexample, for the terminal."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from typing import Any

from rich import box
from rich.markup import escape
from rich.table import Table

from farfield.papers.realizability.conjecture.compare import IN_RANGE, SHORTFALL, STEPS, Example
from farfield.papers.realizability.conjecture.search import LONGER, LONGEST, TIE, Search
from farfield.papers.realizability.conjecture.train_kernel import WAYS

OUTCOMES = ("agreed", "parted", "not trained")
TITLES = {
    TIE: "A tie at the selected kernel that training decides (gradient descent)",
    "descent": "The smallest clear case that stopped gradient descent decides otherwise",
    "adam": "The smallest clear case that Adam decides otherwise",
}
MOST_ROWS = 4
NO_LEAD = 1e-9


def conjecture_tables(found: Search) -> Iterable[Table | str]:
    """Counts by family and way of training, what was left out, examples in full, and a conclusion."""
    stopped = ", stopped by Ctrl-C" if found.interrupted else ""
    yield f"{found.tried} deterministic cases in {found.seconds:.0f} s, seed {found.seed}{stopped}."
    yield _counts(found)
    yield (
        f"limit: momentum and steps divided by the loss, to within {SHORTFALL:g} of the largest margin (up to {LONGER} "
        f"times {STEPS['limit']} steps, {LONGEST} times where it parts). descent, adam: {STEPS['descent']} steps, with "
        f"at least {IN_RANGE:g} of each trained row's mass on its target."
    )
    yield _excluded(found)
    rows = found.rows
    yield (
        f"Deep rows of decided cases: {rows['compared']} compared; left out {rows['tied']} that tie at the selected "
        f"kernel, {rows['unseen']} with an unseen key."
    )
    if found.closest < float("inf"):
        yield f"The closest row on which limit and alpha agree leads by {found.closest:.1e} (-1 to 1)."
    turned = ", ".join(f"{way} {found.turned[way]}" for way in WAYS)
    yield f"Parted cases in which all compared rows are won by one kernel and not by the other: {turned}."
    for example in found.survivors:
        yield from _example("A case that the limit decides otherwise", example)
    for name in (TIE, "descent", "adam"):
        if name in found.examples:
            yield from _example(TITLES[name], found.examples[name])
            standing, tried = found.standing[name]
            yield f"  Of the {tried} smallest such cases, {standing} stand in the longer training."
    yield found.conclusion


def _counts(found: Search) -> Table:
    table = Table(box=box.SIMPLE_HEAD, pad_edge=False)
    for name in ("features", "tried", "decided"):
        table.add_column(name, justify="left" if name == "features" else "right")
    for way in WAYS:
        for outcome in OUTCOMES:
            table.add_column(f"{way}\n{outcome}", justify="right")
    for family, tally in found.tallies.items():
        counts = [str(tally.outcomes[way][outcome]) for way in WAYS for outcome in OUTCOMES]
        table.add_row(family, str(tally.tried), str(tally.decided), *counts)
    totals = [str(found.count(way, outcome)) for way in WAYS for outcome in OUTCOMES]
    table.add_row("all", str(found.tried), str(found.decided), *totals)
    return table


def _excluded(found: Search) -> Table:
    reasons: Counter[str] = Counter()
    for tally in found.tallies.values():
        reasons.update(tally.excluded)
    table = Table(box=box.SIMPLE_HEAD, pad_edge=False)
    table.add_column("cases excluded before training")
    for name in ("all", *found.tallies):
        table.add_column(name, justify="right")
    for reason, count in reasons.most_common():
        table.add_row(reason, str(count), *(str(tally.excluded[reason]) for tally in found.tallies.values()))
    return table


def _example(title: str, example: Example) -> Iterable[str]:
    """One case with everything that it takes to compute it by hand."""
    case = example.to_json()
    yield f"[bold]{title}[/]"
    yield escape(
        f"  Case {case['number']}: {case['phi']}; targets: {case['rule']}; trained to {case['trained']}, tested to "
        f"{case['tested']}; alpha {case['alpha']:.3f}, trained {case['alpha_trained']:.3f}."
    )
    yield escape(f"  Selected kernel {_vector(case['selected_kernel'])}, trained {_vector(case['trained_kernel'])}.")
    by_offset = case["reads"] == "offset"
    if by_offset:
        last = case["deep_rows"][-1]["phi"][::-1]
        listed = ", ".join(f"{offset}: {_vector(vector)}" for offset, vector in enumerate(last))
        yield escape(f"  Phi by offset {listed}.")
        pairs = ", ".join(f"{row['n']}: {row['n'] - row['target']}" for row in case["trained_rows"])
        yield f"  Target's offset by trained n {pairs}."
    else:
        for row in case["trained_rows"]:
            vectors = ", ".join(map(_vector, row["phi"]))
            yield escape(f"  Trained n = {row['n']}, target {row['target']}: Phi {vectors}.")
    for row in case["deep_rows"][:MOST_ROWS]:
        yield escape(f"  Deep n = {row['n']}, target {row['target']}: {_deep(row, by_offset)}.")
    if len(case["deep_rows"]) > MOST_ROWS:
        yield f"  {len(case['deep_rows']) - MOST_ROWS} more such rows, in --json."
    if case["way"] == "adam":
        alike = sum(row["flattest_wins"] == row["trained_wins"] for row in case["deep_rows"])
        yield escape(
            f"  The kernel of the largest margin by coordinate, {_vector(case['flattest_kernel'])}, decides {alike} of "
            f"these {len(case['deep_rows'])} rows as Adam does."
        )
    after = f"after {case['longer_steps']} steps ({case['longer_margin']:.4f} of the largest margin)"
    yield f"  It stands {after}." if case["survives"] else f"  It is gone {after}."


def _deep(row: dict[str, Any], by_offset: bool) -> str:
    parts = []
    for name in ("selected", "trained"):
        key = row[f"{name}_rival"]
        vector = "" if by_offset else f" {_vector(row['phi'][key])}"
        lead = row[f"{name}_lead"]
        tie = abs(lead) < NO_LEAD
        parts.append(f"{name} ties with key {key}{vector}" if tie else f"{name} leads key {key}{vector} by {lead:+.3f}")
    own = "" if by_offset else f"Phi {_vector(row['phi'][row['target']])}; "
    return own + ", ".join(parts)


def _vector(values: list[float]) -> str:
    return "(" + ", ".join(f"{value + 0.0:.4g}" for value in values) + ")"
