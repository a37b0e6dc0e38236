"""Reading a store: measurements, queries, the index that only saves time, exports, and every fault named."""

from __future__ import annotations

import dataclasses
import hashlib
import json
import os
import shutil
import subprocess
import sys
import threading
import time
from pathlib import Path

import duckdb
import numpy as np
import pytest
from scipy.io import netcdf_file

import farfield as ff
from farfield.cli import main
from farfield.errors import FarfieldError
from farfield.studies import index, record, shards
from farfield.studies.cells import Cell
from farfield.studies.exporting import export
from farfield.studies.identity import DATA_VERSION, identity_of
from farfield.studies.query import OpenStore
from farfield.studies.standing import standing
from farfield.studies.store import DamagedShard, Store
from farfield.studies.verifying import verify
from support import SPECS, name_of, small_cell, untrained

LENGTHS = (12, 16, 24, 48)


def measured(seed: int, lengths=LENGTHS, final_loss: float = 0.5):
    """What a cell might measure."""
    random = np.random.default_rng(seed)
    found = [
        (probe, length, float(value))
        for probe in ("accuracy", "sequence_accuracy", "peak_height")
        for length, value in zip(lengths, random.uniform(size=len(lengths)), strict=True)
    ]
    found += [("chance", length, 0.05) for length in lengths]
    return [*found, ("final_loss", None, final_loss), ("margin", None, float(random.normal()))]


def put(folder: Path, cell: Cell, *, tensors: bytes | None = None, config=None, **more) -> str:
    """Write a cell's two files without training it; returns its identity."""
    folder.mkdir(exist_ok=True)
    config = config or json.loads(json.dumps(cell.config()))
    identity, content = identity_of(config), tensors or f"{cell.seed} {cell.encoding}".encode()
    name = shards.tensors_name(identity, hashlib.sha256(content).hexdigest())
    shards.write_atomically(folder / name, lambda path: path.write_bytes(content))
    found = measured(cell.seed, **more)
    shards.write_atomically(
        folder / f"{identity}.parquet",
        lambda path: shards.write_shard(path, shards.make_shard(identity, config, found, content)),
    )
    return identity


@pytest.fixture(scope="module")
def folder(tmp_path_factory) -> Path:
    """Two encodings with three seeds, one of which diverged."""
    folder = tmp_path_factory.mktemp("store") / "it's [1] *"
    for encoding in ("rope:base=500000", "learned"):
        for seed in range(3):
            loss = float("nan") if (encoding, seed) == ("learned", 2) else 0.5
            put(folder, small_cell(encoding, seed=seed), final_loss=loss)
    return folder


def test_measurements_are_a_data_frame_of_every_number(folder):
    frame = ff.open(folder).measurements()
    assert len(frame) == 6 * len(measured(0))
    assert {"identity", "encoding", "task", "seed", "probe", "length", "value", "config", "platform"} <= {*frame}
    assert {*frame.encoding} == {"rope:base=500000", "learned"}
    assert {*frame.task} == {"offset:2"}
    for seed in range(3):
        of_seed = frame[(frame.seed == seed) & (frame.encoding == "learned")]
        found = {
            (probe, None if length is None else int(length)): value
            for probe, length, value in zip(
                of_seed.probe,
                of_seed.length.astype(object).where(of_seed.length.notna(), None),
                of_seed.value,
                strict=True,
            )
        }
        for probe, length, value in measured(seed, final_loss=float("nan") if seed == 2 else 0.5):
            assert found[probe, length] == pytest.approx(value, abs=0, nan_ok=True)
    accuracy = ff.open(folder).measurements("accuracy")
    assert {*accuracy.probe} == {"accuracy"}
    means = accuracy.groupby(["encoding", "length"]).value.mean()
    wanted = ff.open(folder).sql(
        "SELECT encoding, length, avg(value) AS mean FROM measurements WHERE probe = 'accuracy' "
        "GROUP BY ALL ORDER BY ALL"
    )
    np.testing.assert_allclose(means.to_numpy(), wanted["mean"].to_numpy())
    with pytest.raises(FarfieldError, match="no probe accurcy; it has accuracy, chance"):
        ff.open(folder).measurements("accurcy")


def test_a_number_that_is_none_spoils_an_average_rather_than_being_passed_over(folder):
    query = "SELECT avg(value) FROM measurements WHERE probe = 'final_loss' AND encoding = 'learned'"
    for _ in range(2):
        ((mean,),) = OpenStore(folder).rows(query).rows
        assert np.isnan(mean)
    path = folder / f"{small_cell('learned', seed=2).identity}.parquet"
    with duckdb.connect() as connection:
        pattern = str(path).replace("[", "[[]").replace("*", "[*]")
        query = "SELECT value FROM read_parquet(?) WHERE probe = 'final_loss'"
        assert np.isnan(connection.execute(query, [pattern]).fetchall()).all()


def test_cells_are_one_row_each_with_everything_that_remakes_them(folder):
    cells = ff.open(folder).cells()
    assert len(cells) == 6
    assert list(cells[cells.diverged].seed) == [2]
    assert cells.setting.nunique() == 2
    for row in cells.itertuples():
        cell = Cell.from_config(json.loads(row.config))
        assert (cell.identity, cell.seed) == (row.identity, row.seed)
        assert (row.longest, list(row.lengths), row.data_version) == (16, [*LENGTHS], DATA_VERSION)
        assert {"farfield", "jax", "python"} <= set(json.loads(row.versions))


def test_a_store_may_be_empty_but_must_be_there(tmp_path):
    assert len(ff.open(tmp_path).measurements()) == 0
    assert OpenStore(tmp_path).rows("SELECT encoding, lengths FROM cells").rows == []
    assert standing(tmp_path).cells == 0
    with pytest.raises(FarfieldError, match="there is no folder"):
        ff.open(tmp_path / "absent")
    (tmp_path / "file").write_text("")
    with pytest.raises(FarfieldError, match="is a file"):
        ff.open(tmp_path / "file")


@pytest.mark.parametrize(
    ("query", "answer"),
    [
        ("SELECT * FROM read_csv('/etc/passwd')", "outside the store"),
        ("SELECT * FROM read_text('/etc/passwd')", "outside the store"),
        ("SELECT * FROM '/etc/passwd'", "The tables are measurements and cells"),
        ("COPY cells TO 'out.csv'", "one query that reads"),
        ("ATTACH 'other.db'", "one query that reads"),
        ("SET enable_external_access = true", "one query that reads"),
        ("DROP VIEW cells", "one query that reads"),
        ("SELECT 1; SELECT 2", "one query that reads"),
        ("", "one query that reads"),
        ("SELECT encodng FROM cells", "cells has identity, setting, .*; measurements has probe, length, value as well"),
        ("SELECT accuracy FROM cells", "It is a probe: SELECT value FROM measurements WHERE probe = 'accuracy'"),
        ("SELECT * FROM results", "The tables are measurements and cells"),
        ("SELEC 1", "syntax error"),
        ("WITH gone AS (DELETE FROM numbers RETURNING *) SELECT * FROM gone", "cannot run"),
        ("PIVOT (SELECT seed, encoding FROM cells) ON seed USING count(*)", "values of its columns"),
        ("SELECT * FROM LENGTHS", "The tables are"),  # a variable of this file
    ],
)
def test_a_query_reads_the_store_and_nothing_else(query, answer, folder, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    store = OpenStore(folder)
    with pytest.raises(FarfieldError, match=answer):
        store.rows(query)
    assert store.rows("SELECT COUNT(*) FROM cells").rows == [(6,)]
    assert not list(tmp_path.iterdir())


def test_results_have_their_weights(tmp_path):
    store, rope_result = Store(tmp_path), untrained(small_cell())
    for seed in range(3):
        store.write(dataclasses.replace(rope_result, cell=dataclasses.replace(rope_result.cell, seed=seed)))
    found = list(ff.open(tmp_path).results("encoding = 'rope' AND seed > 0"))
    assert sorted(result.cell.seed for result in found) == [1, 2]
    np.testing.assert_array_equal(found[0].parameters.embedding, rope_result.parameters.embedding)
    assert list(ff.open(tmp_path).results("encoding = 'alibi'")) == []


# The index


def fill(folder: Path, count: int, start: int = 0) -> None:
    cell = small_cell()
    for seed in range(start, start + count):
        put(folder, dataclasses.replace(cell, seed=seed))


def everything(folder: Path) -> list[tuple]:
    return OpenStore(folder).rows("FROM measurements ORDER BY ALL").rows


@pytest.fixture
def few(monkeypatch):
    """An index is worth writing for three cells."""
    monkeypatch.setattr(index, "FEWEST", 3)


def test_an_index_changes_nothing_but_the_time(few, tmp_path, monkeypatch):
    fill(tmp_path, 2)
    read: list[str] = []
    original = index.read_shards
    monkeypatch.setattr(index, "read_shards", lambda paths: read.extend(map(str, paths)) or original(paths))
    everything(tmp_path)
    assert index.indexes(tmp_path) == []
    fill(tmp_path, 3, start=2)
    first = everything(tmp_path)
    assert len(index.indexes(tmp_path)) == 1
    read.clear()
    assert everything(tmp_path) == first
    assert read == []
    shutil.rmtree(tmp_path / index.FOLDER)
    assert everything(tmp_path) == first
    assert len(read) == 5
    fill(tmp_path, 3, start=5)
    assert len({row[0] for row in everything(tmp_path)}) == 8
    assert len(index.indexes(tmp_path)) == 1, "the new index replaces the old one"


def test_an_index_that_is_damaged_or_out_of_date_is_not_believed(few, tmp_path):
    fill(tmp_path, 4)
    first = everything(tmp_path)
    (path,) = index.indexes(tmp_path)
    content = bytearray(path.read_bytes())
    content[len(content) // 2] ^= 1
    path.write_bytes(bytes(content))
    assert [finding.kind for finding in verify(tmp_path).findings] == ["damaged"]
    assert everything(tmp_path) == first
    assert verify(tmp_path).findings == [], "the next reader puts it right"

    # Another content under the same name, and a cell that is gone.
    cell = small_cell()
    identity = put(tmp_path, cell, lengths=(12, 16))
    gone = dataclasses.replace(cell, seed=1).identity
    (tmp_path / f"{gone}.parquet").unlink()
    rows = everything(tmp_path)
    assert gone not in {row[0] for row in rows}
    assert sum(row[0] == identity for row in rows) == len(measured(0, lengths=(12, 16)))


def test_readers_and_writers_at_once_see_whole_cells(few, tmp_path):
    fill(tmp_path, 4)
    errors: list[BaseException] = []
    wanted = len(measured(0))

    def read():
        try:
            for _ in range(6):
                rows = OpenStore(tmp_path).rows("SELECT identity, COUNT(*) FROM measurements GROUP BY ALL").rows
                assert {count for _, count in rows} == {wanted}
                assert len(rows) >= 4
        except BaseException as error:
            errors.append(error)

    readers = [threading.Thread(target=read) for _ in range(3)]
    for reader in readers:
        reader.start()
    fill(tmp_path, 12, start=4)
    for reader in readers:
        reader.join()
    assert errors == []
    assert len(everything(tmp_path)) == 16 * wanted


def test_an_early_stores_shards_are_read(tmp_path):
    """Those written before a shard held its own checksum."""
    identity = put(tmp_path, small_cell())
    path = tmp_path / f"{identity}.parquet"
    early = tmp_path / "early"
    with duckdb.connect() as connection:
        connection.execute(
            "COPY (SELECT * EXCLUDE (parts, tensors_bytes, content_sha256) REPLACE ('offset' AS task) "
            f"FROM read_parquet('{path}')) TO '{early}' (FORMAT parquet)"
        )
    early.replace(path)
    put(tmp_path, small_cell(seed=1))
    assert verify(tmp_path).findings == []
    assert OpenStore(tmp_path).rows("SELECT DISTINCT encoding, task FROM cells").rows == [("rope", "offset:2")]


def test_an_encoding_that_this_code_does_not_know_is_written_with_its_settings(tmp_path):
    config = json.loads(json.dumps(small_cell("rope:base=100").config()))
    config["encoding"] = {"name": "spiral", "turns": 3, "start": 0.5}
    put(tmp_path, small_cell(), config=config)
    assert OpenStore(tmp_path).rows("SELECT encoding, task, model FROM cells").rows == [
        ("spiral:turns=3,start=0.5", "offset:2", "head")
    ]


@pytest.mark.parametrize("spec", SPECS)
def test_columns_name_an_encoding_as_a_user_writes_it(spec):
    from farfield.studies.columns import describe

    cell = small_cell(spec)
    written = describe(cell.identity, json.loads(json.dumps(cell.config())), {})["encoding"]
    assert small_cell(written) == cell
    assert len(written) <= max(len(spec), len(name_of(spec)) + len(":original_length=16"))


# Faults


def kinds(folder: Path) -> dict[str, str]:
    return {finding.file: finding.kind for finding in verify(folder).findings}


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
    dead = tmp_path / f"{ids[10]}.parquet.{shards.socket.gethostname()}.{2**22 + 1}-ab{shards.TEMPORARY}"
    alive = tmp_path / f"{ids[10]}.parquet.elsewhere.{os.getpid()}-ab{shards.TEMPORARY}"
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


def test_a_pivot_that_names_its_columns_is_answered(folder):
    query = "PIVOT (SELECT encoding, seed FROM cells) ON seed IN (0, 1) USING count(*)"
    assert OpenStore(folder).rows(query).columns == ["encoding", "0", "1"]


def test_one_row_is_said_to_be_one(folder, capsys):
    with pytest.raises(SystemExit):
        main(["study", "sql", str(folder), "SELECT count(*) FROM cells"])
    assert capsys.readouterr().out.splitlines()[-1] == "1 row"


def test_rows_of_many_columns_stand_one_below_another(folder, capsys):
    with pytest.raises(SystemExit):
        main(["study", "sql", str(folder), "SELECT * FROM cells LIMIT 2"])
    lines = capsys.readouterr().out.splitlines()
    assert [line.split()[0] for line in lines if line.startswith(("row", "identity"))] == ["row", "identity"] * 2
    assert max(map(len, lines)) <= 150


def test_seeds_are_in_columns_of_their_own_also_where_nothing_tells_them_apart(tmp_path):
    put(tmp_path, small_cell(seed=3))
    put(tmp_path, small_cell(seed=3, data_seed=5))
    seeds = OpenStore(tmp_path).rows("SELECT seed, data_seed, evaluation_seed FROM cells ORDER BY data_seed").rows
    assert seeds == [(3, 3, 3), (3, 5, 3)]


def test_a_folder_of_other_files_is_no_store_to_verify(tmp_path):
    (tmp_path / "notes.txt").write_text("mine")
    with pytest.raises(FarfieldError, match="holds no cells: name a folder that a study"):
        verify(tmp_path)


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
    with pytest.warns(DamagedShard) as caught:
        Store(tmp_path).finished()
    assert sorted("remove it" in str(one.message) for one in caught) == [False, True]
    (tmp_path / "study.json").write_text("{}")
    assert standing(tmp_path).asked is None


def rewritten(path: Path, query: str) -> None:
    """Replace a shard by what a query makes of it."""
    with duckdb.connect() as connection:
        connection.execute(f"CREATE TABLE shard AS FROM read_parquet('{path}')")
        connection.execute(f"COPY ({query}) TO '{path}' (FORMAT parquet)")


def test_cells_of_an_older_data_version_are_kept_apart(tmp_path, monkeypatch):
    put(tmp_path, small_cell())
    monkeypatch.setattr("farfield.studies.identity.DATA_VERSION", DATA_VERSION + 1)
    monkeypatch.setattr("farfield.studies.verifying.DATA_VERSION", DATA_VERSION + 1)
    found = verify(tmp_path)
    assert (found.cells, found.older, found.sound) == (0, 1, True)
    assert [finding.kind for finding in found.findings] == ["older"]


def test_standing_counts_by_encoding_and_task_and_says_what_is_wrong(tmp_path):
    for seed in range(3):
        put(tmp_path, small_cell(seed=seed))
    put(tmp_path, small_cell("alibi"), final_loss=float("inf"))
    twin = put(tmp_path, small_cell("alibi", seed=1), tensors=b"the same")
    other = put(tmp_path, small_cell("alibi", seed=2), tensors=b"the same")
    store = Store(tmp_path)
    failed = small_cell("t5", "position:0")
    store.write_failure(failed, "out of memory")
    store.write_failure(small_cell("alibi"), "finished since, by another process")
    next(tmp_path.glob(f"{small_cell(seed=1).identity}-*")).write_bytes(b"")
    found = standing(tmp_path)
    assert [group[:2] + group[2:] for group in found.groups] == [
        ("alibi", "offset:2", 1, 3, 1, 0),
        ("rope", "offset:2", 1, 3, 0, 0),
        ("t5", "position:0", 0, 0, 0, 1),
    ]
    assert (found.cells, found.diverged, found.older) == (6, 1, 0)
    assert found.failures == {failed.identity: "out of memory"}
    assert list(found.damaged.values()) == ["has 0 of 8 bytes"] or len(found.damaged) == 1
    assert [group.cells for group in found.identical] == [[twin, other]]
    assert found.bytes == sum(path.stat().st_size for path in tmp_path.iterdir())
    assert list(found.made_by.values()) == [6]
    json.dumps(found.to_json(), allow_nan=False)


# Exports


def test_exports_hold_every_number(folder, tmp_path):
    rows = OpenStore(folder).rows("SELECT identity, probe, length, value FROM measurements").rows
    wanted = {row[:3]: row[3] for row in rows}
    for format in ("csv", "parquet"):
        path = tmp_path / f"out.{format}"
        assert export(folder, path, format=format) == len(rows)
        with duckdb.connect() as connection:
            found = connection.execute(f"SELECT identity, probe, length, value FROM '{path}'").fetchall()
        assert len(found) == len(rows)
        for identity, probe, length, value in found:
            assert wanted[identity, probe, length] == pytest.approx(value, abs=0, nan_ok=True)
    assert export(folder, tmp_path / "cells.csv", format="csv", table="cells") == 6

    path = tmp_path / "out.nc"
    assert export(folder, path, format="netcdf") == 6
    with netcdf_file(path, mmap=False) as file:
        assert file.dimensions["cell"] == 6
        identities, probes = (text(file.variables[name]) for name in ("identity", "probe"))
        assert set(text(file.variables["encoding"])) == {"rope:base=500000", "learned"}
        assert file.variables["encoding"]._Encoding == b"utf-8"
        assert {"identity", "encoding", "seed"} <= {*file.variables["value"].coordinates.decode().split()}
        assert [file.variables[name].data.dtype.kind for name in ("seed", "diverged", "learning_rate")] == [*"iif"]
        single = text(file.variables["probe_of_cell"])
        lengths = file.variables["length"][:].tolist()
        for (identity, probe, length), value in wanted.items():
            if length is None:
                stored = file.variables["value_of_cell"][identities.index(identity), single.index(probe)]
            else:
                at = identities.index(identity), lengths.index(length), probes.index(probe)
                stored = file.variables["value"][at]
            assert stored == pytest.approx(value, abs=0, nan_ok=True)


def text(variable) -> list[str]:
    return [b"".join(row).rstrip(b"\0").decode() for row in variable[:]]


def test_an_export_writes_over_nothing_and_leaves_nothing_half(folder, tmp_path, monkeypatch):
    path = tmp_path / "out.csv"
    path.write_text("mine")
    with pytest.raises(FarfieldError, match="is there already: name another file, or --force"):
        export(folder, path, format="csv")
    monkeypatch.setattr(shards, "flush", lambda path: (_ for _ in ()).throw(OSError(28, "No space left on device")))
    with pytest.raises(FarfieldError, match="No space left on device; nothing was left"):
        export(folder, path, format="csv", force=True)
    assert path.read_text() == "mine"
    assert [found.name for found in tmp_path.iterdir()] == ["out.csv"]
    monkeypatch.undo()
    export(folder, path, format="csv", force=True)
    assert path.read_text().startswith("identity,")
    for bad in (tmp_path, tmp_path / "absent" / "out.csv"):
        with pytest.raises(FarfieldError):
            export(folder, bad, format="csv")
    with pytest.raises(FarfieldError, match="no finished cells"):
        export(tmp_path, tmp_path / "none.nc", format="netcdf")


# Commands


def run_command(capsys, *arguments) -> tuple[int, str, str]:
    with pytest.raises(SystemExit) as ended:
        main(["study", *map(str, arguments)])
    told = capsys.readouterr()
    return int(ended.value.code or 0), told.out, told.err


def test_the_commands_say_what_the_interface_says(folder, tmp_path, capsys):
    code, out, _ = run_command(capsys, "status", folder)
    assert (code, "6 cells in" in out, "1 diverged" in out, "rope:base=500000" in out) == (0, True, True, True)
    code, out, _ = run_command(capsys, "status", folder, "--json")
    assert json.loads(out)["cells"] == 6
    code, out, _ = run_command(capsys, "verify", folder)
    assert (code, "nothing is wrong" in out) == (0, True)
    code, out, _ = run_command(
        capsys, "sql", folder, "SELECT encoding, COUNT(*) AS n FROM cells GROUP BY ALL ORDER BY ALL"
    )
    assert (code, out.split()) == (0, ["encoding", "n", "learned", "3", "rope:base=500000", "3", "2", "rows"])
    query = "SELECT seed, value, lengths FROM cells JOIN measurements USING (identity, seed) WHERE probe = 'final_loss'"
    code, out, _ = run_command(capsys, "sql", folder, query, "--json")
    assert {row["value"] for row in json.loads(out)["rows"]} == {0.5, None}
    code, out, _ = run_command(capsys, "sql", folder, "SELECT 1 AS a, 'x,y' AS b", "--csv")
    assert out == 'a,b\n1,"x,y"\n'
    code, out, _ = run_command(capsys, "export", folder, "-o", tmp_path / "out.nc", "--json")
    assert json.loads(out) == {"file": str(tmp_path / "out.nc"), "cells": 6}


def test_mistakes_end_in_one_line_and_code_2_and_faults_in_code_1(folder, tmp_path, capsys):
    for arguments in (
        ("sql", folder, "SELECT nothing FROM cells"),
        ("sql", folder, "SELECT 1", "--csv", "--json"),
        ("status", tmp_path / "absent"),
        ("export", folder, "-o", tmp_path / "out.xlsx"),
        ("export", folder, "-o", tmp_path / "out.csv", "--format", "cvs"),
        ("export", folder, "-o", tmp_path / "out.csv", "--table", "cell"),
    ):
        code, out, err = run_command(capsys, *arguments)
        assert (code, out, len(err.splitlines())) == (2, "", 1), arguments
        assert err.startswith("farfield: error: ")
    identity = put(tmp_path, small_cell())
    (tmp_path / f"{identity}.parquet").write_bytes(b"")
    code, out, _ = run_command(capsys, "verify", tmp_path)
    assert code == 1
    assert f"{identity}.parquet" in out
    code, out, _ = run_command(capsys, "verify", tmp_path, "--json")
    assert (code, json.loads(out)["sound"]) == (1, False)


def test_asking_a_store_does_not_wait_for_what_is_slow_to_import(tmp_path):
    put(tmp_path, small_cell("learned"))
    script = (
        "import sys; from pathlib import Path; from farfield.studies.standing import standing; "
        "print(standing(Path(sys.argv[1])).groups[0].encoding, {'jax', 'pandas', 'scipy'} & {*sys.modules})"
    )
    done = subprocess.run([sys.executable, "-c", script, str(tmp_path)], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "learned set()"


@pytest.mark.slow
def test_ten_thousand_cells_are_asked_in_a_second(tmp_path):
    """As a writer leaves them: ten lengths, 134 numbers a cell, an index for every few hundred cells."""
    result = untrained(small_cell(lengths=tuple(range(12, 62, 5))))
    probes = [(row.probe, row.length) for row in result.measurements()]
    random, written = np.random.default_rng(0), []
    for encoding in ("rope", "alibi", "learned", "t5", "none"):
        cell = small_cell(encoding, lengths=result.cell.lengths)
        for seed in range(2000):
            one = dataclasses.replace(cell, seed=seed)
            values = random.uniform(size=len(probes)).tolist()
            found = [(*probe, value) for probe, value in zip(probes, values, strict=True)]
            content = f"{one.identity}".encode()
            path = tmp_path / f"{one.identity}.parquet"
            shard = shards.make_shard(one.identity, one.config(), found, content)
            shards.write_shard(path, shard)
            (tmp_path / shards.tensors_name(one.identity, shard.tensors_sha256)).write_bytes(content)
            written.append((shard, shards.state_of(path.stat())))
            if len(written) == 256:
                index.add(tmp_path, written)
                written = []
    seconds = {}
    for name, act in {
        "first status": lambda: standing(tmp_path),
        "status": lambda: standing(tmp_path),
        "open": lambda: OpenStore(tmp_path),
    }.items():
        started = time.perf_counter()
        act()
        seconds[name] = time.perf_counter() - started
    store = OpenStore(tmp_path)
    started = time.perf_counter()
    query = "SELECT encoding, task, length, avg(value) FROM measurements WHERE probe = 'accuracy' GROUP BY ALL"
    assert len(store.rows(query).rows) == 50
    seconds["group by"] = time.perf_counter() - started
    print({name: round(value, 2) for name, value in seconds.items()})
    assert standing(tmp_path).cells == 10_000
    assert max(seconds["first status"], seconds["status"]) < 2
    assert seconds["open"] + seconds["group by"] < 2
    assert seconds["group by"] < 1
