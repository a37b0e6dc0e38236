"""Study files that are refused: in plain words, each mistake with its line, no traceback."""

import pytest

import farfield as ff
from farfield.cli import main

HEAD = 'name = "a"\nquestion = "Why?"\nseeds = 2\n'
SMALL = HEAD + '[common]\ntask = "offset:2"\n[grid]\nencoding = ["rope", "learned"]\n'


@pytest.fixture
def refused(tmp_path, capsys):
    """Reads a file by `study plan` and returns what it complains of, without the folder's name."""

    def read(content: str | bytes, *options: str) -> list[str]:
        path = tmp_path / "study.toml"
        path.write_bytes(content if isinstance(content, bytes) else content.encode())
        with pytest.raises(SystemExit) as ended:
            main(["study", "plan", str(path), "--seconds", "0", *options])
        said = capsys.readouterr()
        assert ended.value.code == 2, said.out
        assert said.out == ""
        lines = said.err.splitlines()
        assert all(line.startswith("farfield: error: ") for line in lines)
        return [line.removeprefix("farfield: error: ").replace(f"{tmp_path}/", "") for line in lines]

    return read


REFUSED = {
    "unknown key at the top": (
        SMALL.replace("seeds", "sedes"),
        ["study.toml:3: unknown key 'sedes': did you mean 'seeds'?"],
    ),
    "unknown key in a section": (
        SMALL.replace("task =", "taks ="),
        ["study.toml:5: unknown key 'taks' in [common]: did you mean 'task'?"],
    ),
    "unknown section": (
        SMALL.replace("[common]", "[comon]"),
        ["study.toml:4: unknown key 'comon': did you mean 'common'?"],
    ),
    "right key in no section": (
        SMALL.replace("seeds = 2", "seeds = 2\nsteps = 3"),
        ["study.toml:4: unknown key 'steps': it belongs in [common], or with a list of values in [grid] to vary it"],
    ),
    "top key in a section": (
        SMALL + 'probes = ["accuracy"]',
        ["study.toml:8: unknown key 'probes' in [grid]: it belongs at the top"],
    ),
    "another's name": (
        SMALL.replace("[grid]", "lr = 1\n[grid]"),
        ["study.toml:6: unknown key 'lr' in [common]: did you mean 'learning_rate'?"],
    ),
    "seed among settings": (
        SMALL.replace("[grid]", "evaluation = 1\n[grid]"),
        ["study.toml:6: unknown key 'evaluation' in [common]: it belongs in [seeds]"],
    ),
    "unknown key in a budget": (
        SMALL + "[budget.quick]\nstep = 3",
        ["study.toml:9: unknown key 'step' in [budget.quick]: did you mean 'steps'?"],
    ),
    "unknown key in a cell": (
        SMALL + "[[cell]]\nsteps = 1\n[[cell]]\nstep = 3",
        ["study.toml:11: unknown key 'step' in [[cell]]: did you mean 'steps'?"],
    ),
    "unknown key in seeds": (
        SMALL.replace("seeds = 2\n", "") + "[seeds]\nmodels = 3",
        ["study.toml:8: unknown key 'models' in [seeds]: did you mean 'model'?"],
    ),
    "no question": (SMALL.replace('question = "Why?"\n', ""), ["study.toml: question is missing: say in a sentence"]),
    "odd name": (SMALL.replace('"a"', '"../a"'), ["study.toml:1: name = '../a' must be letters, digits"]),
    "odd question": (SMALL.replace("Why?", "\\u001b[2J"), ["study.toml:2: question = '\\x1b[2J' must be a sentence"]),
    "seeds of no kind": (SMALL.replace("= 2", "= 2.5"), ["study.toml:3: seeds = 2.5 must be a number of seeds"]),
    "no seeds": (SMALL.replace("= 2", "= []"), ["study.toml:3: seeds [] must name at least one seed"]),
    "seeds twice": (
        SMALL.replace("= 2", "= [1, 1]"),
        ["study.toml:3: seeds [1, 1] must name at least one seed, and none twice"],
    ),
    "unknown probe": (
        SMALL.replace("seeds = 2", 'probes = ["acuracy"]'),
        ["study.toml:3: unknown probe 'acuracy': did you mean 'accuracy'?"],
    ),
    "text for a number": (
        SMALL.replace("[grid]", 'steps = "500"\n[grid]'),
        ["study.toml:6: steps = '500' must be a whole number"],
    ),
    "truth for a number": (
        SMALL.replace("[grid]", "steps = true\n[grid]"),
        ["study.toml:6: steps = true must be a whole number"],
    ),
    "number out of range": (
        SMALL.replace("[grid]", "steps = 0\n[grid]"),
        ["study.toml:6: steps = 0 must be a whole number from 1"],
    ),
    "number for a name": (SMALL.replace('"offset:2"', "2"), ["study.toml:5: task = 2 must be a name in quotes"]),
    "one value for an axis": (
        SMALL + "steps = 5",
        ["study.toml:8: steps = 5 must be a list of values: write steps = [...]"],
    ),
    "list for one value": (
        SMALL.replace('"offset:2"', '["offset:2"]'),
        ["study.toml:5: task = ['offset:2'] must be a name in quotes"],
    ),
    "wrong value in a list over lines": (
        SMALL.replace('["rope", "learned"]', '[\n  "rope", # one\n\n  "ropee",\n]'),
        ["study.toml:10: unknown encoding 'ropee': did you mean 'rope'?"],
    ),
    "wrong setting of a part": (
        SMALL.replace('"learned"', '"rope:bas=3"'),
        ["study.toml:7: unknown setting of encoding 'rope' 'bas': did you mean 'base'?"],
    ),
    "training lengths": (
        SMALL.replace("[grid]", "lengths = '16:8'\n[grid]"),
        ["study.toml:6: lengths = '16:8': the shortest must come first, as in '8:16'"],
    ),
    "no training lengths": (
        SMALL.replace("[grid]", "lengths = 16\n[grid]"),
        ["study.toml:6: lengths = 16: write the training"],
    ),
    "test lengths": (
        SMALL.replace("[grid]", "test = 16\n[grid]"),
        ["study.toml:6: test = 16 must be a list of whole numbers"],
    ),
    "a path": (
        SMALL.replace("[grid]", "path = 'dens'\n[grid]"),
        ["study.toml:6: unknown path 'dens': did you mean 'dense'?"],
    ),
    "empty axis": (
        SMALL + "steps = []",
        ["study.toml:8: steps = [] has no values: name at least one, or leave it out"],
    ),
    "value twice": (SMALL + "steps = [\n1,\n2,\n1]", ["study.toml:11: steps = 1 is listed twice in [grid]"]),
    "value twice in two spellings": (
        SMALL.replace('"learned"', '"rope:base=1e4"'),
        ["study.toml:7: encoding = rope is listed twice in [grid]"],
    ),
    "the same once resolved": (
        SMALL.replace('"rope"', '"learned:49"').replace("[common]", "[common]\ntest = [48]"),
        ["study.toml: the same cell as that with encoding = learned:rows=49, once defaults are filled in"],
    ),
    "uneven zip": (
        SMALL + "[zip]\nsteps = [1, 2]\nbatch = [1]",
        ["study.toml:8: lists in [zip] go along side by side and must be of one length: steps has 2, batch has 1"],
    ),
    "zip twice": (SMALL + "[zip]\nsteps = [1, 1]", ["study.toml:9: [zip] has steps = 1 twice"]),
    "cell twice": (
        SMALL + "[[cell]]\nsteps = 1\n[[cell]]\nsteps = 1",
        ["study.toml:10: [[cell]] with steps = 1 is listed twice"],
    ),
    "uneven cells": (
        SMALL + "[[cell]]\nsteps = 1\n[[cell]]\nsteps = 2\nbatch = 3",
        ["study.toml:10: [[cell]] number 1 sets no batch, number 2 does: name the same ones in each"],
    ),
    "an axis that stays": (
        SMALL.replace("[grid]", "encoding = 'rope'\n[grid]"),
        ["study.toml:8: encoding is set in [common] and [grid]: keep one of them"],
    ),
    "an axis in a budget": (
        SMALL + "[budget.quick]\nencoding = 'rope'",
        ["study.toml:9: encoding is an axis of the study: a budget can only change what all cells share"],
    ),
    "no task": (
        SMALL.replace('task = "offset:2"', ""),
        ["study.toml: task is set nowhere: write task = 'offset:2' in [common]"],
    ),
    "section for a value": (
        SMALL + "[question]",
        ["study.toml:8: not TOML: Cannot overwrite a value at column 10 (something is set twice)"],
    ),
    "value for a section": (HEAD + "common = 3", ["study.toml:4: [common] = 3 must be a section of its own"]),
    "value for a budget": (
        SMALL + "[budget]\nquick = 3",
        ["study.toml:9: [budget.quick] = 3 must be a section of its own"],
    ),
    "value for cells": (
        HEAD + "cell = 3",
        ["study.toml:4: cell = 3 must be a list of cells: write each under [[cell]]"],
    ),
    "too many combinations": (
        SMALL + f"steps = {[*range(1, 401)]}\nbatch = {[*range(1, 401)]}",
        ["study.toml: 320000 combinations of axis values are more than 100000: leave out values, or split the study"],
    ),
    "too many cells": (
        SMALL.replace("= 2", "= 1000") + f"steps = {[*range(1, 601)]}",
        ["study.toml:3: 1200 combinations with 1000 seeds are 1200000 cells, more than 1000000"],
    ),
    "not TOML": (SMALL + "steps = rope", ["study.toml:8: not TOML: Invalid value at column 9"]),
    "key twice": (
        SMALL + "encoding = []",
        ["study.toml: not TOML: Cannot overwrite a value (at end of document) (something is set twice)"],
    ),
    "deep": (SMALL + "steps = " + "[" * 50_000, ["study.toml: lists or tables are nested too deeply to be a study"]),
    "a number of thousands of digits": (
        SMALL + "steps = [" + "9" * 5000 + "]",
        ["study.toml: not TOML: Exceeds the limit"],
    ),
    "not UTF-8": (
        b'name = "a"\nquestion = "\xff"\n',
        ["study.toml:2: not text in UTF-8: save the file in that encoding"],
    ),
    "empty": ("", ["study.toml is empty: `farfield study new` writes an example"]),
    "comments alone": ("# nothing\n", ["study.toml is empty"]),
}


@pytest.mark.parametrize("case", REFUSED)
def test_a_mistake_is_refused_in_plain_words_with_its_line(case, refused):
    content, expected = REFUSED[case]
    found = refused(content)
    assert len(found) == len(expected)
    for line, start in zip(found, expected, strict=True):
        assert line.startswith(start)


def test_several_mistakes_come_in_one_go_in_the_order_of_the_file_ten_at_most(refused):
    found = refused(SMALL.replace('"rope"', '"rop"') + "step = [0]\nbatch = [0, 'x']\n")
    assert [line.split(": ")[0] for line in found] == [f"study.toml:{line}" for line in (7, 8, 9, 9)]
    many = refused(SMALL + f"batch = {[-1] * 12}\n")
    assert len(many) == 11
    assert many[-1] == "and 2 more problems"


def test_cells_that_cannot_run_are_refused_together_with_their_axis_values(refused):
    found = refused(
        SMALL.replace('"offset:2"', '"offset:8"').replace("[grid]", "[grid]\nmodel = ['head', 'head:heads=3']")
    )
    assert len(found) == 2
    assert found[0].startswith("study.toml:5: offset:8 reaches outside sequences of length 8")
    assert found[0].endswith("(encoding = rope, model = head; encoding = learned, model = head)")
    assert "does not divide into 3 heads" in found[1]
    snapshots = SMALL.replace("[grid]", "snapshots = [0, 200]\n[grid]") + "[budget.quick]\nsteps = 100"
    (line,) = refused(snapshots)
    assert line.startswith(
        "study.toml:9: with --budget quick: snapshots [0, 200] must be numbers of steps from 0 to 100"
    )
    assert "(encoding = rope; encoding = learned)" in line


def test_a_cell_that_cannot_run_is_told_with_the_line_of_the_setting_at_fault(refused):
    for section, line in (("[grid]", 8), ("[zip]", 8)):
        (said,) = refused(HEAD + f'[common]\nencoding = "rope"\n{section}\ntask = ["offset:1",\n "offset:9"]\n')
        assert said.startswith(f"study.toml:{line}: offset:9 reaches outside")
    (said,) = refused(HEAD + '[common]\nencoding = "rope"\n[[cell]]\ntask = "offset:1"\n[[cell]]\ntask = "offset:9"\n')
    assert said.startswith("study.toml:9: offset:9 reaches outside")


def test_a_folder_or_nothing_in_place_of_a_file_is_refused(tmp_path, capsys):
    for path, reason in (
        (tmp_path, "Is a directory"),
        (tmp_path / "none.toml", "No such file"),
        ("", "must name a study"),
    ):
        with pytest.raises(ff.FarfieldError, match=reason):
            ff.load_study(path)
