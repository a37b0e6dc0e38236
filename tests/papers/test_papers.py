"""The declarations of the paper, and a whole reproduction at the smallest budget."""

import dataclasses
import functools
import json
import re

import pytest

from farfield.cell import Cell
from farfield.encodings.rope import Rope
from farfield.errors import FarfieldError
from farfield.models.transformer import Transformer
from farfield.papers import PAPERS
from farfield.papers.base import Effort, Item
from farfield.papers.implicit_bias import figure6
from farfield.papers.implicit_bias.budgets import BUDGETS
from farfield.papers.implicit_bias.setup import PUBLISHED, SEEDS, SWEEP_SEEDS
from farfield.papers.implicit_bias.table5 import shape_of
from farfield.papers.page import write_page
from farfield.papers.reproduce import plan, run_paper, select_items, write_files
from farfield.papers.verdicts import Verdict, judge
from farfield.plotting.style import save
from farfield.results.result import CellResult
from farfield.tasks.offset import FixedOffset
from helpers.support import untrained

PAPER = PAPERS["implicit-bias"]
ITEMS = {item.name: item for item in PAPER.items}
# Items that a few small programs serve; the others run in the slow suite, and from untrained weights below.
SMOKED = ("figure1", "figure2", "figure3", "table1", "table2", "table5", "table7")
TABLES = {f"table{number}" for number in range(1, 9)}
FIGURES = {f"figure{number}" for number in range(1, 7)}
TWO_SEEDS = Effort(most_seeds=2, sequences=64)
# Heads of the transformer's item are narrow here: what is read does not depend on it.
NARROW = Transformer(width=16, heads=4, layers=2)


class Recorder:
    """Progress that remembers what it was told."""

    def __init__(self):
        self.told = []

    def start(self, total, stored):
        self.told.append((total, stored))

    def train(self, cells):
        assert cells > 0

    def advance(self):
        self.told.append("one")

    def say(self, text):
        raise AssertionError(text)

    def finish(self):
        self.told.append("end")

    def each(self, doing, names):
        for name in names:
            self.told.append(f"{doing} {name}")
            yield name


@pytest.fixture(scope="module")
def smoke(tmp_path_factory):
    folder = tmp_path_factory.mktemp("smoke")
    outcome = run_paper(PAPER, only=SMOKED, budget="smoke", out=folder)
    write_page(outcome, folder)
    return outcome, folder


@functools.cache
def judged(name: str) -> list[Verdict]:
    """An item's verdicts on two untrained seeds a setting."""
    item = ITEMS[name]
    return [judge(name, comparison) for comparison in item.compare(results_of(item))]


def results_of(item: Item) -> dict[str, list[CellResult]]:
    return {label: list(map(untrained_once, cells)) for label, cells in TWO_SEEDS.apply(item.series()).items()}


@functools.cache
def untrained_once(cell: Cell) -> CellResult:
    return untrained(dataclasses.replace(cell, model=NARROW) if isinstance(cell.model, Transformer) else cell)


def test_every_table_figure_and_theorem_is_there():
    assert set(ITEMS) == TABLES | FIGURES | {"offsets", "theory"}
    for item in PAPER.items:
        assert f"--only {item.name}" in (item.about or "")


def test_the_full_budget_runs_the_papers_setting():
    """Each cell departs from the paper's set-up in what its own row says and in nothing else."""
    full, long = BUDGETS["full"], ITEMS["figure6"]
    assert full.of(long) == full.of(ITEMS["table1"]) == Effort()
    reference = Cell(Rope(), FixedOffset(2)).resolved()
    setup = PUBLISHED["setup"]
    assert (reference.model.width, reference.vocabulary) == (setup["head"]["d"], setup["head"]["vocab"])
    assert (reference.steps, reference.batch) == (setup["train"]["steps"], setup["train"]["batch"])
    assert [reference.shortest, reference.longest] == setup["train"]["lengths"]
    assert reference.learning_rate == setup["train"]["lr"]
    assert list(reference.lengths) == setup["eval"]["lengths"]
    assert reference.sequences == setup["eval"]["sequences"]
    changes: dict[str, set[str]] = {}
    for name, series in plan(PAPER.items, full).items():
        for cells in series.values():
            assert [cell.seed for cell in cells] == list(range(len(cells)))
            assert len(cells) == figure6.SEEDS if name == "figure6" else len(cells) in (SWEEP_SEEDS, SEEDS)
            changed = {
                field.name for field in dataclasses.fields(Cell)
                if getattr(cells[0], field.name) != getattr(reference, field.name)
            }  # fmt: skip
            changes.setdefault(name, set()).update(changed - {"encoding", "task", "seed", "snapshots"})
    expected = {
        "table3": {"normalizer"},
        "table4": {"model", "vocabulary", "shortest", "longest", "normalizer"},
        "table6": {"weight_decay", "positions", "test_positions"},
        "table8": {"model"},
        "figure4": {"weight_decay"},
        "figure5": {"model"},
        "figure6": {"model", "steps", "learning_rate", "lengths", "sequences", "path"},
        "theory": {"weight_decay"},
    }
    expected["table6"] -= {"positions"}
    assert {name: found for name, found in changes.items() if found} == expected
    assert max(setup["seeds"].values()) <= SEEDS


def test_smaller_budgets_shorten_the_long_item_and_say_so():
    for name in ("standard", "quick"):
        budget = BUDGETS[name]
        (cells, _) = plan([ITEMS["figure6"]], budget)["figure6"].values()
        assert len(cells) == 1
        assert cells[0].steps == budget.long_effort.steps < PUBLISHED["setup"]["transformer"]["steps"]
        assert f"{cells[0].steps:,} of the paper's 8,000" in budget.why_unjudged(ITEMS["figure6"])
        assert not budget.why_unjudged(ITEMS["table1"])
    assert all(len(cells) == 4 for cells in plan([ITEMS["table4"]], BUDGETS["quick"])["table4"].values())
    assert "seeds" in BUDGETS["quick"].note


@pytest.mark.parametrize("name", sorted(set(ITEMS) - {"theory"}))
def test_every_item_measures_each_of_its_numbers_and_names_it_once(name):
    verdicts = judged(name)
    assert len({verdict.cell for verdict in verdicts}) == len(verdicts)
    assert all(verdict.why for verdict in verdicts)
    assert all(verdict.measured is not None for verdict in verdicts), "a number without a measurement"
    assert ITEMS[name].draw is None or ITEMS[name].caption


@pytest.mark.parametrize("name", ["figure4", "figure5", "figure6", "table3"])
def test_the_figures_of_the_slow_items_are_drawn(name, tmp_path):
    item = ITEMS[name]
    assert item.draw is not None
    save(item.draw(results_of(item)), tmp_path / "figure.png")
    assert (tmp_path / "figure.png").stat().st_size > 20_000


def test_smoke_judges_nothing(smoke):
    outcome, _ = smoke
    assert {verdict.item for verdict in outcome.verdicts} == set(SMOKED)
    assert {verdict.verdict for verdict in outcome.verdicts} == {"not-comparable"}
    assert "no verdicts" in outcome.summary()


@pytest.mark.slow
def test_every_item_runs_at_the_smoke_budget(tmp_path):
    outcome = run_paper(PAPER, budget="smoke", out=tmp_path)
    assert {verdict.item for verdict in outcome.verdicts} == set(ITEMS)
    assert write_page(outcome, tmp_path).stat().st_size > 100_000


def test_verdicts_json_has_the_documented_keys(smoke):
    outcome, folder = smoke
    verdicts = json.loads((folder / "verdicts.json").read_text())
    assert len(verdicts) == len(outcome.verdicts)
    keys = {"item", "cell", "published", "measured", "low", "high", "n", "verdict", "why"}
    assert set(verdicts[0]) == keys | {"mean_low", "mean_high", "explanation"}


def test_every_printed_number_of_the_paper_is_compared():
    """Counted from the published data itself, so that a number left out is seen."""
    found = {name: [verdict.published for verdict in judged(name) if verdict.published is not None]
             for name in set(ITEMS) - {"theory"}}  # fmt: skip

    def leaves(value):
        parts = value.values() if isinstance(value, dict) else value if isinstance(value, list) else None
        return [value] if parts is None else [leaf for part in parts for leaf in leaves(part)]

    def numbers(*values):
        return sorted(float(leaf) for leaf in leaves(list(values)) if isinstance(leaf, (int, float)))

    table2 = PUBLISHED["table2"]
    assert sorted(found["table1"]) == numbers(PUBLISHED["table1"]["accuracy"])
    printed = [{key: value for key, value in row.items() if key != "K"} for row in table2["rows"]]
    assert sorted(found["table2"]) == numbers(printed, table2["baseline"], [1.0] * 3)
    linear = PUBLISHED["table3_linear_attention"]
    assert sorted(found["table3"]) == numbers(linear["linear"], linear["softmax"])
    columns = ("key_fraction", "alpha", "c", "r2")
    rows = [[row[name] for name in columns] for row in PUBLISHED["table4"]["rows"]]
    assert sorted(found["table4"]) == numbers(rows, 1.0)  # the dilution rate falls with width
    assert len(found["table5"]) == len(PUBLISHED["table5"]["rows"]) * 4
    rows = [{key: value for key, value in row.items() if key != "weight_decay"} for row in PUBLISHED["table6"]["rows"]]
    assert sorted(found["table6"]) == pytest.approx(numbers(rows, [0.055] * 2))  # two mends at 0.05 to 0.06
    table7 = PUBLISHED["table7"]
    assert sorted(found["table7"]) == numbers(table7["margin"], table7["bound"], table7["observed"], 1.0)
    single, several = PUBLISHED["table8"]["rows"]
    energies = [single["top1_energy"][0], *several["top1_energy"]]
    assert sorted(found["table8"]) == numbers(energies, single["peak_attention"], several["peak_attention"])
    assert sorted(found["figure4"]) == numbers(PUBLISHED["training_dynamics"])
    assert sorted(found["offsets"]) == numbers(PUBLISHED["larger_offsets"])
    content, shown = PUBLISHED["content_conditioned"], PUBLISHED["other_schemes"]
    # ALiBi's .97 is said of all lengths; T5's fall of both offsets.
    schemes = [shown["alibi"], shown["alibi"]["K1"], [shown["t5"]] * 2, shown["rope"]]
    assert sorted(found["figure5"]) == numbers(schemes, content["heads1"], content["heads2"])
    transformer = PUBLISHED["transformer"]
    assert sorted(found["figure6"]) == numbers(transformer["rope"], transformer["ape"], [-3] * 3)
    total = sum(map(len, found.values()))
    assert total >= 150, total


def test_figures_are_written_in_both_formats(smoke):
    _, folder = smoke
    for name in ("figure1", "figure2", "figure3"):
        assert (folder / "figures" / f"{name}.png").read_bytes()[:4] == b"\x89PNG"
        assert "<svg" in (folder / "figures" / f"{name}.svg").read_text()


def test_a_second_run_trains_nothing(smoke):
    outcome, folder = smoke
    recorder = Recorder()
    again = run_paper(PAPER, only=SMOKED, budget="smoke", out=folder, progress=recorder)
    analysed = [f"analysing {item.name}" for item in outcome.items]
    assert recorder.told == [(outcome.cells, outcome.cells), "end", *analysed]
    assert again.verdicts == outcome.verdicts


def test_the_page_is_self_contained_and_escapes_what_it_shows(smoke):
    outcome, folder = smoke
    page = (folder / "index.html").read_text()
    assert outcome.summary() in page
    without_namespaces = re.sub(r'xmlns(:\w+)?="[^"]*"|<!DOCTYPE[^>]*>|rdf:resource="[^"]*"', "", page)
    loaded = re.findall(r'(?:src|href)="((?!#)[^"]+)"', without_namespaces)
    assert loaded == [], "the page must load nothing"
    assert "url(http" not in page
    for name in SMOKED:
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
        run_paper(PAPER, budget="smoek", out=tmp_path / "never")
    assert not (tmp_path / "never").exists()


@pytest.mark.parametrize("name", ["verdicts.json", "index.html", "figures/figure1.svg"])
def test_a_folder_in_the_place_of_a_file_is_named_with_a_mend(name, smoke, tmp_path):
    outcome, _ = smoke
    (tmp_path / name).mkdir(parents=True)
    with pytest.raises(FarfieldError, match=f"cannot write .*{name}: Is a directory; finished models are kept: clear"):
        write_files(outcome, tmp_path)
        write_page(outcome, tmp_path)
    assert not list(tmp_path.glob("*.writing"))


def test_the_page_names_the_command_that_makes_it_again(smoke, tmp_path):
    outcome, _ = smoke
    assert (
        dataclasses.replace(outcome, items=PAPER.items).command() == "farfield reproduce implicit-bias --budget smoke"
    )
    part = run_paper(PAPER, budget="smoke", only=["table7"], out=tmp_path)
    page = write_page(part, tmp_path).read_text()
    assert "farfield reproduce implicit-bias --budget smoke --only table7" in page
