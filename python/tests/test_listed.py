"""Forgetting, in the tiers, the calls that a predicate picks."""

import asyncio
import mmap
import pathlib
import struct
import subprocess
import sys
import time
import weakref
from collections.abc import Iterator
from typing import Any

import pytest
from test_redis import Server

from tidemark_cache import (
    CacheConfig,
    FileBackend,
    _functions,
    _listed,
    _native,
    _refresh,
    cache,
    defer_invalidations,
)


@pytest.fixture(autouse=True)
def no_functions_of_other_tests(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(_functions, "all_of_process", weakref.WeakSet())


@pytest.fixture(params=["file", "redis", "file and redis"])
def backend(request: pytest.FixtureRequest, tmp_path: pathlib.Path) -> Iterator[Any]:
    file = FileBackend(folder=tmp_path / "tier", megabytes=8)
    if request.param == "file":
        yield file
        return
    server = Server(tmp_path)
    yield [file, server.url] if request.param == "file and redis" else server.url
    server.stop()


def counted(backend: Any, name: str = "a", **settings: Any) -> tuple[Any, list[Any]]:
    """As another process has it: with nothing in memory."""
    runs: list[Any] = []
    settings = {"version": 1, "circuit_breaker": False, "keep_arguments": True, **settings}

    @cache(backend=backend, namespace=name, **settings)
    def function(user: Any, page: int = 1, *, kind: str = "a") -> Any:
        runs.append((user, page, kind))
        return [user, page, kind]

    return function, runs


#: More bytes than are kept, however they are compressed.
LONG = "".join(f"{number ** 5:x}" for number in range(2_000))
CALLS: list[tuple[tuple[Any, ...], dict[str, Any]]] = [
    ((1,), {}), ((1, 2), {}), ((2, 1), {}), ((2,), {"page": 2}), ((2,), {"kind": "b"}),
    (("2",), {}), ((None, 7), {}), ((2.0,), {}), ((True,), {}), ((b"2",), {}),
    ((1 << 100,), {}), (("\udc80\0",), {}),
]  # fmt: skip


def call_all(function: Any) -> None:
    for args, kwargs in CALLS:
        function(*args, **kwargs)


@pytest.mark.parametrize("settings", [
    {}, {"ttl": 60}, {"tags": ["red"]}, {"tags": lambda user, *_, **__: [f"user {user!r}"]},
    {"result_tags": lambda result: [f"page {result[1]}", "red"], "ttl": 60},
    {"write_behind": True}, {"ttl": 60, "stale_if_error": 60}, {"lease": "run"},
], ids=str)  # fmt: skip
def test_entries_that_a_predicate_picks_are_forgotten_for_every_process(
    backend: Any, settings: dict[str, Any]
) -> None:
    first, runs = counted(backend, **settings)
    call_all(first)
    assert len(runs) == len(CALLS)
    other, _ = counted(backend, "another", **settings)
    call_all(other)
    seen: list[Any] = []

    def is_meant(user: Any, page: Any, kind: Any) -> bool:
        seen.append((user, page, kind))
        return type(user) is int and user == 2

    by_other, _ = counted(backend, **settings)
    if settings.get("write_behind"):
        # A walk would have those not stored that are still on their way.
        end = time.monotonic() + 60
        while _refresh._pool.pending:
            assert time.monotonic() < end
            time.sleep(0.001)
    assert by_other.invalidate_where(is_meant) == 3
    # By their texts, since `1 == True`.
    assert {repr(user) for user, *_ in seen} == {repr(args[0]) for args, _ in CALLS}
    assert (2, 1, "b") in seen
    again, runs = counted(backend, **settings)
    call_all(again)
    assert runs == [(2, 1, "a"), (2, 2, "a"), (2, 1, "b")]
    assert again(1) == [1, 1, "a"] and again(1.0) == [1.0, 1, "a"]
    untouched, runs = counted(backend, "another", **settings)
    call_all(untouched)
    assert runs == []


def test_memory_of_this_process_forgets_exactly_those(backend: Any) -> None:
    function, runs = counted(backend)
    call_all(function)
    runs.clear()
    assert function.invalidate_where(lambda user, page, kind: page == 2) == 2
    call_all(function)
    assert runs == [(1, 2, "a"), (2, 2, "a")]
    assert function.cache_info().l1_hits >= len(CALLS) - 2


def test_calls_whose_arguments_are_not_kept_are_always_forgotten(backend: Any) -> None:
    function, runs = counted(backend, ignore=["page"])
    function(1, 5), function([1, 2]), function(LONG), function(2)
    seen: list[Any] = []
    again, runs = counted(backend, ignore=["page"])
    assert again.invalidate_where(lambda *call: seen.append(call)) == 2
    assert sorted(set(seen)) == [(1, None, "a"), (2, None, "a")]
    again(1, 6), again([1, 2]), again(LONG), again(2)
    assert [user for user, *_ in runs] == [[1, 2], LONG]


def test_predicate_that_raises_half_way_forgets_nothing(backend: Any) -> None:
    function, _ = counted(backend)
    for number in range(50):
        function(number)
    asked: list[int] = []

    def is_meant(user: int, *_: Any) -> bool:
        asked.append(user)
        if len(asked) == 25:
            raise ZeroDivisionError
        return True

    again, runs = counted(backend)
    with pytest.raises(ZeroDivisionError):
        again.invalidate_where(is_meant)
    for number in range(50):
        again(number)
    assert runs == [] and len(asked) == 25


def test_entry_that_comes_to_the_near_tier_during_the_walk_is_forgotten(
    tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    # As from Redis, which has lost it since.
    near = FileBackend(folder=tmp_path / "near", megabytes=8)
    server = Server(tmp_path)
    for number in range(3):
        counted(near)[0](number)
    listing = _listed.ListedEntries._slice
    looks: list[int] = []

    def listed(self: Any, tier: int, cursor: int) -> Any:
        looks.append(tier)
        entries, cursor = listing(self, tier, cursor)
        return ([] if looks == [1, 0] else entries), cursor

    monkeypatch.setattr(_listed.ListedEntries, "_slice", listed)

    def is_meant(user: int, *_: Any) -> bool:
        # What it says of 2 comes too late.
        return user == 1 or (user == 2 and bool(1 / 0))

    function, _ = counted([near, server.url])
    assert function.invalidate_where(is_meant) == 2
    server.stop()
    again, runs = counted(near)
    assert [again(number) for number in range(3)] and runs == [(1, 1, "a"), (2, 1, "a")]
    assert looks[:2] == [1, 0] and set(looks[2:]) == {0}


def test_run_that_a_predicate_overtakes_is_stored_by_no_process(backend: Any) -> None:
    other, _ = counted(backend)

    def made(first: list[Any]) -> Any:
        @cache(backend=backend, namespace="slow", version=1, keep_arguments=True, ttl=60)
        def slow(number: int) -> int:
            first.append(number)
            if len(first) == 1:
                # As another process: its memory knows of no run.
                assert _listed.forget_where(made([0])._backed, lambda _: False) == (0, True)
            return len(first)

        return slow

    runs: list[Any] = []
    slow = made(runs)
    assert [slow(1), slow(1)] == [1, 2]
    again: list[Any] = [0]
    assert made(again)(1) == 2 and again == [0]


def test_arguments_of_older_code_are_given_to_no_predicate(backend: Any) -> None:
    def made(has_page: bool) -> tuple[Any, list[Any]]:
        runs: list[Any] = []
        if has_page:

            def function(user: int, page: int = 1) -> int:
                runs.append(user)
                return page
        else:

            def function(user: int) -> int:  # type: ignore[misc]
                runs.append(user)
                return 0

        cached = cache(function, backend=backend, namespace="grown", version=1,
                       circuit_breaker=False, keep_arguments=True)  # fmt: skip
        return cached, runs

    made(False)[0](1)
    new, _ = made(True)
    new(2, 3), new(4)
    seen: list[Any] = []
    assert made(True)[0].invalidate_where(lambda *call: seen.append(call)) == 1
    assert sorted(set(seen)) == [(2, 3), (4, 1)]
    again, runs = made(True)
    assert again(2, 3) == 3 and again(4) == 1 and runs == []
    old, runs = made(False)
    assert old(1) == 0 and runs == [1]


@pytest.mark.parametrize("arguments", [
    7, [1, 1, "a"], (1, 1), (1, 1, "a", 1), (1, 1, (2,)), (1, 1, ValueError()), {"user": 1}, None,
], ids=repr)  # fmt: skip
def test_note_that_can_be_of_no_call_is_given_to_no_predicate(
    backend: Any, arguments: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    function, _ = counted(backend)
    function(1)
    with monkeypatch.context() as patch:

        def note_of(_: Any, codec: Any) -> bytes:
            kept = _native.dumps(arguments, codec)
            return len(kept).to_bytes(2, "little") + kept

        patch.setattr(_listed, "note_of", note_of)
        function(2)
    seen: list[Any] = []
    assert counted(backend)[0].invalidate_where(lambda *call: seen.append(call)) == 1
    assert set(seen) == {(1, 1, "a")}
    again, runs = counted(backend)
    again(1), again(2)
    assert [user for user, *_ in runs] == [2]


def test_value_that_is_put_is_listed(backend: Any) -> None:
    function, _ = counted(backend)
    function.cache_set("put", 7)
    function.cache_set("kept", 8)
    function.cache_refresh(9)
    again, runs = counted(backend)
    assert again.invalidate_where(lambda user, *_: user in (7, 9)) == 2
    assert again(8) == "kept" and again(7) == [7, 1, "a"] and again(9) == [9, 1, "a"]
    assert [user for user, *_ in runs] == [7, 9]


def test_functions_with_and_without_arguments_share_no_entry(backend: Any) -> None:
    keeps, _ = counted(backend)
    keeps(1)
    other, runs = counted(backend, keep_arguments=False)
    assert other(1) == [1, 1, "a"] and len(runs) == 1
    assert keeps.invalidate_where(lambda *_: True) == 1
    last, runs = counted(backend, keep_arguments=False)
    assert last(1) == [1, 1, "a"] and runs == []


def test_async_functions_and_blocks_of_invalidations(backend: Any) -> None:
    runs: list[int] = []

    def made() -> Any:
        @cache(backend=backend, namespace="loop", version=1, keep_arguments=True)
        async def function(number: int) -> int:
            runs.append(number)
            return number

        return function

    async def calls() -> None:
        first = made()
        for number in (1, 2, 3, 1, 2, 3):
            assert await first(number) == number
        assert await made().ainvalidate_where(lambda number: number == 2) == 1
        second = made()
        for _ in range(2):
            for number in (1, 2, 3):
                assert await second(number) == number
        assert runs == [1, 2, 3, 2]
        async with defer_invalidations() as block:
            assert await made().ainvalidate_where(lambda number: number == 3) == 0
            assert await made()(3) == 3 and runs == [1, 2, 3, 2]
        assert block.is_whole is True
        assert await made()(3) == 3 and runs == [1, 2, 3, 2, 3]

    asyncio.run(calls())

    @cache
    async def in_memory(number: int) -> int:
        return number

    async def forget() -> None:
        await in_memory(1)
        assert await in_memory.ainvalidate_where(lambda number: True) == 1

    asyncio.run(forget())


def test_what_takes_too_much_forgets_the_whole_function(
    backend: Any, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def fails(*_: Any) -> Any:
        raise _native.TierFailure("io", "torn")

    for place, name, value, said in [
        (_listed, "_MEANT_MAX", 5, "more than 5 calls are meant"),
        (_listed, "_KEYS_MAX", 5, "more than 5 entries are meant"),
        (_listed, "_WALK_S", -1.0, "takes more than -1 seconds"),
        (_native, "list_entries", fails, "torn"),
        (_native, "delete_entries", fails, "torn"),
        (_native, "forget_guard", lambda *_: [("io", "torn")], "torn"),
    ]:
        function, _ = counted(backend)
        call_all(function)
        caplog.clear()
        with monkeypatch.context() as patch:
            patch.setattr(place, name, value)
            with defer_invalidations() as block:
                counted(backend)[0].invalidate_where(lambda *_: True)
            # Its own memory has nothing.
            assert block.is_whole is True
        assert f"all its entries are forgotten: " in caplog.text and said in caplog.text, name
        again, runs = counted(backend)
        call_all(again)
        assert len(runs) == len(CALLS), name


def test_settings_that_keep_no_arguments_are_refused(tmp_path: pathlib.Path) -> None:
    class Shelf:
        def get(self, key: str) -> None: ...
        def set(self, key: str, value: bytes, ttl: int) -> None: ...
        def delete(self, key: str) -> None: ...

    for tier, said in [
        ("memcached://host", "memcached does not"),
        (Shelf(), "Shelf does not"),
        (["file", "memcached://host"], "memcached does not"),
    ]:
        with pytest.raises(TypeError, match=f"list their entries, a file or Redis; {said}"):
            CacheConfig(backend=tier, keep_arguments=True)
    with pytest.raises(TypeError, match="keep_arguments must be a bool, not int"):
        CacheConfig(keep_arguments=1)
    with pytest.raises(TypeError, match="keep_arguments and key exclude each other"):
        CacheConfig(keep_arguments=True, key=lambda: 1)
    # In memory they are there without it.
    function = cache(keep_arguments=True)(lambda number: number)
    assert function(1) == 1 and function.invalidate_where(lambda number: True) == 1


def test_hundred_thousand_entries_are_walked_through(tmp_path: pathlib.Path) -> None:
    server = Server(tmp_path)
    try:
        function, _ = counted(server.url)
        function(0), function(1)
        # What these have for another function, that many times.
        script = """
            local function digits(number) return string.format('%096x', number) end
            for number = 1, 100000 do
                redis.call('SET', 'tidemark:python-2:{' .. digits(number) .. '}', ARGV[1])
            end
        """
        words = ["redis-cli", "-s", str(server.socket), "eval", script, "0", "x" * 30]
        subprocess.run(words, check=True, capture_output=True)
        again, runs = counted(server.url)
        assert again.invalidate_where(lambda user, *_: user == 1) == 1
        again(0), again(1)
        assert [user for user, *_ in runs] == [1]
    finally:
        server.stop()


PROGRAM = '''
import mmap, struct, sys
from tidemark_cache import FileBackend, cache

folder, redis = sys.argv[1:]
with open(folder + "/source", "r+b") as file:
    source = mmap.mmap(file.fileno(), 8)

@cache(backend=redis or FileBackend(folder=folder + "/tier", megabytes=8), version=1,
       namespace="n", ttl=60, circuit_breaker=False, keep_arguments=True)
def function(number):
    return struct.unpack("<Q", source[:])[0]

print("ready", flush=True)
while True:
    for number in range(20):
        function(number)
        function.cache_refresh(number)
'''


@pytest.mark.parametrize("kind", ["file", "redis"])
def test_no_value_of_before_is_read_while_eight_processes_store(
    kind: str, tmp_path: pathlib.Path
) -> None:
    server = Server(tmp_path) if kind == "redis" else None
    url = "" if server is None else server.url
    path = tmp_path / "source"
    path.write_bytes(bytes(8))
    with path.open("r+b") as file:
        source = mmap.mmap(file.fileno(), 8)
    backend = url or FileBackend(folder=tmp_path / "tier", megabytes=8)
    command = [sys.executable, "-c", PROGRAM, str(tmp_path), url]
    writers = [subprocess.Popen(command, stdout=subprocess.PIPE) for _ in range(8)]
    try:
        for writer in writers:
            assert writer.stdout is not None and writer.stdout.readline() == b"ready\n"
        hits = 0
        for version in range(1, 101):
            source[:] = struct.pack("<Q", version)

            # As a process that begins now, of the same name as in the others.
            def function(number: int) -> int:
                return version

            function.__module__, function.__qualname__ = "__main__", "function"
            cached = cache(function, backend=backend, version=1, namespace="n", ttl=60,
                           circuit_breaker=False, keep_arguments=True)  # fmt: skip
            cached.invalidate_where(lambda number: number < 10)
            assert [cached(number) for number in range(10)] == [version] * 10
            hits += cached.cache_info().l2_hits
        assert hits > 0
        assert all(writer.poll() is None for writer in writers)
    finally:
        for writer in writers:
            writer.kill()
            writer.wait()
        if server is not None:
            server.stop()
