"""Queries of lists, as the texts that the server reads.

    client.table("books").list(equal("author", "anne"), order_desc("year"), limit(10))

Any method of the server that has no function here is written with `call`.
"""

from __future__ import annotations

import json
from typing import Any

from ._time import Instant, instant, plain


def call(method: str, attribute: str | None = None, values: list[Any] | None = None) -> str:
    """Any query: its method, the column it is about, and its values."""
    members: dict[str, Any] = {"method": method}
    if attribute is not None:
        members["attribute"] = attribute
    if values is not None:
        members["values"] = values
    return json.dumps(members, default=plain)


def equal(column: str, *values: Any) -> str:
    """The column has one of the values."""
    return call("equal", column, list(values))


def not_equal(column: str, value: Any) -> str:
    return call("notEqual", column, [value])


def less(column: str, value: Any) -> str:
    return call("lessThan", column, [value])


def less_or_equal(column: str, value: Any) -> str:
    return call("lessThanEqual", column, [value])


def greater(column: str, value: Any) -> str:
    return call("greaterThan", column, [value])


def greater_or_equal(column: str, value: Any) -> str:
    return call("greaterThanEqual", column, [value])


def between(column: str, low: Any, high: Any) -> str:
    """From `low` to `high`, both included."""
    return call("between", column, [low, high])


def is_null(column: str) -> str:
    return call("isNull", column)


def is_not_null(column: str) -> str:
    return call("isNotNull", column)


def starts_with(column: str, text: str) -> str:
    return call("startsWith", column, [text])


def contains(column: str, *values: Any) -> str:
    """The text holds one of the texts; the array holds one of the values."""
    return call("contains", column, list(values))


def search(column: str, words: str) -> str:
    """The words stand in a column with a full-text index."""
    return call("search", column, [words])


def order_asc(column: str) -> str:
    return call("orderAsc", column)


def order_desc(column: str) -> str:
    return call("orderDesc", column)


def limit(rows: int) -> str:
    return call("limit", values=[rows])


def offset(rows: int) -> str:
    return call("offset", values=[rows])


def select(*columns: str) -> str:
    return call("select", values=list(columns))


def cursor_after(row: str) -> str:
    """Begins behind the row of this id; in lists of versions, of this version."""
    return call("cursorAfter", values=[row])


def as_of(when: Instant) -> str:
    """What was known then."""
    return call("asOf", values=[instant(when)])


def valid_at(when: Instant) -> str:
    """What is, was or will be valid then."""
    return call("validAt", values=[instant(when)])


def valid_between(begin: Instant, end: Instant | None) -> str:
    """Every piece of a row that shares an instant with the period."""
    return call("validBetween", values=[instant(begin), None if end is None else instant(end)])


def versions() -> str:
    """Every version ever known, also those that were replaced since."""
    return call("versions", values=[])
