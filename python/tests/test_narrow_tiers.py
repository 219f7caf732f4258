"""A file next to a server, which invalidations by other hosts do not reach."""

import pathlib
import time
import weakref
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from test_redis import Server

from tidemark_cache import FileBackend, RedisBackend, _backed, _functions, _refresh, cache

SPAN_S = 0.4


@pytest.fixture
def server(tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Server]:
    monkeypatch.setattr(_functions, "all_of_process", weakref.WeakSet())
    monkeypatch.setattr(_backed, "STALE_S", SPAN_S)
    server = Server(tmp_path)
    yield server
    server.stop()


def host(folder: pathlib.Path, server: Server, body: Callable[[], Any], **settings: Any) -> Any:
    """A function of a process of the host that has this folder."""
    file = FileBackend(folder=folder, megabytes=8, listen=False)
    redis = RedisBackend(server.url, listen=False)

    @cache(backend=[file, redis], namespace="narrow", version=1, circuit_breaker=False, **settings)
    def function(number: int) -> Any:
        return body()

    return function


@pytest.mark.parametrize("fails", ["at the question", "at the store", "at both"])
def test_old_value_of_a_slow_body_is_answered_no_longer_than_the_span(
    server: Server, tmp_path: pathlib.Path, fails: str
) -> None:
    source = ["old"]
    there = host(tmp_path / "there", server, lambda: source[0])

    def body() -> str:
        value = source[0]
        if fails != "at the store":
            server.start()
        source[0] = "new"
        assert there.invalidate_cache(1) is not None
        if fails != "at the question":
            server.stop()
        time.sleep(SPAN_S * 1.1)
        return value

    here = host(tmp_path / "here", server, body)
    if fails != "at the store":
        server.stop()
    assert here(1) == "old" and here.cache_info().l2_failures > 0
    if fails != "at the question":
        server.start()
    assert host(tmp_path / "here", server, lambda: source[0])(1) == "new"
    # Its own memory does not answer with it, either.
    hits = here.cache_info().l1_hits
    assert here(1) == "new" and here.cache_info().l1_hits == hits


def test_value_that_waited_to_be_written_is_as_old_as_its_body(
    server: Server, tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    writes: list[Callable[[], Any]] = []

    def wait(_: Any, write: Callable[[], Any]) -> bool:
        writes.append(write)
        return True

    monkeypatch.setattr(_refresh, "submit", wait)
    source = ["old"]
    here = host(tmp_path / "here", server, lambda: source[0], write_behind=True)
    server.stop()
    assert here(1) == "old"
    server.start()
    source[0] = "new"
    assert host(tmp_path / "there", server, lambda: source[0]).invalidate_cache(1) is False
    time.sleep(SPAN_S * 1.1)
    [write] = writes
    write()
    assert host(tmp_path / "here", server, lambda: source[0])(1) == "new"


def test_value_of_a_quick_body_is_answered_from_the_file_while_the_server_is_down(
    server: Server, tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(_backed, "STALE_S", 600.0)
    server.stop()
    assert host(tmp_path / "here", server, lambda: "first")(1) == "first"
    assert host(tmp_path / "here", server, lambda: "second")(1) == "first"


def test_memory_has_an_answer_of_the_server_however_old_it_is(
    server: Server, tmp_path: pathlib.Path
) -> None:
    def made(folder: str) -> Any:
        file = FileBackend(folder=tmp_path / folder, megabytes=8, listen=False)
        redis = RedisBackend(server.url, listen=False)

        # Answers that may be due are looked at one by one.
        @cache(backend=[redis, file], namespace="old", version=1, ttl=600, refresh_ahead=0.9)
        def function(number: int) -> int:
            return number

        return function

    made("there")(1)
    time.sleep(SPAN_S * 1.1)
    here = made("here")
    assert [here(1) for _ in range(50)] == [1] * 50
    info = here.cache_info()
    # Not one round trip for each of them.
    assert info.l1_hits + info.l2_hits == 50 and info.l1_hits > 0 and info.misses == 0
