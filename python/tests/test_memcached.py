"""A Memcached server as a tier."""

import pathlib
import socket
import subprocess
import time
import weakref
from collections.abc import Iterator
from typing import Any

import pytest

from tidemark_cache import MemcachedBackend, _functions, cache, invalidate_tags


class Server:
    """On a socket in a folder."""

    def __init__(self, folder: pathlib.Path) -> None:
        self.path = folder / "memcached.socket"
        self.url = f"memcached+unix://{self.path}"
        self.start()

    def start(self) -> None:
        command = ["memcached", "-u", "root", "-U", "0", "-s", str(self.path)]
        self.process = subprocess.Popen(command)
        while True:
            with socket.socket(socket.AF_UNIX) as client:
                try:
                    client.connect(str(self.path))
                    return
                except OSError:
                    assert self.process.poll() is None
                    time.sleep(0.005)

    def stop(self) -> None:
        self.process.kill()
        self.process.wait()
        self.path.unlink(missing_ok=True)


@pytest.fixture
def server(tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Server]:
    # Tags reach the tiers of every function, those of other tests included.
    monkeypatch.setattr(_functions, "all_of_process", weakref.WeakSet())
    server = Server(tmp_path)
    yield server
    server.stop()


def made(server: Server, runs: list[int], **settings: Any) -> Any:
    @cache(backend=server.url, namespace="memcached", version=1, **settings)
    def function(number: int) -> tuple[int, int]:
        runs.append(number)
        return (number, len(runs))

    return function


def test_answers_are_shared_and_forgotten(server: Server) -> None:
    runs: list[int] = []
    first = made(server, runs, tags=lambda number: [f"number {number}"])
    second = made(server, runs, tags=lambda number: [f"number {number}"])
    assert first(1) == second(1) == (1, 1)
    assert type(second(1)) is tuple
    assert second.cache_info().l2_hits == 1
    assert invalidate_tags("number 1")
    assert first(1) == (1, 2)
    assert first.invalidate_cache(1)
    assert second.cache_info().l2_failures == 0
    first.cache_clear()
    assert made(server, runs)(1) == (1, 3)


def test_server_that_is_down_costs_runs_of_the_body(server: Server) -> None:
    runs: list[int] = []
    function = made(server, runs, circuit_breaker=False)
    assert function(1) == (1, 1)
    server.stop()
    assert function(2) == (2, 2)
    assert function.invalidate_cache(1) is False
    assert function.get_health_status()["tiers"]["memcached"].startswith("degraded: Memcached at ")
    server.start()
    function.cache_clear()
    assert function(3) == (3, 3)
    assert function.get_health_status()["tiers"]["memcached"] == "healthy"


def test_settings_that_are_wrong_are_refused() -> None:
    wrong: Any
    for wrong in ("memcached://", "memcached://user:secret@host", "host:11211", 7):
        with pytest.raises((TypeError, ValueError)) as refused:
            MemcachedBackend(wrong)
        assert "secret" not in str(refused.value)
    for settings in (
        {"timeout": -1},
        {"connections": 0},
        {"megabytes": 513},
        {"prefix": "a b"},
        {"tls_key": "x"},
        {"tls_ca": __file__},
    ):
        with pytest.raises((TypeError, ValueError)):
            MemcachedBackend("memcached://host", **settings)  # type: ignore[arg-type]
