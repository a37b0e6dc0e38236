"""The studies in examples/: each can be planned, says how it is run, and answers the queries its page shows."""

from __future__ import annotations

import re
import shlex
from pathlib import Path

import pytest

import farfield as ff
from farfield.cli import main
from farfield.store.verify import verify
from farfield.study.plan import plan
from farfield.study.run import run

ROOT = Path(__file__).parents[2]
EXAMPLES = sorted((ROOT / "examples").glob("*.toml"))
PAGE = ROOT / "docs" / "examples.md"

each = pytest.mark.parametrize("path", EXAMPLES, ids=lambda path: path.stem)


def test_there_are_examples_and_the_page_has_a_section_for_each():
    sections = re.findall(r"^## .*`examples/(.+)\.toml`", PAGE.read_text(encoding="utf-8"), re.MULTILINE)
    assert sorted(sections) == [path.stem for path in EXAMPLES]
    assert len(EXAMPLES) == 3


@each
def test_an_example_can_be_planned_and_says_how_it_is_run(path):
    study = ff.load_study(path)
    assert study.name == path.stem, "its results' folder, which the page names, is called so"
    assert len(study.seeds_of()) >= 3
    for budget in (None, *study.budget):
        found = plan(study, budget, seconds=0)
        assert found.cells == len(study.points(budget)) * len(study.seeds_of(budget))
        assert found.chunks >= len(found.programs) >= 1
    assert plan(study, "quick", seconds=0).cells <= plan(study, seconds=0).cells / 3
    header = path.read_text(encoding="utf-8").partition("\nname =")[0]
    assert all(line.startswith("#") or not line for line in header.splitlines())
    assert f"farfield study run examples/{path.name}" in header


def queries(name: str) -> list[str]:
    """What the page asks of the results of one example."""
    commands = re.findall(r'^farfield study sql \S+ "[^"]+"', PAGE.read_text(encoding="utf-8"), re.MULTILINE)
    split = [shlex.split(command) for command in commands]
    return [words[4] for words in split if words[3] == f"farfield-results/{name}"]


@pytest.mark.slow
@each
def test_an_example_runs_and_answers_the_queries_of_its_page(path, tmp_path, capsys):
    study = ff.load_study(path)
    found = run(study, tmp_path / "store", budget="quick")
    assert not found.outcome.failures
    assert verify(found.folder).sound
    store = ff.open_store(found.folder)
    assert [summary.n for summary in store.summaries(wanted=1)] == [1] * len(study.points("quick"))
    asked = queries(path.stem)
    assert asked
    for query in asked:
        assert store.rows(query).rows, query
    with pytest.raises(SystemExit) as stop:
        main(["study", "run", str(path), "--budget", "quick", "--out", str(found.folder)])
    assert stop.value.code == 0
    cells = found.outcome.total
    assert f"{cells} of {cells} cells finished, {cells} of them before" in capsys.readouterr().out
