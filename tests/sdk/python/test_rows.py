"""Rows through the SDK: one life of a row, bulk creation, and what is refused."""

from __future__ import annotations

from typing import Any

import pytest
from appwrite.id import ID
from appwrite.permission import Permission
from appwrite.role import Role
from appwrite.services.tables_db import TablesDB
from server import Server, check_refused, ids, user_data

DB = "rows"
T = "t"
STRUCTURE = (400, "row_invalid_structure", "Invalid document structure: ")

COLUMNS = [
    {"key": "name", "type": "varchar", "size": 8, "required": True},
    {"key": "age", "type": "integer", "required": False},
    {"key": "score", "type": "double", "required": False},
    {"key": "truth", "type": "boolean", "required": False},
    {"key": "born", "type": "datetime", "required": False},
    {"key": "mail", "type": "email", "required": False},
    {"key": "level", "type": "enum", "elements": ["low", "high"], "required": False},
    {"key": "code", "type": "varchar", "size": 9, "required": False},
    {"key": "count", "type": "integer", "required": False, "default": 7},
    {"key": "tags", "type": "varchar", "size": 9, "required": False, "array": True},
]
NOTHING = {
    "age": None,
    "score": None,
    "truth": None,
    "born": None,
    "mail": None,
    "level": None,
    "code": None,
    "count": 7,
    "tags": [],
}


@pytest.fixture(scope="module", autouse=True)
def table(db: TablesDB) -> None:
    db.create(DB, "Rows")
    unique = {"key": "one_code", "type": "unique", "attributes": ["code"]}
    db.create_table(DB, T, "T", columns=COLUMNS, indexes=[unique])


def create(db: TablesDB, data: dict[str, Any], row_id: str | None = None, **more: Any) -> Any:
    return db.create_row(DB, T, row_id or ID.unique(), data, **more)


def test_a_row_from_create_to_delete(db: TablesDB) -> None:
    permissions = [Permission.read(Role.any()), Permission.update(Role.user("u1"))]
    made = create(db, {"name": "Ada"}, "life", permissions=permissions)
    assert user_data(made) == {"name": "Ada", **NOTHING}
    assert (made.id, made.tableid, made.databaseid) == ("life", T, DB)
    assert made.permissions == ['read("any")', 'update("user:u1")']
    assert made.sequence.isdecimal() and made.createdat == made.updatedat != ""
    assert db.get_row(DB, T, "life") == made

    changed = db.update_row(DB, T, "life", {"age": 5, "tags": ["a", "b"]})
    assert user_data(changed) == {"name": "Ada", **NOTHING, "age": 5, "tags": ["a", "b"]}
    assert (changed.sequence, changed.createdat) == (made.sequence, made.createdat)
    assert changed.permissions == made.permissions

    merged = db.upsert_row(DB, T, "life", {"age": None})
    assert user_data(merged) == {"name": "Ada", **NOTHING, "tags": ["a", "b"]}
    db.delete_row(DB, T, "life")
    check_refused(lambda: db.get_row(DB, T, "life"), 404, "row_not_found")

    again = db.upsert_row(DB, T, "life", {"name": "New"}, permissions=[])
    # An id keeps its sequence over deletion.
    assert (again.sequence, again.permissions) == (made.sequence, [])


@pytest.mark.parametrize(
    ("key", "sent", "read"),
    [
        ("name", "äöü😀äöü😀", "äöü😀äöü😀"),
        ("age", 2**63 - 1, 2**63 - 1),
        ("age", -(2**63), -(2**63)),
        ("age", 2**53 + 1, 2**53 + 1),
        ("score", 0.1, 0.1),
        ("score", 3, 3),
        ("score", -1.5e300, -1.5e300),
        ("truth", False, False),
        ("born", "2024-02-29T12:00:00+05:30", "2024-02-29T06:30:00.000+00:00"),
        ("born", "2024-02-29T12:00:00.123456Z", "2024-02-29T12:00:00.123+00:00"),
        ("mail", "a@example.com", "a@example.com"),
        ("level", "high", "high"),
        ("count", None, None),
        ("tags", ["", "a", "a"], ["", "a", "a"]),
        ("tags", None, []),
    ],
)
def test_a_value_reads_back(db: TablesDB, key: str, sent: Any, read: Any) -> None:
    made = create(db, {"name": "A", key: sent})
    got = db.get_row(DB, T, made.id)
    for row in (made, got):
        assert row.data[key] == read
        # True equals 1 in Python, so the type is compared too, but 3 and 3.0 are one number.
        assert isinstance(row.data[key], bool) == isinstance(read, bool)


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("name", "ninechars"),
        ("name", 5),
        ("name", None),
        ("name", "a\x00"),
        ("age", "5"),
        ("age", 5.5),
        ("age", True),
        ("age", 2**63),
        ("score", "1"),
        ("score", False),
        ("truth", 1),
        ("truth", "true"),
        ("born", "soon"),
        ("born", 5),
        ("mail", "nobody"),
        ("level", "LOW"),
        ("tags", "a"),
        ("tags", [1]),
        ("tags", ["ten chars!"]),
        ("colour", "red"),
    ],
)
def test_a_value_is_refused(db: TablesDB, key: str, value: Any) -> None:
    check_refused(lambda: create(db, {"name": "A", key: value}), *STRUCTURE)


def test_create_rows_makes_all_or_none(db: TablesDB) -> None:
    made = db.create_rows(DB, T, [{"$id": "b1", "name": "A"}, {"name": "B", "age": 1}])
    assert (made.total, [row.data["name"] for row in made.rows]) == (2, ["A", "B"])
    assert made.rows[0].id == "b1" and made.rows[1].id
    for last, code, type in [
        ({"$id": "b3", "name": 5}, 400, "row_invalid_structure"),
        ({"$id": "b1", "name": "A"}, 409, "row_already_exists"),
        ({"$id": "b3", "name": "A", "code": "b"}, 409, "row_unique_constraint_violation"),
    ]:
        rows = [{"$id": "b2", "name": "B", "code": "b"}, last]
        check_refused(lambda rows=rows: db.create_rows(DB, T, rows), code, type)
        check_refused(lambda: db.get_row(DB, T, "b2"), 404, "row_not_found")
    many = [{"name": "A"}] * 101
    check_refused(lambda: db.create_rows(DB, T, many), 400, "general_argument_invalid")


def test_refusals(db: TablesDB) -> None:
    create(db, {"name": "A", "code": "used"}, "there")
    create(db, {"name": "A"}, "other")
    used = {"name": "A", "code": "used"}
    for call, code, type in [
        (lambda: create(db, {"name": "A"}, "there"), 409, "row_already_exists"),
        (lambda: create(db, used), 409, "row_unique_constraint_violation"),
        (lambda: db.update_row(DB, T, "other", used), 409, "row_unique_constraint_violation"),
        (lambda: db.update_row(DB, T, "there", {}), 400, "row_missing_payload"),
        (lambda: create(db, {}), 400, "row_missing_data"),
        (lambda: db.update_row(DB, T, "nobody", {"age": 1}), 404, "row_not_found"),
        (lambda: db.delete_row(DB, T, "nobody"), 404, "row_not_found"),
        (lambda: db.get_row(DB, "nowhere", "r"), 404, "table_not_found"),
        (lambda: db.list_rows("nowhere", T), 404, "database_not_found"),
        (lambda: create(db, {"name": "A"}, "_x"), 400, "general_argument_invalid"),
    ]:
        check_refused(call, code, type)


def test_rows_survive_a_restart() -> None:
    server = Server.start()
    try:
        db = server.tables()
        db.create(DB, "Rows")
        db.create_table(DB, T, "T", columns=COLUMNS, permissions=['read("any")'])
        db.create_rows(DB, T, [{"$id": f"r{n}", "name": f"n{n}", "age": n} for n in range(20)])
        db.delete_row(DB, T, "r3")
        db.update_row(DB, T, "r4", {"tags": ["kept"]})
        before = db.list_rows(DB, T)
        server = server.restart()
        assert server.tables().list_rows(DB, T) == before
        assert len(ids(server.tables(None).list_rows(DB, T))) == 19
    finally:
        server.close()
