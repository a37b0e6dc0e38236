"""Settings of hundreds of letters, as real checkpoints have them: accepted everywhere, and printed short."""

from __future__ import annotations

import json
import re

import numpy as np
import pytest

from farfield.cli import main
from farfield.encodings import encodings
from farfield.errors import FarfieldError
from farfield.printing import short
from farfield.reporting.files import atlas_figure, curves_figure
from farfield.reporting.gather import gather
from farfield.reporting.page import render
from farfield.reporting.sentences import sentences, to_json
from farfield.store.store import StoreWriter
from farfield.study import record
from farfield.study.record import Record
from farfield.study.study import Study
from helpers.support import untrained

PAIRS = 48


def factors(last: float) -> str:
    """One divisor a pair, as a configuration in single precision prints them."""
    found = np.round(np.geomspace(1.08, last, PAIRS), 2).astype(np.float32).astype(float)
    return ";".join(map(repr, found.tolist()))


# The size of Phi-3.5's, whose width of a head is 96; the other differs in one number that neither end of a row shows.
LONG = f"longrope:factor=32,short_factor={factors(2.84)},long_factor={factors(64.4)}"
OTHER = LONG.replace(";1.1799999475479126;", ";1.19;")


@pytest.fixture
def said(capsys):
    def of(*arguments: str) -> str:
        with pytest.raises(SystemExit) as ended:
            main([*arguments])
        told = capsys.readouterr()
        assert ended.value.code == 0, told.err
        return told.out

    return of


@pytest.fixture(scope="module")
def wanted():
    common = {"task": "offset:2", "model": "head:width=96", "test": [12, 16, 24], "steps": 3, "batch": 4}
    return Study(name="phi", question="Why?", seeds=1, common=common, grid={"encoding": ["rope", LONG, OTHER]})


@pytest.fixture(scope="module")
def folder(wanted, tmp_path_factory):
    folder = tmp_path_factory.mktemp("phi")
    for cell in wanted.cells():
        StoreWriter(folder).write(untrained(cell))
    record.write(folder, Record(wanted, None, "farfield study run s.toml"), [one.identity for one in wanted.cells()])
    return folder


def test_a_study_file_takes_what_the_command_line_takes(said, tmp_path):
    """mlxcel issue 1358."""
    assert len(LONG) > 1700 and len({LONG, OTHER}) == 2
    file = tmp_path / "s.toml"
    axis = f'[grid]\nencoding = ["rope", "{LONG}", "{OTHER}"]\n'
    file.write_text(
        f'name = "phi"\nquestion = "Why?"\nseeds = 1\n[common]\ntask = "offset:2"\nmodel = "head:width=96"\n{axis}'
    )
    printed = said("study", "plan", str(file), "--seconds", "0")
    assert len(printed) < 3000
    assert_short(printed)
    content = json.loads(said("study", "plan", str(file), "--seconds", "0", "--json"))
    assert content["axes"]["encoding"][1:] == [encodings.format(encodings.parse(spec)) for spec in (LONG, OTHER)]


def assert_short(text: str) -> None:
    """Both specs are there, told apart, and neither whole."""
    text = " ".join(re.sub(r"<[^>]*>", " ", text).split())
    assert ";1.1799999475479126;" not in text and ";1.19;" not in text
    signs = {re.findall(r"numbers: (....)\)", short(spec))[1] for spec in (LONG, OTHER)}
    assert len(signs) == 2 and all(sign in text for sign in signs)
    assert "short_factor=1.08;…;2.84" in text


def test_tables_print_rows_of_numbers_short(folder, said):
    for arguments in (
        ["study", "status", str(folder)],
        ["study", "sql", str(folder), "SELECT encoding FROM cells"],
        ["study", "sql", str(folder), "FROM cells"],
    ):
        assert_short(said(*arguments))
        whole = said(*arguments, "--json")
        assert ";1.1799999475479126;" in whole and ";1.19;" in whole
    assert ";1.1799999475479126;" in said("study", "sql", str(folder), "SELECT encoding FROM cells", "--csv")


def test_a_report_prints_them_short_and_holds_them_whole(folder, said):
    content = gather(folder)
    assert_short(" ".join(map(short, sentences(content))))
    assert ";1.19;" in json.dumps(to_json(content))
    page = render(content, "farfield report phi", "report")
    before, after = page.split('<section id="again">')
    assert_short(before.replace('<script type="application/json"', "<br"))
    assert ";1.19;" in after
    assert 'title="longrope:factor=32,short_factor=' in before
    for label in [*(one.get_text() for one in atlas_figure(content).axes[0].get_yticklabels())]:
        assert all(len(line) < 60 for line in label.split("\n"))
    (legend,) = curves_figure(content, 0).legends
    assert all(len(line) < 60 for text in legend.get_texts() for line in text.get_text().split("\n"))


def test_what_is_told_of_one_encoding_is_short(said, capsys):
    for arguments in (
        ["show", LONG, "--dim", "96"],
        ["kernel", "--encoding", LONG, "--dim", "96", "--length", "64", "--trained", "16"],
    ):
        printed = said(*arguments)
        assert "1.08;…;64.4 (48 numbers" in " ".join(printed.split()) and "1.1799" not in printed
    with pytest.raises(
        FarfieldError, match=r"must be numbers from 1e-06 to 1e\+06: got -1;…;2.84 \(48 numbers: ....\)"
    ):
        encodings.parse(LONG.replace("short_factor=1.0800000429153442", "short_factor=-1")).resolved(16, 48).check(
            96, 48
        )
    with pytest.raises(SystemExit):
        main(["train", "--encoding", f"{LONG},x"])
    line = capsys.readouterr().err
    assert len(line) < 300 and "short_factor=1.08;…;2.84 (48 numbers" in line


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("rope:base=500000", "rope:base=500000"),
        ("longrope:short_factor=1;2;3;4", "longrope:short_factor=1;2;3;4"),
        ("x=1;2;3;4;5e-05.", "x=1;…;5e-05 (5 numbers: 2ae4)."),
        ("2 (3); 4 (1); 5 (1); 6 (1); 7 (1)", "2 (3); 4 (1); 5 (1); 6 (1); 7 (1)"),
    ],
)
def test_only_long_rows_are_cut(text, shown):
    assert short(text) == shown
