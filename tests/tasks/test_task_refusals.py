"""What tasks refuse, and what their docstrings show."""

from __future__ import annotations

import dataclasses
import inspect

import pytest

from farfield.errors import FarfieldError
from farfield.tasks import tasks
from helpers.task_examples import TASKS


@pytest.mark.parametrize("spec", TASKS)
def test_there_are_more_long_sequences_than_any_training_sees(spec):
    for length, vocabulary in ((500, 1024), (2**24, 20)):
        assert tasks.parse(spec).sample_space(vocabulary, length) > 1e100 or "unique" in spec


@pytest.mark.parametrize("name", list(tasks))
def test_an_unknown_setting_is_refused(name):
    with pytest.raises(FarfieldError, match=f"unknown setting of task '{name}' 'nonsense'"):
        tasks.parse(f"{name}:nonsense=1")


@pytest.mark.parametrize("name", list(tasks))
def test_the_docstring_states_every_setting_and_shows_rows_of_an_example(name):
    text = inspect.getdoc(tasks[name])
    assert text.split("\n")[0].endswith(".") or "\n\n" in text
    for field in dataclasses.fields(tasks[name]):
        assert field.name in text
    for word in ("tokens ", "answers "):
        assert any(line.strip().startswith(word) for line in text.split("\n"))


@pytest.mark.parametrize(
    ("spec", "vocabulary", "shortest", "longest", "reason"),
    [
        ("offset:0", 20, 8, 16, "offset:0 must be at least 1"),
        ("offset:8", 20, 8, 16, "offset:8 reaches outside sequences of length 8: use an offset of at most 7"),
        ("offset:3", 20, 1, 16, "use lengths of at least 4"),
        ("shift:0", 20, 8, 16, "shift:0 must be at least 1"),
        ("shift:9", 20, 8, 16, "shift:9 reaches outside sequences of length 8: .* lengths of at least 10"),
        ("position:-1", 20, 8, 16, "position:-1 must be at least 0"),
        ("position:8", 20, 8, 16, "position:8 lies outside sequences of length 8: use a position of at most 7"),
        ("fraction:1", 20, 8, 16, "fraction:1 must be at least 2"),
        ("mode:near=0", 20, 8, 16, "mode:near=0,far=3: near must be at least 1"),
        ("mode:near=3,far=3", 20, 8, 16, "far must be larger than near: swap them, or use offset:3"),
        ("mode:far=8", 20, 8, 16, "mode:near=1,far=8 needs a length of at least 9, .*: got 8"),
        ("mode", 3, 8, 16, "needs a vocabulary of at least 4, for two mode tokens and two others: got 3"),
        ("marker", 20, 1, 16, "marker needs a length of at least 2"),
        ("marker", 3, 8, 16, "marker needs a vocabulary of at least 4"),
        ("induction", 20, 2, 16, "induction needs a length of at least 3"),
        ("induction", 2, 8, 16, "induction needs a vocabulary of at least 3"),
        ("copy", 20, 1, 16, "copy needs a length of at least 2"),
        ("reverse", 3, 8, 16, "reverse needs a vocabulary of at least 4"),
        (
            "copy:unique=true",
            20,
            8,
            48,
            "at length 48 needs 24 different tokens .* vocabulary of at least 26",
        ),
        ("sort:unique=true", 9, 16, None, "sort:unique=true at length 16 .* lengths of at most 15, or unique=false"),
        ("addition", 20, 4, 16, "addition needs a length of at least 5"),
        ("addition", 12, 8, 16, "addition needs a vocabulary of at least 13, for ten digits, plus, equals and filler"),
    ],
)
def test_a_setting_that_cannot_work_is_refused_with_its_reason(spec, vocabulary, shortest, longest, reason):
    with pytest.raises(FarfieldError, match=reason):
        tasks.parse(spec).check(vocabulary, shortest, longest)


@pytest.mark.parametrize("text", ["copy:unique=perhaps", "mode:near=1.5", "shift", "fraction:half"])
def test_a_setting_that_cannot_be_read_is_refused(text):
    with pytest.raises(FarfieldError, match=text.split(":")[0]):
        tasks.parse(text)
