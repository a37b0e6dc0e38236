"""Write docs/implicit-bias.md: every line of a reproduction's verdicts.json as a table.

``python docs/numbers_table.py farfield-results/implicit-bias-full/verdicts.json``
"""

from __future__ import annotations

import argparse
import json
from collections import Counter
from itertools import groupby
from pathlib import Path
from typing import Any

from farfield.cli.render.paper import SIGNS
from farfield.papers import PAPERS
from farfield.printing import number

PAGE = Path(__file__).with_name("implicit-bias.md")
HEAD = """\
# {title}, number by number

Written by `make numbers` from the verdicts of `farfield reproduce implicit-bias --budget full`, not by hand. {counts}.
*Ours* is the mean over so many seeds with the 95% interval of that mean; the verdict follows
[one rule](reproduction.md) for all. A line without a printed number is a measurement beside the paper; a theorem's
line is the share of cases in which it holds, 0 for a control that has to fail.
"""


def page(verdicts: list[dict[str, Any]]) -> str:
    """The page as Markdown."""
    paper = PAPERS["implicit-bias"]
    titles = {item.name: item.title for item in paper.items}
    outcomes = Counter(verdict["verdict"] for verdict in verdicts)
    counts = ", ".join(f"{count} {outcome}" for outcome, count in outcomes.most_common())
    parts = [HEAD.format(title=paper.title, counts=counts)]
    for item, lines in groupby(verdicts, lambda verdict: verdict["item"]):
        parts.append(f"\n## {item}: {titles[item]}\n\n| number | printed | ours | seeds | |\n|---|---|---|---|---|\n")
        parts += [row(verdict) for verdict in lines]
    return "".join(parts)


def row(verdict: dict[str, Any]) -> str:
    """One line of a table."""
    ours = number(verdict["measured"])
    if verdict["mean_low"] is not None and verdict["mean_low"] != verdict["mean_high"]:
        ours += f" [{number(verdict['mean_low'])}, {number(verdict['mean_high'])}]"
    name = verdict["cell"].replace("|", "\\|")
    outcome = f"{SIGNS[verdict['verdict']]} {verdict['verdict']}" if verdict["published"] is not None else ""
    return f"| {name} | {number(verdict['published'])} | {ours} | {verdict['n'] or ''} | {outcome} |\n"


def main() -> None:
    parser = argparse.ArgumentParser(description="Write docs/implicit-bias.md from a reproduction's verdicts.")
    parser.add_argument("verdicts", type=Path)
    verdicts = json.loads(parser.parse_args().verdicts.read_text(encoding="utf-8"))
    PAGE.write_text(page(verdicts), encoding="utf-8")


if __name__ == "__main__":
    main()
