"""What `farfield reproduce` prints: a line an item, in full what differs, and all numbers where asked."""

from __future__ import annotations

import io
from pathlib import Path

import pytest
from rich.console import Console

from farfield.cli import progress
from farfield.cli.progress import Lines, reporter
from farfield.cli.render.paper import reproduction_tables
from farfield.engine.progress import Silent
from farfield.papers import PAPERS
from farfield.papers.reproduce import Reproduction
from farfield.papers.verdicts import Comparison, judge

TRIED = "Seeds 0 to 63: the mean of 64 is 12.4."


def reproduction(name: str, differing: tuple[str, ...] = ()) -> Reproduction:
    """Twenty numbers an item that are reproduced, and for some items one that differs and one without a verdict."""
    paper, verdicts = PAPERS[name], []
    for item in paper.items:
        numbers = [Comparison(f"accuracy, row {row}", 0.5, 0.01, [0.5, 0.501], 8) for row in range(20)]
        if item.name in differing:
            numbers.append(Comparison("pin [mean]", 13.0, 0.1, [11.9, 12.0] * 4, 8, explanation=TRIED))
            numbers.append(Comparison("a claim", None, 0.1, [1.0, 1.0], 8))
        verdicts += [judge(item.name, one) for one in numbers]
    return Reproduction(paper, paper.budgets["standard"], paper.items, tuple(verdicts), {}, 554, 200.0, Path("out"))


def printed(outcome: Reproduction, width: int, every: bool = False) -> list[str]:
    console = Console(file=io.StringIO(), width=width, highlight=False)
    for part in reproduction_tables(outcome, every):
        console.print(part)
    return console.file.getvalue().splitlines()  # pyright: ignore[reportAttributeAccessIssue]


@pytest.mark.parametrize("width", [80, 150])
@pytest.mark.parametrize("paper", sorted(PAPERS))
def test_a_reproduction_is_a_line_an_item_and_in_full_what_differs(paper, width):
    first, second = [item.name for item in PAPERS[paper].items][:2]
    lines = printed(reproduction(paper, (second,)), width)
    assert len(lines) <= 20 + len(PAPERS[paper].items)
    assert max(map(len, lines)) <= width
    (passed,) = [line.split() for line in lines if line.split()[1:2] == [first]]
    (failed,) = [line.split() for line in lines if line.split()[1:2] == [second]]
    assert (passed[0], passed[-3:]) == ("✓", ["20", "0", "0"])
    assert (failed[0], failed[-3:]) == ("✗", ["20", "1", "1"])
    text = " ".join(" ".join(lines).split())
    assert f"✗ {second}: pin [mean] Published 13, measured 11.95 in 8 seeds, mean within 11.91 to 11.99 (95%)." in text
    assert "13 lies outside" in text and f"Tried: {TRIED}" in text
    assert "accuracy, row 1" not in text


def test_an_item_without_a_verdict_has_neither_mark():
    paper = PAPERS["implicit-bias"]
    unjudged = judge("table1", Comparison("a claim", None, 0.1, [1.0], 8))
    outcome = Reproduction(paper, paper.budgets["standard"], paper.items[1:2], (unjudged,), {}, 2, 1.0, Path("out"))
    (line,) = [line.split() for line in printed(outcome, 80) if " table1 " in line]
    assert (line[0], line[-3:]) == ("-", ["0", "0", "1"])


def test_a_difference_that_nobody_explained_says_so():
    paper = PAPERS["realizability"]
    differs = judge("theorems", Comparison("holds", 1.0, 0.0, [1.0, 0.0], 0))
    outcome = Reproduction(paper, paper.budgets["standard"], paper.items, (differs,), {}, 2, 1.0, Path("out"))
    lines = [line.strip() for line in printed(outcome, 80)]
    assert "Tried: nothing is written down." in lines


def test_all_prints_every_number_before_the_rest():
    outcome = reproduction("implicit-bias", ("table1",))
    short, whole = printed(outcome, 150), printed(outcome, 150, every=True)
    assert whole[-len(short) :] == short
    assert sum("accuracy, row" in line for line in whole) == 20 * len(outcome.items)


def test_off_a_terminal_few_lines_say_which_item_is_analysed(capsys, monkeypatch):
    clock = iter([0.0, 1.0, 5.0, 16.5, 20.0, 32.0, 40.0])
    monkeypatch.setattr(progress.time, "monotonic", lambda: next(clock))
    assert list(Lines().each("analysing", ["a", "b", "c", "d", "e"])) == ["a", "b", "c", "d", "e"]
    assert capsys.readouterr().err.splitlines() == [
        "farfield: analysing a, 1 of 5",
        "farfield: analysing c, 3 of 5",
        "farfield: analysing e, 5 of 5",
        "farfield: analysing: 5 of 5 done after 40 s",
    ]


def test_on_a_terminal_a_bar_names_the_item_and_how_many_there_are(monkeypatch):
    screen = io.StringIO()
    monkeypatch.setattr(screen, "isatty", lambda: True)
    monkeypatch.setattr(progress.sys, "stderr", screen)
    monkeypatch.setattr(progress, "Console", lambda **_: Console(file=screen, force_terminal=True, width=80))
    bar = reporter()
    names = bar.each("analysing", ["figure1", "theory"])
    assert [*names] == ["figure1", "theory"]
    shown = screen.getvalue()
    assert "analysing theory" in shown and "2 of 2" in shown


def test_a_bar_tells_no_time_left_before_it_can_be_told(monkeypatch):
    screen = io.StringIO()
    monkeypatch.setattr(progress, "Console", lambda **_: Console(file=screen, force_terminal=True, width=120))
    bar = progress.Bar()
    bar.start(8, 2)
    for count in range(1, 5):
        bar.train(1.2)
        bar.advance()
        bar._bar.refresh()
        assert f"{2 + count}/8" in screen.getvalue()
        assert (" left" in screen.getvalue()) == (count >= progress.FEWEST_CHUNKS)
    bar.finish()


def test_whoever_hears_nothing_gets_the_names_all_the_same():
    assert [*Silent().each("analysing", ["a", "b"])] == ["a", "b"]
