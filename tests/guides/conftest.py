"""The server of a page."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from guide import Shop
from server import Server


@pytest.fixture
def shop(tmp_path: Path) -> Iterator[Shop]:
    server = Server.start("--test-clock")
    try:
        yield Shop(server, tmp_path)
    finally:
        server.close()
