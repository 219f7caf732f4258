"""Databases and tables through the strict models, which refuse an answer of the wrong shape."""

from __future__ import annotations

import re
from typing import Any

import pytest
from appwrite.query import Query
from appwrite.services.tables_db import TablesDB
from server import Server, check_refused

DB = "schema"
WIRE_TIME = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}\+00:00")
INT64 = (-(2**63), 2**63 - 1)
FLOAT_MAX = 1.7976931348623157e308


@pytest.fixture(scope="module", autouse=True)
def database(db: TablesDB) -> None:
    db.create(DB, "Schema")


def make(db: TablesDB, table_id: str, columns: list[dict[str, Any]], **more: Any) -> Any:
    return db.create_table(DB, table_id, table_id.title(), columns=columns, **more)


def test_a_database_from_create_to_delete(db: TablesDB) -> None:
    made = db.create("life", "Life")
    assert (made.id, made.name, made.description, made.enabled) == ("life", "Life", "", True)
    assert (made.type.value, made.status.value) == ("tablesdb", "ready")
    assert (made.policies, made.archives) == ([], [])
    assert WIRE_TIME.fullmatch(made.createdat) and WIRE_TIME.fullmatch(made.updatedat)
    assert db.get("life") == made
    changed = db.update("life", "Changed", False)
    assert (changed.name, changed.enabled, changed.createdat) == ("Changed", False, made.createdat)
    listed = db.list([Query.equal("name", "Changed")])
    assert (listed.total, [one.id for one in listed.databases]) == (1, ["life"])
    db.delete("life")
    check_refused(lambda: db.get("life"), 404, "database_not_found")


COLUMNS: list[tuple[dict[str, Any], dict[str, Any]]] = [
    (
        {"key": "varchar", "type": "varchar", "size": 20, "default": "x"},
        {"type": "varchar", "size": 20, "default": "x", "encrypt": False},
    ),
    ({"key": "text", "type": "text"}, {"type": "text", "default": None, "encrypt": False}),
    ({"key": "medium", "type": "mediumtext"}, {"type": "mediumtext", "encrypt": False}),
    ({"key": "long", "type": "longtext"}, {"type": "longtext", "encrypt": False}),
    ({"key": "string", "type": "string", "size": 9}, {"type": "string", "size": 9}),
    (
        {"key": "integer", "type": "integer", "min": -1, "max": 5, "default": 2},
        {"type": "integer", "min": -1, "max": 5, "default": 2},
    ),
    ({"key": "open", "type": "integer"}, {"type": "integer", "min": INT64[0], "max": INT64[1]}),
    ({"key": "bigint", "type": "bigint"}, {"type": "bigint", "min": INT64[0], "max": INT64[1]}),
    (
        {"key": "float", "type": "float"},
        {"type": "double", "min": -FLOAT_MAX, "max": FLOAT_MAX, "default": None},
    ),
    ({"key": "truth", "type": "boolean", "default": False}, {"type": "boolean", "default": False}),
    ({"key": "email", "type": "email"}, {"type": "string", "format": "email", "default": None}),
    ({"key": "url", "type": "url"}, {"type": "string", "format": "url", "default": None}),
    ({"key": "ip", "type": "ip"}, {"type": "string", "format": "ip", "default": None}),
    (
        {"key": "enum", "type": "enum", "elements": ["a", "b"]},
        {"type": "string", "format": "enum", "elements": ["a", "b"], "default": None},
    ),
    ({"key": "when", "type": "datetime"}, {"type": "datetime", "default": None}),
    ({"key": "list", "type": "text", "array": True}, {"type": "text", "array": True}),
]


def test_every_scalar_kind_reads_back_through_its_model(db: TablesDB) -> None:
    made = make(db, "kinds", [{"required": False, **column} for column, _ in COLUMNS])
    assert [column.key for column in made.columns] == [column["key"] for column, _ in COLUMNS]
    for column in made.columns:
        assert (column.description, column.error, column.required) == ("", "", False)
        assert column.status.value == "available"
        assert WIRE_TIME.fullmatch(column.createdat) and WIRE_TIME.fullmatch(column.updatedat)
    assert db.get_table(DB, "kinds") == made


@pytest.mark.parametrize("place", range(len(COLUMNS)), ids=lambda place: COLUMNS[place][0]["key"])
def test_a_kind_answers_its_own_fields(server: Server, db: TablesDB, place: int) -> None:
    definition, wanted = COLUMNS[place]
    # Plain JSON, because the model turns whole numbers into floats.
    table_id = f"kind-{place}"
    make(db, table_id, [{"required": False, **definition}])
    column = server.ask("GET", f"/tablesdb/{DB}/tables/{table_id}").json()["columns"][0]
    assert {key: column[key] for key in wanted} == wanted


def test_a_table_keeps_what_an_update_leaves_out(db: TablesDB) -> None:
    make(db, "kept", [], permissions=['read("any")'], row_security=True, enabled=False)
    changed = db.update_table(DB, "kept", name="New name")
    settings = (changed.name, changed.permissions, changed.rowsecurity, changed.enabled)
    assert settings == ("New name", ['read("any")'], True, False)
    purged = db.update_table(DB, "kept", purge=True)
    settings = (purged.name, purged.permissions, purged.rowsecurity, purged.enabled)
    assert settings == ("New name", ['read("any")'], True, False)
    listed = db.list_tables(DB, search="kept")
    assert [one.id for one in listed.tables] == ["kept"]
    db.delete_table(DB, "kept")
    check_refused(lambda: db.get_table(DB, "kept"), 404, "table_not_found")


def test_indexes_read_back_through_their_model(db: TablesDB) -> None:
    columns = [{"key": key, "type": "integer", "required": False} for key in "ab"]
    indexes = [
        {"key": "both", "type": "key", "attributes": ["a", "b"], "orders": ["DESC", "ASC"]},
        {"key": "one", "type": "unique", "attributes": ["b"]},
    ]
    made = make(db, "indexed", columns, indexes=indexes)
    shapes = [(one.key, one.type, one.status, one.columns) for one in made.indexes]
    assert shapes == [
        ("both", "key", "available", ["a", "b"]),
        ("one", "unique", "available", ["b"]),
    ]
    assert made.indexes[0].orders == ["DESC", "ASC"]
    assert all(WIRE_TIME.fullmatch(one.createdat) and one.id for one in made.indexes)


def column(**definition: Any) -> list[dict[str, Any]]:
    return [{"key": "k", "required": False, **definition}]


@pytest.mark.parametrize(
    ("columns", "indexes", "code", "type"),
    [
        (column(type="colour"), [], 400, "general_argument_invalid"),
        (column(type="varchar"), [], 400, "general_argument_invalid"),
        (column(type="relationship"), [], 400, "general_argument_invalid"),
        (column(type="integer", min=2, max=1), [], 400, "column_value_invalid"),
        (column(type="integer", max=2, default=3), [], 400, "column_value_invalid"),
        (column(type="text", required=True, default="x"), [], 400, "column_default_unsupported"),
        (column(type="text", array=True, default="x"), [], 400, "column_default_unsupported"),
        (column(type="text") + column(type="text"), [], 409, "column_already_exists"),
        (
            column(type="integer"),
            [{"key": "i", "type": "key", "attributes": ["none"]}],
            400,
            "column_unknown",
        ),
        (
            column(type="integer", array=True),
            [{"key": "i", "type": "key", "attributes": ["k"]}],
            400,
            "index_invalid",
        ),
    ],
)
def test_a_refused_definition_leaves_no_table(
    db: TablesDB, columns: Any, indexes: Any, code: int, type: str
) -> None:
    check_refused(lambda: make(db, "refused", columns, indexes=indexes), code, type)
    check_refused(lambda: db.get_table(DB, "refused"), 404, "table_not_found")


def test_refusals_name_the_conflict(db: TablesDB) -> None:
    make(db, "taken", [])
    long_name = "x" * 129
    check_refused(lambda: db.create(DB, "Again"), 409, "database_already_exists")
    check_refused(lambda: make(db, "taken", []), 409, "table_already_exists")
    check_refused(lambda: db.list_tables("nowhere"), 404, "database_not_found")
    check_refused(lambda: db.create("-x", "X"), 400, "general_argument_invalid", "`databaseId`")
    check_refused(lambda: db.create("x", long_name), 400, "general_argument_invalid", "`name`")
