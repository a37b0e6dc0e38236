"""Faults of a store: each is named, costs one cell at most, and is never an error of the program."""

from __future__ import annotations

import json
import os
import shutil

import pytest

import farfield as ff
from farfield.errors import FarfieldError
from farfield.identity import DATA_VERSION, identity_of
from farfield.store import cell_file, files
from farfield.store.cell_file import Fault, StoredCell, read
from farfield.store.reader import Store
from farfield.store.status import status
from farfield.store.store import DamagedFile, StoreWriter
from farfield.store.verify import verify
from farfield.study import record
from helpers.made_up import json_name, json_of, put, rewritten, tensors_of
from helpers.support import small_cell


def test_verify_names_every_file_that_is_not_what_it_should_be(tmp_path):
    cells = [small_cell(seed=seed) for seed in range(12)]
    ids = [put(tmp_path, cell) for cell in cells]
    sound = verify(tmp_path)
    assert (sound.findings, sound.cells, sound.sound) == ([], 12, True)
    assert sound.files == 24

    def cell(at):
        return json_of(tmp_path, ids[at])

    def tensors(at):
        return tensors_of(tmp_path, ids[at])

    expected = {}
    cell(0).write_bytes(cell(0).read_bytes()[:-100])  # cut off
    expected |= {cell(0).name: "damaged", tensors(0).name: "orphan"}
    tensors(1).write_bytes(tensors(1).read_bytes()[:-1])
    expected[tensors(1).name] = "damaged"
    tensors(2).write_bytes(b"x" * tensors(2).stat().st_size)
    expected[tensors(2).name] = "damaged"
    expected[tensors(3).name] = "damaged"
    tensors(3).unlink()
    expected[tensors(4).name] = "orphan"
    cell(4).unlink()
    copy = tmp_path / f"{'0' * 16}{cell(5).name[16:]}"
    shutil.copy(cell(5), copy)
    expected[copy.name] = "foreign"
    copy = tmp_path / f"{ids[5]}-{'0' * 12}.safetensors"
    shutil.copy(tensors(5), copy)
    expected[copy.name] = "foreign"
    first = {path.name for path in tmp_path.glob(f"{ids[6]}-*")}
    put(tmp_path, cells[6], tensors=b"the same cell with other last digits", final_loss=0.1)
    second = {path.name for path in tmp_path.glob(f"{ids[6]}-*")} - first
    expected[max(path for path in first | second if path.endswith(".json"))] = "duplicate"
    cell(7).rename(renamed := cell(7).with_name(f"{ids[7]}-{'0' * 12}.json"))
    expected |= {renamed.name: "damaged", tensors(7).name: "orphan"}
    unread = rewritten(cell(8), measurements=[])
    expected |= {unread.name: "damaged", tensors(8).name: "orphan"}
    changed = rewritten(cell(9), config=json.loads(cell(9).read_text())["config"] | {"steps": 401})
    expected |= {changed.name: "foreign", tensors(9).name: "orphan"}
    (tmp_path / "notes.txt").write_text("mine")
    (tmp_path / "deeper").mkdir()
    dead = tmp_path / f"{cell(10).name}.{files.machine()}.{2**22 + 1}-ab{files.TEMPORARY}"
    alive = tmp_path / f"{cell(10).name}.elsewhere.{os.getpid()}-ab{files.TEMPORARY}"
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
    identity = put(tmp_path, small_cell())
    for module in ("verify", "status", "reader"):
        monkeypatch.setattr(f"farfield.store.{module}.DATA_VERSION", DATA_VERSION + 1)
    found = verify(tmp_path)
    assert (found.cells, found.older, found.sound) == (0, 1, True)
    assert [finding.kind for finding in found.findings] == ["older"]
    assert status(tmp_path).older == 1
    store = Store(tmp_path)
    assert store.rows("SELECT identity, data_version FROM cells").rows == [(identity, DATA_VERSION)]
    assert store.scores() == []
    with pytest.warns(UserWarning, match=f"made under data version {DATA_VERSION}: left out"):
        assert list(store.results()) == []


def test_standing_says_how_much_of_the_study_is_there_and_what_belongs_elsewhere(tmp_path):
    cells = [small_cell(seed=seed) for seed in range(4)]
    for cell in [*cells[:3], small_cell("alibi")]:
        put(tmp_path, cell)
    whole = json_of(tmp_path, cells[0].identity)
    copy = shutil.copy(whole, tmp_path / f"{'0' * 16}{whole.name[16:]}")
    tensors_of(tmp_path, cells[1].identity).write_bytes(b"")
    study = ff.Study(name="carry", question="Who?", seeds=1, common={"encoding": "rope", "task": "offset:1"})
    record.write(tmp_path, record.Record(study, "quick"), [cell.identity for cell in cells])
    found = status(tmp_path)
    assert found.asked == ("carry", "quick", 4, 2, 1)
    assert [*found.foreign] == [copy.name]
    assert [name[:16] for name in found.damaged] == [cells[1].identity]
    with pytest.warns(DamagedFile) as caught:
        StoreWriter(tmp_path).finished()
    assert sorted("remove it" in str(one.message) for one in caught) == [False, True]
    (tmp_path / "study.json").write_text("{}")
    assert status(tmp_path).asked is None


@pytest.mark.parametrize("place", ["", "checkpoints"])
def test_a_link_that_leads_nowhere_is_named_and_stops_nothing(place, tmp_path):
    identity = put(tmp_path, small_cell())
    (tmp_path / place).mkdir(exist_ok=True)
    loop, lost = tmp_path / place / "loop", tmp_path / place / f"{'0' * 16}-{'0' * 12}.json"
    loop.symlink_to("loop")
    lost.symlink_to("nowhere")
    assert StoreWriter(tmp_path).finished() == {identity}
    assert status(tmp_path).cells == len(Store(tmp_path).cells()) == 1
    found = {finding.file: finding.what for finding in verify(tmp_path).findings}
    assert lost.relative_to(tmp_path).as_posix() in found
    if not place:
        assert found == dict.fromkeys((loop.name, lost.name), "a link that leads nowhere")


def test_a_pipe_named_as_a_cell_is_named_and_waited_for_by_nobody(tmp_path):
    put(tmp_path, small_cell())
    os.mkfifo(tmp_path / f"{'b' * 16}-{'b' * 12}.json")
    assert [finding.kind for finding in verify(tmp_path).findings if finding.wrong] == ["unknown"]
    assert status(tmp_path).cells == 1


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
    StoreWriter(tmp_path).write_failure(small_cell(), "out of memory")
    (path,) = tmp_path.iterdir()
    assert verify(tmp_path).findings == []
    changed = change(json.loads(path.read_text()))
    path.write_text(changed if isinstance(changed, str) else json.dumps(changed))
    found = status(tmp_path)
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
    assert [group[:2] for group in status(tmp_path).groups] == [("?", "?")]


@pytest.mark.parametrize(
    "changes",
    [
        {"identity": 3},
        {"data_version": "old"},
        {"config": 3},
        {"config": {}, "identity": None},
        {"parts": []},
        {"measurements": {"by_length": {}}},
        {"measurements": {"by_length": {"accuracy": {"twelve": 1.0}}, "single": {}}},
        {"measurements": {"by_length": {"accuracy": {"12": "much"}}, "single": {}}},
        {"measurements": {"by_length": {"accuracy": 3}, "single": {}}},
        {"measurements": {"by_length": {}, "single": {"head": [1]}}},
        {"versions": None},
        {"tensors": {}},
        {"tensors": {"file": "../../secret", "sha256": "0" * 64, "bytes": 1}},
    ],
)
def test_a_file_whose_name_fits_and_that_holds_no_cell_is_named(changes, tmp_path):
    path = rewritten(json_of(tmp_path, put(tmp_path, small_cell())), **changes)
    assert read(path) == Fault("damaged", "does not hold a cell that can be read")
    assert [*status(tmp_path).damaged] == [path.name]
    with pytest.warns(DamagedFile):
        assert StoreWriter(tmp_path).finished() == frozenset()


@pytest.mark.parametrize("content", [b"", b"[" * 100_000, b"[]", b"{}", b"null", b"\xff\xfe", b'{"identity": 1e999}'])
def test_a_file_whose_name_fits_and_that_is_not_json_of_a_cell_is_named(content, tmp_path):
    path = tmp_path / json_name("a" * 16, content)
    path.write_bytes(content)
    assert read(path) == Fault("damaged", "does not hold a cell that can be read")
    assert [finding.file for finding in verify(tmp_path).findings] == [path.name]


def test_of_two_results_of_a_cell_all_readers_take_the_one_whose_tensors_are_there(tmp_path):
    """Whichever of the two names comes first."""
    identity = put(tmp_path, small_cell(), tensors=b"one", final_loss=0.1)
    put(tmp_path, small_cell(), tensors=b"another", final_loss=0.2)
    names = sorted(path.name for path in tmp_path.glob("*.json"))
    losses = {name: json.loads((tmp_path / name).read_text())["measurements"]["single"]["final_loss"] for name in names}

    def loss_seen() -> float:
        query = "SELECT value FROM measurements WHERE probe = 'final_loss'"
        ((loss,),) = Store(tmp_path).rows(query).rows
        return loss

    assert loss_seen() == losses[names[0]]
    assert [finding.file for finding in verify(tmp_path).findings] == [names[1]]
    (tmp_path / json.loads((tmp_path / names[0]).read_text())["tensors"]["file"]).unlink()
    assert loss_seen() == losses[names[1]]
    assert StoreWriter(tmp_path).finished() == {identity}
    assert not verify(tmp_path).sound


# Changed bytes


def flipped(content: bytes, at: int) -> bytes:
    """With one bit of one byte changed."""
    return content[:at] + bytes([content[at] ^ 1 << at % 8]) + content[at + 1 :]


def test_every_changed_byte_of_a_cells_two_files_is_found(tmp_path):
    identity = put(tmp_path, small_cell())
    path, tensors = json_of(tmp_path, identity), tensors_of(tmp_path, identity)
    cell = read(path)
    assert isinstance(cell, StoredCell)
    content = path.read_bytes()
    for at in range(len(content)):
        path.write_bytes(flipped(content, at))
        assert read(path) == Fault("damaged", "holds other bytes than were written"), at
    path.write_bytes(content)
    content = tensors.read_bytes()
    for at in range(len(content)):
        tensors.write_bytes(flipped(content, at))
        assert cell_file.read_tensors(tmp_path, cell.tensors) is None, at
        assert [(finding.file, finding.kind) for finding in verify(tmp_path).findings] == [(tensors.name, "damaged")]
    tensors.write_bytes(content)
    assert verify(tmp_path).findings == []


def test_every_place_at_which_a_cells_two_files_may_be_cut_off_is_found(tmp_path):
    identity = put(tmp_path, small_cell())
    for path in (json_of(tmp_path, identity), tensors_of(tmp_path, identity)):
        content = path.read_bytes()
        for length in range(0, len(content), 7):
            path.write_bytes(content[:length])
            found = verify(tmp_path)
            assert path.name in {finding.file for finding in found.findings if finding.kind == "damaged"}
            assert found.cells == 0
        path.write_bytes(content)
    assert verify(tmp_path).findings == []


def test_every_changed_sign_of_a_name_is_found(tmp_path):
    identity = put(tmp_path, small_cell())
    for path in (json_of(tmp_path, identity), tensors_of(tmp_path, identity)):
        for at, sign in enumerate(path.name):
            path.rename(renamed := path.with_name(path.name[:at] + ("1" if sign == "0" else "0") + path.name[at + 1 :]))
            found = verify(tmp_path)
            assert found.cells == 0
            assert renamed.name in {finding.file for finding in found.findings}
            renamed.rename(path)
    assert verify(tmp_path).findings == []
