"""Every task trained and tested at the shortest length that it takes, down to a single token."""

from __future__ import annotations

import json

import pytest

import farfield as ff
from farfield.cli import main
from farfield.reporting.gather import gather
from farfield.reporting.page import render
from farfield.store.store import StoreWriter
from farfield.tasks import tasks
from helpers.support import small_cell, the_rest_slow, untrained
from helpers.task_examples import TASKS, allows

LONGER = 16
# What a row of a single key has no number for.
MISSING_AT_ONE = {"selected_offset_without_first"}


def shortest_of(task: str) -> int:
    return next(length for length in range(1, LONGER) if allows(tasks.parse(task), 20, length, LONGER))


def probes_of(folder) -> dict[int | None, set[str]]:
    rows = ff.open_store(folder).rows("SELECT length, list(DISTINCT probe) FROM measurements GROUP BY length").rows
    return {length: {*probes} for length, probes in rows}


def assert_all_but_what_cannot_be(found: dict[int | None, set[str]], shortest: int) -> None:
    assert found.keys() == {shortest, LONGER, None}
    assert found[LONGER] >= MISSING_AT_ONE
    assert found[LONGER] - found[shortest] == (MISSING_AT_ONE if shortest == 1 else set())


def test_a_test_of_a_single_token_is_kept_without_what_it_has_no_number_for(tmp_path):
    assert shortest_of("majority") == 1
    for lengths in ((1, LONGER), (1,)):
        cell = small_cell(task="majority", shortest=1, longest=8, lengths=lengths, steps=3)
        StoreWriter(tmp_path / "runs").write(untrained(cell))
        assert "selected_offset" in probes_of(tmp_path / "runs")[1]
    assert_all_but_what_cannot_be(probes_of(tmp_path / "runs"), 1)
    page = render(gather(tmp_path / "runs"), "farfield report runs", "report")
    assert "majority" in page


@pytest.mark.parametrize("task", the_rest_slow(TASKS, []))
def test_every_task_is_kept_plotted_and_reported_at_its_shortest_length(task, tmp_path, capsys, monkeypatch):
    monkeypatch.chdir(tmp_path)
    shortest = shortest_of(task)
    sizes = ["--seeds", "2", "--steps", "3", "--batch", "4", "--sequences", "8", "--snapshots", "0,2"]
    lengths = ["--lengths", f"{shortest}:8", "--test", f"{shortest},{LONGER}"]
    for arguments in (
        ["train", "--task", task, *sizes, *lengths, "--out", "runs", "--plot", "a.png", "--json"],
        ["report", "runs", "--json"],
        ["study", "verify", "runs", "--json"],
        ["study", "export", "runs", "-o", "runs.nc", "--json"],
    ):
        with pytest.raises(SystemExit) as ended:
            main(arguments)
        said = capsys.readouterr()
        assert ended.value.code == 0, said.err
        json.loads(said.out)
        assert "warning" not in said.err
    assert_all_but_what_cannot_be(probes_of("runs"), shortest)
