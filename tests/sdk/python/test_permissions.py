"""What a guest may do by table permissions and row security; a key may do all."""

from __future__ import annotations

from typing import Any

import pytest
from appwrite.id import ID
from appwrite.services.tables_db import TablesDB
from server import Server, check_refused, ids

DB = "permissions"
COLUMNS = [{"key": "n", "type": "integer", "required": False}]
ROWS = {
    "open": ['read("any")'],
    "guests": ['read("guests")'],
    "users": ['read("users")'],
    "editable": ['update("any")', 'delete("any")'],
}
UNAUTHORIZED = (401, "user_unauthorized")


@pytest.fixture(scope="module", autouse=True)
def database(db: TablesDB) -> None:
    db.create(DB, "Permissions")


def make(db: TablesDB, permissions: list[str], row_security: bool = False) -> str:
    table_id = ID.unique()
    more: dict[str, Any] = {"permissions": permissions, "row_security": row_security}
    db.create_table(DB, table_id, "T", columns=COLUMNS, **more)
    rows = [{"$id": key, "$permissions": granted, "n": 1} for key, granted in ROWS.items()]
    db.create_rows(DB, table_id, rows)
    return table_id


ALL = list(ROWS)


@pytest.mark.parametrize(
    ("permissions", "row_security", "seen"),
    [
        ([], False, None),
        (['read("users")'], False, None),
        (['create("any")', 'update("any")'], False, None),
        (['read("any")'], False, ALL),
        (['read("guests")'], True, ALL),
        ([], True, ["open", "guests"]),
        (['read("user:u1")'], True, ["open", "guests"]),
    ],
)
def test_a_guest_sees(
    db: TablesDB,
    guest: TablesDB,
    permissions: list[str],
    row_security: bool,
    seen: list[str] | None,
) -> None:
    table_id = make(db, permissions, row_security)
    if seen is None:
        check_refused(lambda: guest.list_rows(DB, table_id), *UNAUTHORIZED)
    else:
        found = guest.list_rows(DB, table_id)
        assert (ids(found), found.total) == (seen, len(seen))
    for row_id in ALL:
        if row_id in (seen or []):
            assert guest.get_row(DB, table_id, row_id).id == row_id
        else:
            call = lambda row_id=row_id: guest.get_row(DB, table_id, row_id)  # noqa: E731
            check_refused(call, 404, "row_not_found")
    assert db.list_rows(DB, table_id).total == len(ALL)


def test_a_guest_writes_by_grant_only(db: TablesDB, guest: TablesDB) -> None:
    closed = make(db, ['read("any")'], row_security=True)
    check_refused(lambda: guest.create_row(DB, closed, "x", {"n": 1}), *UNAUTHORIZED)
    check_refused(lambda: guest.update_row(DB, closed, "open", {"n": 2}), *UNAUTHORIZED)
    check_refused(lambda: guest.delete_row(DB, closed, "open"), *UNAUTHORIZED)
    check_refused(lambda: guest.update_row(DB, closed, "none", {"n": 2}), 404, "row_not_found")
    assert guest.update_row(DB, closed, "editable", {"n": 2}).data["n"] == 2
    guest.delete_row(DB, closed, "editable")

    granted = make(db, ['create("guests")', 'update("any")', 'delete("any")'])
    assert guest.create_row(DB, granted, "x", {"n": 1}).permissions == []
    assert guest.update_row(DB, granted, "open", {"n": 3}).data["n"] == 3
    guest.delete_row(DB, granted, "open")


def test_a_guest_who_may_not_read_gets_back_what_it_sent(db: TablesDB, guest: TablesDB) -> None:
    table = make(db, ['update("any")'])
    row = guest.update_row(DB, table, "open", {"n": 2})
    assert (row.id, row.data) == ("open", {"n": 2})
    assert (row.sequence, row.createdat, row.permissions) == ("", "", [])
    refused = lambda: guest.increment_row_column(DB, table, "open", "n", 1, 10)  # noqa: E731
    check_refused(refused, *UNAUTHORIZED)
    assert db.get_row(DB, table, "open").data["n"] == 2


@pytest.mark.parametrize("role", ["any", "guests"])
def test_a_guest_may_grant_its_roles(db: TablesDB, guest: TablesDB, role: str) -> None:
    table_id = make(db, ['create("any")'])
    permissions = [f'read("{role}")']
    assert guest.create_row(DB, table_id, "x", {"n": 1}, permissions).permissions == permissions


@pytest.mark.parametrize("role", ["users", "user:u1", "team:t1", "member:m1", "label:vip"])
def test_a_guest_may_not_grant_others(db: TablesDB, guest: TablesDB, role: str) -> None:
    table_id = make(db, ['create("any")'])
    permissions = [f'read("{role}")']
    check_refused(
        lambda: guest.create_row(DB, table_id, "x", {"n": 1}, permissions), *UNAUTHORIZED
    )
    check_refused(lambda: db.get_row(DB, table_id, "x"), 404, "row_not_found")


def test_a_disabled_table_is_absent_for_guests(db: TablesDB, guest: TablesDB) -> None:
    table_id = make(db, ['read("any")'])
    db.update_table(DB, table_id, enabled=False)
    check_refused(lambda: guest.list_rows(DB, table_id), 404, "table_not_found")
    assert db.list_rows(DB, table_id).total == len(ALL)


def test_key_routes_refuse_guests_and_garbled_keys(server: Server, guest: TablesDB) -> None:
    for caller in (guest, server.tables("standard_nonsense")):
        for call in (
            caller.list,
            lambda caller=caller: caller.create("x", "X"),
            lambda caller=caller: caller.list_tables(DB),
            lambda caller=caller: caller.create_table(DB, "x", "X"),
            lambda caller=caller: caller.update_table(DB, "x", purge=True),
            lambda caller=caller: caller.create_rows(DB, "x", [{"n": 1}]),
        ):
            check_refused(call, 401, "general_unauthorized_scope")
