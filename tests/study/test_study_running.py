"""A study's folder and its arguments: whose it is, what is refused before anything is written or trained."""

from __future__ import annotations

import contextlib
import json
import shlex
import signal
import threading
import time
from concurrent.futures import Executor
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import farfield as ff
from farfield.cli import main, stopping
from farfield.cli.stopping import Terminated
from farfield.errors import FarfieldError
from farfield.reporting.files import MARK, check_folder
from farfield.store import manifest
from farfield.study import record
from farfield.study.plan import plan
from farfield.study.record import Record
from farfield.study.run import run

COMMON = {
    "encoding": "rope",
    "task": "offset:1",
    "lengths": "4:8",
    "test": [8],
    "steps": 5,
    "batch": 4,
    "sequences": 16,
}


def study(name: str = "carry", **changes: Any) -> ff.Study:
    return ff.Study(**{"name": name, "question": "Who carries?", "seeds": 1, "common": COMMON} | changes)


class Refuses(Executor):
    """Stands for an engine that is never reached."""

    def submit(self, fn, /, *args, **kwargs):
        pytest.fail("something ran")


def test_of_two_studies_that_begin_in_one_folder_at_once_one_owns_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    both = threading.Barrier(2)
    check = manifest.check_owner
    waited = set()

    def check_together(folder: Path, name: str) -> str | None:
        found = check(folder, name)
        if name not in waited:  # both have looked before either writes
            waited.add(name)
            both.wait(10)
        return found

    monkeypatch.setattr(manifest, "check_owner", check_together)
    refused = []

    def begin(name: str) -> None:
        try:
            record.write(tmp_path, Record(study(name)))
        except FarfieldError as reason:
            refused.append(str(reason))

    threads = [threading.Thread(target=begin, args=(name,)) for name in ("first", "second")]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(refused) == 1 and "choose another folder with --out" in refused[0]
    owner = json.loads((tmp_path / "study.json").read_text())["study"]["name"]
    assert f"of the study {owner!r}, not of" in refused[0]


@pytest.mark.parametrize("text", ["", "{}", '{"study": {"na', '{"study": {"name": 3}}', "[" * 100_000, "\0"])
def test_a_damaged_record_is_written_anew(tmp_path: Path, text: str):
    (tmp_path / "study.json").write_text(text)
    with pytest.warns(UserWarning, match="could not be read: it is written anew"):
        record.write(tmp_path, Record(study()), ["a"])
    assert record.read(tmp_path) == Record(study())
    assert manifest.wanted(tmp_path) == ("carry", None, ["a"])


def test_another_studys_folder_is_left_alone(tmp_path: Path):
    record.write(tmp_path, Record(study()))
    before = (tmp_path / "study.json").read_text()
    with pytest.raises(FarfieldError, match="holds the results of the study 'carry', not of 'other'"):
        run(study("other"), tmp_path, executor=Refuses())
    with pytest.raises(FarfieldError, match="choose another folder"):
        plan(study("other"), out=tmp_path, seconds=0)
    assert (tmp_path / "study.json").read_text() == before


@pytest.mark.parametrize(
    ("settings", "words"),
    [
        ({"workers": 0}, "workers = 0 must be a whole number from 1"),
        ({"workers": "2"}, "workers = '2' must be"),
        ({"workers": 1.5}, "workers = 1.5 must be"),
        ({"engine": "slurm"}, "unknown engine 'slurm'"),
        ({"engine": None}, "unknown engine 'None'"),
        ({"executor": 3}, "executor = 3 must be an executor"),
        ({"address": "tcp://x"}, "add --engine dask"),
        ({"budget": "huge"}, "has no budget 'huge'"),
        ({"budget": [3]}, r"budget = \[3\] must be the name"),
        ({"command": 3}, "command = 3 must be the text"),
    ],
)
def test_arguments_that_make_no_sense_are_refused_before_anything_is_written(tmp_path: Path, settings, words):
    with pytest.raises(FarfieldError, match=words):
        run(study(), tmp_path / "out", **settings)
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize("folder", ["", " ", "a\0b", 3, b"runs"])
def test_what_names_no_folder_is_refused(folder: Any):
    with pytest.raises(FarfieldError, match="must name a folder"):
        run(study(), folder, executor=Refuses())
    with pytest.raises(FarfieldError, match="must name a folder"):
        ff.open_store(folder)


def test_seeds_come_as_any_kind_of_list_and_no_list_is_read_to_its_end_in_vain():
    assert study(seeds=np.int64(3)).seeds_of() == study(seeds=np.arange(3)).seeds_of() == study(seeds=3).seeds_of()
    for endless in (range(10**12), range(2**70)):
        with pytest.raises(FarfieldError, match="may name at most 100000"):
            study(seeds=endless)
        with pytest.raises(FarfieldError, match="at most"):
            study(common=COMMON | {"test": endless})
        with pytest.raises(FarfieldError, match="at most"):
            study(common=COMMON | {"snapshots": endless})


def test_a_negative_zero_is_zero():
    (zero,), (negative,) = (study(common=COMMON | {"weight_decay": value}).cells() for value in (0.0, -0.0))
    assert zero.identity == negative.identity


@pytest.mark.parametrize(("number", "raised"), [(signal.SIGINT, KeyboardInterrupt), (signal.SIGTERM, Terminated)])
def test_a_stop_that_a_callback_swallows_comes_again(number, raised, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(stopping, "AGAIN", 0.02)
    before = signal.getsignal(number)
    with pytest.raises(raised), stopping.stoppable():
        with contextlib.suppress(raised):
            signal.raise_signal(number)
        time.sleep(5)
    assert signal.getsignal(number) is before and signal.getitimer(signal.ITIMER_REAL) == (0, 0)


def test_the_command_that_is_recorded_runs_into_the_same_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    (tmp_path / "study.toml").write_text(
        'name = "carry"\nquestion = "Who?"\nseeds = 1\n[common]\nencoding = "rope"\ntask = "offset:1"\n[budget.quick]\n'
        "steps = 2\n"
    )
    monkeypatch.chdir(tmp_path)
    told: list[Any] = []
    monkeypatch.setattr("farfield.study.run.run", lambda *given, **named: told.append((given, named)))
    command = ["study", "run", "study.toml", "--budget", "quick", "--out", "my runs"]
    with contextlib.suppress(SystemExit, AttributeError):
        main(command)
    ((given, named),) = told
    assert shlex.split(named["command"]) == ["farfield", *command]
    assert given[1] == Path("my runs")


def test_figures_replace_those_of_a_report_and_nothing_else(tmp_path: Path):
    figures, store = tmp_path / "figures", tmp_path / "runs"
    figures.mkdir(), store.mkdir()
    check_folder(figures, store)
    (figures / "notes.txt").write_text("mine")
    check_folder(figures, store)
    (figures / "atlas.csv").write_text("mine")
    with pytest.raises(FarfieldError, match=r"atlas.csv is there and of no report"):
        check_folder(figures, store)
    (figures / MARK).touch()
    check_folder(figures, store)
    with pytest.raises(FarfieldError, match="is the folder of the results"):
        check_folder(store / ".." / "runs", store)
