"""Paths of any name: what is stored there is read back, or the name is refused before anything is written."""

from __future__ import annotations

import ast
import contextlib
import dataclasses
import html
import io
import json
import shlex
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

import farfield as ff
from farfield._checks import path_of
from farfield.cli import main
from farfield.errors import FarfieldError
from farfield.printing import command
from farfield.reporting.gather import gather
from farfield.reporting.page import command_of, render
from farfield.reporting.rerun import python_of
from farfield.reporting.sentences import to_json
from farfield.store.store import StoreWriter
from farfield.study import record
from farfield.study.record import Record
from farfield.study.run import run
from farfield.study.study import Study
from helpers.support import the_rest_slow, untrained

# DuckDB reads columns, patterns, home folders and addresses into names; shells, pages and terminals more.
NAMES = [
    "value=3",
    "seed=7/encoding=x/length=1",
    "./~",
    "./~root/x",
    "./file:/x",
    "./s3:/bucket",
    "a [1] *",
    "[a-z]",
    "[!a]",
    "?",
    "**",
    "a/**/b",
    "{a,b}",
    "a\\[b]",
    "\\",
    "it's",
    'say "so"',
    "-x",
    "--out",
    "a\nb",
    "tab\there",
    "\x1b[31mred",
    "100%",
    "%s%d%41",
    "$HOME",
    "$x^2$ $\\frac$",
    "`id`;#&",
    "<b>[bold]",
    "räume",
    "re\u0301sume\u0301",
    "שלום",
    "\u202eabc",
    "\N{GRINNING FACE}",
    " lead",
    "trail ",
    "l" * 255,
]
QUICK = ["value=3", "./file:/x", "[a-z]", "-x"]


@pytest.fixture(scope="module")
def wanted():
    common = {"test": [8, 16, 32], "sequences": 100, "steps": 3, "batch": 4, "lengths": "4:16", "task": "offset:1"}
    return Study(name="carry", question="Who carries?", seeds=2, common=common, grid={"encoding": ["rope:base=10"]})


@pytest.fixture(scope="module")
def results(wanted):
    return [untrained(cell) for cell in wanted.cells()]


def store_in(name: str | Path, wanted, results) -> Path:
    store = StoreWriter(name)
    for result in results:
        store.write(result)
    record.write(store.folder, Record(wanted), [result.cell.identity for result in results])
    return store.folder


def asked(*arguments: str):
    """What a command answers in JSON."""
    said = io.StringIO()
    with pytest.raises(SystemExit) as ended, contextlib.redirect_stdout(said):
        main([*arguments[:2], "--json", *arguments[2:]])
    assert ended.value.code == 0
    return json.loads(said.getvalue())


def everything(name: str) -> dict:
    """What each reader says of a folder, without its name."""
    store, content = ff.open_store(name), gather(name)
    again, python = command_of(content.folder, None, None, "t"), python_of(content.record, content.folder)
    page = html.unescape(render(content, again, "figures"))
    # What the page prints to be copied names this folder.
    assert again in page and python in page
    export = command("farfield", "study", "export", content.folder)
    assert export in page
    for copied in (shlex.split(again)[2], shlex.split(export)[3]):
        assert not copied.startswith("-")
        assert path_of(copied, "folder").samefile(content.folder)
    assert path_of(ast.literal_eval(python.rpartition("ff.run(study, ")[2][:-1]), "folder").samefile(content.folder)
    about = {word: asked("study", word, "--", name) for word in ("status", "verify")}
    for one in about.values():
        assert Path(one.pop("folder")).samefile(content.folder)
    asked("study", "export", "-o", "out.csv", "--force", "--", name)
    query = "SELECT identity, probe, length, value FROM measurements ORDER BY ALL"
    return {
        "frame": store.measurements().to_csv(),
        "losses": [result.losses.tolist() for result in store.results()],
        "sql": asked("study", "sql", "--", name, query),
        "export": Path("out.csv").read_bytes(),
        "report": to_json(content),
        **about,
    }


def read_twice(name: str, wanted, results) -> list[Any]:
    """What is read from a folder, twice, and the files there in the end."""
    folder = store_in(name, wanted, results)
    found = [everything(name), everything(name)]
    return [*found, sorted(str(path.relative_to(folder)) for path in folder.rglob("*"))]


@pytest.fixture(scope="module")
def plain(wanted, results, tmp_path_factory):
    """The same of a folder of a plain name."""
    with contextlib.chdir(tmp_path_factory.mktemp("plain")):
        return read_twice("runs", wanted, results)


@pytest.mark.parametrize("name", the_rest_slow(NAMES, QUICK))
def test_a_folder_of_any_name_holds_what_was_stored(name, plain, wanted, results, tmp_path, monkeypatch):
    """duckdb issue 12325: a folder value=3 gave every measurement the value 3."""
    monkeypatch.chdir(tmp_path)
    # Patterns among the names would read these as well, which say otherwise.
    others = [dataclasses.replace(one, correct=one.correct // 2) for one in results]
    for other in ("a", "b", "a 1 x", "a/x/b") if set(name) & set("*?[") else ():
        store_in(other, wanted, others)
    *found, files = read_twice(name, wanted, results)
    for one, other in zip(found, plain, strict=False):
        for part, expected in other.items():
            assert one[part] == expected, part
    assert files == plain[-1]
    assert len(files) == 2 * len(results) + 1


def test_a_table_is_exported_to_a_file_of_any_name(wanted, results, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    store_in("runs", wanted, results)
    for folder in ("x=3", "[a-z]", "**", "{a,b}"):
        Path(folder).mkdir()
    names = "plain", "x=3/a", "./~", "./file:", "-x", "a [1]*?", "{i}{uuid}", "a\\[b]", "it's\n", "[a-z]/b", "**/c.gz"
    for format in ("csv", "parquet"):
        for name in (*names, "{a,b}/c", "?", "%s%d", "שלום"):
            asked("study", "export", "--format", format, "--force", "-o", name, "--", "runs")
        contents = {
            path: path.read_bytes() for path in tmp_path.rglob("*") if path.is_file() and "runs" not in path.parts
        }
        assert (len(contents), len({*contents.values()})) == (15, 1)


REFUSED = {
    "~no-such-user/x": "'no-such-user' is not a user of this machine: write './~no-such-user/x'",
    "file:///tmp/x": "is an address",
    "s3://bucket/x": "is an address: name a",
    "https://example.org/x": "is an address",
    "file:/tmp/x": "is an address",
    "\udcff\udcfe": "'\\udcff\\udcfe' is not a name in UTF-8",
    "": "must name a",
    " \n": "must name a",
}
TAKING_PATHS = [
    ["train", "--out", "PATH"],
    ["train", "--plot", "PATH"],
    ["show", "rope", "--plot", "PATH"],
    ["kernel", "--plot", "PATH"],
    ["predict", "--all", "--csv", "PATH"],
    ["predict", "--all", "--plot", "PATH"],
    ["reproduce", "implicit-bias", "--out", "PATH"],
    ["report", "PATH"],
    ["report", "runs", "-o", "PATH"],
    ["report", "runs", "--figures", "PATH"],
    ["study", "new", "PATH"],
    ["study", "plan", "PATH"],
    ["study", "plan", "study.toml", "--out", "PATH"],
    ["study", "run", "PATH"],
    ["study", "run", "study.toml", "--out", "PATH"],
    ["study", "status", "PATH"],
    ["study", "verify", "PATH"],
    ["study", "sql", "PATH", "FROM cells"],
    ["study", "export", "PATH", "-o", "a.csv"],
    ["study", "export", "runs", "-o", "PATH"],
]


def refusal(capsys, *arguments: str) -> str:
    """The one line that a command is refused in."""
    with pytest.raises(SystemExit) as ended:
        main([*arguments])
    said = capsys.readouterr()
    assert (ended.value.code, said.out) == (2, "")
    (line,) = said.err.splitlines()
    return line


@pytest.mark.parametrize("arguments", TAKING_PATHS, ids=" ".join)
def test_every_command_refuses_what_names_no_path_before_it_works(arguments, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "~no-such-user").mkdir()  # is ./~no-such-user
    for name, words in REFUSED.items():
        line = refusal(capsys, *(name if part == "PATH" else part for part in arguments))
        assert line.startswith("farfield: error: Invalid value for ")
        assert words in line
    assert [path.name for path in tmp_path.rglob("*")] == ["~no-such-user"]


@pytest.mark.parametrize("arguments", TAKING_PATHS, ids=" ".join)
def test_a_tilde_is_the_home_folder_to_every_command(arguments, wanted, results, tmp_path, monkeypatch, capsys):
    """parsedmarc issue 550. A file stands where each wants a folder, so that it is refused by its name there."""
    home = tmp_path / "home"
    home.mkdir()
    monkeypatch.setenv("HOME", str(home))
    monkeypatch.chdir(tmp_path)
    (home / "a").write_text("no store")
    (tmp_path / "study.toml").write_text(
        'name = "a"\nquestion = "Why?"\nseeds = 1\n[common]\ntask = "offset:2"\n[grid]\nencoding = ["rope"]\n'
    )
    store_in("runs", wanted, results)
    line = refusal(capsys, *("~/a/b" if part == "PATH" else part for part in arguments))
    assert f"{home}/a" in line
    assert {path.name for path in tmp_path.iterdir()} == {"home", "runs", "study.toml"}


def test_what_is_stored_under_a_tilde_is_in_the_home_folder(results, tmp_path, monkeypatch):
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    (tmp_path / "home").mkdir()
    monkeypatch.chdir(tmp_path)
    StoreWriter("~/runs").write(results[0])
    StoreWriter(Path("~") / "more").write(results[0])
    assert {path.name for path in (tmp_path / "home").iterdir()} == {"runs", "more"}
    assert len(ff.open_store("~/runs").cells()) == 1
    assert [path.name for path in tmp_path.iterdir()] == ["home"]


@pytest.mark.parametrize("name", [*REFUSED, 3, None, b"runs", "a\0b"])
def test_python_refuses_what_names_no_path(name, wanted, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    for act in (
        lambda: ff.open_store(name),
        lambda: ff.load_study(name),
        lambda: gather(name),
        lambda: StoreWriter(name),
        *([lambda: run(wanted, name), lambda: ff.train(out=name)] if name is not None else []),
    ):
        with pytest.raises(
            FarfieldError, match=r"must name|is an address|not a user of this machine|has no home|not a name in UTF-8"
        ):
            act()
    assert [*tmp_path.iterdir()] == []


def test_a_path_read_twice_is_the_same_path(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    (tmp_path / "home").mkdir()
    for name in [*NAMES, "~", "~/a", ".", "..", "a/../b"]:
        once = path_of(name, "folder")
        assert path_of(once, "folder") == path_of(str(once), "folder") == once
    assert path_of("~/a", "folder") == tmp_path / "home" / "a"
    assert path_of("./~/a", "folder") == tmp_path / "~" / "a"


def test_a_store_stays_where_it_is_when_the_process_goes_elsewhere(wanted, results, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    store_in("runs", wanted, results)
    store, reader = StoreWriter("runs"), ff.open_store("runs")
    (tmp_path / "elsewhere").mkdir()
    monkeypatch.chdir(tmp_path / "elsewhere")
    assert len([*reader.results()]) == 2
    assert store.holds(results[0].cell)
    store.write(results[0])
    assert [*(tmp_path / "elsewhere").iterdir()] == []


def test_a_name_with_no_room_for_a_temporary_one_is_refused_first(wanted, results, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    store_in("runs", wanted, results)
    long, longer = "l" * 240, "l" * 300
    deep = "/".join(["l" * 200] * 20)[:3990]
    before = {path.name for path in tmp_path.rglob("*")}
    for arguments in (
        ["study", "export", "runs", "-o", f"{long}.csv"],
        ["study", "new", f"{long}.toml"],
        ["report", "runs", "-o", f"{long}.html"],
        ["report", "runs", "-o", f"{longer}/a.html"],
        ["train", "--plot", f"{longer}.png"],
        ["train", "--plot", f"{longer}/a.png"],
        ["train", "--out", longer],
        ["study", "status", longer],
    ):
        assert "File name too long" in refusal(capsys, *arguments)
    assert {path.name for path in tmp_path.rglob("*")} == before
    with pytest.raises(FarfieldError, match="File name too long"):
        StoreWriter(deep)  # has room for itself and not for the names of its files


def test_next_commands_are_quoted_for_the_shell(wanted, results, tmp_path, monkeypatch, capsys):
    """watchman issue 736."""
    monkeypatch.chdir(tmp_path)
    for name in ("a b.toml", "-x.toml", "it's;.toml", "./~.toml"):
        with pytest.raises(SystemExit):
            main(["study", "new", "--", name])
        printed = capsys.readouterr().out.strip().partition("next: ")[2]
        *words, file = shlex.split(printed)
        assert words == ["farfield", "study", "plan"]
        assert not file.startswith("-")
        assert path_of(file, "file").samefile(Path(name).absolute())
    assert command("farfield", "study", "plan", Path("a b.toml")) == "farfield study plan 'a b.toml'"


def test_a_finished_study_names_its_next_command_and_the_one_that_made_it(
    wanted, results, tmp_path, monkeypatch, capsys
):
    monkeypatch.chdir(tmp_path)
    Path("-s [bold].toml").write_text(
        'name = "carry"\nquestion = "Who carries?"\nseeds = 2\n[grid]\nencoding = ["rope:base=10"]\n[common]\n'
        'test = [8, 16, 32]\nsequences = 100\nsteps = 3\nbatch = 4\nlengths = "4:16"\ntask = "offset:1"\n'
    )
    store_in("-x [bold] y", wanted, results)
    with pytest.raises(SystemExit) as ended:
        main(["study", "run", "--out", "-x [bold] y", "--", "-s [bold].toml"])
    said = capsys.readouterr().out
    assert ended.value.code == 0
    assert f"Results: {tmp_path}/-x [bold] y\nNext: farfield report './-x [bold] y'\n" in said
    again = record.read(Path("./-x [bold] y")).command
    assert again == "farfield study run './-s [bold].toml' --out './-x [bold] y'"


def test_bytes_that_are_no_text_end_in_one_line_in_a_real_process(tmp_path):
    program = [sys.executable, "-c", "from farfield.cli import main; main()"]
    for arguments in ([b"train", b"--out", b"\xff\xfe"], [b"study", b"sql", b".", b"SELECT '\xff'"]):
        done = subprocess.run([*program, *arguments], cwd=tmp_path, capture_output=True, check=False)
        assert done.returncode == 2
        (line,) = done.stderr.decode("ascii").splitlines()
        assert "\\udcff" in line
    assert [*tmp_path.iterdir()] == []


def test_a_store_in_a_current_folder_that_is_no_text_or_gone_is_refused(tmp_path, monkeypatch, capsys):
    for name, words in (("\udcff", "not a name in UTF-8"), ("gone", "the current folder, which is gone")):
        (tmp_path / name).mkdir()
        monkeypatch.chdir(tmp_path / name)
        if name == "gone":
            (tmp_path / name).rmdir()
        for arguments in (["train", "--out", "runs"], ["study", "status", "."], ["report", "."]):
            assert words in refusal(capsys, *arguments)


def test_messages_keep_spaces_and_show_signs_that_a_terminal_would_act_on(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    assert refusal(capsys, "study", "verify", "a  b\x1b[31m\u202e").startswith(
        "farfield: error: there is no folder a  b\\x1b[31m\\u202e: name one"
    )
