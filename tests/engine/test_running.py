"""Running cells: order, progress, no work twice, and no start where a cell cannot run."""

from __future__ import annotations

import dataclasses
from typing import Any

import numpy as np
import pytest

from farfield.encodings.rope import Rope
from farfield.engine import programs, scheduler
from farfield.engine.programs import chunks
from farfield.engine.scheduler import run
from farfield.errors import FarfieldError
from farfield.models.head import Head
from farfield.positions.shifted import Fixed
from farfield.store.store import StoreWriter
from helpers.support import assert_same_bits, cells_of, small_cell

LANES = Head.lanes


class Heard:
    """What a run tells of its progress, in order."""

    def __init__(self):
        self.calls = []
        self.said = []

    def say(self, text: str):
        self.said.append(text)

    def start(self, total: int, stored: int):
        self.calls.append(("start", total, stored))

    def train(self, cells):
        assert cells > 0

    def advance(self):
        self.calls.append("advance")

    def finish(self):
        self.calls.append("finish")


def test_results_come_back_in_the_order_given_and_equal_cells_run_once(tmp_path, monkeypatch):
    first, second = small_cell(seed=20), small_cell(seed=21)
    count = []
    original = scheduler.run_chunk
    monkeypatch.setattr(
        scheduler, "run_chunk", lambda chunk, **given: count.extend(cells_of(chunk)) or original(chunk, **given)
    )
    store, heard = StoreWriter(tmp_path), Heard()
    results = run([second, first, second], store, progress=heard)
    assert [result.cell.seed for result in results] == [21, 20, 21]
    assert sorted(cell.seed for cell in count) == [20, 21]
    assert heard.calls == [("start", 2, 0), "advance", "advance", "finish"]
    again = Heard()
    run([second, first, second], store, progress=again)
    assert len(count) == 2
    assert again.calls == [("start", 2, 2), "finish"]


def test_a_cell_that_cannot_run_stops_a_study_before_anything_runs(tmp_path, monkeypatch):
    monkeypatch.setattr(scheduler, "run_chunk", lambda *chunk, **given: pytest.fail("ran"))
    bad = dataclasses.replace(small_cell(), model=Head(63))
    with pytest.raises(FarfieldError, match="d = 63"):
        run([small_cell(), bad], StoreWriter(tmp_path))


def test_a_cell_that_fails_ends_the_run_with_its_error_and_tells_that_it_is_over(tmp_path, monkeypatch):
    def fail(chunk, lanes, **given):
        tried.append((len(chunk), lanes))
        raise MemoryError("too wide")

    tried = []

    monkeypatch.setattr(scheduler, "run_chunk", fail)
    monkeypatch.setattr(scheduler, "forget_programs", lambda: forgotten.append(1))
    heard, forgotten = Heard(), []
    with pytest.raises(FarfieldError, match=r"out of memory with width 64.*make one of them smaller"):
        run([small_cell(seed=seed) for seed in range(9)], StoreWriter(tmp_path), progress=heard)
    assert heard.calls == [("start", 9, 0), "finish"]
    # Each chunk of four was halved down to single models, and it was said. Those ran twice, with all memory given back.
    assert sorted(tried) == sorted([(4, 4)] * 2 + [(2, 2)] * 4 + [(1, 1)] * 18 + [(1, 4), (1, 2)])
    assert len(forgotten) == len(tried)
    assert len(heard.said) == 2 * 3 + 2
    assert all(text.startswith("out of memory with width 64") for text in heard.said)


def test_what_finished_before_a_failure_is_kept(rope_result, tmp_path, monkeypatch):
    def fail_on_the_second_chunk(chunk, **given):
        if any(cell.seed >= LANES for cell in cells_of(chunk)):
            raise MemoryError("too wide")
        return [dataclasses.replace(rope_result, cell=cell) for cell in cells_of(chunk)]

    monkeypatch.setattr(scheduler, "run_chunk", fail_on_the_second_chunk)
    monkeypatch.setattr(scheduler, "forget_programs", lambda: None)
    cells = [small_cell(seed=seed) for seed in range(LANES + 1)]
    with pytest.raises(FarfieldError, match="out of memory"):
        run(cells, StoreWriter(tmp_path), workers=1)
    assert [StoreWriter(tmp_path).read(cell) is not None for cell in cells] == [True] * LANES + [False]


def test_cells_of_one_program_are_chunked_together_and_others_apart():
    ropes = [small_cell(seed=seed) for seed in range(LANES + 1)]
    interleaved = small_cell("rope:layout=interleaved")
    found = chunks([ropes[0], interleaved, *ropes[1:], small_cell(steps=3)])
    assert [[cell.seed for cell in cells_of(chunk)] for chunk in found] == [list(range(LANES)), [LANES], [0], [0]]
    assert found[2] == [[interleaved]]


def test_cells_that_differ_in_their_tests_alone_are_trained_once_and_come_out_as_if_alone():
    settings: dict[str, Any] = {
        "test_positions": "clamp",
        "sequences": 64,
        "steps": 37,
        "batch": 32,
        "model": "head:16",
    }
    tables = [small_cell("learned:rows=49", seed=seed, **settings) for seed in (0, 1)]
    others = [dataclasses.replace(cell, test_positions=Fixed(), lengths=(16, 20)).resolved() for cell in tables]
    assert chunks([*tables, *others]) == [[[tables[0], others[0]], [tables[1], others[1]]]]
    before = programs.TRACES["train"]
    together = run([*tables, *others])
    assert programs.TRACES["train"] - before == 1
    (alone,) = run([others[1]])
    assert programs.TRACES["train"] - before == 1
    assert_same_bits(together[3].parameters, alone.parameters)
    assert_same_bits(together[3].head_attention, alone.head_attention)
    assert not np.array_equal(together[1].head_attention[-1], alone.head_attention[-1])
    assert not np.array_equal(together[2].losses, alone.losses)


def test_a_whole_number_for_the_base_trains_the_head_of_the_real_number(rope_result):
    (result,) = run([dataclasses.replace(small_cell(), encoding=Rope(base=10000))])
    assert (result.losses == rope_result.losses).all()


def test_a_store_that_vanishes_is_an_error_of_one_line(rope_result, tmp_path):
    store = StoreWriter(tmp_path / "gone")
    (tmp_path / "gone").rmdir()
    with pytest.raises(FarfieldError, match="cannot write to") as error:
        store.write(rope_result)
    assert "\n" not in str(error.value)
