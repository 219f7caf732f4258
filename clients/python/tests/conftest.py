from __future__ import annotations

from collections.abc import Iterator

import pytest
from server import Server

from tidemark import Client


@pytest.fixture(scope="session")
def server() -> Iterator[Server]:
    """One server for all tests; each test module works in a database of its own."""
    running = Server.start()
    yield running
    running.close()


@pytest.fixture(scope="module")
def database(server: Server, request: pytest.FixtureRequest) -> str:
    """The module's database, with a table `books`."""
    name = str(request.module.__name__).removeprefix("test_")
    with server.client(database=name) as client:
        client.create_database()
        body = {
            "tableId": "books",
            "name": "Books",
            "columns": [
                {"key": "title", "type": "varchar", "size": 100},
                {"key": "year", "type": "integer"},
            ],
            "indexes": [{"key": "by_title", "type": "unique", "attributes": ["title"]}],
        }
        client.request("POST", f"/tablesdb/{name}/tables", body)
    return name


@pytest.fixture
def client(server: Server, database: str) -> Iterator[Client]:
    with server.client(database=database) as client:
        client.request("DELETE", f"/tablesdb/{database}/tables/books/rows")
        yield client
