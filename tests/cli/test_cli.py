"""The command line as a person meets it: real processes, their output and their exit codes."""

import errno
import json
import os
import signal
import subprocess
import sys
import warnings

import duckdb
import pytest

from farfield.cli import main
from farfield.cli.common import answer
from farfield.errors import FarfieldError
from farfield.study import file

SMALL = ["--steps", "40", "--sequences", "64", "--model", "head:16", "--vocabulary", "8", "--test", "12,16,24"]


def farfield(*arguments, **more):
    command = [sys.executable, "-c", "from farfield.cli import main; main()", *arguments]
    return subprocess.run(command, capture_output=True, text=True, timeout=300, check=False, **more)


def test_train_prints_a_summary_and_plain_progress_lines():
    done = farfield("train", "--encoding", "rope", "--task", "offset:2", "--seeds", "2", *SMALL)
    assert done.returncode == 0
    assert "sequences right (chance 0.12)" in done.stdout
    assert "Student t 95% over 2 seeds" in done.stdout
    assert "\r" not in done.stderr
    assert len(done.stderr.splitlines()) <= 3


def test_train_json_is_one_object_and_nothing_else(tmp_path):
    figure = tmp_path / "curves.svg"
    done = farfield("train", "--task", "offset:2", "--seeds", "2", "--json", "--plot", str(figure), *SMALL)
    content = json.loads(done.stdout)
    assert {"accuracy", "selected_offset", "peak", "carrier", "dilution", "seconds", "versions", "config"} <= set(
        content
    )
    assert content["config"]["task"] == {"name": "offset", "offset": 2}
    assert figure.exists()


def test_reproduce_ends_with_a_table_and_the_pages_path(tmp_path):
    done = farfield("reproduce", "implicit-bias", "--budget", "smoke", "--only", "figure1", "--out", str(tmp_path))
    assert done.returncode == 0
    assert done.stdout.splitlines()[-2:] == [
        f"Page:     {tmp_path / 'index.html'}",
        f"Verdicts: {tmp_path / 'verdicts.json'}",
    ]
    assert "-  figure1  Accuracy, peak height and selected offset by length, K = 1" in done.stdout
    assert "farfield: analysing figure1, 1 of 1" in done.stderr
    assert "rope share of lengths" not in done.stdout


def test_list_names_everything():
    done = farfield("list", "--json")
    content = json.loads(done.stdout)
    assert {entry["name"] for entry in content["encodings"]} >= {"rope", "learned"}
    assert {entry["name"] for entry in content["tasks"]} >= {"offset", "induction", "addition"}
    assert {entry["name"] for entry in content["positions"]} >= {"fixed", "random-subset", "clamp"}
    assert {entry["name"] for entry in content["normalizers"]} >= {"softmax", "entmax"}
    assert {entry["name"] for entry in content["models"]} == {"head", "positional", "transformer"}
    json.dumps(content, allow_nan=False)
    assert {entry["name"] for entry in content["items"]} >= {"table1", "figure3"}


@pytest.mark.parametrize(
    ("command", "default"),
    [("train", "rope"), ("reproduce", "farfield-results/PAPER if left out"), ("list", ""), ("show", "")],
)
def test_every_command_explains_itself_with_examples_and_defaults(command, default):
    done = farfield(command, "--help")
    assert done.returncode == 0
    assert f"farfield {command}" in done.stdout
    assert "Examples" in done.stdout
    assert default in " ".join(done.stdout.replace("│", " ").split())


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["train", "--encoding", "roep"], ["roep", "rope"]),
        (["train", "--task", "offset:9"], ["at most 7"]),
        (["train", "--stpes", "9"], ["--stpes", "--steps"]),
        (["train", "--steps", "many"], ["--steps", "integer"]),
        (["train", "--steps", "0"], ["steps"]),
        (["train", "--lengths", "8-16"], ["8:16"]),
        (["train", "--encoding", "learned:rows=20"], ["20 rows", "48"]),
        (["train", "--plot", "curves.xyz"], [".png"]),
        (["reproduce", "implict-bias"], ["implicit-bias"]),
        (["reproduce", "implicit-bias", "--only", "tabel1"], ["table1"]),
        (["train", "--steps", "99999999999"], ["steps", "10000000"]),
        (["train", "--batch", "99999999999"], ["batch"]),
        (["train", "--seeds", "99999999999"], ["seeds"]),
        (["train", "--encoding", "learned:rows=99999999999"], ["rows"]),
        (["train", "--out", ""], ["--out"]),
        (["train", "--snapshots", ""], ["--snapshots ''", "separated by commas"]),
        (["train", "--snapshots", " "], ["--snapshots ' '"]),
        (["train", "--snapshots", ","], ["--snapshots ','"]),
        (["reproduce", "implicit-bias", "--only", ""], ["--only"]),
        (["trian"], ["trian"]),
        (["list", "encoding"], ["encodings"]),
        (["train", "--task", "fraction:2147483648"], ["divisor", "2147483647"]),
        (["show", "longrope", "--original_length", "99999999999"], ["original_length", "2147483647"]),
        (["train", "--encoding", "yarn:attention_factor=1e300"], ["attention_factor", "0.001 to 1000"]),
        (["show", "longrope", "--attention_factor", "1e-50"], ["attention_factor", "0.001 to 1000"]),
        (["show", "rope", "--name", "x"], ["unknown setting of encoding 'rope' 'name'"]),
        (["show", "rope", "--dim", "100000000"], ["dim", "4096"]),
        (["show", "alibi", "--seed", "9" * 30], ["seed", "4294967295"]),
        (["show", "alibi", "--head", "0/99999999999"], ["heads", "64"]),
        (["show", "rope:base=3", "--base", "4"], ["base is set twice"]),
        (["show", "--base", "3", "rope"], ["the encoding comes first"]),
        (["train", "--plot", ""], ["--plot", "must name a file"]),
        (["train", "--learning-rate", "-1"], ["learning_rate = -1.0 must be a positive number"]),
        (["train", "--encoding", "rope:base=1e400"], ["rope:base=1e400 must be a finite number"]),
        (["train", "--out", "~x"], ["'x' is not a user of this machine: write './~x' for a folder of that name"]),
        (["train", "--out", __file__], [f"out = {__file__} is a file, not a folder: choose another name"]),
        (["reproduce", "implicit-bias", "--out", f"{__file__}/x"], [f"lies in {__file__}, which is a file"]),
        (["train", "--workers", "99999999999"], ["workers", "4096"]),
        (["show", "rop"], ["did you mean 'rope'"]),
        (["show", "rope", "--bas", "3"], ["did you mean 'base'"]),
        (["show", "rope", "--base"], ["the encoding comes first, then its settings"]),
        (["show", "rope", "--base", "3", "--base=4"], ["given twice"]),
        (["show", "rope", "--dim", "7"], ["d must be even: got d = 7"]),
        (["show", "rope", "--dim", "0"], ["dim = 0 must be"]),
        (["show", "alibi", "--head", "8/8"], ["head = 8 must be a whole number from 0 to 7"]),
        (["show", "alibi", "--head", "two"], ["write two whole numbers"]),
        (["train", "--positions", "coupled"], ["does not say which of its tokens correspond"]),
        (["train", "--encoding", "t5", "--test-positions", "interpolate"], ["lie between whole numbers"]),
        (["train", "--model", "transformer:depth=2"], ["unknown setting of model 'transformer' 'depth'"]),
        (["train", "--normalizer", "sofmax"], ["did you mean 'softmax'"]),
        (["train", "--task", "addition", "--vocabulary", "5"], ["addition needs a vocabulary of at least"]),
        (["list", "encoders"], ["did you mean 'encodings'"]),
    ],
)
def test_a_mistake_ends_in_one_line_and_exit_code_2(arguments, words, capsys, monkeypatch):
    # In this process, since starting one for each takes seconds; the tests around it start real ones.
    monkeypatch.setattr(warnings, "showwarning", warnings.showwarning)
    with pytest.raises(SystemExit) as ended:
        main(arguments)
    assert ended.value.code == 2
    said = capsys.readouterr()
    assert said.out == ""
    assert len(said.err.splitlines()) == 1
    assert said.err.startswith("farfield: error: ")
    for word in words:
        assert word in said.err


def test_a_mistake_in_a_process_of_its_own_leaves_its_exit_code_and_no_traceback():
    done = farfield("train", "--encoding", "roep")
    assert done.returncode == 2
    assert done.stdout == ""
    assert done.stderr.startswith("farfield: error: unknown encoding 'roep': did you mean 'rope'?")
    assert len(done.stderr.splitlines()) == 1


def test_an_unwritable_folder_is_refused_before_training(tmp_path):
    in_the_way = tmp_path / "file"
    in_the_way.write_text("")
    done = farfield("train", "--out", str(in_the_way), *SMALL)
    assert done.returncode == 2
    assert str(in_the_way) in done.stderr
    assert "Traceback" not in done.stderr


def test_a_figure_is_written_though_the_reader_goes_away(tmp_path):
    figure = tmp_path / "kernel.svg"
    command = f"{sys.executable} -c 'from farfield.cli import main; main()' show rope --length 4096 --json"
    done = subprocess.run(
        f"{command} --plot {figure} | head -c 5", shell=True, capture_output=True, text=True, timeout=120, check=False
    )
    assert len(done.stdout) == 5 and done.stderr == ""
    assert figure.exists()


def test_what_is_found_is_printed_though_the_figure_cannot_be_written(capsys):
    def draw() -> None:
        raise FarfieldError("the disk is full")

    with pytest.raises(FarfieldError):
        answer(None, lambda _: ["found"], False, draw)
    assert capsys.readouterr().out == "found\n"


def test_a_reader_that_goes_away_is_no_error():
    done = subprocess.run(
        f"{sys.executable} -c 'from farfield.cli import main; main()' list | head -1",
        shell=True, capture_output=True, text=True, timeout=120, check=False,
    )  # fmt: skip
    assert done.stdout.strip() == "encodings"
    assert done.stderr == ""


def test_a_reader_that_went_away_is_told_of_by_the_exit_code():
    """Also where the library that prints notices first."""
    command = f"{sys.executable} -u -c 'from farfield.cli import main; main()' list"
    done = subprocess.run(
        ["bash", "-c", f"{command} | true; echo ${{PIPESTATUS[0]}}"],
        capture_output=True, text=True, timeout=120, check=False,
    )  # fmt: skip
    assert (done.stdout, done.stderr) == ("141\n", "")


@pytest.mark.parametrize(
    "reason",
    [
        MemoryError(),
        duckdb.OutOfMemoryException("failed to allocate data of size 16 KiB"),
        OSError(errno.ENOMEM, "Cannot allocate memory"),
        ImportError("a.so: failed to map segment from shared object"),
    ],
)
def test_no_memory_is_said_in_one_line(reason, capsys, monkeypatch):
    monkeypatch.setattr(warnings, "showwarning", warnings.showwarning)
    monkeypatch.setattr(file, "schema", lambda: (_ for _ in ()).throw(reason))
    with pytest.raises(SystemExit) as ended:
        main(["study", "schema"])
    said = capsys.readouterr()
    assert (ended.value.code, said.out) == (2, "")
    assert said.err.startswith("farfield: error: there is not enough memory")
    assert len(said.err.splitlines()) == 1


def test_output_that_cannot_be_written_is_said_in_one_line():
    with open("/dev/full", "w") as full:  # noqa: PTH123 (a device, not a path to keep)
        command = [sys.executable, "-c", "from farfield.cli import main; main()", "list"]
        done = subprocess.run(command, stdout=full, stderr=subprocess.PIPE, text=True, timeout=120, check=False)
    assert done.returncode == 2
    assert done.stderr == "farfield: error: cannot write the output: No space left on device\n"


def test_a_terminal_without_the_signs_still_gets_its_table():
    done = farfield("train", "--seeds", "1", *SMALL, env=os.environ | {"PYTHONIOENCODING": "ascii"})
    assert done.returncode == 0
    assert "Dilution" in done.stdout


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_ctrl_c_and_term_stop_at_once_and_say_what_is_kept(number, tmp_path):
    command = [sys.executable, "-c", "from farfield.cli import main; main()", "train", "--steps", "1000000"]
    process = subprocess.Popen([*command, "--out", str(tmp_path)], stderr=subprocess.PIPE, text=True)
    assert process.stderr is not None
    assert "training 8 models" in process.stderr.readline()
    process.send_signal(number)
    _, errors = process.communicate(timeout=60)
    assert process.returncode == 128 + number
    assert "stopped; finished models are kept" in errors
    assert "Traceback" not in errors


def test_a_part_of_a_paper_does_not_replace_the_whole(tmp_path):
    done = farfield("reproduce", "implicit-bias", "--budget", "smoke", "--only", "table7", "--json", cwd=tmp_path)
    page = json.loads(done.stdout)["page"]
    assert page == "farfield-results/implicit-bias-smoke-table7/index.html"
    assert (tmp_path / page).exists()


@pytest.mark.slow
def test_any_combination_is_trained_by_naming_it():
    done = farfield(
        "train", "--encoding", "yarn:factor=4", "--positions", "random-subset:2048", "--normalizer", "ssmax",
        "--task", "induction", "--model", "transformer:layers=1,heads=2,width=16", "--steps", "5", "--seeds", "1",
        "--batch", "8", "--sequences", "16", "--lengths", "3:4", "--test", "4,6", "--json",
    )  # fmt: skip
    content = json.loads(done.stdout)
    config = content["config"]
    assert config["encoding"] | {"factor": 4.0, "original_length": 4} == config["encoding"]
    assert config["positions"] == config["test_positions"] == {"name": "random-subset", "size": 2048}
    assert config["model"] == {"name": "transformer", "width": 16, "heads": 2, "layers": 1}
    assert config["normalizer"]["name"] == "ssmax"
    assert content["path"] == config["path"] == "dense"
    assert content["heads"][0].startswith("layer ")
    assert set(content["selected"]) == {"4", "6"}


def test_show_prints_a_kernel_with_settings_given_as_options(tmp_path):
    figure = tmp_path / "kernel.png"
    done = farfield("show", "rope", "--base", "500000", "--dim", "128", "--plot", str(figure))
    assert done.returncode == 0
    assert "rope (base=500000, layout=half, fraction=1), d = 128" in done.stdout
    assert "g(1)/g(0) = 0.97" in done.stdout
    assert figure.stat().st_size > 5000


def test_show_json_holds_the_bias_by_offset():
    done = farfield("show", "alibi", "--head", "2/8", "--length", "4", "--json")
    content = json.loads(done.stdout)
    assert content["offsets"] == [0, -1, -2, -3]
    assert content["bias"] == [0.0, -0.125, -0.25, -0.375]
    assert content["rotation"] is content["added"] is content["kernel"] is None
