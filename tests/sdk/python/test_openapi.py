"""What the OpenAPI document says, held against the server by requests made from it.

Seeded, so that the same document gives the same requests. By night there are more.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from typing import Any

import pytest
import requests
import schemathesis
from hypothesis import HealthCheck, given, settings
from hypothesis.errors import Unsatisfiable
from schemathesis.checks import not_a_server_error
from schemathesis.core.failures import FailureGroup
from schemathesis.generation import GenerationMode
from schemathesis.schemas import APIOperation
from schemathesis.specs.openapi.checks import (
    content_type_conformance,
    response_headers_conformance,
    response_schema_conformance,
    status_code_conformance,
)
from server import Server

EXAMPLES = 300 if os.environ.get("TIDEMARK_LANE") == "night" else 4
"""Requests of each operation in one test."""

CHECKS = [
    not_a_server_error,
    status_code_conformance,
    content_type_conformance,
    response_headers_conformance,
    response_schema_conformance,
]

ROWS = [{"$id": f"r{n}", "n": n, "s": f"text {n}"} for n in range(3)]
COLUMNS = [
    {"key": "n", "type": "integer"},
    {"key": "s", "type": "varchar", "size": 100},
    {"key": "tags", "type": "varchar", "size": 9, "array": True},
]
INDEXES = [{"key": "one_s", "type": "unique", "attributes": ["s"]}]


class Site:
    """A server with a table that requests may do anything to."""

    def __init__(self, server: Server) -> None:
        self.endpoint = server.bootstrap.endpoint
        self.headers = {
            "X-Appwrite-Project": server.bootstrap.project_id,
            "X-Appwrite-Key": server.bootstrap.api_key,
        }

    def post(self, path: str, body: dict[str, object]) -> requests.Response:
        return requests.post(self.endpoint + path, json=body, headers=self.headers, timeout=20)

    def delete(self, path: str) -> None:
        requests.delete(self.endpoint + path, headers=self.headers, timeout=20)

    def furnish(self, database: str = "d") -> None:
        self.post("/tablesdb", {"databaseId": database, "name": "D"})
        grants = ['read("any")', 'create("any")', 'update("any")', 'delete("any")']
        table = {
            "tableId": "t",
            "name": "T",
            "permissions": grants,
            "columns": COLUMNS,
            "indexes": INDEXES,
        }
        self.post(f"/tablesdb/{database}/tables", table)

    def furnish_spare(self) -> None:
        """A database and a function as new, for requests that change what they are."""
        self.delete("/tablesdb/spare")
        self.furnish("spare")
        self.delete("/functions/f")
        self.post("/functions", {"functionId": "f", "name": "F", "runtime": "node-22"})
        self.post("/functions/f/variables", {"variableId": "v", "key": "K", "value": "x"})

    def refill(self) -> None:
        """The rows that ids of requests name; earlier requests may have deleted them."""
        path = f"{self.endpoint}/tablesdb/d/tables/t/rows"
        answer = requests.put(path, json={"rows": ROWS}, headers=self.headers, timeout=20)
        assert answer.status_code in (200, 409), answer.text


    def transaction(self) -> str:
        """The id of one that is open."""
        return str(self.post("/tablesdb/transactions", {}).json()["$id"])


@pytest.fixture(scope="module")
def site() -> Iterator[Site]:
    server = Server.start()
    made = Site(server)
    made.furnish()
    yield made
    server.close()


NAMED = {"database": "d", "table": "t", "column": "n", "index": "one_s", "function": "f"}
"""What paths name. Most requests shall come to something, and the document knows no tables."""

ROW_TAGS = ("rows", "transactions", "tidemark")
"""What the bodies of these hold is rows of a table. Other requests define tables and functions."""

CONTENT = ("data", "doc", "equals", "where")
TABLES = ("tableId", "collectionId", "table", "left", "right")


def fitted(value: Any) -> Any:
    """A body of the document's shape with the tables and the columns that are there."""
    if isinstance(value, list):
        return [fitted(element) for element in value]
    if not isinstance(value, dict):
        return value
    fit = {name: fitted(member) for name, member in value.items()}
    fit |= {name: "t" for name in TABLES if name in fit}
    fit |= {name: {"n": len(fit)} for name in CONTENT if isinstance(fit.get(name), dict)}
    for rows in ("rows", "documents"):
        if isinstance(fit.get(rows), list):
            fit[rows] = [{"n": nth} for nth, _ in enumerate(fit[rows])]
    return fit


def ask(case: schemathesis.Case, site: Site) -> None:
    is_of_rows = case.operation.tags[0] in ROW_TAGS
    if is_of_rows:
        site.refill()
    elif case.method != "GET":
        site.furnish_spare()
    for name in case.path_parameters:
        case.path_parameters[name] = NAMED.get(name, case.path_parameters[name])
    if not is_of_rows and case.method != "GET" and "database" in case.path_parameters:
        case.path_parameters["database"] = "spare"
    if case.meta is None or case.meta.generation.mode.is_positive:
        if is_of_rows:
            case.body = fitted(case.body)
        if "row" in case.path_parameters:
            case.path_parameters["row"] = ROWS[len(case.path_parameters["row"]) % 3]["$id"]
        if "transaction" in case.path_parameters:
            case.path_parameters["transaction"] = site.transaction()
        # Nearly every mark lies ahead of the server's clock.
        if case.headers and len(case.headers.get("X-Tidemark-Min-Mark", "")) % 4:
            del case.headers["X-Tidemark-Min-Mark"]
    response = case.call_and_validate(headers=site.headers, checks=CHECKS)
    # The document has this status for a server with too much to do; this one has nothing else.
    assert response.status_code != 503, response.text


def asked(operation: APIOperation, mode: GenerationMode, site: Site) -> str:
    """What is wrong about the answers to one operation; empty if nothing is."""

    # Before each request that defines something, much is made as new.
    is_of_rows = operation.tags[0] in ROW_TAGS
    examples = EXAMPLES if is_of_rows else EXAMPLES // 2

    @settings(
        max_examples=examples,
        deadline=None,
        derandomize=True,
        database=None,
        suppress_health_check=list(HealthCheck),
    )
    @given(case=operation.as_strategy(generation_mode=mode))
    def ask_all(case: schemathesis.Case) -> None:
        ask(case, site)

    try:
        ask_all()
    except Unsatisfiable:
        # An operation without parameters and body has no wrong request.
        return ""
    except (Exception, FailureGroup) as fault:
        return f"{operation.label}, {mode.value}: {fault}"
    return ""


@pytest.mark.parametrize("mode", list(GenerationMode), ids=lambda mode: mode.value)
def test_the_server_does_what_the_document_says(mode: GenerationMode, site: Site) -> None:
    document = schemathesis.openapi.from_url(f"{site.endpoint}/tidemark/openapi.json")
    operations = [found.ok() for found in document.get_all_operations()]
    assert len(operations) > 150, "the document has fewer operations than the server has routes"
    faults = [asked(operation, mode, site) for operation in operations]
    assert "\n".join(fault for fault in faults if fault) == ""


def test_the_document_is_public_and_held(site: Site) -> None:
    url = f"{site.endpoint}/tidemark/openapi.json"
    first = requests.get(url, timeout=20)
    assert first.json()["openapi"] == "3.1.0"
    held = requests.get(url, headers={"If-None-Match": first.headers["ETag"]}, timeout=20)
    assert (held.status_code, held.content) == (304, b"")
