"""Old values and refreshes, on a tier of each kind."""

import asyncio
import pathlib
import threading
import time
import weakref
from collections.abc import Iterator
from typing import Any

import pytest
from test_memcached import Server as Memcached
from test_redis import Server as Redis

from tidemark_cache import FileBackend, _functions, cache


class Shelf:
    """An object that keeps records."""

    def __init__(self) -> None:
        self.records: dict[str, bytes] = {}

    def get(self, key: str) -> bytes | None:
        return self.records.get(key)

    def set(self, key: str, value: bytes, ttl: int) -> None:
        self.records[key] = value

    def delete(self, key: str) -> bool:
        return self.records.pop(key, None) is not None


@pytest.fixture(params=["file", "redis", "memcached", "object"])
def backend(
    request: pytest.FixtureRequest, tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch
) -> Iterator[Any]:
    monkeypatch.setattr(_functions, "all_of_process", weakref.WeakSet())
    if request.param == "file":
        yield FileBackend(folder=tmp_path / "tier", megabytes=8)
    elif request.param == "object":
        yield Shelf()
    else:
        server = (Redis if request.param == "redis" else Memcached)(tmp_path)
        yield server.url
        server.stop()


class Source:
    """What bodies ask, which says which of its answers it gave."""

    def __init__(self) -> None:
        self.answers = 0
        self.is_down = False

    def ask(self) -> int:
        if self.is_down:
            raise OSError("the source is down")
        self.answers += 1
        return self.answers


def process(backend: Any, source: Source, **settings: Any) -> Any:
    """The function as another process has it: with no answer in memory."""

    @cache(backend=backend, namespace="test", version=1, **settings)
    def function(number: int) -> int:
        return source.ask()

    return function


def pass_s(seconds: float) -> None:
    threading.Event().wait(seconds)


def until_refreshed(function: Any) -> None:
    end = time.monotonic() + 30
    while not function.cache_info().refreshes:
        assert time.monotonic() < end
        time.sleep(0.002)


def test_old_value_answers_while_it_is_refreshed(backend: Any) -> None:
    source = Source()
    rules: dict[str, Any] = {"ttl": 0.1, "stale_ttl": 600}
    process(backend, source, **rules)(1)
    pass_s(0.11)
    function = process(backend, source, **rules)
    assert function(1) == 1
    until_refreshed(function)
    assert source.answers == 2 and process(backend, source, **rules)(1) == 2
    info = function.cache_info()
    assert (info.l2_hits, info.stale_hits, info.misses, info.l2_failures) == (1, 1, 0, 0)


def test_refresh_ahead_replaces_an_entry_before_its_end(backend: Any) -> None:
    source = Source()
    rules: dict[str, Any] = {"ttl": 600, "refresh_ahead": 0.0001}
    process(backend, source, **rules)(1)
    pass_s(0.07)
    function = process(backend, source, **rules)
    assert function(1) == 1
    until_refreshed(function)
    assert source.answers == 2 and process(backend, source, **rules)(1) == 2
    info = function.cache_info()
    assert (info.l2_hits, info.stale_hits, info.misses, info.l2_failures) == (1, 0, 0, 0)


def test_old_value_answers_for_a_source_that_is_down(backend: Any) -> None:
    source = Source()
    rules: dict[str, Any] = {"ttl": 0.05, "stale_if_error": 600}
    process(backend, source, **rules)(1)
    pass_s(0.06)
    source.is_down = True
    function = process(backend, source, **rules)
    assert function(1) == 1 and function(1) == 1
    assert function.cache_info().stale_hits == 2
    with pytest.raises(OSError, match="the source is down"):
        function(2)
    source.is_down = False
    assert function(1) == 2


def test_async_functions_answer_with_an_old_value_and_refresh_it(backend: Any) -> None:
    source = Source()

    def made() -> Any:
        @cache(backend=backend, namespace="async", version=1, ttl=0.1, stale_ttl=600)
        async def function(number: int) -> int:
            await asyncio.sleep(0)
            return source.ask()

        return function

    async def calls() -> None:
        assert await made()(1) == 1
        await asyncio.sleep(0.11)
        function = made()
        assert await function(1) == 1
        while not function.cache_info().refreshes:
            await asyncio.sleep(0.002)
        assert await made()(1) == 2
        assert function.cache_info().stale_hits == 1

    asyncio.run(asyncio.wait_for(calls(), 30))
