"""Many rows at once, counting columns, and operators, as this client's typed models read them."""

from __future__ import annotations

from typing import Any

import pytest
from appwrite.operator import Condition, Operator
from appwrite.query import Query
from appwrite.services.tables_db import TablesDB
from server import check_refused, ids

DB = "bulk"
T = "t"

COLUMNS = [
    {"key": "name", "type": "varchar", "size": 20, "required": True},
    {"key": "n", "type": "integer", "required": False},
    {"key": "price", "type": "double", "required": False},
    {"key": "done", "type": "boolean", "required": False},
    {"key": "tags", "type": "varchar", "size": 9, "required": False, "array": True},
    {"key": "at", "type": "datetime", "required": False},
]


@pytest.fixture(scope="module", autouse=True)
def table(db: TablesDB) -> None:
    db.create(DB, "Bulk")
    db.create_table(DB, T, "T", columns=COLUMNS)


@pytest.fixture(autouse=True)
def rows(db: TablesDB) -> None:
    db.delete_rows(DB, T)
    db.create_rows(DB, T, [{"$id": f"r{n}", "name": f"row {n}", "n": n} for n in range(5)])


def data(db: TablesDB, row_id: str) -> Any:
    return db.get_row(DB, T, row_id).data


def test_update_rows(db: TablesDB) -> None:
    changed = db.update_rows(DB, T, {"price": 1}, [Query.less_than("n", 2)])
    assert (changed.total, ids(changed)) == (2, ["r0", "r1"])
    assert changed.rows[0].data["price"] == 1.0
    assert data(db, "r2")["price"] is None
    assert db.update_rows(DB, T, {"done": True}).total == 5


def test_delete_rows(db: TablesDB) -> None:
    gone = db.delete_rows(DB, T, [Query.equal("n", [1, 3])])
    assert (gone.total, ids(gone)) == (2, ["r1", "r3"])
    assert ids(db.list_rows(DB, T)) == ["r0", "r2", "r4"]
    assert db.delete_rows(DB, T).total == 3
    assert db.delete_rows(DB, T).rows == []


def test_upsert_rows(db: TablesDB) -> None:
    put = db.upsert_rows(DB, T, [{"$id": "r0", "n": 9}, {"$id": "new", "name": "x"}])
    assert (put.total, ids(put)) == (2, ["r0", "new"])
    assert (data(db, "r0")["n"], data(db, "r0")["name"]) == (9, "row 0")


def test_counting(db: TablesDB) -> None:
    assert db.increment_row_column(DB, T, "r1", "n").data["n"] == 2
    assert db.increment_row_column(DB, T, "r1", "price", value=0.5).data["price"] == 0.5
    assert db.decrement_row_column(DB, T, "r1", "n", value=2, min=0).data["n"] == 0
    down = lambda: db.decrement_row_column(DB, T, "r1", "n", min=0)  # noqa: E731
    check_refused(down, 400, "column_limit_exceeded")
    text = lambda: db.increment_row_column(DB, T, "r1", "name")  # noqa: E731
    check_refused(text, 400, "attribute_type_invalid")


OPERATORS: list[tuple[str, str, Any]] = [
    ("n", Operator.increment(5, 6), 6),
    ("n", Operator.increment(2.0), 5),
    ("n", Operator.decrement(), 2),
    ("n", Operator.multiply(4), 12),
    ("n", Operator.divide(2), 1),
    ("n", Operator.modulo(2), 1),
    ("n", Operator.power(3), 27),
    ("tags", Operator.array_append(["c"]), ["a", "b", "c"]),
    ("tags", Operator.array_prepend(["c"]), ["c", "a", "b"]),
    ("tags", Operator.array_insert(1, "c"), ["a", "c", "b"]),
    ("tags", Operator.array_remove("a"), ["b"]),
    ("tags", Operator.array_unique(), ["a", "b"]),
    ("tags", Operator.array_intersect(["a"]), ["a"]),
    ("tags", Operator.array_diff(["a"]), ["b"]),
    ("tags", Operator.array_filter(Condition.EQUAL, "b"), ["b"]),
    ("name", Operator.string_concat("!"), "row 3!"),
    ("name", Operator.string_replace("row", "line"), "line 3"),
    ("done", Operator.toggle(), True),
    ("at", Operator.date_add_days(1), "2026-01-02T00:00:00.000+00:00"),
    ("at", Operator.date_sub_days(1), "2025-12-31T00:00:00.000+00:00"),
]


@pytest.mark.parametrize(("column", "operator", "expected"), OPERATORS)
def test_operators(db: TablesDB, column: str, operator: str, expected: Any) -> None:
    db.update_row(DB, T, "r3", {"tags": ["a", "b"], "at": "2026-01-01T00:00:00Z"})
    assert db.update_row(DB, T, "r3", {column: operator}).data[column] == expected
    assert data(db, "r3")[column] == expected


def test_an_operator_on_all_rows(db: TablesDB) -> None:
    assert db.update_rows(DB, T, {"n": Operator.increment(10)}).total == 5
    assert [data(db, f"r{n}")["n"] for n in range(5)] == [10, 11, 12, 13, 14]
    wrong = lambda: db.update_rows(DB, T, {"n": Operator.toggle()})  # noqa: E731
    check_refused(wrong, 400, "row_invalid_structure")
