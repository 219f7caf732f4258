"""What can be asked of one table, as calls. `table.py` runs them, each class in its way."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Generic, TypeVar

from . import query
from ._call import Call, Nature, ReadPart, WritePart, item, path, read_batch, write_batch
from ._error import ApiError
from ._row import Codec, Found, Page, Written
from ._time import Coordinates, Period

R = TypeVar("R")

_OVER_TIME = {"create": "insert", "update": "update", "upsert": "patch", "delete": "delete"}
"""The operations over a period that say what the protocol's own actions mean."""


def time_queries(at: Coordinates | None) -> list[str]:
    """Coordinates as queries."""
    if at is None:
        return []
    queries = [query.as_of(at.as_of)]
    if at.valid_at is not None:
        queries.append(query.valid_at(at.valid_at))
    return queries


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

        def parse(members: Any) -> R | None:
            return None if members is None else self.codec.decode(members, at)

        params = [("queries[]", text) for text in time_queries(at)]
        part = None
        if at is None:
            part = ReadPart(self.database, self.table, id, parse)
        return Call(
            "GET", self._path + path(id), parse, params=params, absent=_is_absent, part=part
        )

    def get_many(self, ids: Sequence[str]) -> Call[Found[R]]:
        """The rows of these ids, at most 1,000, in their order and all as of one commit."""
        return self._read({"ids": list(ids)})

    def get_by(self, index: str, keys: Sequence[Any]) -> Call[Found[R]]:
        """The rows with these keys of a unique index, as `get_many` does it by ids.

        A key of an index of several columns is a tuple.
        """
        listed = [list(key) if isinstance(key, (tuple, list)) else [key] for key in keys]
        return self._read({"index": index, "keys": listed})

    def _read(self, rows: dict[str, Any]) -> Call[Found[R]]:
        def parse(results: Any) -> Found[R]:
            found = item(results[0])["rows"]
            return Found(row and self.codec.decode(row, None) for row in found)

        return read_batch(self.database, [{"tableId": self.table, **rows}], parse)

    def page(
        self, *queries: str, at: Coordinates | None = None, total: bool = False
    ) -> Call[Page[R]]:
        """One page: by default the first 25 rows, by `$sequence`."""

        def parse(body: Any) -> Page[R]:
            members = body["rows"]
            last = members[-1] if members else {}
            return Page(
                rows=[self.codec.decode(row, at) for row in members],
                total=body["total"],
                last=last.get("$version") if is_of_pieces(queries) else last.get("$id"),
            )

        body = {"queries": [*queries, *time_queries(at)], "total": total}
        return Call("POST", self._path + path("query"), parse, body=body)

    def first(self, *queries: str, at: Coordinates | None = None) -> Call[R | None]:
        """The first row that matches, or None."""
        page = self.page(*queries, query.limit(1), at=at)

        def parse(body: Any) -> R | None:
            rows = page.parse(body).rows
            return rows[0] if rows else None

        return Call(page.method, page.path, parse, body=page.body)

    def create(
        self, content: R | Mapping[str, Any], id: str | None = None, *, period: Period | None = None
    ) -> Call[Written]:
        """A new row; without an id it gets one.

        Raises (when it is run):
            Conflict: its id or a unique value is taken.
        """
        id, values = self.codec.encode(content, id)
        return self._write("create", id, values, period)

    def upsert(
        self, content: R | Mapping[str, Any], id: str | None = None, *, period: Period | None = None
    ) -> Call[Written]:
        """The row is there with these columns, whether or not it was."""
        id, values = self.codec.encode(content, id)
        return self._write("upsert", id, values, period)

    def update(
        self, id: str, changes: Mapping[str, Any], *, period: Period | None = None
    ) -> Call[Written]:
        """Some columns of a row that is there.

        Raises (when it is run):
            NotFound: there is no such row; not with a period, where nothing is changed then.
        """
        return self._write("update", id, dict(changes), period)

    def delete(self, id: str, *, period: Period | None = None) -> Call[Written]:
        return self._write("delete", id, None, period)

    def increment(self, id: str, column: str, by: float = 1) -> Call[Written]:
        """Adds to a number, whatever it is by then; `by` may be below zero."""
        action = "increment" if by > 0 else "decrement"
        return self._write(action, id, {"column": column, "value": abs(by)}, None)

    def create_many(self, contents: Iterable[R | Mapping[str, Any]]) -> Call[list[Written]]:
        """At most 1,000 new rows, all at one mark or none."""
        return self._write_many("create", contents)

    def upsert_many(self, contents: Iterable[R | Mapping[str, Any]]) -> Call[list[Written]]:
        """As `create_many`, for rows that may be there."""
        return self._write_many("upsert", contents)

    def _write_many(
        self, action: str, contents: Iterable[R | Mapping[str, Any]]
    ) -> Call[list[Written]]:
        encoded = [self.codec.encode(content, None) for content in contents]

        def parse(results: Any) -> list[Written]:
            marks = [item(result)["mark"] for result in results]
            return [Written(id, mark) for (id, _), mark in zip(encoded, marks)]

        operations = [self._operation(action, id, values) for id, values in encoded]
        return write_batch(self.database, operations, parse, atomic=True)

    def _operation(self, action: str, id: str, values: Any) -> dict[str, Any]:
        operation = {"action": action, "tableId": self.table, "rowId": id}
        return operation if values is None else {**operation, "data": values}

    def _write(
        self, action: str, id: str, values: dict[str, Any] | None, period: Period | None
    ) -> Call[Written]:
        if period is not None:
            return self._write_over(period, action, id, values)

        def parse(result: Any) -> Written:
            return Written(id, item(result)["mark"])

        operation = self._operation(action, id, values)
        # Alone it is atomic, so that what stands against it is the answer's own status.
        batch = write_batch(
            self.database, [operation], lambda results: parse(results[0]), atomic=True
        )
        return Call(
            batch.method,
            batch.path,
            batch.parse,
            body=batch.body,
            nature=batch.nature,
            marks=batch.marks,
            part=WritePart(self.database, operation, parse),
        )

    def _write_over(
        self, period: Period, action: str, id: str, values: dict[str, Any] | None
    ) -> Call[Written]:
        operation: dict[str, Any] = {"op": _OVER_TIME[action], "table": self.table, "id": id}
        if values is not None:
            operation["doc"] = values
        return commit(
            self.database,
            [{**operation, **period.members()}],
            None,
            lambda body: Written(id, body["tt"]),
        )


def methods(queries: Sequence[str]) -> set[str]:
    """What the queries ask for."""
    parsed = (json.loads(text) for text in queries)
    return {one["method"] for one in parsed if isinstance(one, dict) and "method" in one}


def is_of_pieces(queries: Sequence[str]) -> bool:
    """Whether a row may come more than once, so that cursors name versions."""
    return not methods(queries).isdisjoint({"validBetween", "versions"})


def commit(
    database: str, operations: Sequence[Mapping[str, Any]], meta: Any, parse: Any
) -> Call[Any]:
    """Operations over periods, at one mark or none."""
    body: dict[str, Any] = {"ops": list(operations)}
    if meta is not None:
        body["meta"] = meta
    return Call(
        "POST",
        path("tidemark", "databases", database, "transactions"),
        parse,
        body=body,
        nature=Nature.KEYED,
        marks=lambda answer: [answer["tt"]],
    )
