"""Transactions, as this client's typed models read them."""

from __future__ import annotations

from typing import Any

import pytest
from appwrite.query import Query
from appwrite.services.tables_db import TablesDB
from server import check_refused, ids

DB = "staging"
T = "t"

COLUMNS = [
    {"key": "n", "type": "integer", "required": False},
    {"key": "tags", "type": "varchar", "size": 9, "required": False, "array": True},
]


@pytest.fixture(scope="module", autouse=True)
def table(db: TablesDB) -> None:
    db.create(DB, "Transactions")
    db.create_table(DB, T, "T", columns=COLUMNS)


@pytest.fixture(autouse=True)
def rows(db: TablesDB) -> None:
    db.delete_rows(DB, T)
    db.create_rows(DB, T, [{"$id": f"r{n}", "n": n} for n in range(3)])


def op(action: str, row_id: str, data: dict[str, Any] | None = None) -> dict[str, Any]:
    return {"action": action, "databaseId": DB, "tableId": T, "rowId": row_id, "data": data or {}}


def values(db: TablesDB, transaction: str | None = None) -> dict[str, Any]:
    found = db.list_rows(DB, T, [Query.order_asc("$id")], transaction_id=transaction)
    assert found.total == len(found.rows)
    return {row.id: row.data["n"] for row in found.rows}


def test_life(db: TablesDB) -> None:
    made = db.create_transaction(ttl=60)
    assert (made.status, made.operations) == ("pending", 0)
    assert db.get_transaction(made.id).expiresat == made.expiresat
    listed = db.list_transactions([Query.equal("status", "pending")])
    assert made.id in [one.id for one in listed.transactions]
    db.delete_transaction(made.id)
    check_refused(lambda: db.get_transaction(made.id), 404, "transaction_not_found")
    check_refused(lambda: db.create_transaction(ttl=1), 400, "general_argument_invalid", "ttl")


def test_operations_are_committed_together(db: TablesDB) -> None:
    transaction = db.create_transaction().id
    operations = [
        op("create", "x", {"n": 9, "tags": ["a"]}),
        op("update", "r0", {"n": 7}),
        op("delete", "r1"),
        op("increment", "r2", {"column": "n", "value": 3}),
    ]
    assert db.create_operations(transaction, operations).operations == 4
    assert values(db) == {"r0": 0, "r1": 1, "r2": 2}
    assert values(db, transaction) == {"r0": 7, "r2": 5, "x": 9}
    assert db.update_transaction(transaction, commit=True).status == "committed"
    assert values(db) == {"r0": 7, "r2": 5, "x": 9}


def test_rows_are_staged_and_answered(db: TablesDB) -> None:
    transaction = db.create_transaction().id
    made = db.create_row(DB, T, "x", {"n": 1}, transaction_id=transaction)
    assert (made.id, made.data["n"], made.data["tags"]) == ("x", 1, [])
    changed = db.update_row(DB, T, "x", {"tags": ["b"]}, transaction_id=transaction)
    assert (changed.data["n"], changed.data["tags"]) == (1, ["b"])
    assert db.upsert_row(DB, T, "y", {"n": 2}, transaction_id=transaction).data["n"] == 2
    counted = db.increment_row_column(DB, T, "x", "n", 4, transaction_id=transaction)
    assert counted.data["n"] == 5
    many = db.create_rows(DB, T, [{"$id": "m", "n": 8}], transaction_id=transaction)
    assert (many.total, ids(many)) == (1, [])
    assert db.delete_rows(DB, T, [Query.equal("n", 0)], transaction_id=transaction).total == 0
    assert db.get_row(DB, T, "x", transaction_id=transaction).data["tags"] == ["b"]
    assert db.update_transaction(transaction, rollback=True).status == "failed"
    assert values(db) == {"r0": 0, "r1": 1, "r2": 2}


def test_a_row_that_cannot_be_written_yet_is_answered_as_sent(db: TablesDB) -> None:
    transaction = db.create_transaction().id
    sent = db.create_row(DB, T, "r0", {"n": 1}, transaction_id=transaction)
    assert (sent.id, sent.data["n"], sent.data["tags"]) == ("r0", 1, [])
    commit = lambda: db.update_transaction(transaction, commit=True)  # noqa: E731
    check_refused(commit, 409, "transaction_conflict", "`r0`")


def test_a_conflict_leaves_nothing(db: TablesDB) -> None:
    transaction = db.create_transaction().id
    db.create_operations(transaction, [op("create", "x", {"n": 1}), op("update", "r0", {"n": 5})])
    db.update_row(DB, T, "r0", {"n": 6})
    commit = lambda: db.update_transaction(transaction, commit=True)  # noqa: E731
    check_refused(commit, 409, "transaction_conflict", "`r0`")
    assert db.get_transaction(transaction).status == "failed"
    assert values(db) == {"r0": 6, "r1": 1, "r2": 2}
    check_refused(commit, 400, "transaction_not_ready")
