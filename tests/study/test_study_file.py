"""Studies: which cells they mean, in files and in Python, and what a plan says of them."""

import dataclasses
import itertools
import json
import os

import jax
import pytest

import farfield as ff
from farfield import training
from farfield.cell import Cell, Seeds
from farfield.cli import main
from farfield.encodings import encodings
from farfield.encodings.rope import Rope
from farfield.engine import programs
from farfield.engine.programs import chunks
from farfield.store import files
from farfield.store.store import DamagedFile
from farfield.study import plan as planning
from farfield.study.file import example, schema
from farfield.study.settings import SETTINGS
from farfield.tasks import tasks
from farfield.tasks.offset import FixedOffset
from helpers.made_up import json_of, put, tensors_of

HEAD = 'name = "a"\nquestion = "Why?"\nseeds = 2\n'
SMALL = HEAD + '[common]\ntask = "offset:2"\n[grid]\nencoding = ["rope", "learned"]\n'
PLAIN = {"name": "a", "question": "Why?", "seeds": 2, "common": {"task": "offset:2"}, "grid": {"encoding": ["rope"]}}


def read(tmp_path, text: str) -> ff.Study:
    path = tmp_path / "study.toml"
    path.write_text(text)
    return ff.load_study(path)


def test_a_grid_is_every_combination_and_seeds_move_fastest(tmp_path):
    study = read(tmp_path, SMALL.replace("[grid]", "[grid]\nsteps = [10, 20]"))
    assert study.axes == ("encoding", "steps")
    found = [(encodings.name_of(cell.encoding), cell.steps, cell.seed) for cell in study.cells()]
    assert found == list(itertools.product(["rope", "learned"], [10, 20], [0, 1]))
    assert all(cell == cell.resolved() for cell in study.cells())
    assert [point.label for point in study.points()][1] == "encoding = rope, steps = 20"


def test_zip_and_listed_cells_go_side_by_side_and_multiply_with_the_grid():
    study = ff.Study(
        **PLAIN | {"seeds": [7], "common": {}, "grid": {"encoding": ["learned"]}},
        zip={"task": ["offset:1", "offset:2"], "batch": [8, 16]},
        cell=[{"steps": 10, "weight_decay": 0.0}, {"steps": 20, "weight_decay": 0.5}],
    )
    found = [(cell.task, cell.batch, cell.steps, cell.weight_decay) for cell in study.cells()]
    assert found == [
        (FixedOffset(1), 8, 10, 0.0),
        (FixedOffset(1), 8, 20, 0.5),
        (FixedOffset(2), 16, 10, 0.0),
        (FixedOffset(2), 16, 20, 0.5),
    ]
    assert {cell.seed for cell in study.cells()} == {7}


def test_every_setting_reaches_the_cell_and_what_is_left_out_has_its_default():
    given = {
        "encoding": "t5:8",
        "task": "offset:1",
        "model": "head:32",
        "normalizer": "ssmax",
        "positions": "random-start:64",
        "test_positions": "fixed:3",
        "lengths": "4:12",
        "test": [20, 8],
        "vocabulary": 9,
        "steps": 50,
        "batch": 16,
        "learning_rate": 0.5,
        "weight_decay": 0.25,
        "sequences": 77,
        "snapshots": [0, 10],
        "path": "dense",
    }
    assert set(given) == set(SETTINGS)
    (cell,) = ff.Study(**PLAIN | {"common": given, "grid": {}, "seeds": 1}).cells()
    plain = Cell(Rope(), FixedOffset(2)).resolved()
    same = {name for name in cell.config() if cell.config()[name] == plain.config()[name]}
    assert same == {"seed", "data_seed", "evaluation_seed"}
    assert (cell.shortest, cell.longest, cell.lengths) == (4, 12, (8, 20))
    assert ff.Study(**PLAIN | {"seeds": 1}).cells() == [plain]


def test_the_seeds_of_weights_batches_and_tests_can_be_told_apart():
    together = ff.Study(**PLAIN | {"seeds": [5, 3]})
    assert [cell.seeds for cell in together.cells()] == [Seeds(5, 5, 5), Seeds(3, 3, 3)]
    apart = ff.Study(**PLAIN | {"seeds": {"model": 2, "data": [9], "evaluation": [0, 4]}})
    assert [cell.seeds for cell in apart.cells()] == [Seeds(0, 9, 0), Seeds(0, 9, 4), Seeds(1, 9, 0), Seeds(1, 9, 4)]
    assert all(cell == cell.resolved() for cell in apart.cells())
    assert len({cell.identity for cell in apart.cells()}) == 4


def test_a_budget_takes_the_place_of_settings_and_seeds_it_names():
    study = ff.Study(**PLAIN, budget={"quick": {"seeds": 1, "steps": 5}, "sure": {"seeds": {"data": 3}}})
    (quick,) = study.cells("quick")
    assert (quick.steps, quick.seed) == (5, 0)
    assert {cell.steps for cell in study.cells()} == {4000}
    assert len(study.cells("sure")) == 8 * 3
    with pytest.raises(ff.FarfieldError, match=r"unknown budget 'quik': did you mean 'quick'\?"):
        study.cells("quik")


def test_python_and_file_say_the_same_and_a_study_survives_being_written(tmp_path):
    study = read(tmp_path, example())
    again = ff.Study(**json.loads(json.dumps(study.to_json())))
    assert again == study
    assert [cell.identity for cell in again.cells("full")] == [cell.identity for cell in study.cells("full")]
    made = ff.Study(**PLAIN | {"common": {"task": FixedOffset(2)}, "grid": {"encoding": [Rope()]}})
    assert made.cells() == ff.Study(**PLAIN).cells()


@pytest.mark.parametrize("kind", [encodings, tasks], ids=["encodings", "tasks"])
def test_an_entry_written_in_one_line_is_read_as_the_same_entry(kind):
    for name in kind:
        required = [f for f in dataclasses.fields(kind[name]) if f.default is dataclasses.MISSING]
        entry = kind.parse(f"{name}:{','.join(f'{field.name}=3' for field in required)}")
        floats = {f.name: 0.1 + 0.2 for f in dataclasses.fields(entry) if isinstance(getattr(entry, f.name), float)}
        for made in (entry, dataclasses.replace(entry, **floats)):
            assert kind.parse(kind.format(made)) == made
    assert kind.format(kind.parse("rope:500000" if kind is encodings else "offset:3")) in (
        "rope:base=500000",
        "offset:3",
    )


def test_the_schema_knows_every_key_and_every_name():
    content = json.loads(json.dumps(schema()))
    assert set(content["properties"]) == set(ff.Study.model_fields)
    common = content["$defs"]["Settings"]
    assert set(common["properties"]) == set(SETTINGS)
    assert common["additionalProperties"] is False
    assert set(encodings) <= set(common["properties"]["encoding"]["anyOf"][0]["enum"])
    assert content["$defs"]["Axes"]["properties"]["steps"]["items"]["minimum"] == 1
    assert content["required"] == ["name", "question"]


def test_new_writes_the_example_once_and_plan_reads_it(tmp_path, capsys):
    path = tmp_path / "mine.toml"
    with pytest.raises(SystemExit) as ended:
        main(["study", "new", str(path)])
    assert (ended.value.code, path.read_text()) == (0, example())
    path.write_text("changed")
    with pytest.raises(SystemExit) as ended:
        main(["study", "new", str(path)])
    assert (ended.value.code, path.read_text()) == (2, "changed")
    assert "is there already" in capsys.readouterr().err
    with pytest.raises(SystemExit):
        main(["study", "new", str(path), "--force"])
    capsys.readouterr()
    with pytest.raises(SystemExit) as ended:
        main(["study", "plan", str(path), "--seconds", "0", "--json"])
    content = json.loads(capsys.readouterr().out)
    assert ended.value.code == 0
    assert (content["configurations"], content["cells"], content["missing"]) == (4, 12, 12)
    assert content["axes"] == {"encoding": ["rope", "learned"], "task": ["offset:1", "offset:3"]}
    assert content["estimate"] is None


def test_new_leaves_the_old_file_where_the_disk_is_full(tmp_path, monkeypatch, capsys):
    path = tmp_path / "mine.toml"
    path.write_text("mine")

    def refused(*arguments) -> str:
        with pytest.raises(SystemExit) as ended:
            main(["study", "new", *map(str, arguments)])
        assert ended.value.code == 2
        return capsys.readouterr().err

    assert "is a folder: name a file in it" in refused(tmp_path)
    assert "there is no folder" in refused(tmp_path / "absent" / "mine.toml")
    os.mkfifo(tmp_path / "pipe")  # no device of this machine, which a fault here would replace
    assert "is a device or a pipe" in refused(tmp_path / "pipe", "--force")
    (tmp_path / "pipe").unlink()
    monkeypatch.setattr(files, "flush", lambda path: (_ for _ in ()).throw(OSError(28, "No space left on device")))
    for more in ([path, "--force"], [tmp_path / "new.toml"]):
        assert refused(*more).endswith("No space left on device; nothing was left there\n")
    assert path.read_text() == "mine"
    assert list(tmp_path.iterdir()) == [path]


def test_a_plan_counts_what_is_compiled_and_what_a_folder_holds(tmp_path):
    study = ff.Study(
        **PLAIN | {"seeds": 3, "grid": {"encoding": ["rope", "rope:500", "learned"], "test": [[16], [16, 20]]}}
    )
    cells = study.cells()
    for cell in cells[:4]:
        put(tmp_path, cell)
    before = sorted(tmp_path.iterdir())
    found = planning.plan(study, out=tmp_path, seconds=0)
    assert sorted(tmp_path.iterdir()) == before, "a plan writes nothing"
    assert (found.cells, found.held) == (18, 4)
    assert sum(program.cells for program in found.programs) == 14
    assert (len(found.programs), found.test_programs) == (3, 4)  # a learned table's rows follow the longest test
    assert found.chunks == len(chunks(cells[4:]))
    assert planning.plan(study, out=tmp_path / "none", seconds=0).held == 0
    assert not (tmp_path / "none").exists()


def test_a_plan_counts_damaged_cells_as_work_and_refuses_what_a_run_refuses(tmp_path):
    study = ff.Study(**PLAIN | {"seeds": 3})
    store, (cut, without, _) = tmp_path / "store", study.cells()
    for cell in study.cells():
        put(store, cell)
    json_of(store, cut.identity).write_bytes(b"{")
    tensors_of(store, without.identity).unlink()
    with pytest.warns(DamagedFile) as caught:
        assert planning.plan(study, out=store, seconds=0).held == 1
    assert len(caught) == 2
    (tmp_path / "file").touch()
    for out in ("file", "file/below", "a" * 300):
        with pytest.raises(ff.FarfieldError, match=out[:30]):
            planning.plan(study, out=tmp_path / out, seconds=0)


def test_an_estimate_grows_with_the_work_and_shrinks_with_workers(monkeypatch):
    told = planning.Measured(compiling=2.0, compiling_tests=1.0, step=0.001, test=1e-6, memory=1000)
    monkeypatch.setattr(planning, "measure", lambda cell: told)

    def estimate(workers=1, **changes):
        common = {"task": "offset:2", "steps": 100, **changes}
        study = ff.Study(**PLAIN | {"seeds": 8, "common": common, "grid": {"encoding": ["rope", "learned"]}})
        return planning.plan(study, workers=workers, seconds=1e-9).estimate

    one = estimate()
    assert (one.measured, one.compiling) == (1, 6.0)
    assert one.training == pytest.approx(4 * 100 * 0.001)  # two chunks of four seeds an encoding
    assert one.testing == pytest.approx(4 * 7 * 4096 * 1e-6)
    assert one.seconds == pytest.approx(one.compiling + one.training + one.testing)
    assert estimate(steps=300).training == pytest.approx(3 * one.training)
    assert estimate(workers=2).seconds == pytest.approx(one.compiling + (one.training + one.testing) / 2)
    assert estimate(workers=99).workers == 4


@pytest.mark.slow
def test_a_program_is_measured_by_running_it(monkeypatch):
    monkeypatch.setattr(programs, "compiler_options", lambda: {"xla_backend_optimization_level": 0})
    monkeypatch.setattr(programs, "_compiled", {})
    cell = Cell(Rope(), FixedOffset(2), steps=5, batch=8, sequences=16, lengths=(8, 12), vocabulary=8).resolved()
    found = planning.measure(cell)
    assert found.compiling > found.step > 0
    assert found.test > 0
    weights = training.initial_parameters(cell.shape, cell.knobs)
    assert found.memory > 4 * sum(leaf.nbytes for leaf in jax.tree.leaves(weights))
