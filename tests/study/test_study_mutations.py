"""Five hundred damaged study files: each is planned or refused in plain words, and lines are told rightly."""

import collections
import dataclasses
import json
import re
import tomllib

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import farfield as ff
from farfield.cell import PARTS, Cell
from farfield.engine.scheduler import run
from farfield.study.file import example
from farfield.study.plan import plan
from farfield.study.toml_lines import lines_of

# The example with what it only mentions, so that every section can be damaged.
WHOLE = (
    example()
    .replace("seeds = 3\n", "")
    .replace("[grid]", "[seeds]\nmodel = 2\ndata = [7]\n\n[grid]")
    .replace("[budget.quick]", "[zip]\nvocabulary = [10, 20]\nbatch = [64, 32]\n\n[budget.quick]")
    .replace("batch = 128\n", "snapshots = [0, 200]\n")
    .replace('["offset:1", "offset:3"]', '["offset:3"]')
    + '\n[[cell]]\nnormalizer = "softmax"\npath = "auto"\n'
)
ODD = [
    *("0", "-1", "1", "3", "1.5", "nan", "inf", "-inf", "1e400", "true", "1979-05-27", "10:00:00", "9" * 30),
    *('""', '"rope"', '"offset:2"', '"8:16"', '"16:8"', '"9"', '"t5"', '"[1]"', '"rope:"', '":"', '",="', '"\\u0000"'),
    *("[]", "[1]", "[3,2]", "[1.0]", "[[1]]", '["rope"]', "[true]", '[""]', "{}", "{a=1}", "=", "[", '"', "''"),
]
KEYS = [
    *("name", "question", "probes", "common", "grid", "zip", "cell", "budget", "seeds", "encoding", "task", "steps"),
    *("stepz", "lengths", "x", '""', "a.b"),
]
NAMES = [
    (part, name, field.name)
    for part, kind in PARTS.items()
    for name in kind
    for field in dataclasses.fields(kind[name])
]
GARBAGE = [
    b"\x00",
    b"\xff",
    b"\r",
    b"\x1b[2J",
    b"'",
    b'"',
    b"[",
    b"]",
    b"=",
    b"\n",
    b"#",
    b"{",
    "\u202e".encode(),
    b"\xef\xbb\xbf",
]
# What belongs to Python or a library, and tells a user nothing.
FOREIGN = re.compile(r"Traceback|NoneType|<class|object at|pydantic|Input should|validation error|Value error|\[type=")


def odd_part(draw) -> tuple[str, str]:
    """A part of a cell, and an entry of its registry with a setting that may be odd."""
    part, name, field = draw(st.sampled_from(NAMES))
    return (
        part,
        f'"{name}:{field}={draw(st.sampled_from(["0", "-1", "nan", "inf", "x", "1e9", "1;2", "3", "0.5", ""]))}"',
    )


def odd_value(draw) -> str:
    return draw(st.sampled_from(ODD)) if draw(st.booleans()) else odd_part(draw)[1]


@st.composite
def damaged(draw) -> bytes:
    """The whole example after a change or two of a line or a byte."""
    lines = [line for line in WHOLE.splitlines() if line and not line.startswith("#")]
    for _ in range(draw(st.integers(1, 2))):
        at = draw(st.integers(0, len(lines) - 1))
        key, equals, value = lines[at].partition(" = ")
        change = draw(
            st.sampled_from(["drop", "twice", "move", "rename", "value", "part", "part", "part", "swap", "insert"])
        )
        if change == "drop":
            lines = lines[:at] + lines[at + 1 :] or [""]
        elif change == "twice":
            lines.insert(at, lines[at])
        elif change == "move":
            lines.insert(draw(st.integers(0, len(lines) - 1)), lines.pop(at))
        elif change == "rename":
            new = draw(st.sampled_from(KEYS))
            lines[at] = f"{new} = {value}" if equals else f"[{new}]"
        elif change == "value":
            lines[at] = f"{key} = {odd_value(draw)}"
        elif change == "part":
            part, value = odd_part(draw)
            at = next((index for index, line in enumerate(lines) if line.startswith(f"{part} = ")), at)
            lines[at] = f"{part} = [{value}]" if "[" in lines[at] else f"{part} = {value}"
        elif change == "swap":
            other = draw(st.integers(0, len(lines) - 1))
            lines[at] = key + equals + lines[other].partition(" = ")[2]
        else:
            lines.insert(at, f"{draw(st.sampled_from(KEYS))} = {odd_value(draw)}")
    content = "\n".join(lines).encode()
    if draw(st.integers(0, 3)) == 0:
        at = draw(st.integers(0, len(content)))
        content = content[:at] + draw(st.sampled_from(GARBAGE)) + content[at + draw(st.integers(0, 2)) :]
    return content


def test_five_hundred_damaged_files_are_planned_or_refused_in_plain_words(tmp_path):
    path, ends = tmp_path / "study.toml", collections.Counter()

    @settings(max_examples=500)
    @given(damaged())
    def read(content):
        path.write_bytes(content)
        try:
            study = ff.load_study(path)
            assert json.dumps(plan(study, seconds=0).to_json(), allow_nan=False)
            ends["planned"] += 1
        except ff.FarfieldError as reason:
            ends["refused"] += 1
            lines = str(reason).splitlines()
            assert 0 < len(lines) <= 11
            for line in lines:
                assert line.startswith((str(path), "and "))
                assert line.isprintable()
                assert len(line) < 1200
                assert not FOREIGN.search(line), line

    read()
    assert ends["planned"] > 30
    assert ends["refused"] > 300
    assert sum(ends.values()) >= 500


@pytest.mark.slow
def test_a_damaged_file_that_is_planned_also_runs(tmp_path):
    """A handful of them, at a tiny size."""
    path = tmp_path / "study.toml"
    small = WHOLE + "\n[budget.tiny]\nseeds = 1\nsteps = 2\nsequences = 4\nsnapshots = [0]\n"
    cells: dict[str, Cell] = {}

    @settings(max_examples=200)
    @given(damaged())
    def collect(content):
        path.write_bytes(
            content.replace(b"steps = 600", b"steps = 2").replace(b"snapshots = [0, 200]", b"snapshots = [0]")
        )
        try:
            study = ff.load_study(path)
        except ff.FarfieldError:
            return
        for cell in study.cells()[:1]:
            if cell.steps <= 200 and cell.batch <= 256 and max(cell.lengths) <= 48:
                cells.setdefault(cell.identity, cell)

    path.write_text(small)
    cells["undamaged"] = ff.load_study(path).cells("tiny")[0]
    collect()
    assert len(cells) >= 3
    results = run(list(cells.values())[:5])
    assert all(result.tested.sum() > 0 for result in results)


@given(damaged())
@settings(max_examples=300)
def test_the_line_of_every_key_and_entry_is_where_the_file_has_it(content):
    """Whatever the standard library reads is found by the scanner, and nothing else is."""
    try:
        text = content.decode()
        table = tomllib.loads(text)
    except (ValueError, UnicodeDecodeError):
        return
    places, rows = lines_of(text), text.splitlines()

    def walk(value, place):
        entries = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else []
        for key, inner in entries:
            here = (*place, key)
            assert here in places or '"' in str(key) or "" in here, here
            if here in places and isinstance(key, str):
                assert key in rows[places[here] - 1]
            walk(inner, here)

    walk(table, ())


def test_lines_of_lists_tables_and_texts_over_several_lines():
    text = (
        'a = """\n[no]\nb = 1\n"""\n'  # 1-4
        "[x.y] # [z]\n"  # 5
        "'q r' . s = [ # ]\n  [1, 2], '''\n''',\n  {k = 1, l = [\n 3]}]\n"  # 6-10
        "[[c]]\nd = 1979-05-27 07:32:00\n[c.e]\nf = 1\n[[c]]\nd.g = '#'\n"  # 11-16
    )
    tomllib.loads(text)
    places = lines_of(text)
    assert places[("a",)] == 1
    assert ("no",) not in places
    assert (places[("x",)], places[("x", "y")]) == (5, 5)
    inner = ("x", "y", "q r", "s")
    assert [places[(*inner, index)] for index in range(3)] == [7, 7, 9]
    assert places[(*inner, 2, "l", 0)] == 10
    assert places[("c", 0, "d")] == 12
    assert places[("c", 0, "e", "f")] == 14
    assert (places[("c", 1)], places[("c", 1, "d", "g")]) == (15, 16)
