"""Reading a store: measurements, queries, exports, where it stands."""

from __future__ import annotations

import dataclasses
import json
import os
import subprocess
import sys
import threading
import time
from pathlib import Path

import duckdb
import numpy as np
import pytest

import farfield as ff
from farfield.cell import Cell
from farfield.cell_text import parts_text
from farfield.cli import main
from farfield.errors import FarfieldError
from farfield.identity import DATA_VERSION, identity_of
from farfield.store import cell_file, files
from farfield.store.export import export
from farfield.store.reader import Store
from farfield.store.status import status
from farfield.store.store import DamagedFile, StoreWriter
from farfield.store.verify import verify
from farfield.store.versions import versions
from helpers.made_up import LENGTHS, json_name, json_of, measured, put, tensors_of
from helpers.support import SPECS, name_of, small_cell, untrained


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
    frame = ff.open_store(folder).measurements()
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
    accuracy = ff.open_store(folder).measurements("accuracy")
    assert {*accuracy.probe} == {"accuracy"}
    means = accuracy.groupby(["encoding", "length"]).value.mean()
    wanted = ff.open_store(folder).sql(
        "SELECT encoding, length, avg(value) AS mean FROM measurements WHERE probe = 'accuracy' "
        "GROUP BY ALL ORDER BY ALL"
    )
    np.testing.assert_allclose(means.to_numpy(), wanted["mean"].to_numpy())
    with pytest.raises(FarfieldError, match="no probe accurcy; it has accuracy, chance"):
        ff.open_store(folder).measurements("accurcy")


def test_a_number_that_is_none_spoils_an_average_rather_than_being_passed_over(folder):
    query = "SELECT avg(value) FROM measurements WHERE probe = 'final_loss' AND encoding = 'learned'"
    for _ in range(2):
        ((mean,),) = Store(folder).rows(query).rows
        assert np.isnan(mean)


def test_a_cells_file_is_read_by_strict_parsers_and_by_people(tmp_path):
    """NaN is null, an infinity a text, and what was not measured has no key."""
    identities = [put(tmp_path, small_cell(seed=seed), final_loss=float(loss)) for seed, loss in enumerate(INFINITE)]
    for identity, loss in zip(identities, (None, "Infinity", "-Infinity"), strict=True):
        text = json_of(tmp_path, identity).read_text()
        cell = json.loads(text, parse_constant=lambda sign: pytest.fail(f"{sign} is not JSON"))
        assert [*cell] == [
            "identity", "data_version", "config", "parts", "diverged", "measurements", "versions", "tensors"
        ]  # fmt: skip
        assert cell["measurements"]["single"]["final_loss"] == loss
        assert "no such probe" not in cell["measurements"]["single"]
        assert cell["diverged"]
        assert cell["tensors"]["file"] == tensors_of(tmp_path, identity).name
        assert cell["parts"]["encoding"] == "rope"
        assert max(map(len, text.splitlines())) < 150
        assert '\n   "accuracy": {"12": ' in text
    query = "SELECT value FROM measurements WHERE probe = 'final_loss' ORDER BY seed"
    np.testing.assert_array_equal(Store(tmp_path).rows(query).rows, [[float(loss)] for loss in INFINITE])


INFINITE = ("nan", "inf", "-inf")


def test_cells_are_one_row_each_with_everything_that_remakes_them(folder):
    cells = ff.open_store(folder).cells()
    assert len(cells) == 6
    assert list(cells[cells.diverged].seed) == [2]
    assert cells.setting.nunique() == 2
    for row in cells.itertuples():
        cell = Cell.from_config(json.loads(row.config))
        assert (cell.identity, cell.seed) == (row.identity, row.seed)
        assert (row.longest, list(row.lengths), row.data_version) == (16, [*LENGTHS], DATA_VERSION)
        assert {"farfield", "jax", "python"} <= set(json.loads(row.versions))


def test_a_store_may_be_empty_but_must_be_there(tmp_path):
    assert len(ff.open_store(tmp_path).measurements()) == 0
    assert Store(tmp_path).rows("SELECT encoding, lengths FROM cells").rows == []
    assert status(tmp_path).cells == 0
    with pytest.raises(FarfieldError, match="there is no folder"):
        ff.open_store(tmp_path / "absent")
    (tmp_path / "file").write_text("")
    with pytest.raises(FarfieldError, match="is a file"):
        ff.open_store(tmp_path / "file")


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
    store = Store(folder)
    with pytest.raises(FarfieldError, match=answer):
        store.rows(query)
    assert store.rows("SELECT COUNT(*) FROM cells").rows == [(6,)]
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize(
    ("ask", "words"),
    [
        (lambda store: store.measurements(3), "has no probe 3; it has accuracy"),
        (lambda store: store.summaries(probes=("x",)), "has no probe x"),
        (lambda store: store.summaries(probes=()), "must be a list of names"),
        (lambda store: store.summaries(probes="accuracy"), "must be a list of names"),
        (lambda store: store.summaries(wanted=0), "wanted = 0 must be a number of seeds"),
        (lambda store: store.summaries(wanted="x"), "wanted = 'x' must be"),
        (lambda store: store.summaries("true) --"), "cannot run"),
        (lambda store: store.sql(None), "query = None must be a text"),
        (lambda store: list(store.results("true UNION SELECT 1, 2, 3 --")), "cannot run"),
    ],
)
def test_questions_from_python_that_make_no_sense_are_refused(ask, words, folder):
    with pytest.raises(FarfieldError, match=words):
        ask(Store(folder))


def test_results_have_their_weights(tmp_path):
    store, rope_result = StoreWriter(tmp_path), untrained(small_cell())
    for seed in range(3):
        store.write(dataclasses.replace(rope_result, cell=dataclasses.replace(rope_result.cell, seed=seed)))
    found = list(ff.open_store(tmp_path).results("encoding = 'rope' AND seed > 0"))
    assert sorted(result.cell.seed for result in found) == [1, 2]
    np.testing.assert_array_equal(found[0].parameters.embedding, rope_result.parameters.embedding)
    assert list(ff.open_store(tmp_path).results("encoding = 'alibi'")) == []
    next(tmp_path.glob("*.safetensors")).write_bytes(b"")
    with pytest.warns(DamagedFile):
        assert len(list(ff.open_store(tmp_path).results())) == 2


STOPPED = """
import os, signal, sys, threading
from farfield.cli import main
from farfield.store import reader
original = reader.interruptible
def stopped(*given):
    threading.Timer(0.2, os.kill, (os.getpid(), signal.SIGTERM)).start()
    return original(*given)
reader.interruptible = stopped
main(["study", "sql", sys.argv[1], "SELECT count(*) FROM range(100000) a, range(100000) b, range(1000) c"])
"""


def test_a_signal_stops_a_query(tmp_path):
    put(tmp_path, small_cell())
    script = [sys.executable, "-c", STOPPED, str(tmp_path)]
    done = subprocess.run(script, capture_output=True, text=True, timeout=60, check=False)
    assert (done.returncode, done.stdout) == (143, "")
    assert done.stderr.startswith("farfield: stopped")
    assert len(done.stderr.splitlines()) == 1


def fill(folder: Path, count: int, start: int = 0) -> None:
    cell = small_cell()
    for seed in range(start, start + count):
        put(folder, dataclasses.replace(cell, seed=seed))


def everything(folder: Path) -> list[tuple]:
    return Store(folder).rows("FROM measurements ORDER BY ALL").rows


def test_reading_changes_nothing_in_the_folder(tmp_path):
    fill(tmp_path, 3)
    before = {path.name: path.stat().st_mtime_ns for path in (tmp_path, *tmp_path.iterdir())}
    assert len({row[0] for row in everything(tmp_path)}) == 3
    assert StoreWriter(tmp_path, reading=True).finished() == {row[0] for row in everything(tmp_path)}
    status(tmp_path), verify(tmp_path)
    assert {path.name: path.stat().st_mtime_ns for path in (tmp_path, *tmp_path.iterdir())} == before


def test_readers_and_writers_at_once_see_whole_cells(tmp_path):
    fill(tmp_path, 4)
    errors: list[BaseException] = []
    wanted = len(measured(0))

    def read():
        try:
            for _ in range(6):
                rows = Store(tmp_path).rows("SELECT identity, COUNT(*) FROM measurements GROUP BY ALL").rows
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


def test_an_encoding_that_this_code_does_not_know_is_written_with_its_settings(tmp_path):
    config = json.loads(json.dumps(small_cell("rope:base=100").config()))
    config["encoding"] = {"name": "spiral", "turns": 3, "start": 0.5}
    put(tmp_path, small_cell(), config=config)
    assert Store(tmp_path).rows("SELECT encoding, task, model FROM cells").rows == [
        ("spiral:turns=3,start=0.5", "offset:2", "head")
    ]


@pytest.mark.parametrize("spec", SPECS)
def test_columns_name_an_encoding_as_a_user_writes_it(spec):
    cell = small_cell(spec)
    text = parts_text(json.loads(json.dumps(cell.config())))["encoding"]
    assert small_cell(text) == cell
    assert len(text) <= max(len(spec), len(name_of(spec)) + len(":original_length=16"))


def test_a_pivot_that_names_its_columns_is_answered(folder):
    query = "PIVOT (SELECT encoding, seed FROM cells) ON seed IN (0, 1) USING count(*)"
    assert Store(folder).rows(query).columns == ["encoding", "0", "1"]


def test_columns_of_one_name_are_numbered(folder, capsys):
    query = 'SELECT 1 AS a, 2 AS a, 3 AS a_1, 4 AS "A", 5 AS a'
    answer = {"a": 1, "a_2": 2, "a_1": 3, "A": 4, "a_3": 5}
    assert ff.open_store(folder).sql(query).to_dict("records") == [answer]
    with pytest.raises(SystemExit):
        main(["study", "sql", str(folder), query, "--json"])
    assert json.loads(capsys.readouterr().out) == {"columns": [*answer], "rows": [answer]}


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
    seeds = Store(tmp_path).rows("SELECT seed, data_seed, evaluation_seed FROM cells ORDER BY data_seed").rows
    assert seeds == [(3, 3, 3), (3, 5, 3)]


def test_standing_counts_by_encoding_and_task_and_says_what_is_wrong(tmp_path):
    for seed in range(3):
        put(tmp_path, small_cell(seed=seed))
    put(tmp_path, small_cell("alibi"), final_loss=float("inf"))
    twin = put(tmp_path, small_cell("alibi", seed=1), tensors=b"the same")
    other = put(tmp_path, small_cell("alibi", seed=2), tensors=b"the same")
    store = StoreWriter(tmp_path)
    failed = small_cell("t5", "position:0")
    store.write_failure(failed, "out of memory")
    store.write_failure(small_cell("alibi"), "finished since, by another process")
    next(tmp_path.glob(f"{small_cell(seed=1).identity}-*")).write_bytes(b"")
    found = status(tmp_path)
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
    rows = Store(folder).rows("SELECT identity, probe, length, value FROM measurements").rows
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


def test_a_netcdf_export_holds_every_number(folder, tmp_path):
    xarray = pytest.importorskip("xarray")
    rows = Store(folder).rows("SELECT identity, probe, length, value FROM measurements").rows
    path = tmp_path / "out.nc"
    assert export(folder, path, format="netcdf") == 6
    with xarray.open_dataset(path, engine="scipy") as file:
        assert dict(file.sizes) == {"cell": 6, "length": 4, "probe": 4, "probe_of_cell": 2}
        assert {*file["encoding"].values} == {"rope:base=500000", "learned"}
        assert [file[name].dtype.kind for name in ("seed", "diverged", "learning_rate", "length")] == [*"ibfi"]
        assert [json.loads(lengths) for lengths in file["lengths"].values] == [[*LENGTHS]] * 6
        of_cell = {identity: at for at, identity in enumerate(file["identity"].values)}
        for identity, probe, length, value in rows:
            one = file.isel(cell=of_cell[identity])
            alone = length is None
            stored = one.value_of_cell.sel(probe_of_cell=probe) if alone else one.value.sel(probe=probe, length=length)
            assert float(stored) == pytest.approx(value, abs=0, nan_ok=True)


def test_a_netcdf_export_without_xarray_says_what_to_install(folder, tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "xarray", None)
    with pytest.raises(FarfieldError, match=r"pip install 'farfield\[netcdf\]'"):
        export(folder, tmp_path / "out.nc", format="netcdf")
    assert [*tmp_path.iterdir()] == []


def test_an_export_writes_over_nothing_and_leaves_nothing_half(folder, tmp_path, monkeypatch):
    path = tmp_path / "out.csv"
    path.write_text("mine")
    with pytest.raises(FarfieldError, match="is there already: name another file, or --force"):
        export(folder, path, format="csv")
    monkeypatch.setattr(files, "flush", lambda path: (_ for _ in ()).throw(OSError(28, "No space left on device")))
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


def test_an_export_replaces_no_device_and_no_file_of_a_store(folder, tmp_path):
    cell = json_of(folder, small_cell("learned").identity)
    (tmp_path / "link.json").symlink_to(cell)
    (tmp_path / "loop.csv").symlink_to(tmp_path / "loop.csv")
    os.mkfifo(tmp_path / "pipe.csv")
    put(tmp_path / "other", small_cell())
    for output, said in {
        cell: "lies in a store",
        tmp_path / "link.json": "lies in a store",
        folder / "new.csv": "lies in a store",
        tmp_path / "other" / "new.csv": "lies in a store",
        tmp_path / "loop.csv": "cannot write .*loop",
        tmp_path / "pipe.csv": "is a device or a pipe",
        tmp_path / ("a" * 300): "File name too long",
    }.items():
        with pytest.raises(FarfieldError, match=said):
            export(folder, output, format="csv", force=True)
    assert verify(folder).findings == []
    target, link = tmp_path / "target.csv", tmp_path / "link.csv"
    link.symlink_to(target)
    export(folder, link, format="csv")
    assert link.is_symlink()
    assert target.read_text().startswith("identity,")


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
    code, out, _ = run_command(capsys, "export", folder, "-o", tmp_path / "out.parquet", "--json")
    assert json.loads(out) == {"file": str(tmp_path / "out.parquet"), "measurements": 6 * len(measured(0))}


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
    (path := json_of(tmp_path, identity)).write_bytes(b"")
    code, out, _ = run_command(capsys, "verify", tmp_path)
    assert code == 1
    assert path.name in out
    code, out, _ = run_command(capsys, "verify", tmp_path, "--json")
    assert (code, json.loads(out)["sound"]) == (1, False)


def test_asking_a_store_does_not_wait_for_what_is_slow_to_import(tmp_path):
    put(tmp_path, small_cell("learned"))
    script = (
        "import sys; from pathlib import Path; from farfield.store.status import status; "
        "print(status(Path(sys.argv[1])).groups[0].encoding, {'jax', 'pandas', 'scipy', 'duckdb'} & {*sys.modules}); "
        "import farfield; store = farfield.open_store(sys.argv[1]); store.rows('FROM measurements'); store.scores(); "
        "print({'jax', 'pandas', 'scipy'} & {*sys.modules})"
    )
    done = subprocess.run([sys.executable, "-c", script, str(tmp_path)], capture_output=True, text=True, check=True)
    assert done.stdout.split("\n") == ["learned set()", "set()", ""]


@pytest.mark.slow
def test_ten_thousand_cells_are_asked_in_a_second(tmp_path):
    """Ten lengths, 136 numbers a cell."""
    cell = small_cell(lengths=tuple(range(12, 62, 5)))
    probes = [(f"probe_{index}", length) for index in range(11) for length in cell.lengths]
    probes += [("accuracy", length) for length in cell.lengths]
    probes += [(f"single_{index}", None) for index in range(15)] + [("final_loss", None)]
    random = np.random.default_rng(0)
    for encoding in ("rope", "alibi", "learned", "t5", "none"):
        cell = small_cell(encoding, lengths=cell.lengths)
        for seed in range(2000):
            config = dataclasses.replace(cell, seed=seed).config()
            values = random.uniform(size=len(probes)).tolist()
            found = [(*probe, value) for probe, value in zip(probes, values, strict=True)]
            content = f"{encoding} {seed}".encode()
            tensors = cell_file.tensors_of(identity_of(config), content)
            text = cell_file.encode(config, found, versions(), tensors)
            (tmp_path / json_name(identity_of(config), text)).write_bytes(text)
            (tmp_path / tensors.file).write_bytes(content)
    query = "SELECT encoding, task, length, avg(value) FROM measurements WHERE probe = 'accuracy' GROUP BY ALL"
    seconds, answers = {}, {}
    for name, act in {
        "status": lambda: status(tmp_path),
        "open": lambda: Store(tmp_path),
        "group by": lambda: answers["open"].rows(query),
        "finished": lambda: StoreWriter(tmp_path).finished(),
    }.items():
        started = time.perf_counter()
        answers[name] = act()
        seconds[name] = time.perf_counter() - started
    print({name: round(value, 2) for name, value in seconds.items()})
    assert answers["status"].cells == len(answers["finished"]) == 10_000
    assert len(answers["group by"].rows) == 50
    assert seconds["status"] < 2
    assert seconds["group by"] < 1


def test_an_open_store_does_what_the_commands_do(tmp_path):
    put(tmp_path / "runs", small_cell("learned"))
    store = ff.open_store(tmp_path / "runs")
    assert (store.status().cells, store.verify().sound) == (1, True)
    assert store.export(tmp_path / "cells.csv", format="csv", table="cells") == 1
    assert "learned" in (tmp_path / "cells.csv").read_text()
