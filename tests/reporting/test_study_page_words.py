"""The words of a report: how it names settings, what it says of seeds that part, and how a study is made again."""

from __future__ import annotations

import csv
import dataclasses
from pathlib import Path

import numpy as np
import pytest

import farfield as ff
from farfield.cell import Cell
from farfield.encodings import encodings
from farfield.reporting.atlas import heading, squares_of
from farfield.reporting.gather import gather
from farfield.reporting.names import beside_each_other, label_of
from farfield.reporting.rerun import python_of
from farfield.reporting.sentences import what_became, what_ran
from farfield.reporting.ways import charts_of, notes_on_charts
from farfield.study import record
from farfield.study.record import Record
from farfield.study.study import Study
from helpers.study_pages import LENGTHS, fill, measured, page_of, study, text_of, written_files
from helpers.support import untrained


def small(grid: dict, seeds: int = 1, **common) -> Study:
    settings = {"test": LENGTHS, "sequences": 100, "steps": 3, "batch": 4, "lengths": "4:16", **common}
    return Study(name="small", question="Which?", seeds=seeds, common=settings, grid=grid)


def by_seed(*far: int):
    """Results of seeds 0, 1, ... that are right in all of 100 sequences, but in so many at the longest test."""
    return lambda cell: measured(cell, [100, 100, 100, far[cell.seed]], [1, 1, 1, 0.3])


@pytest.mark.parametrize(
    "grid, common, said, label",
    [
        ({}, {"encoding": "rope", "task": "offset:2"}, "rope on offset:2, 1 seed;", "rope on offset:2"),
        ({"encoding": ["rope", "t5"]}, {"task": "offset:2"}, "2 encodings on offset:2, 1 seed each;", "rope"),
        ({"task": ["offset:1", "offset:2"]}, {"encoding": "t5"}, "t5 on 2 tasks, 1 seed each;", "offset:1"),
        (
            {"normalizer": ["softmax", "sparsemax", "log-n"], "encoding": ["rope", "t5"]},
            {"task": "offset:2"},
            "2 encodings x 3 normalizers on offset:2, 1 seed each;",
            "rope with softmax",
        ),
        (
            {"learning_rate": [1, 0.003], "positions": ["fixed", "random-start:size=200"]},
            {"encoding": "rope", "task": "offset:2"},
            "rope on offset:2, 2 values of positions x 2 values of learning_rate, 1 seed each;",
            "fixed positions, learning_rate 1",
        ),
    ],
)
def test_settings_are_named_encoding_first(tmp_path: Path, grid, common, said, label):
    content = gather(fill(tmp_path, small(grid, **common), by_seed(100), skip=range(1, 9)))
    assert said in what_ran(content)
    assert content.settings[0].place.label == label


def test_positions_say_what_they_are():
    assert label_of({"positions": "fixed", "test_positions": "fixed"}) == "fixed positions, fixed in tests"
    assert label_of({"encoding": "rope", "positions": "random-start:size=24"}) == "rope with random-start:size=24"


def test_a_default_is_written_where_others_differ_in_it(tmp_path: Path):
    assert beside_each_other("encoding", ["rope", "t5"]) == {"rope": "rope", "t5": "t5"}
    both = beside_each_other("encoding", ["rope:fraction=0.5", "rope:base=100"])
    assert both == {
        "rope:fraction=0.5": "rope:base=10000,fraction=0.5",
        "rope:base=100": "rope:base=100,fraction=1",
    }
    assert beside_each_other("task", ["offset:1", "offset:2"]) == {"offset:1": "offset:1", "offset:2": "offset:2"}
    assert beside_each_other("encoding", ["rope:no=1", "gone"]) == {"rope:no=1": "rope:no=1", "gone": "gone"}
    content = gather(fill(tmp_path, small({"encoding": ["rope", "rope:base=100"]}, task="offset:1"), by_seed(100)))
    assert content.layout.rows.values == ["rope:base=10000", "rope:base=100"]


@pytest.mark.parametrize(
    "far, outcome, note, word",
    [
        (
            (100, 5, 5),
            "outcompeted",
            "kept to 32; to 128 by 1 of 3 seeds; lost so by 2 of 3 seeds",
            "outcompeted · 1 of 3",
        ),
        ((100, 100, 80), "keeps", "by 2 of 3 seeds", "keeps · 2 of 3"),
        ((100, 100, 100), "keeps", "", "keeps"),
        ((5, 5, 5), "outcompeted", "kept to 32; lost so by 3 of 3 seeds", "outcompeted"),
    ],
)
def test_seeds_that_part_are_counted_beside_the_verdict(tmp_path: Path, far, outcome, note, word):
    content = gather(fill(tmp_path, small({"encoding": ["rope"]}, 3, task="offset:1"), by_seed(*far)))
    (became,) = [one for one in what_became(content) if one.names]
    assert (became.outcome, became.names) == (outcome, [f"rope on offset:1 ({note})" if note else "rope on offset:1"])
    assert squares_of(content)[0, 0].outcome == word and word in text_of(page_of(tmp_path))


def test_a_task_whose_ways_are_not_told_apart_says_the_reason(tmp_path: Path):
    """The targets of shift are positional, yet many tokens of a sequence are asked for."""
    right = np.array([100, 100, 100, 5])

    def make(cell: Cell):
        return dataclasses.replace(untrained(cell), correct=right, correct_sequences=right)

    content = gather(fill(tmp_path, small({"encoding": ["rope"]}, task="shift:1"), make))
    (became,) = [one for one in what_became(content) if one.names]
    assert (became.outcome, became.names) == ("fails", ["rope on shift:1 (kept to 32)"])
    assert "only where one token a sequence is asked for" in became.said
    assert "told apart only for tasks that ask for the last token alone" in text_of(page_of(tmp_path))


def test_charts_say_what_was_not_learned_and_which_settings_have_none(tmp_path: Path):
    def make(cell: Cell):
        if isinstance(cell.encoding, encodings["t5"]):
            return dataclasses.replace(untrained(cell), losses=np.full(cell.steps, np.nan))
        near = 100 if isinstance(cell.encoding, encodings["rope"]) else 20
        return measured(cell, [near, near, near, 5], [1, 1, 1, 0.3])

    grid = {"encoding": ["rope", "learned", "t5", "alibi"]}
    content = gather(fill(tmp_path, small(grid, task="offset:1"), make, skip={3}))
    titles = [(chart.title, chart.learned) for chart in charts_of(content)]
    assert titles == [("rope", True), ("learned", False)]
    assert notes_on_charts(content) == [
        "Not learned: fewer than half of the seeds fit within the trained lengths; no rule was there to move.",
        "Left out, since every seed diverged: t5.",
        "Left out, since no seed has finished: alibi.",
    ]
    assert "Left out, since every seed diverged: t5." in text_of(page_of(tmp_path))
    shift = {"cell": [{"encoding": "rope", "task": "offset:1"}, {"encoding": "rope", "task": "shift:1"}]}
    settings = {"test": LENGTHS, "sequences": 100, "steps": 3, "batch": 4, "lengths": "4:16"}
    wanted = Study(name="small", question="Which?", seeds=1, common=settings, **shift)
    note = notes_on_charts(gather(fill(tmp_path / "shift", wanted, untrained)))[-1]
    assert note.startswith("Left out, since more than the last token is asked for") and note.endswith(": shift:1.")


def test_a_row_of_one_outcome_says_how_far_by_task(tmp_path: Path):
    def make(cell: Cell):
        first = cell.task.offset == 1
        return measured(cell, [100, 100, 100 if first else 5, 5], [1, 1, 1, 0.1])

    wanted = small({"encoding": ["rope"], "task": ["offset:1", "offset:2"]}, test=[8, 24, 32, 128])
    content = gather(fill(tmp_path, wanted, make))
    assert what_became(content)[1].names == ["offset:1 (kept to 32)", "offset:2 (kept to 24)"]
    assert str(what_became(content)[0]) == "No setting keeps its task to the longest test."
    wanted = small({"encoding": ["rope", "t5"], "task": ["offset:1", "offset:2"]}, test=[8, 24, 32, 128])
    content = gather(fill(tmp_path / "two", wanted, make))
    assert what_became(content)[1].names == [f"{name} (kept to 24 or 32, by task)" for name in ("rope", "t5")]


def test_seeds_that_are_not_there_are_said_with_the_name(tmp_path: Path):
    wanted = small({"encoding": ["rope", "t5"]}, 3, task="offset:1")
    content = gather(fill(tmp_path, wanted, by_seed(100, 100, 5), skip={5}))
    names = {one.outcome: one.names for one in what_became(content)}
    assert names["keeps"] == ["t5 (2 of 3 seeds finished)"]
    assert names["outcompeted"] == ["rope (kept to 32; to 128 by 2 of 3 seeds; lost so by 1 of 3 seeds)"]
    assert heading(content) == "Accuracy at length 128, mean of 2 to 3 seeds"


def test_tables_have_numbers_of_seeds_and_an_intercept(tmp_path: Path):
    folder = fill(tmp_path / "runs", small({"encoding": ["rope"]}, 2, task="offset:1"), by_seed(100, 5))
    files = written_files(folder, tmp_path / "figures")
    (row,) = csv.DictReader(files["atlas.csv"].splitlines())
    assert (row["outcome"], row["seeds_that_keep"]) == ("outcompeted", "1")
    (row,) = csv.DictReader(files["mechanism.csv"].splitlines())
    assert "dilution_intercept_low" in row and "dilution_alpha" not in row
    assert (row["dilution_n"], row["carrier_n"], row["wanted"]) == ("2", "2", "2")


STUDIES = {
    "few": small({"encoding": ["rope", "t5"]}, 3, task="offset:1"),
    "names": study(
        budget={"quick": {"seeds": [3, 5], "steps": 2}},
        probes=["pin", "final_loss"],
        seeds={"model": 2, "data": [7, 9]},
    ),
    "rows": Study(
        name="rows",
        question='Quotes "so" \\ and \'so\', an umlaut \u00fc, and more words than end before a line does?',
        common={"snapshots": [], "test_positions": None, "task": "offset:1", "learning_rate": 1e-05},
        zip={"positions": ["fixed", "random-subset:size=48"], "steps": [1, 2]},
        cell=[{"encoding": "alibi:slope=0.5,rule=same"}, {"encoding": "rope:base=12"}],
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", STUDIES)
def test_the_python_of_a_study_makes_the_same_study(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    wanted, ran = STUDIES[name], []
    monkeypatch.setattr(ff, "run", lambda study, out, **settings: ran.append((study, out, settings)), raising=False)
    record.write(tmp_path, Record(wanted, "quick" if wanted.budget else None))
    known = record.read(tmp_path)
    assert known is not None
    code = python_of(known, tmp_path)
    names: dict = {}
    exec(code, names)
    assert names["study"] == wanted and names["study"].cells() == wanted.cells() and names["ff"] is ff
    assert ran == [(wanted, str(tmp_path), {"budget": "quick"} if wanted.budget else {})]
    assert (max(map(len, code.splitlines())) <= 130 and "probes" not in code) or name == "names"


def test_a_study_run_from_python_shows_the_python_that_makes_it_again(tmp_path: Path):
    wanted = small({"encoding": ["rope"]}, task="offset:1")
    fill(tmp_path, wanted, by_seed(100))
    text = text_of(page_of(tmp_path))
    assert "farfield study run study.toml --out runs" in text and "The same in Python" in text
    record.write(tmp_path, Record(wanted))
    text = text_of(page_of(tmp_path))
    assert (
        "The study again, in Python" in text and 'study = ff.Study( name="small", question="Which?", seeds=1,' in text
    )
