"""The requests about one table, as calls. `table.py` runs them, each class in its way."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, Generic, Optional, TypeVar

from . import query
from ._call import Call, ReadPart, WritePart, item, meta_text, path, read_batch, write_batch
from ._error import ApiError
from ._row import Codec, Found, Page, Written
from ._time import Coordinates, Instant, Period, instant, mark_of

R = TypeVar("R")

_VALID_FROM, _VALID_TO = "$validFrom", "$validTo"
"""The reserved members of row data that name its period."""

Meta = Optional[Mapping[str, Any]]
"""Who, why, which request: kept with the commit, at most 1,024 bytes of JSON; for API keys."""


def time_queries(at: Coordinates | None) -> list[str]:
    """Coordinates as queries."""
    queries = []
    if at is not None and at.as_of is not None:
        queries.append(query.as_of(at.as_of))
    if at is not None and at.valid_at is not None:
        queries.append(query.valid_at(at.valid_at))
    return queries


def times(queries: Sequence[str]) -> Coordinates | None:
    """The coordinates that queries name."""
    named = {one.get("method"): one.get("values") for one in _parsed(queries)}
    as_of, valid_at = ((named.get(method) or [None])[0] for method in ("asOf", "validAt"))
    return None if as_of is None and valid_at is None else Coordinates(as_of, valid_at)


def _is_absent(error: ApiError) -> bool:
    return error.type == "row_not_found"


@dataclass(frozen=True)
class TableCalls(Generic[R]):
    """One table, and how its rows are written and read."""

    database: str
    table: str
    codec: Codec[R]

    @property
    def _path(self) -> str:
        return path("tablesdb", self.database, "tables", self.table, "rows")

    def get(self, id: str, *, at: Coordinates | None = None) -> Call[R | None]:
        """The row of this id, or None."""

        def parse(members: Any, mark: int | None) -> R | None:
            return None if members is None else self.codec.decode(members, at, mark)

        params = [("queries[]", text) for text in time_queries(at)]
        part = None
        if at is None:
            part = ReadPart(self.database, self.table, id, parse)
        return Call(
            "GET", self._path + path(id), parse, params=params, absent=_is_absent, part=part
        )

    def get_many(self, ids: Sequence[str], *, at: Coordinates | None = None) -> Call[Found[R]]:
        """The rows of these ids, at most 1,000, in their order and all as of one commit."""
        return self._read({"ids": list(ids)}, at)

    def get_by(
        self, index: str, keys: Sequence[Any], *, at: Coordinates | None = None
    ) -> Call[Found[R]]:
        """The rows with these keys of a unique index, as `get_many` does it by ids.

        A key of an index of several columns is a tuple.
        """
        listed = [list(key) if isinstance(key, (tuple, list)) else [key] for key in keys]
        return self._read({"index": index, "keys": listed}, at)

    def _read(self, rows: dict[str, Any], at: Coordinates | None) -> Call[Found[R]]:
        def parse(results: Any, mark: int) -> Found[R]:
            found = item(results[0])
            where = None
            if at is not None:
                # As the server resolved them: giving them back repeats the answer for ever.
                where = Coordinates(found["asOf"], found["validAt"])
            decode = self.codec.decode
            return Found(row and decode(row, where, mark) for row in found["rows"])

        named = {} if at is None else at.members()
        return read_batch(self.database, [{"tableId": self.table, **rows, **named}], parse)

    def page(
        self, *queries: str, at: Coordinates | None = None, total: bool = False
    ) -> Call[Page[R]]:
        """One page: by default the first 25 rows, by `$sequence`."""

        where = times(queries) if at is None else at

        def parse(body: Any, mark: int | None) -> Page[R]:
            members = body["rows"]
            last = members[-1] if members else {}
            return Page(
                rows=[self.codec.decode(row, where, mark) for row in members],
                total=body["total"],
                last=last.get("$version") if is_of_pieces(queries) else last.get("$id"),
            )

        body = {"queries": [*queries, *time_queries(at)], "total": total}
        return Call("POST", self._path + path("query"), parse, body=body)

    def first(self, *queries: str, at: Coordinates | None = None) -> Call[R | None]:
        """The first row that matches, or None."""
        page = self.page(*queries, query.limit(1), at=at)

        def parse(body: Any, mark: int | None) -> R | None:
            rows = page.parse(body, mark).rows
            return rows[0] if rows else None

        return Call(page.method, page.path, parse, body=page.body)

    def create(
        self,
        content: R | Mapping[str, Any],
        id: str | None = None,
        *,
        period: Period | None = None,
        meta: Meta = None,
    ) -> Call[Written]:
        """A new row; without an id it gets one.

        Raises (when it is run):
            Conflict: its id or a unique value is taken.
        """
        id, values = self.codec.encode(content, id)
        return self._write("create", id, values, period, meta)

    def upsert(
        self,
        content: R | Mapping[str, Any],
        id: str | None = None,
        *,
        period: Period | None = None,
        meta: Meta = None,
    ) -> Call[Written]:
        """The row is there with these columns, whether or not it was."""
        id, values = self.codec.encode(content, id)
        return self._write("upsert", id, values, period, meta)

    def update(
        self,
        id: str,
        changes: Mapping[str, Any],
        *,
        period: Period | None = None,
        meta: Meta = None,
    ) -> Call[Written]:
        """Some columns of a row that is there.

        Raises (when it is run):
            NotFound: there is no such row, or it is nowhere in the period.
        """
        return self._write("update", id, dict(changes), period, meta)

    def delete(
        self, id: str, *, period: Period | None = None, meta: Meta = None
    ) -> Call[Written]:
        """The row is absent, from now on or over the period."""
        return self._write("delete", id, None, period, meta)

    def end(self, id: str, at: Instant, *, meta: Meta = None) -> Call[Written]:
        """The row ends at this instant instead; what lay behind it is deleted.

        It is about the period that holds now or, if none does, the next one to begin.

        Raises (when it is run):
            NotFound: the row has ended already, and is not scheduled again.
            Invalid: the end would lie before the beginning.
        """
        return self._write("update", id, {_VALID_TO: instant(at)}, None, meta)

    def extend(self, id: str, to: Instant | None = None, *, meta: Meta = None) -> Call[Written]:
        """What the row holds at its end goes on up to this instant; None for no end, `"next"` for
        where it begins again. Raises as `end` does, of which it is the other direction."""
        value = None if to is None else instant(to)
        return self._write("update", id, {_VALID_TO: value}, None, meta)

    def move_start(self, id: str, at: Instant, *, meta: Meta = None) -> Call[Written]:
        """The row begins at this instant instead: its first content earlier, or what lay before it
        is deleted. Raises as `end` does."""
        return self._write("update", id, {_VALID_FROM: instant(at)}, None, meta)

    def increment(
        self, id: str, column: str, by: float = 1, *, meta: Meta = None
    ) -> Call[Written]:
        """Adds to a number, whatever it is by then; `by` may be below zero."""
        action = "increment" if by > 0 else "decrement"
        return self._write(action, id, {"column": column, "value": abs(by)}, None, meta)

    def create_many(
        self,
        contents: Iterable[R | Mapping[str, Any]],
        *,
        period: Period | None = None,
        meta: Meta = None,
    ) -> Call[list[Written]]:
        """At most 1,000 new rows, all at one mark or none."""
        return self._write_many("create", contents, period, meta)

    def upsert_many(
        self,
        contents: Iterable[R | Mapping[str, Any]],
        *,
        period: Period | None = None,
        meta: Meta = None,
    ) -> Call[list[Written]]:
        """As `create_many`, for rows that may be there."""
        return self._write_many("upsert", contents, period, meta)

    def _write_many(
        self,
        action: str,
        contents: Iterable[R | Mapping[str, Any]],
        period: Period | None,
        meta: Meta,
    ) -> Call[list[Written]]:
        encoded = [self.codec.encode(content, None) for content in contents]

        def parse(results: Any) -> list[Written]:
            return [_written(id, result) for (id, _), result in zip(encoded, results)]

        operations = [self._operation(action, id, values, period) for id, values in encoded]
        text = meta_text(meta)
        return write_batch(self.database, operations, parse, atomic=True, meta=text)

    def _operation(
        self, action: str, id: str, values: Any, period: Period | None
    ) -> dict[str, Any]:
        operation: dict[str, Any] = {"action": action, "tableId": self.table, "rowId": id}
        span = {} if period is None else period.members(_VALID_FROM, _VALID_TO)
        if values is not None or span:
            operation["data"] = {**(values or {}), **span}
        return operation

    def _write(
        self,
        action: str,
        id: str,
        values: dict[str, Any] | None,
        period: Period | None,
        meta: Meta,
    ) -> Call[Written]:
        operation = self._operation(action, id, values, period)
        text = meta_text(meta)
        part = WritePart(self.database, operation, partial(_written, id), text)
        # Alone it is atomic, so that what stands against it is the answer's own status.
        return write_batch(
            self.database,
            [operation],
            lambda results: part.parse(results[0]),
            atomic=True,
            meta=text,
            part=part,
        )


def _written(id: str, result: Any) -> Written:
    mark = item(result)["mark"]
    return Written(id, None if mark is None else mark_of(mark))


def _parsed(queries: Sequence[str]) -> list[dict[str, Any]]:
    parsed = (json.loads(text) for text in queries)
    return [one for one in parsed if isinstance(one, dict)]


def methods(queries: Sequence[str]) -> set[str]:
    """What the queries ask for."""
    return {one["method"] for one in _parsed(queries) if "method" in one}


def is_of_pieces(queries: Sequence[str]) -> bool:
    """Whether a row may come more than once, so that cursors name versions."""
    return not methods(queries).isdisjoint({"validBetween", "versions"})

