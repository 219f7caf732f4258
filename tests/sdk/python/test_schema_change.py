"""Columns and indexes that come, change and go, through the strict models."""

from __future__ import annotations

from typing import Any

import pytest
from appwrite.enums.tables_db_index_type import TablesDBIndexType
from appwrite.query import Query
from appwrite.services.databases import Databases
from appwrite.services.tables_db import TablesDB
from server import Server, check_refused

DB = "change"
T = "t"


@pytest.fixture(scope="module", autouse=True)
def table(db: TablesDB) -> None:
    db.create(DB, "Change")
    columns = [{"key": "n", "type": "integer", "required": False}]
    db.create_table(DB, T, "T", columns=columns)
    db.create_row(DB, T, "old", {"n": 1})


# Per kind: what its creation says, what a change says, a value before and one after.
KINDS: list[tuple[str, dict[str, Any], dict[str, Any], Any, Any]] = [
    ("varchar", {"size": 9, "default": "a"}, {"size": 12, "default": "b"}, "x", "y" * 12),
    ("string", {"size": 9}, {"size": 5, "default": None}, "x", "yyyyy"),
    ("text", {}, {"default": "t"}, "x", "y" * 60_000),
    ("mediumtext", {}, {"default": None}, "x", "y" * 70_000),
    ("longtext", {}, {"default": None}, "x", "y" * 70_000),
    ("integer", {"min": 0, "max": 9}, {"max": 20, "default": 7}, 9, 20),
    ("big_int", {}, {"default": None}, 1, 2**63 - 1),
    ("float", {"min": 0}, {"min": -1, "default": 0.5}, 0.25, -1.0),
    ("boolean", {"default": True}, {"default": False}, True, False),
    ("email", {}, {"default": None}, "a@example.com", "b@example.com"),
    ("url", {}, {"default": None}, "https://example.com/", "http://example.org/"),
    ("ip", {}, {"default": "::1"}, "127.0.0.1", "::2"),
    ("enum", {"elements": ["a", "b"]}, {"elements": ["b", "c"], "default": "c"}, "b", "c"),
    (
        "datetime",
        {},
        {"default": None},
        "2026-01-31T10:00:00.000+00:00",
        "1999-12-31T00:00:00.000+00:00",
    ),
]


@pytest.mark.parametrize(("kind", "made", "change", "first", "second"), KINDS)
def test_a_column_of_each_kind(
    db: TablesDB, kind: str, made: dict[str, Any], change: dict[str, Any], first: Any, second: Any
) -> None:
    key, renamed = f"k_{kind}", f"r_{kind}"
    create = getattr(db, f"create_{kind}_column")
    update = getattr(db, f"update_{kind}_column")
    column = create(database_id=DB, table_id=T, key=key, required=False, **made)
    assert (column.key, column.status.value, column.required) == (key, "available", False)
    assert column.default == made.get("default")
    db.create_row(DB, T, "new", {"n": 2, key: first})
    assert db.get_row(DB, T, "old").data[key] is None
    changed = update(
        database_id=DB, table_id=T, key=key, required=False, new_key=renamed, **change
    )
    assert (changed.key, changed.default) == (renamed, change["default"])
    check_refused(lambda: db.get_column(DB, T, key), 404, "column_not_found")
    assert db.get_row(DB, T, "new").data[renamed] == first
    assert db.update_row(DB, T, "old", {renamed: second}).data[renamed] == second
    db.delete_column(DB, T, renamed)
    rows = db.list_rows(DB, T).rows
    assert [(row.id, renamed in row.data) for row in rows] == [("old", False), ("new", False)]
    db.delete_row(DB, T, "new")


def test_an_index_from_create_to_delete(db: TablesDB) -> None:
    made = db.create_index(DB, T, "i", TablesDBIndexType.KEY, ["n"])
    assert (made.key, made.type, made.columns) == ("i", "key", ["n"])
    ready = db.get_index(DB, T, "i")
    assert (ready.status, ready.error) == ("available", "")
    assert db.list_indexes(DB, T).total == 1
    assert db.list_rows(DB, T, [Query.equal("n", 1)]).total == 1
    check_refused(lambda: db.delete_column(DB, T, "n"), 409, "column_index_dependency")
    db.delete_index(DB, T, "i")
    check_refused(lambda: db.get_index(DB, T, "i"), 404, "column_index_not_found")


def test_a_unique_index_over_equal_values_fails(db: TablesDB) -> None:
    db.create_row(DB, T, "twin", {"n": 1})
    made = db.create_index(DB, T, "one", TablesDBIndexType.UNIQUE, ["n"])
    assert made.status == "failed"
    assert "equal values" in made.error
    db.delete_index(DB, T, "one")
    db.delete_row(DB, T, "twin")


def test_columns_and_tables_are_listed_by_query(db: TablesDB) -> None:
    db.create_varchar_column(DB, T, "s", 9, False)
    by_type = db.list_columns(DB, T, [Query.equal("type", "varchar")])
    assert (by_type.total, len(by_type.columns)) == (1, 1)
    listed = db.list_columns(DB, T, [Query.order_desc("key"), Query.limit(1)], total=False)
    assert (listed.total, len(listed.columns)) == (0, 1)
    assert db.list_tables(DB, [Query.equal("rowSecurity", True)]).total == 0
    check_refused(
        lambda: db.list_columns(DB, T, [Query.equal("colour", "red")]), 400, "general_query_invalid"
    )
    db.delete_column(DB, T, "s")


def test_the_older_family(server: Server) -> None:
    old = Databases(server.tables().client)
    old.create_string_attribute(DB, T, "s", 9, False, "x")
    changed = old.update_string_attribute(DB, T, "s", False, "y", new_key="t")
    assert (changed.key, changed.default) == ("t", "y")
    check_refused(lambda: old.delete_attribute(DB, T, "z"), 404, "attribute_not_found")
    old.delete_attribute(DB, T, "t")
