"""`farfield study schema`."""

from __future__ import annotations

import json


def schema() -> None:
    """Print the JSON schema of a study file, for editors that complete and check TOML.

    Examples:

        farfield study schema > study.schema.json

    A study file that begins with the line `#:schema ./study.schema.json` is then checked as it is typed.
    """
    from farfield.study.file import schema as of_file

    print(json.dumps(of_file(), indent=1))
