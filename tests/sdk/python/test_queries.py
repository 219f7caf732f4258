"""Every scalar query of this SDK: which rows come back, and in which order."""

from __future__ import annotations

import json

import pytest
from appwrite.query import Query as Q
from appwrite.services.tables_db import TablesDB
from server import check_refused, ids, user_data

DB = "queries"
T = "people"
COLUMNS = [
    {"key": "name", "type": "varchar", "size": 64, "required": False},
    {"key": "age", "type": "integer", "required": False},
    {"key": "score", "type": "double", "required": False},
    {"key": "active", "type": "boolean", "required": False},
    {"key": "born", "type": "datetime", "required": False},
    {"key": "tags", "type": "varchar", "size": 20, "array": True, "required": False},
]
# Row `e` holds NULL everywhere.
ROWS = [
    {
        "$id": "a",
        "name": "Anna",
        "age": 30,
        "score": 1.5,
        "active": True,
        "born": "1990-05-01T00:00:00Z",
        "tags": ["x", "y"],
    },
    {
        "$id": "b",
        "name": "anna_%",
        "age": 40,
        "score": -2.0,
        "active": False,
        "born": "1980-05-01T00:00:00Z",
        "tags": ["y"],
    },
    {
        "$id": "c",
        "name": "Björn",
        "age": 30,
        "score": 3.25,
        "active": True,
        "born": "2000-05-01T00:00:00Z",
        "tags": [],
    },
    {
        "$id": "d",
        "name": "Carl",
        "age": 2**53 + 1,
        "score": 0.0,
        "active": False,
        "born": "2010-05-01T00:00:00Z",
        "tags": ["z", "x"],
    },
    {"$id": "e"},
]


@pytest.fixture(scope="module", autouse=True)
def table(db: TablesDB) -> None:
    db.create(DB, "Queries")
    db.create_table(DB, T, "People", columns=COLUMNS)
    db.create_rows(DB, T, ROWS)


def raw(method: str, attribute: str | None = None, values: object = None) -> str:
    query = {"method": method, "attribute": attribute, "values": values}
    return json.dumps({key: value for key, value in query.items() if value is not None})


CASES = [
    ([], "abcde"),
    ([Q.equal("name", "Anna")], "a"),
    ([Q.equal("name", ["Anna", "Björn"])], "ac"),
    ([Q.equal("name", "ANNA")], ""),
    ([Q.equal("age", 2**53 + 1)], "d"),
    ([Q.equal("age", 2**53)], ""),
    ([Q.equal("score", 0)], "d"),
    ([Q.equal("active", False)], "bd"),
    ([Q.equal("born", "1990-05-01T02:00:00+02:00")], "a"),
    ([Q.not_equal("name", "Anna")], "bcd"),
    ([Q.not_equal("age", 30)], "bd"),
    ([Q.less_than("age", 40)], "ac"),
    ([Q.less_than_equal("age", 40)], "abc"),
    ([Q.greater_than("age", 40)], "d"),
    ([Q.greater_than_equal("age", 40)], "bd"),
    ([Q.greater_than("score", 1.5)], "c"),
    ([Q.greater_than("name", "Z")], "b"),
    ([Q.between("score", -2, 1.5)], "abd"),
    ([Q.not_between("score", -2, 1.5)], "c"),
    ([Q.between("born", "1980-05-01T00:00:00Z", "1990-05-01T00:00:00Z")], "ab"),
    ([Q.is_null("name")], "e"),
    ([Q.is_not_null("name")], "abcd"),
    ([Q.is_null("tags")], "e"),
    ([Q.starts_with("name", "An")], "a"),
    ([Q.starts_with("name", "Bj\u00f6")], "c"),
    ([Q.not_starts_with("name", "An")], "bcd"),
    ([Q.ends_with("name", "_%")], "b"),
    ([Q.ends_with("name", "%")], "b"),
    ([Q.not_ends_with("name", "a")], "bcd"),
    ([Q.contains("name", "nn")], "ab"),
    ([Q.contains("name", "_")], "b"),
    ([Q.contains("name", ["jö", "ar"])], "cd"),
    ([Q.contains("tags", "x")], "ad"),
    ([Q.contains("tags", ["z", "y"])], "abd"),
    ([Q.contains_any("tags", ["z", "none"])], "d"),
    ([Q.contains_all("tags", ["x", "y"])], "a"),
    ([Q.contains_all("tags", ["x"])], "ad"),
    ([Q.not_contains("name", "nn")], "cd"),
    ([Q.not_contains("tags", "x"), Q.is_not_null("tags")], "bc"),
    ([Q.or_queries([Q.equal("name", "Anna"), Q.greater_than("age", 40)])], "ad"),
    ([Q.or_queries([Q.is_null("age"), Q.equal("active", False)])], "bde"),
    ([Q.and_queries([Q.equal("age", 30), Q.equal("score", 3.25)])], "c"),
    ([Q.created_after("2001-01-01T00:00:00Z")], "abcde"),
    ([Q.created_before("2001-01-01T00:00:00Z")], ""),
    ([Q.created_between("2001-01-01T00:00:00Z", "2999-01-01T00:00:00Z")], "abcde"),
    ([Q.updated_after("2999-01-01T00:00:00Z")], ""),
    ([Q.updated_before("2999-01-01T00:00:00Z")], "abcde"),
    ([Q.order_asc("age")], "eacbd"),
    ([Q.order_desc("age")], "dbace"),
    ([Q.order_asc("age"), Q.order_desc("name")], "ecabd"),
    ([Q.order_desc("$sequence")], "edcba"),
    ([Q.order_desc("$id")], "edcba"),
    ([Q.order_asc("name")], "eacdb"),
]


@pytest.mark.parametrize(("queries", "wanted"), CASES, ids=lambda part: "".join(part) or "none")
def test_a_query_finds(db: TablesDB, queries: list[str], wanted: str) -> None:
    found = db.list_rows(DB, T, queries)
    assert "".join(ids(found)) == wanted
    assert found.total == len(wanted)
    # The same in a POST body, which this SDK has a method for.
    assert db.create_query(DB, T, queries) == found


PAGES = [
    ([Q.limit(2)], "ab"),
    ([Q.limit(2), Q.offset(1)], "bc"),
    (Q.page(2, 2), "cd"),
    ([Q.cursor_after("b"), Q.limit(2)], "cd"),
    ([Q.cursor_before("d"), Q.limit(2)], "bc"),
    ([Q.cursor_after("e")], ""),
    ([Q.cursor_before("a")], ""),
    ([Q.order_desc("age"), Q.cursor_after("b"), Q.limit(2)], "ac"),
    ([Q.order_desc("age"), Q.cursor_before("c"), Q.limit(2)], "ba"),
    ([Q.order_asc("age"), Q.cursor_after("a"), Q.limit(1)], "c"),
]


@pytest.mark.parametrize(("queries", "wanted"), PAGES)
def test_a_page_is_cut(db: TablesDB, queries: list[str], wanted: str) -> None:
    found = db.list_rows(DB, T, queries)
    assert ("".join(ids(found)), found.total) == (wanted, 5)


def test_order_random_gives_every_row_once(db: TablesDB) -> None:
    assert sorted(ids(db.list_rows(DB, T, [Q.order_random()]))) == list("abcde")


def test_select_leaves_columns_out(db: TablesDB) -> None:
    found = db.list_rows(DB, T, [Q.select(["$id", "name"]), Q.equal("age", 40)])
    assert [user_data(row) for row in found.rows] == [{"name": "anna_%"}]
    assert (found.rows[0].databaseid, found.rows[0].tableid) == (DB, T)
    got = db.get_row(DB, T, "b", [Q.select(["age"])])
    assert user_data(got) == {"age": 40}
    every = db.list_rows(DB, T, [Q.select(["*"]), Q.equal("$id", "e")])
    assert set(user_data(every.rows[0])) == {column["key"] for column in COLUMNS}


def test_the_total_can_be_left_out(db: TablesDB) -> None:
    found = db.list_rows(DB, T, [Q.equal("age", 30)], total=False)
    assert (ids(found), found.total) == (["a", "c"], 0)
    assert db.list_rows(DB, T, [Q.equal("age", 30)], total=True).total == 2


INVALID = "general_query_invalid"
REFUSED = [
    ("nonsense", INVALID, "Invalid query: Syntax error"),
    (raw("resembles", "name", ["x"]), INVALID, "Invalid query"),
    (Q.equal("colour", "x"), INVALID, "Attribute not found in schema: colour"),
    (Q.equal("age", "30"), INVALID, "Query value is invalid for attribute"),
    (Q.equal("name", 5), INVALID, "Query value is invalid for attribute"),
    (Q.equal("active", "x"), INVALID, "Query value is invalid for attribute"),
    (Q.equal("born", "x"), INVALID, "Query value is invalid for attribute"),
    (raw("equal", "name", []), INVALID, "Invalid query"),
    (Q.equal("tags", "x"), INVALID, "Invalid query"),
    (Q.starts_with("age", "x"), INVALID, "Invalid query"),
    (Q.search("name", "x"), INVALID, "requires a fulltext index"),
    (Q.not_search("name", "x"), INVALID, "Invalid query"),
    (Q.exists(["name"]), INVALID, "Invalid query"),
    (Q.elem_match("tags", [Q.equal("x", 1)]), INVALID, "Invalid query"),
    (Q.limit(0), INVALID, "Invalid query"),
    (Q.offset(-1), INVALID, "Invalid query"),
    (Q.count(), INVALID, "Invalid query"),
    (Q.sum("age"), INVALID, "Invalid query"),
    (Q.group_by(["age"]), INVALID, "Invalid query"),
    (Q.distinct(), INVALID, "Invalid query"),
    (Q.distance_equal("name", [1, 2], 3), INVALID, "Invalid query"),
    (Q.vector_dot("name", [1, 2]), INVALID, "Invalid query"),
    (Q.cursor_after("nobody"), "general_cursor_not_found", ""),
    (Q.cursor_after("no id"), INVALID, "Invalid query"),
]


@pytest.mark.parametrize(("query", "type", "text"), REFUSED)
def test_a_query_is_refused(db: TablesDB, query: str, type: str, text: str) -> None:
    check_refused(lambda: db.list_rows(DB, T, [query]), 400, type, text)


def test_a_cursor_row_needs_values_in_the_order(db: TablesDB) -> None:
    queries = [Q.order_asc("age"), Q.cursor_after("e")]
    check_refused(lambda: db.list_rows(DB, T, queries), 400, "database_query_order_null")


def test_at_most_100_queries(db: TablesDB) -> None:
    queries = [Q.equal("age", 30)] * 100
    assert ids(db.list_rows(DB, T, queries)) == ["a", "c"]
    queries.append(Q.limit(1))
    check_refused(lambda: db.list_rows(DB, T, queries), 400, "general_argument_invalid")
