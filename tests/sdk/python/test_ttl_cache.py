"""The TTL list cache: hits and misses by the header, staleness and purge by the rows."""

from __future__ import annotations

import pytest
from appwrite.id import ID
from appwrite.query import Query as Q
from appwrite.services.tables_db import TablesDB
from server import Server, check_refused

DB = "ttl"
COLUMNS = [{"key": "n", "type": "integer", "required": False}]


@pytest.fixture(scope="module", autouse=True)
def database(db: TablesDB) -> None:
    db.create(DB, "TTL")


@pytest.fixture
def table(db: TablesDB) -> str:
    table_id = ID.unique()
    db.create_table(DB, table_id, "T", columns=COLUMNS, permissions=['read("any")'])
    db.create_rows(DB, table_id, [{"$id": f"r{n}", "n": n} for n in range(3)])
    return table_id


def ask(server: Server, table: str, *queries: str, **extra: object) -> tuple[object, ...]:
    """The cache header, the values of `n`, and the total."""
    route = f"/tablesdb/{DB}/tables/{table}/rows"
    params = {f"queries[{place}]": query for place, query in enumerate(queries)}
    answer = server.ask("GET", route, params={**params, **extra})
    assert answer.status_code == 200, answer.text
    listed = answer.json()
    numbers = [row["n"] for row in listed["rows"]]
    return answer.headers.get("X-Appwrite-Cache"), numbers, listed["total"]


def test_miss_then_hit_and_no_header_without_ttl(server: Server, table: str) -> None:
    assert ask(server, table) == (None, [0, 1, 2], 3)
    assert ask(server, table, ttl=60) == ("miss", [0, 1, 2], 3)
    assert ask(server, table, ttl=60) == ("hit", [0, 1, 2], 3)
    assert ask(server, table, ttl=60, total="false") == ("hit", [0, 1, 2], 0)
    assert ask(server, table, Q.select(["n"]), ttl=60) == ("miss", [0, 1, 2], 3)
    assert ask(server, table, ttl=0) == (None, [0, 1, 2], 3)


def test_writes_leave_entries_and_purge_takes_them(
    server: Server, db: TablesDB, table: str
) -> None:
    ask(server, table, ttl=60)
    db.update_row(DB, table, "r0", {"n": 9})
    db.update_table(DB, table, name="Renamed")
    assert ask(server, table, ttl=60) == ("hit", [0, 1, 2], 3)
    assert ask(server, table) == (None, [9, 1, 2], 3)
    db.update_table(DB, table, purge=True)
    assert ask(server, table, ttl=60) == ("miss", [9, 1, 2], 3)
    assert ask(server, table, ttl=60) == ("hit", [9, 1, 2], 3)
    db.delete_row(DB, table, "r1")
    assert ask(server, table, ttl=60) == ("miss", [9, 2], 2)


def test_the_post_form_takes_a_ttl(server: Server, table: str) -> None:
    route = f"/tablesdb/{DB}/tables/{table}/rows/query"
    body = {"queries": [Q.equal("n", 1)], "ttl": 60}
    answers = [server.ask("POST", route, json=body) for _ in range(2)]
    assert [answer.headers["X-Appwrite-Cache"] for answer in answers] == ["miss", "hit"]
    assert answers[0].json() == answers[1].json()


def test_two_databases_do_not_share(server: Server, db: TablesDB, table: str) -> None:
    ask(server, table, ttl=60)
    db.create("ttl-other", "Other")
    db.create_table("ttl-other", table, "T", columns=COLUMNS)
    found = db.list_rows("ttl-other", table, ttl=60)
    assert (found.total, found.rows) == (0, [])
    assert ask(server, table, ttl=60) == ("hit", [0, 1, 2], 3)


def test_a_revoked_grant_is_not_served(db: TablesDB, guest: TablesDB, table: str) -> None:
    assert guest.list_rows(DB, table, ttl=60).total == 3
    assert guest.list_rows(DB, table, ttl=60).total == 3
    db.update_table(DB, table, permissions=[])
    check_refused(lambda: guest.list_rows(DB, table, ttl=60), 401, "user_unauthorized")


@pytest.mark.parametrize("ttl", [-1, 86_401])
def test_a_ttl_out_of_range_is_refused(db: TablesDB, table: str, ttl: int) -> None:
    check_refused(lambda: db.list_rows(DB, table, ttl=ttl), 400, "general_argument_invalid", "ttl")
