"""Engines and what a run makes of their failures: retried, halved, told of, ended at once."""

from __future__ import annotations

import dataclasses
import hashlib
import pickle
import threading
import time
from concurrent.futures import BrokenExecutor, CancelledError, Executor, Future
from typing import Any

import jax
import numpy as np
import pytest
from safetensors.numpy import save

from farfield.cli import progress as lines
from farfield.engine import base, programs, scheduler
from farfield.engine.base import Engine
from farfield.engine.open import open_engine
from farfield.engine.programs import Trained
from farfield.engine.scheduler import Made, complete, run
from farfield.errors import EngineError, FarfieldError, ListedError
from farfield.models.head import Head
from farfield.results.result import CellResult
from farfield.store.checkpoints import Checkpoints
from farfield.store.reader import Store
from farfield.store.store import StoreWriter
from farfield.store.verify import verify
from farfield.training import Run
from helpers.support import assert_same_bits, cells_of, small_cell, untrained

LANES = Head.lanes
CELLS = [small_cell(seed=seed) for seed in range(2 * LANES)]


@pytest.fixture(scope="module")
def made() -> CellResult:
    """A result, whatever it says."""
    return untrained(small_cell())


class Heard:
    """What a run tells of its progress."""

    def __init__(self):
        self.trained, self.done, self.said = 0.0, 0, []

    def start(self, total, stored):
        pass

    def train(self, cells):
        self.trained += cells

    def advance(self):
        self.done += 1

    def say(self, text):
        self.said.append(text)

    def finish(self):
        pass


class AtOnce(Executor):
    """Runs each chunk as it is submitted, by a function of its cells' seeds and lanes that returns or raises."""

    def __init__(self, outcome, result):
        self.outcome, self.result, self.tried = outcome, result, []

    def submit(self, fn, /, chunk, *, lanes, keeper):  # pyright: ignore[reportIncompatibleMethodOverride]
        cells, future = cells_of(chunk), Future()
        self.tried.append(([cell.seed for cell in cells], lanes))
        try:
            self.outcome([cell.seed for cell in cells], lanes)
        except Exception as reason:
            future.set_exception(reason)
        else:
            results = [dataclasses.replace(self.result, cell=cell) for cell in cells]
            future.set_result(Made(results, {"farfield": "elsewhere"}))
        return future


def completed(outcome, result, cells=CELLS, store=None, **settings: Any):
    executor, heard, kept = AtOnce(outcome, result), Heard(), []
    found = complete(cells, frozenset(), store, Engine(executor, lambda: 2, **settings), heard, kept.append)
    return found, executor.tried, heard, [result.cell.seed for result in kept]


def test_the_chunk_whose_workers_die_is_halved_and_no_other_is_blamed(made):
    def outcome(seeds, lanes):
        if 0 in seeds and lanes > 1:
            raise BrokenExecutor("a worker died")

    found, tried, heard, kept = completed(outcome, made)
    assert sorted(kept) == list(range(8)) and found.failures == ()
    assert tried.count(([0, 1, 2, 3], 4)) == scheduler.MOST_DEATHS == tried.count(([0, 1], 2))
    assert tried.count(([4, 5, 6, 7], 4)) == tried.count(([0], 1)) == tried.count(([2, 3], 2)) == 1
    assert len(heard.said) == 2 and all("3 workers died over it" in text for text in heard.said)
    assert heard.trained == pytest.approx(8) and heard.done == 8


def test_a_chunk_that_fails_costs_its_own_cells_and_is_told_of(made, tmp_path):
    def outcome(seeds, lanes):
        if 5 in seeds:
            raise scheduler.ChunkError("ValueError: a mistake")

    found, _, heard, kept = completed(outcome, made, store=StoreWriter(tmp_path))
    assert kept == [0, 1, 2, 3]
    assert [(failure.cell.seed, failure.reason) for failure in found.failures] == [
        (seed, "ValueError: a mistake") for seed in (4, 5, 6, 7)
    ]
    assert heard.trained == pytest.approx(8)
    assert verify(tmp_path).cells == 4


def test_a_chunk_that_cannot_be_sent_ends_the_run(made):
    def outcome(seeds, lanes):
        raise ModuleNotFoundError("No module named 'farfield'")

    with pytest.raises(EngineError, match=r"cannot run there: ModuleNotFoundError.*installed there"):
        completed(outcome, made)


def test_a_lost_engine_ends_the_run_with_what_came_before_it_kept(made, tmp_path):
    def outcome(seeds, lanes):
        if 0 in seeds:
            raise CancelledError

    def check():
        raise EngineError("lost the scheduler")

    with pytest.raises(EngineError, match="lost the scheduler"):
        completed(outcome, made, store=StoreWriter(tmp_path), check=check)
    assert verify(tmp_path).cells == 4  # the second chunk was finished beside the first


def test_an_engine_that_says_it_is_lost_ends_the_run(made):
    def outcome(seeds, lanes):
        raise EngineError("no worker is left")

    with pytest.raises(EngineError, match="no worker is left"):
        completed(outcome, made)


def test_training_that_is_done_again_is_told_of_once(made, monkeypatch):
    def run_chunk(chunk, progress, *, lanes, **_):
        cells = cells_of(chunk)
        progress(len(cells) / 2)
        if lanes > 1:
            told.wait(10)
            raise MemoryError
        progress(len(cells) / 2)
        return [dataclasses.replace(made, cell=cell) for cell in cells]

    class Hearing(Heard):
        def train(self, cells):
            super().train(cells)
            shares.append(self.trained)
            told.set()

    told, shares, heard = threading.Event(), [], Hearing()
    monkeypatch.setattr(scheduler, "run_chunk", run_chunk)
    run(CELLS[:LANES], progress=heard, workers=1)
    assert shares[0] == LANES / 2
    assert heard.trained == pytest.approx(LANES)
    assert shares == sorted(shares)


def test_an_executor_that_is_broken_for_good_is_said_in_a_line(made):
    class Broken(AtOnce):
        def submit(self, fn, /, *_, **__):
            raise BrokenExecutor("the pool is not usable anymore")

    with pytest.raises(EngineError, match="not usable anymore; what is finished is kept"):
        complete(CELLS, frozenset(), None, Engine(Broken(None, made), lambda: 2))


def test_versions_of_who_made_a_result_are_stored_with_it(made, tmp_path):
    completed(lambda seeds, lanes: None, made, CELLS[:1], StoreWriter(tmp_path))
    assert Store(tmp_path).rows("SELECT versions FROM cells").rows == [('{"farfield": "elsewhere"}',)]


def test_what_another_process_stored_meanwhile_is_taken_from_it(made, tmp_path):
    def outcome(seeds, lanes):
        if 0 in seeds:  # while this runs, another stores part of it and all of the next
            for seed in (1, *range(4, 8)):
                StoreWriter(tmp_path).write(dataclasses.replace(made, cell=CELLS[seed]))

    executor, heard = AtOnce(outcome, made), Heard()
    complete(CELLS, frozenset(), StoreWriter(tmp_path), Engine(executor, lambda: 1), heard)
    assert executor.tried == [([0, 1, 2, 3], 4)]
    assert (heard.done, heard.trained) == (8, pytest.approx(8))
    assert verify(tmp_path).findings == [] and verify(tmp_path).cells == 8
    ours = Store(tmp_path).rows("SELECT seed FROM cells WHERE versions LIKE '%elsewhere%' ORDER BY seed").rows
    assert ours == [(0,), (2,), (3,)]


def test_a_store_that_cannot_be_written_ends_the_run_at_once_while_chunks_run(made, tmp_path, monkeypatch):
    started, given_up = threading.Event(), threading.Event()

    def run_chunk(chunk, progress, **_):
        if cells_of(chunk)[0].seed == 0:
            started.wait(60)
            return [dataclasses.replace(made, cell=cell) for cell in cells_of(chunk)]
        started.set()
        try:
            for _ in range(6000):  # a minute
                time.sleep(0.01)
                progress(1e-6)
        except Exception:
            given_up.set()
            raise

    def full(*_):
        raise FarfieldError("No space left on device")

    monkeypatch.setattr(scheduler, "run_chunk", run_chunk)
    monkeypatch.setattr(StoreWriter, "write", full)
    before = time.monotonic()
    with pytest.raises(FarfieldError, match="No space left"):
        run(CELLS, StoreWriter(tmp_path), workers=2)
    assert given_up.wait(10)
    assert time.monotonic() - before < 20
    while base.busy():  # the thread ends, and with it what Python would wait for
        assert time.monotonic() - before < 30
        time.sleep(0.01)


@pytest.mark.parametrize(
    ("reason", "kind", "text"),
    [
        (jax.errors.JaxRuntimeError("RESOURCE_EXHAUSTED: 1 GB"), MemoryError, "RESOURCE_EXHAUSTED: 1 GB"),
        (MemoryError("none left"), MemoryError, "none left"),
        (ListedError(["one", "two"]), FarfieldError, "one two"),
        (UnicodeDecodeError("utf-8", b"", 0, 1, "why"), scheduler.ChunkError, "UnicodeDecodeError: 'utf-8' codec"),
    ],
)
def test_errors_elsewhere_can_be_sent_here(reason, kind, text, monkeypatch):
    def fail(chunk, **_):
        raise reason

    monkeypatch.setattr(scheduler, "run_chunk", fail)
    monkeypatch.setattr(scheduler, "forget_programs", lambda: None)
    with pytest.raises(kind) as caught:
        scheduler.run_elsewhere([[CELLS[0]]], 4, None)
    arrived = pickle.loads(pickle.dumps(caught.value))
    assert type(arrived) is kind and str(arrived).startswith(text)


@pytest.mark.parametrize("reason", [MemoryError("x"), jax.errors.JaxRuntimeError("RESOURCE_EXHAUSTED: x")])
def test_a_chunk_out_of_memory_goes_on_in_halves_and_is_told_of(reason, made):
    def outcome(seeds, lanes):
        if lanes > 2:
            raise reason

    found, tried, heard, kept = completed(outcome, made)
    assert (found.failures, sorted(kept), heard.trained) == ((), list(range(8)), pytest.approx(8))
    assert sorted(lanes for _, lanes in tried) == [2, 2, 2, 2, 4, 4]
    assert [text.partition(" with ")[0] for text in heard.said] == ["out of memory"] * 2


def test_a_single_model_out_of_memory_runs_once_more_and_then_fails(made):
    def outcome(seeds, lanes):
        if lanes > 1 or (0 in seeds and tries.append(1) is None and len(tries) < 2) or 5 in seeds:
            raise MemoryError("x")

    tries = []
    found, tried, _, kept = completed(outcome, made)
    assert sorted(kept) == [0, 1, 2, 3, 4, 6, 7]
    assert tried.count(([0], 1)) == tried.count(([5], 1)) == 2
    (failure,) = found.failures
    # The executor of this test takes one chunk at a time: fewer workers are no mend.
    assert failure.reason.endswith("make one of them smaller")


def test_a_diverged_seed_is_kept_as_such_and_the_others_are_as_without_it(rope_result):
    diverging = small_cell(seed=1, learning_rate=1e30)
    found = run([small_cell(), diverging])
    assert [result.diverged for result in found] == [False, True]
    assert_same_bits(found[0].parameters, rope_result.parameters)


def test_a_checkpoint_is_read_whole_and_by_its_own_cell_alone_and_goes_when_that_is_stored(made, tmp_path):
    cell, other = (small_cell(seed=seed, steps=9, snapshots=(0, 5)) for seed in (0, 1))
    keeper, folder = Checkpoints(tmp_path), tmp_path / "checkpoints"

    def state(step: int) -> Trained:
        run = Run({"w": np.full((1, 2), step, np.float32)}, (np.zeros(1),), np.arange(9, dtype=np.float32))
        return Trained(run, [run.parameters] * sum(kept <= step for kept in cell.snapshots))

    def reached(of: Any = cell) -> int | None:
        found = keeper.load(of, state(9))
        if found is not None:
            assert_same_bits(found[1], state(found[0]))
        return None if found is None else found[0]

    assert reached() is None
    for step in (3, 6):
        keeper.save(cell, step, state(step))
        assert reached() == step
    (latest,) = folder.iterdir()
    assert verify(tmp_path).findings == []
    content = latest.read_bytes()

    name = f"{other.as_trained().identity}-{latest.name[17:]}"
    (folder / name).write_bytes(content)  # renamed
    assert (reached(other), reached()) == (None, 6)
    (folder / name).unlink()
    changed = content[:-20] + bytes([content[-20] ^ 1]) + content[-19:]  # a number, before the 16 signs of the cell
    for damaged in (content[:-1], changed, b""):
        latest.write_bytes(damaged)
        assert reached() is None
        assert [(found.file, found.kind) for found in verify(tmp_path).findings] == [
            (f"checkpoints/{latest.name}", "damaged")
        ]
    own = np.frombuffer(latest.name[:16].encode(), np.uint8)
    for foreign in ({"step": np.zeros(2)}, {"step": np.array(3)}, {"step": np.array(9)}, {}):
        whole = save({"cell": own, **foreign, "0": np.ones(3)})
        (folder / f"{latest.name[:17]}{hashlib.sha256(whole).hexdigest()[:12]}.safetensors").write_bytes(whole)
        assert reached() is None
    keeper.save(cell, 9, state(9))  # no step to go on from
    assert reached() is None
    keeper.save(other, 3, state(3))
    with open_engine("local") as threads:  # a stop came between storing the cell and forgetting its way
        complete([cell], {cell}, StoreWriter(tmp_path), threads)
    assert (reached(), reached(other)) == (None, 3)
    keeper.remove([other])
    assert not folder.exists()
    keeper = Checkpoints(tmp_path / "elsewhere")  # as on a worker that does not see the folder
    keeper.save(cell, 3, state(3))
    assert reached() is None and not keeper.folder.exists()


class StopError(Exception):
    """Ends a training in its middle."""


@pytest.mark.slow
def test_fifty_steps_and_fifty_more_after_a_stop_equal_a_hundred(tmp_path, monkeypatch):
    monkeypatch.setattr(programs, "STRETCH", 50)
    cell = small_cell(
        "rope", "offset:1", model="transformer:layers=1,heads=1,width=8", steps=100, batch=4, sequences=8,
        lengths=(2,), shortest=2, longest=2, snapshots=(0, 30, 60),
    )  # fmt: skip
    store, executed = StoreWriter(tmp_path), []
    keeper = Checkpoints(tmp_path)
    ((undisturbed,),) = [programs.run_chunk([[cell]])]

    def stop(cells):
        executed.append(cells)
        if sum(executed) >= 0.6 - 1e-9:
            raise StopError

    with pytest.raises(StopError):
        programs.run_chunk([[cell]], stop, keeper=keeper)
    (kept,) = (tmp_path / "checkpoints").iterdir()  # of step 50, for the stop came before that of 60 was kept
    assert verify(tmp_path).findings == []
    whole = kept.read_bytes()

    def resumed() -> list[float]:
        shares = []
        (result,) = programs.run_chunk([[cell]], shares.append, keeper=keeper)
        assert_same_bits(result.parameters, undisturbed.parameters)
        assert_same_bits(result.snapshots, undisturbed.snapshots)
        assert (result.losses == undisturbed.losses).all() and len(set(result.losses.tolist())) > 50
        return shares

    assert resumed()[0] == 0.5

    # Damaged, or another cell's under this name: it begins anew, and `verify` names what is damaged.
    (latest,) = (tmp_path / "checkpoints").iterdir()
    latest.unlink()
    damaged = bytearray(whole)
    damaged[-1] ^= 1
    kept.write_bytes(damaged)
    assert [(found.file, found.kind) for found in verify(tmp_path).findings] == [
        (f"checkpoints/{kept.name}", "damaged")
    ]
    assert resumed()[0] == 0.3
    for path in (tmp_path / "checkpoints").iterdir():
        path.unlink()
    name = dataclasses.replace(cell, seed=1).as_trained().identity
    kept.with_name(kept.name.replace(kept.name[:16], name)).write_bytes(whole)
    (other,) = programs.run_chunk([[dataclasses.replace(cell, seed=1)]], keeper=keeper)
    assert not np.array_equal(other.losses[:50], undisturbed.losses[:50])

    # Once the cell is stored, they are gone, and so is one that a stop left behind after the cell was stored.
    assert (tmp_path / "checkpoints").exists()
    store.write(undisturbed)
    with open_engine("local") as threads:
        complete([cell], {cell}, store, threads)
    assert [path.name for path in (tmp_path / "checkpoints").glob(f"{cell.as_trained().identity}*")] == []


def test_no_time_left_is_told_while_most_programs_are_still_to_compile(monkeypatch, capsys):
    """A paper in its smallest budget: two thirds are trained in 17 s, and compiling the rest takes four minutes."""
    now = [0.0]
    monkeypatch.setattr(lines.time, "monotonic", lambda: now[0])
    told = lines.Lines()
    told.start(16, 0)
    for at, trained, finished in ((17, 10.4, 2), (33, 0.1, 1), (49, 0.5, 1), (65, 0.5, 1)):
        now[0] = at
        told.train(trained)
        for _ in range(finished):
            told.advance()
    assert capsys.readouterr().err.splitlines() == [
        "farfield: training 16 models",
        "farfield: 0 of 16 done, 65% of the training, after 17 s",
        "farfield: 2 of 16 done, 66% of the training, after 33 s",
        "farfield: 3 of 16 done, 69% of the training, after 49 s",
        "farfield: 4 of 16 done, 72% of the training, after 65 s, 11 models/min, about 3 min 15 s left",
    ]


def test_a_restart_counts_models_and_training_alike(monkeypatch, capsys):
    now = [0.0]
    monkeypatch.setattr(lines.time, "monotonic", lambda: now[0])
    told = lines.Lines()
    told.start(16, 4)
    now[0] = 20
    told.train(0.8)
    assert "4 of 16 done, 30% of the training, after 20 s" in capsys.readouterr().err


def test_plain_lines_tell_cells_rate_and_time_left(monkeypatch, capsys):
    now = [100.0]
    monkeypatch.setattr(lines.time, "monotonic", lambda: now[0])
    told = lines.Lines()
    told.start(210, 10)
    now[0] += 20
    told.train(50.0)
    now[0] += 5
    told.train(0.5)  # too soon for another line
    for _ in range(3):
        told.train(0.5)
        for _ in range(16):
            told.advance()
    now[0] += 15
    told.train(0.5)
    for _ in range(152):
        told.advance()
    now[0] += 160
    told.finish()
    assert capsys.readouterr().err.splitlines() == [
        "farfield: training 210 models, 10 of them finished before",
        "farfield: 10 of 210 done, 29% of the training, after 20 s",
        "farfield: 58 of 210 done, 30% of the training, after 40 s, 1.3 models/s, about 2 min 07 s left",
        "farfield: 210 of 210 done after 3 min 20 s, 1 models/s",
    ]
    assert [lines.rate(1, 30), lines.rate(1, 7200), lines.rate(0, 5), lines.duration(10000)] == [
        "2 models/min", "0.5 models/h", "", "2.8 h",
    ]  # fmt: skip
