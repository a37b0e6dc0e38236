"""Where each key and value of a TOML text stands: the standard library's reader does not say."""

from __future__ import annotations

import bisect
import re

# A key of a table, or the number of an entry in a list.
KeyPlace = tuple[str | int, ...]

BLANK = re.compile(r"(?:[ \t\r\n]|#[^\n]*)*")
BARE_KEY = re.compile(r"[A-Za-z0-9_-]+")
# What ends a number, a date or a truth value.
PLAIN_VALUE = re.compile(r"[^,\]}#\r\n]*")
STRING = re.compile(r'"""(?:[^\\]|\\.)*?"{3,5}|\'\'\'.*?\'{3,5}|"(?:[^"\\]|\\.)*"|\'[^\']*\'', re.DOTALL)


def lines_of(text: str) -> dict[KeyPlace, int]:
    """The line, counted from 1, on which each key, each section and each entry of a list begins.

    Args:
        text: TOML that ``tomllib`` has read without an error; anything else is misread.

    >>> lines_of('a = 1\\n[b]\\nc = [1,\\n2]')[("b", "c", 1)]
    4
    """
    return _Scanner(text).places


class _Scanner:
    """Walks through a text by the grammar of TOML, and notes places on its way."""

    def __init__(self, text: str) -> None:
        self.text, self.at = text, 0
        self.places: dict[KeyPlace, int] = {}
        self._ends = [match.start() for match in re.finditer("\n", text)]
        self._listed: dict[KeyPlace, int] = {}
        section: KeyPlace = ()
        self._skip()
        while self.at < len(text):
            section = self._section() if text[self.at] == "[" else self._assignment(section)
            self._skip()

    def _skip(self) -> None:
        match = BLANK.match(self.text, self.at)
        assert match is not None
        self.at = match.end()

    def _note(self, place: KeyPlace) -> None:
        self.places.setdefault(place, bisect.bisect_left(self._ends, self.at) + 1)

    def _section(self) -> KeyPlace:
        doubled = self.text.startswith("[[", self.at)
        start = self.at
        self.at += 2 if doubled else 1
        keys = self._keys()
        end, self.at = self.at, start
        section: KeyPlace = ()
        for number, key in enumerate(keys):
            section = (*section, key)
            self._note(section)
            last = number == len(keys) - 1
            if last and doubled:
                self._listed[section] = self._listed.get(section, -1) + 1
            if section in self._listed:
                section = (*section, self._listed[section])
                self._note(section)
        self.at = end + (2 if doubled else 1)
        return section

    def _assignment(self, section: KeyPlace) -> KeyPlace:
        """Read ``keys = value``; the section is returned unchanged."""
        start = self.at
        keys = self._keys()
        end, self.at = self.at, start
        place = section
        for key in keys:
            place = (*place, key)
            self._note(place)
        self.at = end + 1
        self._skip()
        self._value(place)
        return section

    def _keys(self) -> list[str]:
        """The parts of a dotted key; afterwards the place is at what follows it."""
        keys = []
        while True:
            self._skip()
            match = BARE_KEY.match(self.text, self.at) or STRING.match(self.text, self.at)
            assert match is not None
            keys.append(match[0].strip("\"'"))
            self.at = match.end()
            self._skip()
            if not self.text.startswith(".", self.at):
                return keys
            self.at += 1

    def _value(self, place: KeyPlace) -> None:
        opening = self.text[self.at : self.at + 1]
        if opening in ("[", "{"):
            self._entries(place, "]" if opening == "[" else "}")
            return
        match = STRING.match(self.text, self.at) or PLAIN_VALUE.match(self.text, self.at)
        assert match is not None
        self.at = match.end()

    def _entries(self, place: KeyPlace, closing: str) -> None:
        """Read the list or the inline table that begins here."""
        self.at += 1
        number = 0
        self._skip()
        while not self.text.startswith(closing, self.at):
            if closing == "]":
                entry = (*place, number)
                self._note(entry)
                self._value(entry)
            else:
                self._assignment(place)
            number += 1
            self._skip()
            if self.text.startswith(",", self.at):
                self.at += 1
                self._skip()
        self.at += 1
