"""The store: whole cells or none, damage that costs one cell, and many writers at once."""

from __future__ import annotations

import dataclasses
import errno
import os
import subprocess
import sys
import threading
import time
import warnings
from pathlib import Path

import jax
import numpy as np
import pytest
from safetensors.numpy import load_file, save_file

from farfield.engine import scheduler
from farfield.engine.scheduler import run
from farfield.errors import FarfieldError
from farfield.normalizers.softmax import Softmax
from farfield.results.result import ARRAYS, CellResult, content_of
from farfield.store import files
from farfield.store.files import TEMPORARY, machine
from farfield.store.reader import Store
from farfield.store.store import DamagedFile, StoreWriter
from farfield.store.verify import verify
from helpers.made_up import json_of, tensors_of
from helpers.support import cells_of, drawn_head, small_cell, untrained

HOST = machine()


def assert_same(one: CellResult, other: CellResult):
    assert one.cell == other.cell
    assert jax.tree.structure(one.parameters) == jax.tree.structure(other.parameters)
    for a, b in zip(jax.tree.leaves(one.parameters), jax.tree.leaves(other.parameters), strict=True):
        np.testing.assert_array_equal(a, b)
        assert a.dtype == b.dtype
    for name in ARRAYS:
        np.testing.assert_array_equal(getattr(one, name), getattr(other, name))


def named(result: CellResult, seed: int) -> CellResult:
    """The same numbers under another seed's name, for tests that need several cells but no training."""
    return dataclasses.replace(result, cell=dataclasses.replace(result.cell, seed=seed))


@pytest.fixture(scope="module")
def untrained_learned() -> CellResult:
    """A result of another encoding, with parameters of its own."""
    cell = small_cell("learned")
    random = np.random.default_rng(0)
    parameters = jax.tree.map(np.asarray, drawn_head(cell.encoding, cell.vocabulary, cell.model.width, seed=0))
    losses = random.uniform(size=cell.steps).astype(np.float32)
    return dataclasses.replace(untrained(cell), parameters=parameters, losses=losses)


def names(folder: Path) -> set[str]:
    return {path.name for path in folder.iterdir()}


@pytest.mark.parametrize("fixture", ["rope_result", "untrained_learned"])
def test_a_result_is_read_back_as_it_was_written(fixture, request, tmp_path):
    result = request.getfixturevalue(fixture)
    StoreWriter(tmp_path).write(result)
    assert_same(StoreWriter(tmp_path).read(result.cell), result)
    suffixes = sorted(path.suffix for path in tmp_path.iterdir())
    assert suffixes == [".json", ".safetensors"]
    assert all(name.startswith(result.cell.identity) for name in names(tmp_path))


def test_a_diverged_result_is_kept_with_its_losses_that_are_no_numbers(rope_result, tmp_path):
    losses = rope_result.losses.copy()
    losses[-3:] = [np.inf, -np.inf, np.nan]
    result = dataclasses.replace(rope_result, losses=losses)
    store = StoreWriter(tmp_path)
    store.write(result)
    assert_same(store.read(result.cell), result)
    assert store.read(result.cell).diverged


@pytest.mark.parametrize("folder", ["it's", "a [1] *", "räume/und mehr"])
def test_a_folder_may_have_any_name(folder, rope_result, tmp_path):
    store = StoreWriter(tmp_path / folder)
    store.write(rope_result)
    assert_same(store.read(rope_result.cell), rope_result)
    assert len(Store(store.folder).rows("FROM measurements").rows) == len(list(rope_result.measurements()))


def test_an_unknown_or_changed_cell_is_not_mistaken_for_one_that_is_there(rope_result, tmp_path):
    """hydra issue 1407."""
    store = StoreWriter(tmp_path)
    store.write(rope_result)
    for changes in (
        {"seed": 1},
        {"normalizer": Softmax(2.0)},
        {"steps": 401},
        {"lengths": (12, 16)},
        {"sequences": 513},
    ):
        assert store.read(dataclasses.replace(rope_result.cell, **changes)) is None


def cut_in_half(path: Path):
    path.write_bytes(path.read_bytes()[: path.stat().st_size // 2])


def empty(path: Path):
    path.write_bytes(b"")


def garbage(path: Path):
    path.write_bytes(np.random.default_rng(0).bytes(5000))


def one_byte_changed(path: Path):
    content = bytearray(path.read_bytes())
    content[-1] ^= 1
    path.write_bytes(bytes(content))


def without_a_tensor(path: Path):
    tensors = load_file(path)
    del tensors["losses"]
    save_file(tensors, path)


def missing(path: Path):
    path.unlink()


@pytest.mark.parametrize(
    ("kind", "damage"),
    [("json", damage) for damage in (cut_in_half, empty, garbage, one_byte_changed)]
    + [("safetensors", d) for d in (cut_in_half, empty, garbage, one_byte_changed, without_a_tensor, missing)],
)
def test_a_damaged_file_costs_one_warning_that_names_it_and_one_cell_run_again(
    kind, damage, rope_result, tmp_path, monkeypatch
):
    """pytorch-lightning issue 688."""
    store = StoreWriter(tmp_path)
    cells = [small_cell(seed=seed) for seed in range(3)]
    store.write(rope_result)  # seed 0, which will be run again, holds true numbers
    for seed in (1, 2):
        store.write(named(rope_result, seed))
    whole = names(tmp_path)
    (damaged,) = tmp_path.glob(f"{cells[0].identity}*.{kind}")
    damage(damaged)

    rerun = []
    original = scheduler.run_chunk
    monkeypatch.setattr(
        scheduler, "run_chunk", lambda chunk, **given: rerun.extend(cells_of(chunk)) or original(chunk, **given)
    )
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        results = run(cells, StoreWriter(tmp_path))
    assert [warning.category for warning in caught] == [DamagedFile]
    assert str(damaged) in str(caught[0].message)
    assert rerun == [cells[0]]
    for seed, result in enumerate(results):
        assert_same(result, named(rope_result, seed))

    assert names(tmp_path) == whole
    monkeypatch.setattr(scheduler, "run_chunk", lambda *chunk, **given: pytest.fail("nothing is left to run"))
    for seed, result in enumerate(run(cells, StoreWriter(tmp_path))):
        assert_same(result, named(rope_result, seed))


@pytest.mark.parametrize("damage", [cut_in_half, missing])
@pytest.mark.parametrize("kind", ["json", "safetensors"])
def test_a_damaged_cell_that_other_versions_run_again_leaves_nothing_damaged(kind, damage, rope_result, tmp_path):
    """Their files have other names, so that they do not take the place of the damaged ones by themselves."""
    StoreWriter(tmp_path).write(rope_result)
    again = dataclasses.replace(rope_result, losses=rope_result.losses + np.float32(1e-6))
    (damaged,) = tmp_path.glob(f"*.{kind}")
    (other,) = {*tmp_path.iterdir()} - {damaged}
    damage(damaged)
    store = StoreWriter(tmp_path)
    if damaged.exists() or kind == "safetensors":
        with pytest.warns(DamagedFile):
            assert store.read(again.cell) is None
    store.write(again, made_by={"farfield": "2"})
    assert_same(StoreWriter(tmp_path).read(again.cell), again)
    found = verify(tmp_path)
    assert (found.cells, found.sound) == (1, True)
    # Whole tensors that no cell names are left to the user.
    left = [other.name] if kind == "json" else []
    assert [(finding.file, finding.kind) for finding in found.findings] == [(name, "orphan") for name in left]


def test_a_cell_that_another_process_writes_is_found_soon(rope_result, tmp_path):
    store, other = StoreWriter(tmp_path), StoreWriter(tmp_path)
    assert not store.holds(rope_result.cell)
    other.write(rope_result)
    end = time.monotonic() + 5
    while not store.holds(rope_result.cell):
        assert time.monotonic() < end
    assert_same(store.read(rope_result.cell), rope_result)


@pytest.fixture(scope="module")
def dead_process() -> int:
    process = subprocess.Popen([sys.executable, "-c", ""])
    process.wait()
    return process.pid


def test_leftovers_of_dead_processes_are_removed_and_never_read(rope_result, tmp_path, dead_process):
    store = StoreWriter(tmp_path)
    store.write(rope_result)
    (cell,) = tmp_path.glob("*.json")
    dead = tmp_path / f"{cell.name}.{HOST}.{dead_process}{TEMPORARY}"
    alive = tmp_path / f"{cell.name}.{HOST}.{os.getppid()}{TEMPORARY}"
    elsewhere = tmp_path / f"{cell.name}.another-machine.{dead_process}{TEMPORARY}"
    for leftover in (dead, alive, elsewhere):
        leftover.write_bytes(b"half a file")
    rows = Store(tmp_path).rows("FROM measurements").rows
    assert len(rows) == len(list(rope_result.measurements()))
    assert_same(StoreWriter(tmp_path).read(rope_result.cell), rope_result)
    assert not dead.exists()
    assert alive.exists()
    assert elsewhere.exists()


# Tests may run as root, whom no permission bit stops: a file in the way stops everyone.
@pytest.mark.parametrize("below", [".", "deeper"])
def test_a_file_where_the_folder_should_be_is_an_error_that_names_it(below, tmp_path):
    (tmp_path / "taken").write_text("a file")
    with pytest.raises(FarfieldError, match=r"cannot write to .*taken.*choose another folder with --out"):
        StoreWriter(tmp_path / "taken" / below)
    assert (tmp_path / "taken").read_text() == "a file"


def test_a_full_disk_is_an_error_that_leaves_no_part_of_a_cell(rope_result, tmp_path, monkeypatch):
    store = StoreWriter(tmp_path)

    def full(path, content):
        with path.open("wb") as file:
            file.write(content[:10])
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(Path, "write_bytes", full)
    with pytest.raises(FarfieldError, match=r"No space left on device.*kept: once this is mended, run the same"):
        store.write(rope_result)
    assert names(tmp_path) == set()
    assert store.read(rope_result.cell) is None


def test_a_writer_killed_between_its_two_files_leaves_no_cell(rope_result, tmp_path, monkeypatch):
    store = StoreWriter(tmp_path)
    original = files.write_atomically

    def killed(path, fill):
        return original(path, fill) if path.suffix == ".safetensors" else (_ for _ in ()).throw(KeyboardInterrupt)

    monkeypatch.setattr(files, "write_atomically", killed)
    with pytest.raises(KeyboardInterrupt):
        store.write(rope_result)
    assert {path.suffix for path in tmp_path.iterdir()} == {".safetensors"}
    assert store.read(rope_result.cell) is None
    assert store.finished() == frozenset()
    monkeypatch.undo()
    store.write(rope_result)
    assert_same(store.read(rope_result.cell), rope_result)


def test_another_process_writing_the_same_cell_in_the_middle_leaves_one_consistent_pair(
    rope_result, tmp_path, monkeypatch
):
    """The other's last digits differ, so that both its files have other names: every reader takes the same pair."""
    other = dataclasses.replace(rope_result, losses=rope_result.losses + np.float32(1e-6))
    store = StoreWriter(tmp_path)
    flushes = []

    def interrupted(path):
        flushes.append(path)
        if len(flushes) == 1:
            with monkeypatch.context() as patch:
                patch.setattr(os, "getpid", lambda: 99999999)
                StoreWriter(tmp_path).write(other)

    monkeypatch.setattr("farfield.store.files.flush", interrupted)
    store.write(rope_result)
    assert len(list(tmp_path.glob("*.safetensors"))) == len(list(tmp_path.glob("*.json"))) == 2
    assert not list(tmp_path.glob(f"*{TEMPORARY}"))
    monkeypatch.undo()
    first, second = (StoreWriter(tmp_path).read(rope_result.cell) for _ in range(2))
    assert_same(first, second)
    assert_same(first, rope_result if (first.losses == rope_result.losses).all() else other)
    assert StoreWriter(tmp_path).finished() == {rope_result.cell.identity}
    ((seen,),) = Store(tmp_path).rows("SELECT tensors_sha256 FROM cells").rows
    assert seen == content_of(first)
    found = verify(tmp_path)
    assert (found.cells, found.sound, [finding.kind for finding in found.findings]) == (1, True, ["duplicate"])


def test_two_writers_of_one_process_may_write_the_same_cell_at_once(rope_result, tmp_path):
    stores = [StoreWriter(tmp_path), StoreWriter(tmp_path)]
    barrier, errors = threading.Barrier(2), []

    def write(store):
        for _ in range(10):
            barrier.wait()
            try:
                store.write(rope_result)
            except Exception as error:
                errors.append(error)

    threads = [threading.Thread(target=write, args=(store,)) for store in stores]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert errors == []
    assert_same(stores[0].read(rope_result.cell), rope_result)
    assert not list(tmp_path.glob(f"*{TEMPORARY}"))


def test_a_cell_under_another_ones_name_is_not_mistaken_for_it(rope_result, tmp_path):
    """A copied or renamed file, or a hash that is no longer the configuration's."""
    store, other = StoreWriter(tmp_path), named(rope_result, 1)
    store.write(rope_result)
    for path in list(tmp_path.iterdir()):
        path.rename(path.with_name(path.name.replace(rope_result.cell.identity, other.cell.identity)))
    with pytest.warns(DamagedFile):
        assert store.read(other.cell) is None
    with pytest.warns(DamagedFile):
        assert StoreWriter(tmp_path).finished() == frozenset()


def test_finished_names_what_is_there_and_warns_of_damage(rope_result, tmp_path):
    store, results = StoreWriter(tmp_path), [named(rope_result, seed) for seed in range(4)]
    for result in results:
        store.write(result)
    identities = [result.cell.identity for result in results]
    assert store.finished() == set(identities)
    empty(json_of(tmp_path, identities[0]))
    cut_in_half(tensors_of(tmp_path, identities[1]))
    missing(tensors_of(tmp_path, identities[2]))
    with pytest.warns(DamagedFile) as caught:
        assert store.finished() == {identities[3]}
    assert len(caught) == 3


def test_a_failure_is_kept_until_the_cell_is_finished(rope_result, tmp_path):
    store = StoreWriter(tmp_path)
    store.write_failure(rope_result.cell, "out of memory")
    assert names(tmp_path) == {f"{rope_result.cell.identity}.failed.json"}
    assert store.read(rope_result.cell) is None
    store.write(rope_result)
    assert sorted(path.suffix for path in tmp_path.iterdir()) == [".json", ".safetensors"]


WRITER = """
import dataclasses, sys
from pathlib import Path
from helpers.support import small_cell, untrained
from farfield.store.store import Store
store, first = Store(sys.argv[1]), int(sys.argv[2])
result = untrained(small_cell())
for seed in range(first, first + 100):
    store.write(dataclasses.replace(result, cell=dataclasses.replace(result.cell, seed=seed)))
"""


@pytest.mark.slow
def test_four_processes_of_a_hundred_records_leave_four_hundred(tmp_path):
    here = Path(__file__).parents[1]
    writers = [
        subprocess.Popen([sys.executable, "-c", WRITER, str(tmp_path), str(first)], cwd=here)
        for first in range(0, 400, 100)
    ]
    assert [writer.wait() for writer in writers] == [0] * 4
    verified = verify(tmp_path)
    assert (verified.cells, verified.findings) == (400, [])
    assert Store(tmp_path).rows("SELECT COUNT(*), COUNT(DISTINCT seed) FROM cells").rows == [(400, 400)]


@pytest.mark.slow
@pytest.mark.parametrize("size", ["200k", "208k", "216k", "224k", "232k", "240k"])
def test_a_disk_that_fills_up_damages_nothing_and_writing_goes_on_when_there_is_space(size, tmp_path):
    """A small disk of its own; the sizes end within the tensors of a cell or its JSON file."""
    mounted = subprocess.run(["mount", "-t", "tmpfs", "-o", f"size={size}", "tmpfs", tmp_path], capture_output=True)
    if mounted.returncode:
        pytest.skip("only root may mount a disk")
    result = untrained(small_cell(model="head:16"))
    try:
        store, kept = StoreWriter(tmp_path / "store"), 0
        with pytest.raises(FarfieldError, match=r": No space left on device; what is finished is kept"):
            for kept in range(100):
                store.write(named(result, kept))
        assert kept > 2
        found = verify(store.folder)
        assert found.sound, found.findings
        assert found.cells == kept == len(Store(store.folder).rows("FROM cells").rows)
        assert not list(store.folder.rglob(f"*{TEMPORARY}"))
        subprocess.run(["mount", "-o", "remount,size=4m", tmp_path], check=True)
        for seed in range(kept, kept + 5):
            store.write(named(result, seed))
        assert verify(store.folder).findings == []
        for seed in range(kept + 5):
            assert_same(store.read(named(result, seed).cell), named(result, seed))
    finally:
        subprocess.run(["umount", tmp_path], check=True)
