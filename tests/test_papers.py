"""The declarations of the paper, and a whole reproduction at the smallest budget."""

import json
import re

import pytest

from farfield.errors import FarfieldError
from farfield.papers import PAPERS
from farfield.papers.base import BUDGETS
from farfield.papers.implicit_bias.setup import PUBLISHED, SEEDS
from farfield.papers.implicit_bias.table5 import shape_of
from farfield.papers.reproduce import plan, reproduce, select_items
from farfield.report.page import write_page

PAPER = PAPERS["implicit-bias"]
NAMES = {"table1", "table2", "table3", "table5", "table7", "figure1", "figure2", "figure3", "figure5", "theory"}


class Recorder:
    """Progress that remembers what it was told."""

    def __init__(self):
        self.told = []

    def start(self, total, stored):
        self.told.append((total, stored))

    def advance(self):
        self.told.append("one")

    def finish(self):
        self.told.append("end")


@pytest.fixture(scope="module")
def smoke(tmp_path_factory):
    folder = tmp_path_factory.mktemp("smoke")
    outcome = reproduce(PAPER, budget="smoke", out=folder)
    write_page(outcome, folder)
    return outcome, folder


def test_the_items_are_there():
    assert {item.name for item in PAPER.items} == NAMES
    for item in PAPER.items:
        assert f"--only {item.name}" in (item.about or "")


def test_the_full_budget_runs_the_papers_setting():
    setup = PUBLISHED["setup"]
    for series in plan(PAPER.items, BUDGETS["full"]).values():
        for cells in series.values():
            assert [cell.seed for cell in cells] == list(range(SEEDS))
            for cell in cells:
                assert (cell.model.width, cell.vocabulary) == (setup["head"]["d"], setup["head"]["vocab"])
                assert (cell.steps, cell.batch) == (setup["train"]["steps"], setup["train"]["batch"])
                assert [cell.shortest, cell.longest] == setup["train"]["lengths"]
                assert cell.learning_rate == setup["train"]["lr"]
                assert list(cell.lengths) == setup["eval"]["lengths"]
                assert cell.sequences == setup["eval"]["sequences"]
    assert max(setup["seeds"].values()) <= SEEDS


def test_quick_trims_seeds_and_says_so():
    quick = BUDGETS["quick"]
    assert "seeds" in quick.note
    assert all(len(cells) == 4 for series in plan(PAPER.items, quick).values() for cells in series.values())


def test_smoke_runs_everything_and_judges_nothing(smoke):
    outcome, _ = smoke
    assert {verdict.item for verdict in outcome.verdicts} == NAMES
    assert {verdict.verdict for verdict in outcome.verdicts} == {"not-comparable"}
    assert "no verdicts" in outcome.summary()


def test_verdicts_json_has_the_documented_keys(smoke):
    outcome, folder = smoke
    verdicts = json.loads((folder / "verdicts.json").read_text())
    assert len(verdicts) == len(outcome.verdicts)
    assert set(verdicts[0]) == {"item", "cell", "published", "measured", "low", "high", "n", "verdict", "why"}


def test_every_printed_number_of_the_items_is_compared(smoke):
    """Counted from the published data itself, so that a number left out is seen."""
    outcome, _ = smoke
    published = [verdict for verdict in outcome.verdicts if verdict.published is not None]
    counts = {name: sum(verdict.item == name for verdict in published) for name in NAMES}
    assert counts["table1"] == sum(len(row) for row in PUBLISHED["table1"]["accuracy"].values())
    columns = len(PUBLISHED["table2"]["rows"][0]) - 1
    assert counts["table2"] == len(PUBLISHED["table2"]["rows"]) * (columns + 1) + 1
    assert counts["table5"] == len(PUBLISHED["table5"]["rows"]) * 4
    assert counts["table7"] == len(PUBLISHED["table7"]["L"]) * 2 + 2
    assert counts["table3"] == sum(
        len(row) for row in map(PUBLISHED["table3_linear_attention"].get, ("linear", "softmax"))
    )
    numbers = {verdict.published for verdict in published if verdict.item == "table1"}
    assert numbers == {number for row in PUBLISHED["table1"]["accuracy"].values() for number in row}


def test_figures_are_written_in_both_formats(smoke):
    _, folder = smoke
    for name in ("figure1", "figure2", "figure3"):
        assert (folder / "figures" / f"{name}.png").read_bytes()[:4] == b"\x89PNG"
        assert "<svg" in (folder / "figures" / f"{name}.svg").read_text()


def test_a_second_run_trains_nothing(smoke):
    outcome, folder = smoke
    recorder = Recorder()
    again = reproduce(PAPER, budget="smoke", out=folder, progress=recorder)
    assert recorder.told == [(outcome.cells, outcome.cells), "end"]
    assert again.verdicts == outcome.verdicts


def test_the_page_is_self_contained_and_escapes_what_it_shows(smoke):
    outcome, folder = smoke
    page = (folder / "index.html").read_text()
    assert outcome.summary() in page
    without_namespaces = re.sub(r'xmlns(:\w+)?="[^"]*"|<!DOCTYPE[^>]*>|rdf:resource="[^"]*"', "", page)
    loaded = re.findall(r'(?:src|href)="((?!#)[^"]+)"', without_namespaces)
    assert loaded == [], "the page must load nothing"
    assert "url(http" not in page
    for name in NAMES:
        assert f'<section id="{name}">' in page
    assert "max g(s&gt;=4)/g(0)" in page
    identifiers = re.findall(r'\bid="([^"]+)"', page)
    assert len(identifiers) == len(set(identifiers)), "two figures must not share identifiers"


@pytest.mark.parametrize(("base", "breadth", "beyond_four"), [(1e3, 0.96, 0.67), (1e4, 0.97, 0.75), (1e5, 0.97, 0.79)])
def test_table_5s_formulas_give_the_print(base, breadth, beyond_four):
    """Source: arXiv 2607.18759, table 5."""
    shape = shape_of(base, 64)
    assert round(shape.breadth, 2) == breadth
    assert round(shape.beyond_four, 2) == beyond_four
    assert shape.realignment < shape.beyond_four
    assert shape.realignment_at > 4


@pytest.mark.parametrize(("only", "near"), [(["tabel1"], "table1"), (["table1,figrue2"], "figure2")])
def test_an_unknown_item_names_the_nearest(only, near):
    with pytest.raises(FarfieldError, match=near):
        select_items(PAPER, only)


def test_items_can_be_named_in_any_form():
    names = [item.name for item in select_items(PAPER, ["table7,table1", "figure3"])]
    assert names == ["table1", "figure3", "table7"] or set(names) == {"table1", "figure3", "table7"}


def test_an_unknown_budget_is_refused_before_anything_runs(tmp_path):
    with pytest.raises(FarfieldError, match="smoke"):
        reproduce(PAPER, budget="smoek", out=tmp_path / "never")
    assert not (tmp_path / "never").exists()


def test_the_page_names_the_command_that_makes_it_again(smoke, tmp_path):
    outcome, _ = smoke
    assert outcome.command() == "farfield reproduce implicit-bias --budget smoke"
    part = reproduce(PAPER, budget="smoke", only=["table7"], out=tmp_path)
    page = write_page(part, tmp_path).read_text()
    assert "farfield reproduce implicit-bias --budget smoke --only table7" in page
