"""What this client needs of every answer: its content type, its error shape, its statuses."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from appwrite.exception import AppwriteException
from appwrite.services.tables_db import TablesDB
from server import Server, check_refused

DB = "transport"
T = "t"
JSON = "application/json; charset=UTF-8"


@pytest.fixture(scope="module", autouse=True)
def table(db: TablesDB) -> None:
    db.create(DB, "Transport")
    columns = [{"key": "n", "type": "integer", "required": False}]
    db.create_table(DB, T, "T", columns=columns, permissions=['read("any")'])
    db.create_row(DB, T, "r", {"n": 1})


@pytest.mark.parametrize(
    ("method", "route", "body", "code", "type"),
    [
        ("GET", "/nowhere", None, 404, "general_route_not_found"),
        ("GET", "/tablesdb/none", None, 404, "database_not_found"),
        ("GET", f"/tablesdb/{DB}/tables/none", None, 404, "table_not_found"),
        ("GET", f"/tablesdb/{DB}/tables/{T}/rows/none", None, 404, "row_not_found"),
        ("POST", "/tablesdb", {}, 400, "general_argument_invalid"),
        ("POST", f"/tablesdb/{DB}/tables/{T}/rows", {}, 400, "row_missing_data"),
    ],
)
def test_an_error_has_the_whole_shape(
    server: Server, method: str, route: str, body: Any, code: int, type: str
) -> None:
    answer = server.ask(method, route, json=body)
    assert answer.headers["Content-Type"] == JSON
    error = answer.json()
    assert (answer.status_code, error["code"], error["type"]) == (code, code, type)
    assert set(error) == {"message", "code", "type", "version"}
    assert error["message"] and isinstance(error["version"], str)


def test_204_has_a_content_type_that_is_not_json(server: Server, db: TablesDB) -> None:
    db.create_row(DB, T, "brief", {"n": 1})
    answer = server.ask("DELETE", f"/tablesdb/{DB}/tables/{T}/rows/brief", json={})
    assert (answer.status_code, answer.content) == (204, b"")
    assert answer.headers["Content-Type"].startswith("text/plain")


def test_projects(server: Server) -> None:
    route = f"/tablesdb/{DB}/tables/{T}/rows"
    unknown = server.ask("GET", route, headers={"X-Appwrite-Project": "nowhere"})
    assert (unknown.status_code, unknown.json()["type"]) == (404, "project_not_found")
    none = server.ask("GET", route, headers={"X-Appwrite-Project": None})  # type: ignore[dict-item]
    assert (none.status_code, none.json()["type"]) == (401, "general_access_forbidden")


def test_health_is_public_where_documented(server: Server) -> None:
    version = server.ask("GET", "/health/version", guest=True)
    assert version.json() == {"version": "1.9.6"}
    ping = server.ask("GET", "/ping", guest=True)
    assert (ping.text, ping.headers["Content-Type"].split(";")[0]) == ("Pong!", "text/plain")


NOT_BUILT: dict[str, Callable[[TablesDB], Any]] = {
    "create_point_column": lambda db: db.create_point_column(DB, T, "k", False),
}


@pytest.mark.parametrize("name", NOT_BUILT)
def test_what_is_not_built_is_refused_in_shape(db: TablesDB, name: str) -> None:
    with pytest.raises(AppwriteException) as refusal:
        NOT_BUILT[name](db)
    error = refusal.value
    assert 400 <= error.code < 500 or error.code == 501
    assert error.type
    assert db.get_row(DB, T, "r").data["n"] == 1


def test_a_broken_body_is_refused(server: Server) -> None:
    headers = {"Content-Type": "application/json"}
    for body in (b"{", b"\xff\xfe", b"[]"):
        answer = server.ask("POST", "/tablesdb", data=body, headers=headers)
        assert answer.status_code == 400, answer.text
        assert answer.json()["type"].startswith("general_")


def test_an_unknown_method_of_a_known_route_is_refused(db: TablesDB, server: Server) -> None:
    answer = server.ask("PATCH", f"/tablesdb/{DB}")
    assert 400 <= answer.status_code < 500 and answer.json()["code"] == answer.status_code
    check_refused(lambda: db.get("none"), 404, "database_not_found")
