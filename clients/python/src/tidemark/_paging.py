"""Iterating over a list at pinned coordinates, page by page, without waiting for anything."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any, Generic, TypeVar

from . import query
from ._call import Call, path
from ._row import Page
from ._table_calls import TableCalls, methods
from ._time import Coordinates

R = TypeVar("R")

_OWN = {"limit", "offset", "cursorAfter", "cursorBefore"}


class Paging(Generic[R]):
    """Where an iteration stands. Its driver runs `call`, gives the answer to `take`, and
    goes on while `is_open`."""

    def __init__(
        self, calls: TableCalls[R], queries: Sequence[str], at: Coordinates | None, page_size: int
    ) -> None:
        asked = methods(queries)
        if asked & _OWN:
            raise ValueError(f"an iteration pages by itself; leave out {sorted(asked & _OWN)}")
        if page_size < 1:
            raise ValueError(f"a page holds at least one row: {page_size=}")
        self._calls = calls
        self._queries = queries
        self._page_size = page_size
        self._cursor: str | None = None
        self._has_valid_axis = bool(asked & {"validAt", "validBetween", "versions"})
        self.at = at
        self.is_pinned = (at is not None and at.as_of is not None) or "asOf" in asked
        self.is_open = True

    def pin(self, now: Coordinates) -> None:
        """Fixes all pages to `now`, where the queries do not say what is valid otherwise."""
        if self.at is not None:
            self.at = replace(self.at, as_of=now.as_of)
        else:
            self.at = Coordinates(now.as_of) if self._has_valid_axis else now
        self.is_pinned = True

    def call(self) -> Call[Page[R]]:
        """The next page."""
        own = [query.limit(self._page_size)]
        if self._cursor is not None:
            own.append(query.cursor_after(self._cursor))
        return self._calls.page(*self._queries, *own, at=self.at)

    def take(self, page: Page[R]) -> list[R]:
        """Goes behind `page`, and gives its rows."""
        self.is_open = len(page.rows) == self._page_size
        if self.is_open and page.last is None:
            raise ValueError("an iteration needs `$id`; name it in `select`")
        self._cursor = page.last
        return page.rows


def now(database: str) -> Call[Coordinates]:
    """The coordinates of now: from here on they give the same answers for ever."""

    def parse(body: Any, _: int | None) -> Coordinates:
        return Coordinates(body["horizon"], body["horizon"])

    # It changes nothing that a caller can read, so it may be repeated.
    return Call("POST", path("tidemark", "databases", database, "heartbeat"), parse)
