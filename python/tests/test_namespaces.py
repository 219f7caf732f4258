"""Namespaces and tags that are forgotten by a process without the functions they are of."""

import mmap
import pathlib
import struct
import subprocess
import sys
import weakref
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from test_memcached import Server as Memcached
from test_redis import Server

from tidemark_cache import (
    FileBackend,
    RedisBackend,
    _decorator,
    _functions,
    _invalidation,
    cache,
    defer_invalidations,
    invalidate_namespace,
    invalidate_tags,
    invalidates,
)


@pytest.fixture(autouse=True)
def forget_functions(monkeypatch: pytest.MonkeyPatch) -> Callable[[], None]:
    """From a call of it on this process is one that has decorated nothing."""

    def forget() -> None:
        monkeypatch.setattr(_functions, "all_of_process", weakref.WeakSet())
        known: dict[str, Any] = {}
        for module in (_decorator, _invalidation):
            monkeypatch.setattr(module, "namespaces", known)

    forget()
    return forget


class Shelf(dict[str, bytes]):
    """A tier of whole records."""

    def set(self, key: str, value: bytes, ttl: int) -> None:
        self[key] = value

    def delete(self, key: str) -> bool:
        return self.pop(key, None) is not None


@pytest.fixture(params=["file", "redis", "memcached", "object", "file and redis"])
def backend(request: pytest.FixtureRequest, tmp_path: pathlib.Path) -> Iterator[Any]:
    file = FileBackend(folder=tmp_path / "tier", megabytes=8)
    servers: list[Any] = []
    if request.param == "memcached":
        servers = [Memcached(tmp_path)]
    elif "redis" in request.param:
        servers = [Server(tmp_path)]
    if request.param == "file and redis":
        yield [file, servers[0].url]
    elif servers:
        yield servers[0].url
    else:
        yield file if request.param == "file" else Shelf()
    for server in servers:
        server.stop()


def made(backend: Any, namespace: str | None, runs: list[Any], **settings: Any) -> Any:
    """As another process has it: with nothing in memory."""
    settings = {"version": 1, "circuit_breaker": False, "key": lambda name: name, **settings}

    @cache(backend=backend, namespace=namespace, **settings)
    def function(name: Any) -> Any:
        runs.append(namespace)
        return [name, len(runs)]

    return function


NAMES = ["shop", "shop:prices", "shop:prices.eu", "shop/stock", "shop new", "shop.a:b/c d e",
         "shopping", "shopping:list", "hop", ":", "s", "\0", "shop\0", "shop:\0", "\udc80"]  # fmt: skip
PREFIXES = ["shop", "shop:", "shop:prices", "shop:prices.", "shop.a:b/c ", ":", "s", "shop ", "\0"]


def meant(name: str, prefix: str) -> bool:
    """Of which names each process forgets what all have: said otherwise than in the package."""
    rest = name.removeprefix(prefix) if name.startswith(prefix) else None
    return rest is not None and (rest == "" or rest[0] in ".:/ " or prefix[-1] in ".:/ ")


def test_namespace_is_forgotten_by_a_process_without_its_functions(
    backend: Any, forget_functions: Callable[[], None]
) -> None:
    acts = [(name, False) for name in NAMES[:4]] + [(prefix, True) for prefix in PREFIXES]
    for given, prefix in acts:
        for name in NAMES:
            made(backend, name, [])(1)
        made(backend, None, [])(1)
        forget_functions()
        assert invalidate_namespace(given, prefix=prefix, backend=backend)
        again: list[Any] = []
        for name in [*NAMES, None]:
            made(backend, name, again)(1)
        wanted = [name for name in NAMES if (meant(name, given) if prefix else name == given)]
        assert again == wanted, (given, prefix)


def test_tag_is_forgotten_by_a_process_without_its_functions(
    backend: Any, forget_functions: Callable[[], None]
) -> None:
    made(backend, "a", [], tags=["red"])(1)
    made(backend, "a", [], result_tags=lambda result: ["red"])(2)
    made(backend, "a", [], tags=["blue"])(3)
    forget_functions()
    # It knows of no backend.
    assert invalidate_tags("red")
    runs: list[Any] = []

    def call() -> None:
        made(backend, "a", runs, tags=["red"])(1)
        made(backend, "a", runs, result_tags=lambda result: ["red"])(2)
        made(backend, "a", runs, tags=["blue"])(3)
        forget_functions()

    call()
    assert runs == []
    assert invalidate_tags("red", backend=backend)
    call()
    assert runs == ["a", "a"]

    @invalidates(tags=["blue"], namespaces=["b"], backend=backend)
    def write() -> None: ...

    made(backend, "b", runs)(1)
    forget_functions()
    runs.clear()
    write()
    call()
    made(backend, "b", runs)(1)
    assert runs == ["a", "b"]


def test_prefix_without_an_end_reaches_functions_of_this_process(backend: Any) -> None:
    runs: list[Any] = []
    function = made(backend, "shopping", runs)
    other = made(backend, "shipping", runs)
    function(1), other(1)
    assert invalidate_namespace("shopp", prefix=True)
    function(1), other(1)
    made(backend, "shopping", runs)(1)
    assert runs == ["shopping", "shipping", "shopping"]


def test_run_that_its_namespace_overtakes_is_not_stored(
    backend: Any, forget_functions: Callable[[], None]
) -> None:
    for prefix in (False, True):
        runs: list[Any] = []

        @cache(backend=backend, namespace="a:b", version=int(prefix))
        def slow(number: int) -> int:
            runs.append(number)
            if len(runs) == 1:
                # As another process would: in the tiers, and not in this memory.
                known = list(_functions.all_of_process)
                forget_functions()
                assert invalidate_namespace("a:b"[: 2 if prefix else 3], prefix=prefix,
                                            backend=backend)  # fmt: skip
                _functions.all_of_process.update(known)
            return len(runs)

        assert [slow(1), slow(1), slow(1)] == [1, 2, 2], prefix


def test_names_of_namespaces_are_checked(tmp_path: pathlib.Path) -> None:
    backend = FileBackend(folder=tmp_path / "tier", megabytes=8)
    for name, error, said in [
        ("", ValueError, "from 1 to 200 characters, not 0"),
        ("x" * 10_000, ValueError, "from 1 to 200 characters, not 10000"),
        (b"shop", TypeError, "namespace must be a str, not bytes"),
        (None, TypeError, "namespace must be a str, not NoneType"),
    ]:
        for settings in ({}, {"prefix": True}, {"backend": backend}):
            with pytest.raises(error, match=said):
                invalidate_namespace(name, **settings)  # type: ignore[arg-type]
        if name is not None:
            with pytest.raises(error, match=said):
                made(backend, name, [])  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="too many parts: a prefix may have 4"):
        invalidate_namespace("a.b.c.d.e", prefix=True)
    with pytest.raises(TypeError, match="prefix must be a bool, not str"):
        invalidate_namespace("a", prefix="b")  # type: ignore[arg-type]
    with pytest.raises(TypeError, match="not another text"):
        invalidate_namespace("a", backend="redis:/secret")
    with pytest.raises(TypeError, match="not int"):
        invalidate_tags("a", backend=7)  # type: ignore[arg-type]
    # A namespace may have more parts than a prefix.
    runs: list[Any] = []
    deep = "." * 200
    made(backend, deep, runs)(1)
    invalidate_namespace("....", prefix=True, backend=backend)
    made(backend, deep, runs)(1)
    assert runs == [deep, deep]


def test_backend_of_the_environment_is_forgotten(
    tmp_path: pathlib.Path,
    monkeypatch: pytest.MonkeyPatch,
    forget_functions: Callable[[], None],
) -> None:
    for name in ("CACHEKIT_REDIS_URL", "CACHEKIT_MEMCACHED_SERVERS", "REDIS_URL"):
        monkeypatch.delenv(name, raising=False)
    with pytest.raises(ValueError, match="no variable names a tier"):
        invalidate_namespace("a", backend="environment")
    monkeypatch.setenv("CACHEKIT_FILE_CACHE_DIR", str(tmp_path / "tier"))
    runs: list[Any] = []
    made("environment", "a", runs)(1)
    forget_functions()
    assert invalidate_namespace("a", backend="environment")
    made("environment", "a", runs)(1)
    assert runs == ["a", "a"]


def test_tier_that_is_down_is_said(
    tmp_path: pathlib.Path, caplog: pytest.LogCaptureFixture
) -> None:
    gone = RedisBackend(f"redis+unix://{tmp_path}/none")
    assert invalidate_namespace("a", backend=gone) is False
    assert invalidate_tags("a", backend=gone) is False
    assert "a tier has not forgotten what is invalid" in caplog.text
    with defer_invalidations() as block:
        assert invalidate_namespace("a", backend=gone)
    assert block.is_whole is False
    kept = FileBackend(folder=tmp_path / "tier", megabytes=8)
    runs: list[Any] = []
    made(kept, "a", runs)(1)
    with defer_invalidations():
        invalidate_namespace("a", backend=kept)
        invalidate_namespace("a", backend=gone)
    made(kept, "a", runs)(1)
    assert runs == ["a", "a"]


def reads_of(server: Server, act: Callable[[], object]) -> tuple[int, int]:
    """What a server counts meanwhile: round trips, and commands that read a record."""

    def counts() -> tuple[int, int]:
        words = ["redis-cli", "-s", str(server.socket), "info", "stats", "commandstats"]
        text = subprocess.run(words, capture_output=True, text=True, check=True).stdout
        found = dict(line.split(":", 1) for line in text.splitlines() if ":" in line)
        gets = found.get("cmdstat_get", "calls=0,").split(",")[0].removeprefix("calls=")
        return int(found["total_reads_processed"]), int(gets)

    idle = counts()
    before = counts()
    act()
    after = counts()
    own = before[0] - idle[0]
    return after[0] - before[0] - own, after[1] - before[1]


def test_hit_with_a_namespace_is_one_round_trip_and_without_one_reads_no_more(
    tmp_path: pathlib.Path,
) -> None:
    server = Server(tmp_path)
    try:
        backend = RedisBackend(server.url, listen=False)
        for namespace, tokens in [(None, 1), ("a", 2), ("a:b", 3), ("a.b.c.d.e.f.g", 6)]:
            made(backend, namespace, [])(1)
            function = made(backend, namespace, [pytest.fail])
            found = reads_of(server, lambda function=function: function(1))
            assert found == (1, tokens + 1), namespace
            assert function.cache_info().l2_hits == 1
    finally:
        server.stop()


def test_tool_clears_namespaces_and_tags(tmp_path: pathlib.Path) -> None:
    backend = FileBackend(folder=tmp_path / "tier", megabytes=8)
    names = ["shop", "shop:eu", "else", "other:a", "last"]

    def tool(*words: str) -> tuple[int, str]:
        command = [sys.executable, "-m", "tidemark_cache", "clear", "--folder",
                   str(backend.folder), *words]  # fmt: skip
        done = subprocess.run(command, capture_output=True, text=True)
        return done.returncode, done.stderr

    def again() -> list[Any]:
        runs: list[Any] = []
        for name in names:
            made(backend, name, runs, tags=["red"] if name == "last" else [])(1)
        return runs

    again()
    assert tool("--namespace", "shop", "--prefix", "other:") == (0, "")
    assert again() == ["shop", "other:a"]
    assert tool("--tag", "red", "--tag", "blue") == (0, "")
    assert again() == ["last"]
    code, said = tool("--namespace", "x" * 10_000)
    assert code == 2 and "from 1 to 200 characters" in said
    assert again() == []
    assert tool() == (0, "")
    assert again() == names


PROGRAM = '''
import mmap, struct, sys
from tidemark_cache import FileBackend, cache

folder, redis = sys.argv[1:]
with open(folder + "/source", "r+b") as file:
    source = mmap.mmap(file.fileno(), 8)

@cache(backend=redis or FileBackend(folder=folder + "/tier", megabytes=8), version=1,
       namespace="shop:prices", ttl=60, circuit_breaker=False, key=lambda number: number)
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
        runs = hits = 0
        for version in range(1, 151):
            source[:] = struct.pack("<Q", version)
            prefix = version % 2 == 0
            assert invalidate_namespace("shop:" if prefix else "shop:prices", prefix=prefix,
                                        backend=backend)  # fmt: skip

            # As a process that begins now, of the same name as in the others.
            def function(number: int) -> int:
                nonlocal runs
                runs += 1
                return version

            function.__module__, function.__qualname__ = "__main__", "function"
            cached = cache(function, backend=backend, version=1, namespace="shop:prices", ttl=60,
                           circuit_breaker=False, key=lambda number: number)  # fmt: skip
            assert [cached(number) for number in range(20)] == [version] * 20
            hits += cached.cache_info().l2_hits
        # Both have stored what the other one read.
        assert hits > 0 and runs > 0
        assert all(writer.poll() is None for writer in writers)
    finally:
        for writer in writers:
            writer.kill()
            writer.wait()
        if server is not None:
            server.stop()
