"""The page of a folder of results: what it says, what it escapes, and that it stands alone."""

from __future__ import annotations

import csv
import dataclasses
import json
import re
from pathlib import Path

import numpy as np
import pytest

from farfield.cell import Cell
from farfield.cli import main
from farfield.errors import FarfieldError
from farfield.reporting.gather import gather
from farfield.reporting.numbers import NONE
from farfield.reporting.page import check_page, write_page
from farfield.reporting.sentences import what_became, what_ran
from farfield.results.result import CellResult
from farfield.store.store import StoreWriter
from farfield.store.verify import verify
from farfield.study import record
from farfield.study.record import Record
from farfield.study.study import Study
from helpers.made_up import json_of
from helpers.study_pages import (
    ENCODINGS,
    EVIL,
    LENGTHS,
    by_kind,
    fill,
    measured,
    page_of,
    study,
    text_of,
    written_files,
)
from helpers.support import untrained


@pytest.fixture(scope="module")
def large(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """13 encodings on two tasks with two seeds, all finished."""
    return fill(tmp_path_factory.mktemp("large"), study())


@pytest.fixture(scope="module")
def troubled(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A study with everything that can be wrong: failed, missing, diverged, damaged, equal seeds, no fit."""
    wanted = study(ENCODINGS[:4], seeds=3)
    cells = wanted.cells()

    def make(cell: Cell) -> CellResult:
        if cell == cells[6]:
            return dataclasses.replace(by_kind(cell), losses=np.full(cell.steps, np.nan, np.float32))
        if cell == cells[10]:  # the weights and counts of the seed before it
            return dataclasses.replace(by_kind(cells[9]), cell=cell)
        return by_kind(cell)

    folder = fill(tmp_path_factory.mktemp("troubled"), wanted, make, skip={0, 1})
    StoreWriter(folder).write_failure(cells[0], f"out of memory {EVIL}")
    json_of(folder, cells[23].identity).write_bytes(b"cut off")
    for cell in cells[3:5]:
        next(folder.glob(f"{cell.identity}-*.safetensors")).unlink()
    return folder


def test_the_first_sentences_say_what_was_kept_and_how_the_rest_was_lost(large: Path):
    content = gather(large)
    assert what_ran(content) == (
        "52 of 52 cells are finished: 13 encodings x 2 tasks, 2 seeds each; trained on lengths 4 to 16, "
        "tested up to 128."
    )
    became = {one.outcome: one.names for one in what_became(content)}
    assert became["rule moved"] == ["rope:base=11 (kept to 32; lost so by 2 of 2 seeds)"]
    assert became["diluted"] == ["rope:base=12 (kept to 32; lost so by 2 of 2 seeds)"]
    assert became["outcompeted"] == ["rope:base=15 (kept to 32; lost so by 2 of 2 seeds)"]
    assert became["not learned"] == ["rope:base=13"]
    assert became["keeps"][:2] == ["rope:base=10", "rope:base=14"] and became["keeps"][-1] == "and 3 more"


def test_settings_that_are_no_product_are_counted_as_they_are(tmp_path: Path):
    wanted = Study(
        name="carry",
        question="Who carries?",
        seeds=1,
        common={"test": LENGTHS, "sequences": 100, "steps": 3, "lengths": "4:16", "task": "offset:1"},
        cell=[{"encoding": name, "batch": batch} for name, batch in (("rope", 4), ("rope", 8), ("t5", 4))],
    )
    said = what_ran(gather(fill(tmp_path, wanted, untrained)))
    assert "3 settings on offset:1, which differ in encoding and batch, 1 seed each" in said


def test_statistics_are_those_of_all_seeds(tmp_path: Path):
    wanted = study(["rope:base=10"], ["offset:1"], seeds=3)
    folder = fill(
        tmp_path,
        wanted,
        lambda cell: measured(cell, [100, 100, 100 if cell.seed else 10, 40 + 10 * cell.seed], [1] * 4),
    )
    row = text_of(page_of(folder)).partition("max chance rope:base=10 on offset:1")[2][:200]
    # mean of .4, .5, .6 with t = 4.303 at 2 degrees: +-0.2484; Wilson's intervals of 0 of 3 and 3 of 3.
    shares = "0 of 3 [0.000, 0.561] 3 of 3 [0.439, 1.000]"
    means = "3 of 3 0.500 [0.252, 0.748] 0.500 [0.252, 0.748] 0.500 0.400 0.600 0.050"
    assert row.strip().startswith(f"diluted 16 {shares} {means}")
    assert "bands: Student t 95% over seeds" in text_of(page_of(folder))
    assert "bands: expanded percentile bootstrap 95% over seeds" in text_of(page_of(folder, "bootstrap"))
    written = list(csv.DictReader(written_files(folder, tmp_path / "figures")["statistics.csv"].splitlines()))
    (row,) = [row for row in written if row["measurement"] == "accuracy" and row["length"] == "32"]
    assert float(row["mean"]) == pytest.approx(0.7) and float(row["min"]) == 0.1
    assert (row["n"], row["wanted"], row["interval"]) == ("3", "3", "Student t 95%")
    assert (row["keep"], row["keep_low"][:5], row["keep_high"][:5]) == ("2", "0.207", "0.938")  # at length 32
    # Chance is that of token accuracy, and of nothing else.
    assert {row["measurement"] for row in written if row["chance"]} == {"accuracy"}


def test_tokens_and_sequences_are_named_apart_where_they_differ(tmp_path: Path):
    def make(cell: Cell) -> CellResult:
        return dataclasses.replace(by_kind(cell), correct_sequences=np.array([90, 80, 70, 12]))

    folder = fill(tmp_path, study(["rope:base=10"], ["offset:1"], seeds=1), make)
    assert gather(folder).panels == ["accuracy", "sequence_accuracy", "selected", "peak_height"]
    text = text_of(page_of(folder))
    rows = text.partition("accuracy of outcome")[2]
    # Beside the setting, where a phone shows it.
    for part, numbers in [("tokens", "0.990 0.990 0.990 0.050"), ("sequences", f"0.120 0.120 0.120 {NONE}")]:
        shares = r"1 of 1 \[[\d., ]+\] 1 of 1 \[[\d., ]+\] 1 of 1"
        mean = numbers.partition(" ")[0]
        assert re.search(rf"offset:1 {part} keeps 128 {shares} {mean} {mean} {numbers}", rows), part
    assert "Sequence accuracy share" in text and "Sequence accuracy equals" not in text
    same = fill(tmp_path / "same", study(["rope:base=10"], seeds=1))
    assert "sequence_accuracy" not in gather(same).panels
    assert "Sequence accuracy equals token accuracy at every length here" in text_of(page_of(same))


def test_a_length_shorter_than_training_is_told_apart(tmp_path: Path):
    common = {"test": [4, 12, 16, 48], "sequences": 100, "steps": 3, "batch": 4, "lengths": "12:16"}
    wanted = Study(
        name="short", question="?", seeds=2, common=common, grid={"encoding": ["rope"], "task": ["offset:2"]}
    )
    folder = fill(tmp_path / "runs", wanted, lambda cell: measured(cell, [10, 100, 100, 99], [1.0] * 4))
    content = gather(folder)
    (setting,) = content.settings
    assert (setting.outcome, setting.reach) == ("keeps", 48)  # the task is lost at length 4, which was not trained
    page = page_of(folder)
    assert re.findall(r"<option[^>]*>(\d[^<]*)", page) == [
        "4 (shorter)",
        "12 (trained)",
        "16 (trained)",
        "48 (longer)",
    ]
    written = list(csv.DictReader(written_files(folder, tmp_path / "figures")["statistics.csv"].splitlines()))
    rows = [row for row in written if row["measurement"] == "accuracy"]
    assert [row["range"] for row in rows] == ["shorter", "trained", "trained", "longer"]
    rows = text_of(page).partition("Every measurement at every length")[2]
    assert "Accuracy 4 shorter 2 of 2" in rows and "Accuracy 12 trained 2 of 2" in rows


def test_accuracies_are_called_what_they_are_a_share_of(tmp_path: Path):
    common = {"test": [12, 16, 48], "sequences": 100, "steps": 3, "batch": 4}
    grid = {"encoding": ["rope"], "task": ["offset:2", "shift:2"]}
    wanted = Study(name="both", question="?", seeds=2, common=common, grid=grid)
    together = fill(tmp_path / "together", wanted, untrained)
    mixed = "share of tokens (of sequences where one token is asked for) answered correctly"
    assert f"Token accuracy {mixed}" in text_of(page_of(together))
    # A column of the atlas a task, and so pictures of its own.
    wanted = Study(
        name="both", question="?", seeds=2, common=common, grid=grid | {"encoding": ["rope", "rope:base=100"]}
    )
    folder = fill(tmp_path / "runs", wanted, untrained)
    text = text_of(page_of(folder))
    assert "Accuracy share of sequences answered correctly" in text
    assert "Token accuracy share of tokens answered correctly" in text
    written = list(csv.DictReader(written_files(folder, tmp_path / "figures")["atlas.csv"].splitlines()))
    assert {row["task"]: row["share_of"] for row in written} == {"offset:2": "sequences", "shift:2": "tokens"}


def test_places_that_no_seed_selects_are_said(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    measurements = CellResult.measurements
    monkeypatch.setattr(
        CellResult,
        "measurements",
        lambda self: (
            one._replace(value=float("nan")) if one.probe == "selected_offset" else one for one in measurements(self)
        ),
    )
    wanted = study(["rope:base=10"], ["offset:1"], probes=["selected_offset", "accuracy"])
    folder = fill(tmp_path / "runs", wanted)
    assert "no selection" in page_of(folder)
    assert "no selection" in written_files(folder, tmp_path / "figures")["curves.svg"]


def test_what_the_study_names_is_drawn_first(tmp_path: Path):
    wanted = study(["rope:base=10", "rope:base=11"], ["offset:1"], probes=["pin", "peak_height", "final_loss"])
    content = gather(fill(tmp_path, wanted))
    assert content.panels == ["pin", "peak_height", "accuracy", "selected"]
    assert "key position where mean attention is largest" in text_of(page_of(tmp_path))


def test_figures_and_their_data_are_written(tmp_path: Path):
    folder = fill(tmp_path / "runs", study(["rope:base=10", "rope:base=11"], seeds=2))
    (tmp_path / "figures").mkdir()
    (tmp_path / "figures" / "curves-old.svg").write_text("of an earlier report")
    files = written_files(folder, tmp_path / "figures")
    names = ["atlas", "curves-offset-1", "curves-offset-2"]
    assert [*files] == sorted(
        [f"{name}.{end}" for name in names for end in ("csv", "png", "svg")]
        + ["about.txt", "mechanism.csv", "statistics.csv", "ways.png", "ways.svg"]
    )
    assert all("<svg" in files[f"{name}.svg"] for name in names)
    rows = list(csv.DictReader(files["atlas.csv"].splitlines()))
    assert [(row["encoding"], row["task"], row["outcome"], row["accuracy"]) for row in rows][1:3] == [
        ("rope:base=10", "offset:2", "keeps", "0.99"),
        ("rope:base=11", "offset:1", "rule moved", "0.06"),
    ]


def test_failures_have_the_names_of_their_settings_and_those_of_other_studies_are_left_out(tmp_path: Path):
    wanted = Study(
        name="carry",
        question="Who carries?",
        seeds=1,
        common={
            "encoding": "rope",
            "task": "offset:1",
            "test": LENGTHS,
            "sequences": 100,
            "steps": 3,
            "lengths": "4:16",
        },
        grid={"batch": [4, 8], "normalizer": ["softmax", "ssmax"]},
    )
    folder, cells = fill(tmp_path, wanted, untrained, skip=(0, 3)), wanted.cells()
    for cell in (cells[0], cells[3], dataclasses.replace(cells[1], steps=4)):
        StoreWriter(folder).write_failure(cell, "lost")
    failed = next(problem for problem in gather(folder).problems if problem.kind == "failed")
    assert sorted(failed.named) == ["softmax, batch 4, seed 0: lost", "ssmax, batch 8, seed 0: lost"]


def test_a_page_goes_where_a_link_leads(tmp_path: Path):
    folder = fill(tmp_path / "runs", study(["rope:base=10"], seeds=1))
    page, link = tmp_path / "page.html", tmp_path / "link.html"
    link.symlink_to(page)
    with pytest.raises(FarfieldError, match="is a link that leads nowhere"):
        check_page(link)
    page.write_text("farfield report")
    check_page(link)
    write_page(gather(folder), link, "farfield report runs", "figures")
    assert link.is_symlink() and "<svg" in page.read_text()


def test_whatever_is_wrong_stands_before_the_numbers(troubled: Path):
    found = {problem.kind: problem for problem in gather(troubled).problems}
    assert {*found} == {"failed", "damaged", "weights", "identical", "unfit", "missing"}
    assert found["failed"].named == [f"rope:base=10 on offset:1, seed 0: out of memory {EVIL}"]
    assert found["damaged"].said == "1 file is damaged and left out: run the study again to replace it."
    assert found["weights"].said.startswith("The weights of 2 cells are damaged or missing; their measurements are")
    assert found["identical"].named == ["rope:base=11 on offset:2: seeds 0, 1"]
    # One never ran, and the damaged one has to run again.
    assert found["missing"].named == ["rope:base=10 on offset:1: 1", "rope:base=13 on offset:2: 1"]
    unfit = [
        "rope:base=11 on offset:1: 1 of 3 (seed 0; diverged: 0)",
        "rope:base=13 on offset:1: 3 of 3 (seeds 0, 1, 2)",
    ]
    assert found["unfit"].named[:2] == unfit
    assert found["unfit"].said.startswith("6 models did not learn the task within the trained lengths, of which 1 div")
    page = page_of(troubled)
    text = text_of(page)
    assert text.index("Before you read the numbers") < text.index("The number is a mean")
    for problem in found.values():
        assert problem.said in text
    # 24 wanted: two skipped, one damaged.
    assert "21 of 24 cells are finished" in text and "n = 1 of 3, n = 3 of 3" in text


@pytest.mark.parametrize("folder", ["large", "troubled"])
def test_what_users_wrote_is_escaped_and_nothing_is_fetched(folder: str, request: pytest.FixtureRequest):
    page = page_of(request.getfixturevalue(folder))
    assert EVIL not in page and EVIL in text_of(page)
    assert len(re.findall(r"<script\b", page)) == 2
    assert not re.findall(r"""(?:src|href)\s*=\s*["'](?!#)|url\((?!#)|@import|https?:""", page)


def test_names_from_the_store_are_escaped(tmp_path: Path):
    folder = tmp_path / "<img src=x onerror=alert(1)>"
    fill(folder, study(["rope:base=10"], seeds=1), known=False)
    page = page_of(folder)
    assert "<img" not in page and "&lt;img" in page
    assert json.loads(re.findall(r'id="data">(.*?)</script>', page)[0])["lengths"] == LENGTHS


def test_thirteen_encodings_differ_in_more_than_colour(large: Path):
    page = page_of(large)
    line = r'<path class="line" d="M1 8H39"( stroke-dasharray="[\d. ]+")?/><path class="marks" d="(.*?)"'
    samples = re.findall(rf'<svg class="sample (k\d)" .*?>{line}', page)
    assert len(samples) == len(ENCODINGS)
    for first in range(13):
        for second in range(first):
            same = [one == other for one, other in zip(samples[first], samples[second], strict=True)]
            assert sum(same) <= 1, (first, second)
    # Every curve is in each of three pictures of two tasks, and its colour is that of its entry in the legend.
    curves = re.findall(r'<g class="f curve (k\d)" data-r="(\d+)" data-c="(\d)" data-s="(\d+)">', page)
    assert len(curves) == 13 * 2 * 3
    assert all(samples[int(series)][0] == colour for colour, _, _, series in curves)


def test_one_seed_draws_no_band_and_says_so(tmp_path: Path):
    one = fill(tmp_path / "one", study(["rope:base=10", "rope:base=11"], seeds=1))
    two = fill(tmp_path / "two", study(["rope:base=10", "rope:base=11"], seeds=2))
    assert page_of(one).count('class="band"') == 0 and "one seed has no band" in text_of(page_of(one))
    assert page_of(two).count('class="band"') == 2 * 2 * 3


def test_without_the_study_every_cell_is_shown(tmp_path: Path):
    folder = fill(tmp_path, study(["rope:base=10", "rope:base=11"], ["offset:1"], seeds=2), known=False)
    content = gather(folder)
    assert content.record is None and (content.finished, content.wanted) == (4, 4)
    assert content.layout.rows.values == ["rope:base=10", "rope:base=11"] and content.layout.columns.names == ()
    page = page_of(folder)
    assert "Who carries" not in page and "does not hold the file of a study" in page
    assert "No command is known that makes these cells again" in page


def test_cells_of_other_studies_are_left_out_and_counted(tmp_path: Path):
    fill(tmp_path, study(["rope:base=10", "rope:base=11"], seeds=2))
    record.write(tmp_path, Record(study(["rope:base=10"], seeds=1)))
    content = gather(tmp_path)
    assert (content.finished, content.wanted) == (2, 2)
    assert [problem.said for problem in content.problems] == ["6 cells of the folder left out: no part of this study."]


def test_a_study_of_which_all_failed_says_why(tmp_path: Path):
    wanted = study(["rope:base=10"], ["offset:1"], seeds=1)
    fill(tmp_path, wanted, skip={0})
    StoreWriter(tmp_path).write_failure(wanted.cells()[0], "no memory")
    assert "0 of 1 cells are finished" in text_of(page_of(tmp_path)) and "no memory" in page_of(tmp_path)


def test_a_record_is_what_was_written(tmp_path: Path):
    assert record.read(tmp_path) is None
    wanted = study(["rope:base=10"], budget={"quick": {"seeds": 1}})
    record.write(tmp_path, Record(wanted, "quick", "farfield study run a.toml"))
    assert record.read(tmp_path) == Record(wanted, "quick", "farfield study run a.toml")
    assert [path.name for path in tmp_path.iterdir()] == ["study.json"]
    good = json.loads((tmp_path / "study.json").read_text())
    bad = [
        {},
        [],
        good | {"budget": "slow"},
        good | {"study": {"name": "x"}},
        good | {"budget": []},
        good | {"command": 3},
    ]
    for text in ("", "{", *map(json.dumps, bad)):
        (tmp_path / "study.json").write_text(text)
        with pytest.raises(FarfieldError, match=r"study\.json"):
            record.read(tmp_path)


def test_a_damaged_record_does_not_hide_the_cells(tmp_path: Path):
    folder = fill(tmp_path, study(["rope:base=10"], ["offset:1"], seeds=1))
    (folder / "study.json").write_text("{")
    content = gather(folder)
    assert content.finished == 1 and [problem.kind for problem in content.problems] == ["record"]


def run_command(capsys: pytest.CaptureFixture, *arguments: object) -> tuple[int, str, str]:
    with pytest.raises(SystemExit) as stopped:
        main(["report", *map(str, arguments)])
    return int(stopped.value.code or 0), *capsys.readouterr()


def test_the_command_writes_what_verify_knows(large: Path, tmp_path: Path, capsys: pytest.CaptureFixture):
    folder = tmp_path / "runs"
    fill(folder, study(["rope:base=10", "rope:base=11"], ["offset:1"], seeds=2))
    code, said, _ = run_command(capsys, folder, "--json")
    found = json.loads(said)
    assert code == 0 and found["page"] == str(folder / "report.html")
    assert [(one["outcome"], one["finished"]) for one in found["settings"]] == [("keeps", 2), ("rule moved", 2)]
    assert (folder / "report" / "atlas.svg").exists() and verify(folder).sound
    assert f"farfield report {folder}" in (folder / "report.html").read_text()
    assert run_command(capsys, folder)[0] == 0  # and again, over its own page


def test_what_cannot_be_is_refused_in_plain_words(large: Path, tmp_path: Path, capsys: pytest.CaptureFixture):
    other = tmp_path / "notes.html"
    other.write_text("mine")
    (tmp_path / "empty").mkdir()
    file = tmp_path / "file"
    file.write_text("")
    for arguments, words in [
        ([tmp_path / "none"], "there is no folder"),
        ([tmp_path / "empty"], "holds no finished cells"),
        ([file], "is a file"),
        ([large, "-o", tmp_path], "is a folder: name a file in it"),
        ([large, "-o", tmp_path / "none" / "page.html"], "there is no folder"),
        ([large, "-o", other], "is no report of farfield"),
        ([large, "-o", "/proc/page.html"], "cannot write /proc/page.html"),
        ([large, "-o", tmp_path / "page.html", "--figures", file], "cannot write to"),
        ([large, "--interval", "normal"], "unknown interval"),
    ]:
        code, said, error = run_command(capsys, *arguments)
        assert (code, said) == (2, "") and words in error and len(error.splitlines()) == 1, error
    assert other.read_text() == "mine" and not (large / "report").exists()
