"""Faults of a store: each is named, costs one cell at most, and is never an error of the program."""

from __future__ import annotations

import hashlib
import json
import os
import shutil
from pathlib import Path

import duckdb
import pytest

import farfield as ff
from farfield.errors import FarfieldError
from farfield.identity import DATA_VERSION, identity_of
from farfield.store import files, shards
from farfield.store.reader import OpenStore
from farfield.store.shards import Fault, Shard, read_shards
from farfield.store.status import standing
from farfield.store.store import DamagedFile, Store
from farfield.store.verify import verify
from farfield.study import record
from made_up import put, rewritten
from support import small_cell


def test_verify_names_every_file_that_is_not_what_it_should_be(tmp_path):
    cells = [small_cell(seed=seed) for seed in range(12)]
    ids = [put(tmp_path, cell) for cell in cells]
    sound = verify(tmp_path)
    assert (sound.findings, sound.cells, sound.sound) == ([], 12, True)
    assert sound.files == 24

    def shard(at):
        return tmp_path / f"{ids[at]}.parquet"

    def tensors(at):
        return next(tmp_path.glob(f"{ids[at]}-*"))

    expected = {}
    shard(0).write_bytes(shard(0).read_bytes()[:-100])  # cut off
    expected |= {shard(0).name: "damaged", tensors(0).name: "orphan"}
    tensors(1).write_bytes(tensors(1).read_bytes()[:-1])
    expected[tensors(1).name] = "damaged"
    tensors(2).write_bytes(b"x" * tensors(2).stat().st_size)
    expected[tensors(2).name] = "damaged"
    expected[tensors(3).name] = "damaged"
    tensors(3).unlink()
    expected[tensors(4).name] = "orphan"
    shard(4).unlink()
    copy = tmp_path / f"{'0' * 16}.parquet"
    shutil.copy(shard(5), copy)
    expected[copy.name] = "foreign"
    copy = tmp_path / f"{ids[5]}-{'0' * 12}.safetensors"
    shutil.copy(tensors(5), copy)
    expected[copy.name] = "foreign"
    second = b"the same cell with other last digits"
    copy = tmp_path / shards.tensors_name(ids[6], hashlib.sha256(second).hexdigest())
    copy.write_bytes(second)
    expected[copy.name] = "duplicate"
    rewritten(shard(7), "SELECT * REPLACE (value + 1e-12 AS value) FROM shard")
    expected |= {shard(7).name: "damaged", tensors(7).name: "orphan"}
    rewritten(shard(8), "FROM shard UNION ALL FROM shard")
    expected |= {shard(8).name: "damaged", tensors(8).name: "orphan"}
    rewritten(shard(9), "SELECT * REPLACE (replace(config, '\"steps\": 400', '\"steps\": 401') AS config) FROM shard")
    expected |= {shard(9).name: "foreign", tensors(9).name: "orphan"}
    (tmp_path / "notes.txt").write_text("mine")
    (tmp_path / "deeper").mkdir()
    dead = tmp_path / f"{ids[10]}.parquet.{files.machine()}.{2**22 + 1}-ab{files.TEMPORARY}"
    alive = tmp_path / f"{ids[10]}.parquet.elsewhere.{os.getpid()}-ab{files.TEMPORARY}"
    dead.touch(), alive.touch()
    expected |= {"notes.txt": "unknown", "deeper": "unknown", dead.name: "leftover", alive.name: "writing"}

    before = {path.name: path.stat().st_mtime_ns for path in tmp_path.iterdir()}
    found = verify(tmp_path)
    assert {finding.file: finding.kind for finding in found.findings} == expected
    assert {path.name: path.stat().st_mtime_ns for path in tmp_path.iterdir()} == before, "nothing is touched"
    assert not found.sound
    assert found.cells == 4  # 5, 6, 10 and 11
    harmless = {finding.kind for finding in found.findings if not finding.wrong}
    assert harmless == {"duplicate", "leftover", "orphan", "writing"}
    assert all(finding.what and finding.mend for finding in found.findings)
    json.dumps(found.to_json(), allow_nan=False)


def test_a_folder_of_other_files_is_no_store_to_verify(tmp_path):
    (tmp_path / "notes.txt").write_text("mine")
    with pytest.raises(FarfieldError, match="holds no cells: name a folder that a study"):
        verify(tmp_path)


def test_cells_of_an_older_data_version_are_kept_apart(tmp_path, monkeypatch):
    put(tmp_path, small_cell())
    monkeypatch.setattr("farfield.identity.DATA_VERSION", DATA_VERSION + 1)
    monkeypatch.setattr("farfield.store.verify.DATA_VERSION", DATA_VERSION + 1)
    found = verify(tmp_path)
    assert (found.cells, found.older, found.sound) == (0, 1, True)
    assert [finding.kind for finding in found.findings] == ["older"]


def test_standing_says_how_much_of_the_study_is_there_and_what_belongs_elsewhere(tmp_path):
    cells = [small_cell(seed=seed) for seed in range(4)]
    for cell in [*cells[:3], small_cell("alibi")]:
        put(tmp_path, cell)
    (tmp_path / f"{'0' * 16}.parquet").write_bytes((tmp_path / f"{cells[0].identity}.parquet").read_bytes())
    next(tmp_path.glob(f"{cells[1].identity}-*")).write_bytes(b"")
    study = ff.Study(name="carry", question="Who?", seeds=1, common={"encoding": "rope", "task": "offset:1"})
    record.write(tmp_path, record.Record(study, "quick"), [cell.identity for cell in cells])
    found = standing(tmp_path)
    assert found.asked == ("carry", "quick", 4, 2, 1)
    assert [*found.foreign] == [f"{'0' * 16}.parquet"]
    assert [name[:16] for name in found.damaged] == [cells[1].identity]
    with pytest.warns(DamagedFile) as caught:
        Store(tmp_path).finished()
    assert sorted("remove it" in str(one.message) for one in caught) == [False, True]
    (tmp_path / "study.json").write_text("{}")
    assert standing(tmp_path).asked is None


def test_an_early_stores_shards_are_read(tmp_path):
    """Those written before a shard held its own checksum."""
    identity = put(tmp_path, small_cell())
    query = "SELECT * EXCLUDE (parts, tensors_bytes) REPLACE ('offset' AS task) FROM shard"
    rewritten(tmp_path / f"{identity}.parquet", query)
    put(tmp_path, small_cell(seed=1))
    assert verify(tmp_path).findings == []
    assert OpenStore(tmp_path).rows("SELECT DISTINCT encoding, task FROM cells").rows == [("rope", "offset:2")]


@pytest.mark.parametrize("place", ["", "index", "checkpoints"])
def test_a_link_that_leads_nowhere_is_named_and_stops_nothing(place, tmp_path):
    identity = put(tmp_path, small_cell())
    (tmp_path / place).mkdir(exist_ok=True)
    loop, lost = tmp_path / place / "loop", tmp_path / place / f"{'0' * 16}.parquet"
    loop.symlink_to("loop")
    lost.symlink_to("nowhere")
    assert Store(tmp_path).finished() == {identity}
    assert standing(tmp_path).cells == len(OpenStore(tmp_path).cells()) == 1
    found = {finding.file: finding.what for finding in verify(tmp_path).findings}
    assert lost.relative_to(tmp_path).as_posix() in found
    if not place:
        assert found == dict.fromkeys((loop.name, lost.name), "a link that leads nowhere")


def test_a_pipe_named_as_a_shard_is_named_and_waited_for_by_nobody(tmp_path):
    put(tmp_path, small_cell())
    os.mkfifo(tmp_path / f"{'b' * 16}.parquet")
    assert [finding.kind for finding in verify(tmp_path).findings if finding.wrong] == ["unknown"]
    assert standing(tmp_path).cells == 1


def test_a_loop_in_place_of_the_index_stops_nothing(tmp_path):
    put(tmp_path, small_cell())
    (tmp_path / "index").symlink_to("index")
    assert standing(tmp_path).cells == 1
    assert [finding.file for finding in verify(tmp_path).findings] == ["index"]


@pytest.mark.parametrize(
    "change",
    [
        lambda record: "[" * 100_000,
        lambda record: {},
        lambda record: record | {"identity": "a" * 16},
        lambda record: record | {"config": {}},
        lambda record: record | {"config": {"encoding": {"name": ["rope"]}, "task": {"name": "offset"}}},
        lambda record: record | {"config": record["config"] | {"steps": 401}},
        lambda record: record | {"reason": 3},
        lambda record: [record],
    ],
)
def test_a_record_of_a_failure_that_is_none_is_said_to_be_unreadable(change, tmp_path):
    Store(tmp_path).write_failure(small_cell(), "out of memory")
    (path,) = tmp_path.iterdir()
    assert verify(tmp_path).findings == []
    changed = change(json.loads(path.read_text()))
    path.write_text(changed if isinstance(changed, str) else json.dumps(changed))
    found = standing(tmp_path)
    assert found.failures == {small_cell().identity: "a record that cannot be read"}
    assert [group[:2] for group in found.groups] == [("?", "?")]
    assert [(finding.file, finding.kind) for finding in verify(tmp_path).findings] == [(path.name, "damaged")]


@pytest.mark.parametrize("content", ["{", "[" * 100_000, "[]", '{"study": {}}'])
def test_a_record_of_a_study_that_is_none_is_named(content, tmp_path):
    put(tmp_path, small_cell())
    (tmp_path / "study.json").write_text(content)
    assert [(finding.file, finding.kind) for finding in verify(tmp_path).findings] == [("study.json", "damaged")]
    with pytest.raises(FarfieldError, match="the next run of the study writes it anew"):
        record.read(tmp_path)


def test_a_record_whose_hash_fits_and_that_names_no_encoding_is_unreadable(tmp_path):
    identity = identity_of({})
    record = {"identity": identity, "reason": "none", "config": {}}
    (tmp_path / f"{identity}.failed.json").write_text(json.dumps(record))
    assert [group[:2] for group in standing(tmp_path).groups] == [("?", "?")]


def test_no_memory_is_not_taken_for_damage(tmp_path, monkeypatch):
    path = tmp_path / f"{put(tmp_path, small_cell())}.parquet"
    monkeypatch.setattr(shards, "_rows", lambda paths: (_ for _ in ()).throw(duckdb.OutOfMemoryException("none")))
    with pytest.raises(duckdb.OutOfMemoryException):
        one_of(path)


# Changed bytes


def flipped(content: bytes, at: int) -> bytes:
    """With one bit of one byte changed."""
    return content[:at] + bytes([content[at] ^ 1 << at % 8]) + content[at + 1 :]


def test_any_changed_byte_of_a_shard_is_found(tmp_path):
    path = tmp_path / f"{put(tmp_path, small_cell())}.parquet"
    content = path.read_bytes()
    assert isinstance(one_of(path), Shard)
    for at in range(0, len(content), 15):
        path.write_bytes(flipped(content, at))
        assert one_of(path)[0] == "damaged", at
    # Of the place of the hash itself, each one.
    for at in range(start := content.index(b"farfield_sha256") - 2, start + 15 + 4 + 64):
        path.write_bytes(flipped(content, at))
        assert one_of(path)[0] == "damaged", at


def one_of(path: Path) -> Shard | Fault:
    ((_, found),) = read_shards([path])
    return found


def said_by(path: Path) -> str:
    """Checksum of what a whole shard says."""
    shard = one_of(path)
    assert isinstance(shard, Shard)
    return shards._checksum(shard)


def as_early(path: Path, columns: str = "*") -> None:
    """Replace a shard by one that holds a checksum of what it says, not of its bytes."""
    rewritten(path, f"SELECT {columns}, '{said_by(path)}' AS content_sha256 FROM shard")


def test_a_changed_byte_of_an_early_shard_is_found_or_changes_nothing(tmp_path):
    path = tmp_path / f"{put(tmp_path, small_cell())}.parquet"
    as_early(path)
    content, checksum = path.read_bytes(), said_by(path)
    for at in range(0, len(content), len(content) // 40):
        path.write_bytes(flipped(content, at))
        assert isinstance(one_of(path), Fault) or said_by(path) == checksum


@pytest.mark.parametrize("column", ["identity", "encoding", "tensors_sha256", "probe"])
def test_a_text_that_is_none_any_more_is_damage(column, tmp_path):
    path = tmp_path / f"{put(tmp_path, small_cell())}.parquet"
    as_early(path, f"* REPLACE ({column}::BLOB AS {column})")
    assert one_of(path)[0] in ("damaged", "foreign")
    rewritten(path, "SELECT * EXCLUDE (content_sha256, parts, tensors_bytes) FROM shard")  # as the earliest
    assert one_of(path)[0] in ("damaged", "foreign")
    with pytest.warns(DamagedFile):
        assert Store(tmp_path).finished() == frozenset()
