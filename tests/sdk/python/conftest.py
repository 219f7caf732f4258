from __future__ import annotations

from collections.abc import Iterator

import pytest
from appwrite.services.tables_db import TablesDB
from server import Server


@pytest.fixture(scope="session")
def server() -> Iterator[Server]:
    """One server for all tests; each test module works in a database of its own."""
    running = Server.start()
    yield running
    running.close()


@pytest.fixture(scope="session")
def db(server: Server) -> TablesDB:
    return server.tables()


@pytest.fixture(scope="session")
def guest(server: Server) -> TablesDB:
    return server.tables(None)
