"""One name, one meaning: no public class of the package has the name of another."""

from __future__ import annotations

import ast
from collections import defaultdict
from pathlib import Path

import farfield as ff

PACKAGE = Path(ff.__file__).parent


def defined(path: Path) -> list[str]:
    """Public names of classes, and of types given a name, at the top of a file."""
    names = []
    for node in ast.parse(path.read_text(encoding="utf-8")).body:
        if isinstance(node, ast.ClassDef):
            names.append(node.name)
        elif isinstance(node, ast.Assign):
            names += [target.id for target in node.targets if isinstance(target, ast.Name)]
    # What is in capitals is a constant.
    return [name for name in names if name[0].isupper() and not name.isupper()]


def test_no_public_class_is_defined_twice():
    places = defaultdict(list)
    for path in sorted(PACKAGE.rglob("*.py")):
        for name in defined(path):
            places[name].append(str(path.relative_to(PACKAGE)))
    assert {name: found for name, found in places.items() if len(found) > 1} == {}


def test_every_public_name_can_be_had_and_is_listed():
    assert dir(ff) == sorted(ff.__all__)
    for name in ff.__all__:
        assert getattr(ff, name) is not None
    assert len(ff.__all__) <= 50
