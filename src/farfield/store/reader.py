"""Reading a store: its measurements as a data frame, as SQL, or as results with their weights."""

from __future__ import annotations

import itertools
import json
import warnings
from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import duckdb
import numpy as np

from farfield._checks import absolute, checked_folder
from farfield.errors import FarfieldError
from farfield.identity import DATA_VERSION
from farfield.probes.failure import WAYS
from farfield.seeds.scores import PROBES, ModelScores
from farfield.store.files import first_line
from farfield.store.folder import Contents, Listing, listing, read_cells
from farfield.store.interrupting import interruptible
from farfield.store.status import StoreStatus, status
from farfield.store.tables import open_tables, quoted
from farfield.store.verify import Verified, verify

if TYPE_CHECKING:
    import pandas

    from farfield.results.result import CellResult
    from farfield.seeds.summary import Summary


# DuckDB makes a type of the values that it finds for such a PIVOT, which is more than reading.
PIVOT_IN_FULL = "a PIVOT here needs the values of its columns: PIVOT ... ON length IN (16, 48) USING avg(value)"


class Table(NamedTuple):
    """What a query found."""

    columns: list[str]
    rows: list[tuple[Any, ...]]


class Store:
    """A store as it was when it was opened, in memory; nothing in its folder is changed.

    Args:
        folder: of a store.

    Attributes:
        folder: the same.
        listing: names and sizes of its files.
        contents: its finished cells, and the files that are left out.

    Raises:
        FarfieldError: if there is no such folder, or it cannot be read.
    """

    def __init__(self, folder: Path | str) -> None:
        given = checked_folder("folder", folder)
        self.listing: Listing = listing(given)
        self.contents: Contents = read_cells(given, self.listing)
        self.folder = absolute(given)
        self._connection = open_tables(self.contents.cells)
        # What is asked of it later cannot reach beyond these tables.
        self._connection.execute("SET enable_external_access = false; SET lock_configuration = true")

    def __repr__(self) -> str:
        return f"<store {self.folder}: {len(self.contents.cells)} cells>"

    def cells(self) -> pandas.DataFrame:
        """One row a finished cell: its settings as a user writes them, whether it diverged, versions, platform."""
        return self._connection.cursor().execute("FROM cells").df()

    def measurements(self, *probes: str) -> pandas.DataFrame:
        """One row a measurement: the columns of its cell, ``probe``, ``length`` (missing where none) and ``value``.

        Args:
            probes: those wanted, for example ``"accuracy"``; all of them if none is named.

        Raises:
            FarfieldError: for a probe that the store does not have.
        """
        import pandas

        cells = self._connection.cursor().execute("FROM all_cells").df()
        about = [name for name in self._names("measurements") if name not in ("probe", "length", "value")]
        found = self._numbers(probes)
        place = found["number"] - 1  # numbers count the rows of all_cells from 1
        columns: dict[str, Any] = {}
        for name in about:
            column = cells[name]
            # A text of a cell stands beside hundreds of measurements: held once, it costs a tenth.
            repeats = column.astype("category").array if _holds_text(column) else column.array
            columns[name] = repeats.take(place)
        places = list(columns).index("diverged") if "diverged" in columns else len(columns)
        length = pandas.array(np.ma.filled(found["length"], 0), dtype="Int64")
        length[np.ma.getmaskarray(found["length"])] = pandas.NA
        frame = pandas.DataFrame(columns)
        frame.insert(places, "probe", pandas.Categorical(found["probe"]))
        frame.insert(places + 1, "length", length)
        frame.insert(places + 2, "value", found["value"])
        return frame

    def _numbers(self, probes: tuple[str, ...]) -> dict[str, Any]:
        connection = self._connection.cursor()
        self._check_probes(probes)
        wanted = f"WHERE probe IN ({', '.join(map(quoted, probes))})" if probes else ""
        return connection.execute(
            f"SELECT * FROM numbers {wanted} ORDER BY number, probe, length NULLS LAST"
        ).fetchnumpy()

    def _check_probes(self, probes: Iterable[Any]) -> None:
        known = {row[0] for row in self.rows("SELECT DISTINCT probe FROM numbers").rows}
        if absent := sorted(map(str, {*probes} - known)):
            raise FarfieldError(f"the store has no probe {', '.join(absent)}; it has {', '.join(sorted(known))}")

    def _names(self, table: str) -> list[str]:
        return [row[0] for row in self._connection.cursor().execute(f"DESCRIBE {table}").fetchall()]

    def sql(self, query: str) -> pandas.DataFrame:
        """What a query of the tables ``measurements`` and ``cells`` finds; columns of one name are numbered.

        >>> ff.open_store("runs").sql("SELECT encoding, avg(value) FROM measurements "   # doctest: +SKIP
        ...                     "WHERE probe = 'accuracy' AND length = 48 GROUP BY encoding")

        Raises:
            FarfieldError: for a query that is wrong, does not read, or reaches for anything else.
        """
        return self._run(query, _frame)

    def rows(self, query: str) -> Table:
        """The same as plain rows, without pandas."""
        return self._run(query, lambda found: Table(_names_of(found), found.fetchall()))

    def _run(self, query: str, fetch: Any) -> Any:
        if not isinstance(query, str) or not _is_text(query):
            raise FarfieldError(f"query = {query!r} must be a text in SQL, for example 'SELECT * FROM cells'")
        connection = self._connection.cursor()
        try:
            statements = connection.extract_statements(query)
            kinds = {statement.type for statement in statements}
            if kinds == {duckdb.StatementType.MULTI}:
                raise FarfieldError(PIVOT_IN_FULL)
            if len(statements) != 1 or not kinds <= {duckdb.StatementType.SELECT, duckdb.StatementType.EXPLAIN}:
                raise FarfieldError(
                    "one query that reads is wanted, for example SELECT encoding, avg(value) FROM measurements "
                    "WHERE probe = 'accuracy' GROUP BY encoding"
                )
            return interruptible(connection, lambda: _read(connection, query, fetch))
        except duckdb.PermissionException:
            raise FarfieldError(
                "the query reaches outside the store: it may read the tables measurements and cells, and nothing else"
            ) from None
        except duckdb.Error as reason:
            raise FarfieldError(f"the query cannot run: {self._in_words(reason)}") from None

    def _in_words(self, reason: duckdb.Error) -> str:
        text = first_line(reason)
        if isinstance(reason, duckdb.CatalogException) and text.startswith("Catalog Error: Table"):
            return f"{text} The tables are measurements and cells."
        if isinstance(reason, duckdb.BinderException) and "not found" in text:
            return f"{text} {self._columns(text)}"
        return text

    def _columns(self, text: str) -> str:
        """What to write in place of a column that is not there."""
        column = text.partition('"')[2].partition('"')[0]
        if self.rows(f"SELECT 1 FROM numbers WHERE probe = {quoted(column)} LIMIT 1").rows:
            return f"It is a probe: SELECT value FROM measurements WHERE probe = {quoted(column)}."
        cells, measurements = self._names("cells"), self._names("measurements")
        more = [name for name in measurements if name not in cells]
        return f"cells has {', '.join(cells)}; measurements has {', '.join(more)} as well."

    def results(self, where: str = "true") -> Iterator[CellResult]:
        """Finished cells with their weights, one after another; damaged ones are left out with a warning.

        Args:
            where: which, in the columns of ``cells``, for example ``"encoding = 'rope' AND seed < 3"``.

        Raises:
            FarfieldError: for a condition that is wrong.
        """
        from farfield.cell import Cell
        from farfield.store.store import StoreWriter

        found = self.rows(
            f"SELECT identity, config, data_version FROM cells WHERE (\n{where}\n) ORDER BY identity"
        ).rows
        store = StoreWriter(self.folder, reading=True)
        for identity, config, data_version in found:
            if data_version != DATA_VERSION:
                warnings.warn(f"{identity} was made under data version {data_version}: left out", stacklevel=2)
                continue
            result = store.read(Cell.from_config(json.loads(config)))
            if result is not None:
                yield result

    def scores(self, where: str = "true", probes: Sequence[str] = PROBES) -> list[ModelScores]:
        """What the cells of the current data version measured.

        Args:
            where: which cells, in the columns of ``cells``.
            probes: those to read, beside what fitting and losing are told by.
        """
        chosen = f"(SELECT * FROM cells WHERE data_version = {DATA_VERSION} AND (\n{where}\n))"
        names = ", ".join(quoted(probe) for probe in {*probes, *PROBES, *WAYS, "chance"})
        values: dict[str, dict[tuple[str, int], float]] = defaultdict(dict)
        measured = f"SELECT identity, probe, length, value FROM measurements SEMI JOIN {chosen} USING (identity)"
        for identity, probe, length, value in self.rows(
            f"{measured} WHERE length IS NOT NULL AND probe IN ({names})"
        ).rows:
            values[identity][probe, length] = value
        order = "encoding, task, model, normalizer, positions, test_positions, identity"
        cells = self.rows(f"SELECT identity, config, diverged, tensors_sha256 FROM {chosen} ORDER BY {order}").rows
        return [
            ModelScores(json.loads(config), values[identity], diverged, content)
            for identity, config, diverged, content in cells
        ]

    def status(self) -> StoreStatus:
        """Where the store stood when it was opened: cells by encoding and task, what failed, diverged or is damaged."""
        return status(self.folder, (self.listing, self.contents))

    def verify(self) -> Verified:
        """Read every file of the folder as it is now, tensors included, and name each that is not sound."""
        return verify(self.folder)

    def export(self, output: Path | str, **settings: Any) -> int:
        """Write the folder's cells as one file; see :func:`farfield.store.export.export`, which has the settings."""
        from farfield.store.export import export  # pandas

        return export(self.folder, output, **settings)

    def summaries(self, where: str = "true", **settings: Any) -> list[Summary]:
        """Statistics over seeds of every setting; see :func:`farfield.seeds.summary.summarize`.

        Args:
            where: which cells, in the columns of ``cells``.
            settings: of :func:`farfield.seeds.summary.summarize`.
        """
        from farfield.seeds.summary import summarize

        probes = settings.get("probes", PROBES)
        found = summarize(self.scores(where, probes), **settings)
        if "probes" in settings:
            self._check_probes(probes)
        return found


def open_store(folder: Path | str) -> Store:
    """Open a store to read it.

    >>> import farfield as ff
    >>> ff.open_store("runs").measurements().groupby(["encoding", "length"]).value.mean()     # doctest: +SKIP

    Raises:
        FarfieldError: if there is no such folder, or it cannot be read.
    """
    return Store(folder)


def _read(connection: duckdb.DuckDBPyConnection, query: str, fetch: Any) -> Any:
    connection.execute("BEGIN TRANSACTION READ ONLY")
    try:
        return fetch(connection.execute(query))
    finally:
        connection.execute("ROLLBACK")


def _frame(found: duckdb.DuckDBPyConnection) -> pandas.DataFrame:
    names = _names_of(found)
    frame = found.df()
    frame.columns = names
    return frame


def _names_of(found: duckdb.DuckDBPyConnection) -> list[str]:
    """The columns of an answer, each name once: ``a``, ``a_1``, ``a_2``."""
    given = [column[0] for column in found.description or []]
    names: list[str] = []
    for name in given:
        others = (f"{name}_{number}" for number in itertools.count(1))
        free = (other for other in others if other not in names and other not in given)
        names.append(next(free) if name in names else name)
    return names


def _is_text(query: str) -> bool:
    """Whether UTF-8 can hold a query: not what Python makes of bytes in another encoding."""
    return query == query.encode(errors="ignore").decode()


def _holds_text(column: Any) -> bool:
    return column.dtype == object or str(column.dtype).startswith("str")
