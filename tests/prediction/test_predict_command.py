"""`farfield predict`: the words, the numbers for machines, the atlas, and bad input."""

import csv
import io
import json

import pytest

import farfield as ff
from farfield.cli import main
from farfield.plotting.predictions import atlas_figure, in_short, prediction_figure
from farfield.plotting.style import save
from farfield.prediction.atlas import atlas, carrying_over, to_csv

SMALL = ["--trained", "8", "--tested", "16"]


def predict(capsys, *arguments):
    with pytest.raises(SystemExit) as end:
        main(["predict", *arguments])
    shown = capsys.readouterr()
    return end.value.code, shown.out, shown.err


def test_a_prediction_says_its_verdict_and_what_else_would_work(capsys):
    code, out, _ = predict(capsys, "--encoding", "rope", "--task", "offset:3", *SMALL)
    assert code == 0
    assert "Carries over" in out
    assert "t5" in out.rpartition("Other encodings that carry this task over")[2]
    assert "rows 8 to 15 won" in out
    assert "alpha of any other such kernel, of up to 1.25 times its norm" in out


def test_a_single_row_is_called_one(capsys):
    _, out, _ = predict(capsys, "--encoding", "rope", "--task", "offset:3", "--trained", "8", "--tested", "9")
    assert "share of row 8 won" in out
    (masses,) = [line for line in out.splitlines() if "mass on the target" in line]
    assert masses.count("at 9") == 1


def test_json_holds_what_the_documentation_promises(capsys):
    code, out, _ = predict(capsys, "--encoding", "learned", "--task", "fraction:2", "--json", *SMALL)
    found = json.loads(out)
    assert code == 0
    assert (found["verdict"], found["alpha"], found["interval"]) == ("underdetermined", 0.0, [0.0, 1.0])
    assert (found["realizable_at_trained"], found["realizable_at_tested"]) == (True, True)
    assert found["margin"] > 0
    assert set(found["mass"]) == set(found["curve"]) == {str(length) for length in range(9, 17)}
    assert found["encoding"]["name"] == "learned"
    code, out, _ = predict(capsys, "--encoding", "none", "--task", "offset:1", "--json", *SMALL)
    found = json.loads(out)
    assert (code, found["verdict"], found["alpha"], found["margin"]) == (0, "not realizable", None, None)


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ([], "--encoding rope --task offset:3"),
        (["--encoding", "rope"], "--task"),
        (["--encoding", "ropee", "--task", "offset:3"], "rope"),
        (["--encoding", "rope", "--task", "induction"], "no target"),
        (["--encoding", "cope", "--task", "offset:1"], "cope"),
        (["--encoding", "rope", "--task", "offset:3", "--tested", "8"], "tested = 8"),
        (["--encoding", "rope", "--task", "offset:3", "--trained", "0"], "trained = 0"),
        (["--encoding", "rope", "--task", "offset:20"], "reaches outside"),
        (["--all", "--task", "offset:3"], "--all"),
        (["--encoding", "rope", "--task", "offset:3", "--csv", "x.csv"], "--all"),
        (["--encoding", "rope", "--task", "offset:3", "--plot", "x.gif"], ".png"),
        (["--encoding", "rope", "--task", "offset:3", "--logit-scale", "nan"], "logit_scale"),
        (["--encoding", "rope", "--task", "offset:3", "--logit-scale", "-1"], "logit_scale"),
    ],
)
def test_bad_input_ends_with_2_and_words_that_name_it(capsys, arguments, words):
    code, out, err = predict(capsys, *arguments)
    assert (code, out) == (2, "")
    assert words in err


def test_the_atlas_is_a_table_a_file_and_a_picture(tmp_path):
    rows = atlas(["rope", "none", "learned"], ["offset:1", "position:0"], trained=4, tested=8)
    assert [[in_short(cell) for cell in row] for row in rows][1] == ["x", "x"]
    lines = list(csv.DictReader(io.StringIO(to_csv(rows))))
    assert [(line["encoding"], line["task"]) for line in lines[:2]] == [("rope", "offset:1"), ("rope", "position:0")]
    assert float(lines[0]["alpha"]) == rows[0][0].alpha
    assert lines[2]["alpha"] == ""
    save(atlas_figure(rows), tmp_path / "atlas.png")
    save(prediction_figure(rows[0][0]), tmp_path / "rope.png")
    save(prediction_figure(rows[1][0]), tmp_path / "none.png")


def test_the_python_interface_is_the_same_and_neighbours_leave_the_encoding_itself_out():
    found = ff.predict("rope", "offset:3", trained=8, tested=16)
    assert found.verdict == "carries over"
    assert found.task_name == "offset:3"
    names = carrying_over(found)
    assert {"t5", "shaw"} <= set(names)
    assert not {"rope", "none", "learned"} & set(names)
