"""Redis as a tier: what is shared, what a failing server costs, and functions of all kinds."""

import asyncio
import os
import pathlib
import pickle
import subprocess
import sys
import threading
import time
from collections.abc import Iterator, Sequence
from typing import Any

import pytest

from tidemark_cache import FileBackend, RedisBackend, _backed, _functions, cache, invalidate_tags


class Server:
    """A Redis server of one test, on a socket in its folder."""

    def __init__(self, folder: pathlib.Path, own: Sequence[str] = ()) -> None:
        self.socket = folder / "redis.socket"
        self.url = f"redis+unix://{self.socket}"
        self.own = own
        self.start()

    def start(self) -> None:
        words = ["redis-server", "--port", "0", "--save", "", "--appendonly", "no", *self.own]
        words += ["--unixsocket", str(self.socket), "--dir", str(self.socket.parent)]
        self.process = subprocess.Popen(words, stdout=subprocess.DEVNULL)
        end = time.monotonic() + 30
        while RedisBackend(self.url) and not self.answers():
            assert time.monotonic() < end
            time.sleep(0.002)

    def answers(self) -> bool:
        import socket

        with socket.socket(socket.AF_UNIX) as connection:
            try:
                connection.connect(str(self.socket))
            except OSError:
                return False
            return True

    def stop(self) -> None:
        self.process.kill()
        self.process.wait()
        self.socket.unlink(missing_ok=True)


@pytest.fixture
def server(tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Server]:
    import weakref

    monkeypatch.setattr(_functions, "all_of_process", weakref.WeakSet())
    server = Server(tmp_path)
    yield server
    server.stop()


def counted(backend: Any, **settings: Any) -> tuple[Any, list[Any]]:
    runs: list[Any] = []
    settings = {"namespace": "test", "version": 1, "circuit_breaker": False, **settings}

    @cache(backend=backend, **settings)
    def function(argument: Any) -> Any:
        runs.append(argument)
        return [argument, len(runs)]

    return function, runs


def test_redis_shares_values_tags_and_deletions(server: Server) -> None:
    first, runs = counted(server.url, tags=["red"], ttl=600)
    assert first(1) == [1, 1] and first(1) == [1, 1] and runs == [1]
    again, later_runs = counted(RedisBackend(server.url), tags=["red"], ttl=600)
    assert again(1) == [1, 1] and later_runs == []
    assert again.invalidate_cache(1) is True
    third, third_runs = counted(server.url, tags=["red"], ttl=600)
    assert third(1) == [1, 1] and third_runs == [1]
    assert invalidate_tags("red") is True
    assert third(1) == [1, 2]
    third.cache_clear()
    assert third(1) == [1, 3]
    assert third.get_health_status()["tiers"] == {"memory": "healthy", "redis": "healthy"}
    assert first.cache_info().l2_failures == third.cache_info().l2_failures == 0


def test_redis_keeps_the_types_of_arguments_and_values_apart(server: Server) -> None:
    first, _ = counted(server.url)
    again, runs = counted(server.url)
    arguments = [1, True, 1.0, "1", b"1", (1,), [1], None, 2**70, {"a": {2: (b"\x00",)}}]
    answers = [first(argument) for argument in arguments]
    assert [again(argument) for argument in arguments] == answers
    assert runs == []


def test_redis_behind_a_file(
    server: Server, tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    # A busy machine may take longer than 3 s from one step to the next.
    monkeypatch.setattr(_backed, "STALE_S", 600)
    near = FileBackend(folder=tmp_path / "near", megabytes=8)
    first, _ = counted([near, server.url], write_behind=True)
    first(1)
    # Behind the caller: Redis has it before the file has.
    end = time.monotonic() + 30
    for tier in (server.url, near):
        while counted(tier)[0]._backed._look_up((1,), {}, _backed.ReadOptions()).found is None:
            assert time.monotonic() < end
    server.stop()
    again, runs = counted([near, server.url])
    assert again(1) == [1, 1] and runs == []
    assert again.invalidate_cache(1) is False
    assert list(again.get_health_status()["tiers"]) == ["memory", "file", "redis 2"]


def host(folder: pathlib.Path, server: Server, is_near: bool = True) -> tuple[Any, list[Any]]:
    """A function of a process of the host that has this folder."""
    file = FileBackend(folder=folder, megabytes=8, listen=False)
    redis = RedisBackend(server.url, listen=False)
    return counted([file, redis] if is_near else [redis, file])


def test_file_before_redis_is_bounded_for_what_other_hosts_invalidate(
    server: Server, tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(_backed, "STALE_S", 0.5)
    here, _ = host(tmp_path / "here", server)
    there, runs = host(tmp_path / "there", server)
    assert here(1) == there(1) == [1, 1] and runs == []
    begin = time.monotonic()
    assert here.invalidate_cache(1) and here(1) == [1, 2]
    # Another process there has in memory what the file gave it, for what is left of the bound.
    time.sleep(0.4)
    later, later_runs = host(tmp_path / "there", server)
    later(1)
    time.sleep(max(0.0, begin + 0.55 - time.monotonic()))
    assert later(1) == there(1) == [1, 2] and later_runs == runs == []
    # The server's answer has gone into the file again.
    server.stop()
    again, again_runs = counted(FileBackend(folder=tmp_path / "there", megabytes=8))
    assert again(1) == [1, 2] and again_runs == []


def test_file_behind_redis_gives_it_no_answer_that_another_host_has_invalidated(
    server: Server, tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(_backed, "STALE_S", 600.0)
    there, _ = host(tmp_path / "there", server, is_near=False)
    assert there(1) == [1, 1]
    here, _ = host(tmp_path / "here", server, is_near=False)
    assert here.invalidate_cache(1)
    # Of the file, which the invalidation has not reached.
    later, later_runs = host(tmp_path / "there", server, is_near=False)
    assert later(1) == [1, 1] and later_runs == []
    again, again_runs = counted(server.url)
    again(1)
    assert again_runs == [1]


def test_call_goes_on_while_redis_is_down(server: Server) -> None:
    function, runs = counted(server.url)
    function(1)
    server.stop()
    assert function(2) == [2, 2] and function(2) == [2, 2]
    assert function.invalidate_cache(1) is False
    status = function.get_health_status()
    assert status["status"] == "degraded" and "Redis at /" in status["tiers"]["redis"]
    server.start()
    assert function(3) == [3, 3]
    again, later_runs = counted(server.url)
    assert again(3) == [3, 3] and later_runs == []
    # The server began again empty.
    assert again(1) == [1, 1]


def test_breaker_keeps_callers_from_redis(server: Server) -> None:
    function, runs = counted(server.url, circuit_breaker=True)
    server.stop()
    for number in range(20):
        function(number)
    info = function.cache_info()
    assert info.misses == 20 and info.l2_failures == 5 and info.l2_rejected > 10
    status = function.get_health_status()["tiers"]["redis"]
    assert status == "degraded: its breaker is open"


def test_async_functions_use_redis_on_other_threads(server: Server) -> None:
    runs: list[int] = []
    threads: set[int] = set()

    def made() -> Any:
        @cache(backend=server.url, namespace="a", version=1, ttl=2, stale_ttl=600)
        async def function(number: int) -> int:
            runs.append(number)
            threads.add(threading.get_ident())
            await asyncio.sleep(0)
            return len(runs)

        return function

    async def calls() -> None:
        function = made()
        assert await asyncio.gather(*(function(1) for _ in range(20))) == [1] * 20
        assert await function(1) == 1 and runs == [1]
        assert function.cache_info().l1_hits > 0
        await asyncio.sleep(2.1)
        assert await function(1) == 1
        while not function.cache_info().refreshes:
            await asyncio.sleep(0.001)
        assert await made()(1) == 2
        # For this call, and not for those that its body makes or that follow.
        assert await function.cache_refresh(1) == 3
        assert await made()(1) == 3 and runs == [1, 1, 1]
        assert await function.ainvalidate_cache(1)
        await function.acache_clear()
        assert await function(1) == 4

    asyncio.run(calls())
    assert threads == {threading.get_ident()}


def test_trio_functions_use_redis_on_other_threads(server: Server) -> None:
    trio = pytest.importorskip("trio")
    runs: list[int] = []

    @cache(backend=server.url, namespace="t", version=1)
    async def function(number: int) -> int:
        runs.append(number)
        await trio.sleep(0)
        if number < 0:
            raise OSError("the source is down")
        return number

    async def calls() -> None:
        assert await function(1) == 1 and await function(1) == 1
        with pytest.raises(OSError):
            await function(-1)
        with trio.move_on_after(0):
            await function(2)
        assert await function(2) == 2
        await function.acache_clear()
        assert await function(1) == 1

    trio.run(calls)
    assert runs.count(1) == 2


def test_forked_processes_have_connections_of_their_own(
    server: Server, tmp_path: pathlib.Path
) -> None:
    program = """
import os, sys
from tidemark_cache import cache
@cache(backend=sys.argv[1], namespace="f", version=1, lease="run")
def shared(key):
    return [key, os.getpid()]
shared("before")
children = []
for child in range(4):
    pid = os.fork()
    if not pid:
        is_right = all(shared((child, turn % 30))[0] == (child, turn % 30) or
                       shared.invalidate_cache((child, turn % 7)) for turn in range(300))
        os._exit(0 if is_right and shared.cache_info().l2_failures == 0 else 1)
    children.append(pid)
for turn in range(300):
    assert shared(("parent", turn))[0] == ("parent", turn)
print([os.waitpid(pid, 0)[1] for pid in children], shared.cache_info().l2_failures)
"""
    command = [sys.executable, "-c", program, server.url]
    done = subprocess.run(command, capture_output=True, text=True)
    assert done.stdout.strip() == "[0, 0, 0, 0] 0", done.stderr


def test_redis_address_is_checked_and_never_shown() -> None:
    backend = RedisBackend("redis://:secret@localhost:1/2", prefix="p", timeout=2)
    assert "secret" not in repr(backend) and "prefix='p'" in repr(backend)
    assert pickle.loads(pickle.dumps(backend)) == backend

    @cache(backend=backend, namespace="x", version=1)
    def function() -> int:
        return os.getpid()

    assert function() == os.getpid()
    shown = repr(function.get_health_status())
    assert "degraded: Redis at localhost:1" in shown and "secret" not in shown
    wrongs: list[tuple[Any, dict[str, Any], str]] = [
        ("redis+sentinel://:secret@host", {}, "the Sentinels by sentinels="),
        ("rediss+cluster://:secret@host", {}, "others of it by cluster="),
        ("redis://:secret@host/2", {"cluster": ["redis://host"]}, "no database but 0"),
        ("redis://:secret@host", {"cluster": ["http://:secret@host"]}, "servers of the Cluster"),
        ("redis://a", {"cluster": ["redis://b"], "sentinels": ["redis://c"]}, "has no Sentinels"),
        ("rediss://:secret@host#insecure", {}, "always checked"),
        ("redis://:secret@host", {"tls_ca": __file__}, "need an address with rediss"),
        ("rediss://:secret@host", {"tls_ca": __file__}, "no certificate in PEM"),
        ("rediss://:secret@host", {"tls_key": __file__}, "belong together"),
        ("http://:secret@host", {}, "url must begin with"),
        ("redis://:secret@host:port", {}, "address of the Redis server cannot be read"),
        ("redis://:secret@host:99999", {}, "the port from 1 to 65535"),
        ("rediss://:secret@host?tls_ca=secret", {}, "may have no parameters"),
        ("redis://host", {"prefix": "p" * 101}, "100 characters, not 101"),
        ("redis://host", {"timeout": -1}, "timeout must be from 0.001"),
        ("redis://host", {"timeout": 0}, "timeout must be from 0.001"),
        ("redis://host", {"connect_timeout": 0.0004}, "connect_timeout must be from 0.001"),
        ("redis://host", {"prefix": "\udc80"}, "prefix must be a text that UTF-8 has bytes for"),
        ("redis://\udc80", {}, "url must be a text that UTF-8 has bytes for"),
        ("redis://host", {"connections": 0}, "connections must be from 1"),
    ]
    for url, settings, words in wrongs:
        with pytest.raises(ValueError, match=words) as refused:
            RedisBackend(url, **settings)
        assert "secret" not in str(refused.value)
    with pytest.raises(FileNotFoundError):
        RedisBackend("rediss://host", tls_ca="/nowhere")
    for settings in ({"tls_ca": 3}, {"listen": 3}):
        with pytest.raises(TypeError, match="must be a"):
            RedisBackend("rediss://host", **settings)
    for url in (3, None):
        with pytest.raises(TypeError, match="url must be a text"):
            RedisBackend(url)


def test_sentinels_find_the_server_and_are_never_shown(server: Server) -> None:
    backend = RedisBackend(
        "redis://:secret@cache/1", sentinels=["redis://:secret@127.0.0.1:1"], connect_timeout=0.2
    )
    assert "secret" not in repr(backend)
    assert backend == RedisBackend(
        "redis://:secret@cache/1", sentinels=("redis://:secret@127.0.0.1:1",), connect_timeout=0.2
    )

    @cache(backend=backend, namespace="sentinel", version=1)
    def doubled(number: int) -> int:
        return number * 2

    assert doubled(2) == 4
    state = doubled.get_health_status()["tiers"]["redis"]
    assert "cache by Sentinel" in state and "secret" not in state
    wrong: Any
    for wrong in ("redis://host", True, [1], ["http://:secret@host"]):
        for name in ("sentinels", "cluster"):
            with pytest.raises((TypeError, ValueError)) as refused:
                RedisBackend("redis://cache", **{name: wrong})
            assert "secret" not in str(refused.value)
            assert name in str(refused.value).lower()


def test_cluster_has_all_of_a_prefix_on_one_server(tmp_path: pathlib.Path) -> None:
    server = Server(tmp_path, ["--port", "0", "--cluster-enabled", "yes"])
    try:
        client = ["redis-cli", "-s", str(server.socket)]
        subprocess.run([*client, "CLUSTER", "ADDSLOTSRANGE", "0", "16383"], check=True)
        while b"cluster_state:ok" not in subprocess.check_output([*client, "CLUSTER", "INFO"]):
            time.sleep(0.01)
        backend = RedisBackend(server.url, cluster=[server.url])
        runs: list[int] = []

        def functions() -> list[Any]:
            # Two, whose memories know nothing of each other.
            decorate = cache(
                backend=backend, namespace="cluster", version=1, tags=lambda n: [f"n {n}"]
            )
            return [decorate(lambda n: runs.append(n) or n * 2) for _ in range(2)]

        first, second = functions()
        assert [first(2), second(2), first(3), second(3)] == [4, 4, 6, 6]
        assert runs == [2, 3]
        invalidate_tags("n 2")
        assert [first(2), first(3)] == [4, 6]
        assert runs == [2, 3, 2]
        assert asyncio.run(asynchronous(backend)) == [5, 5]
        assert first.get_health_status()["tiers"]["redis"] == "healthy"
    finally:
        server.stop()


async def asynchronous(backend: RedisBackend) -> list[int]:
    """Of a function that memory keeps no answer of."""

    @cache(backend=backend, namespace="cluster", version=1, maxsize=1)
    async def function(number: int) -> int:
        return number + 3

    return [await function(2), await function(9) - 7]


async def until_read_by_loop(function: Any) -> None:
    """Calls it until its loop has a connection."""
    end = time.monotonic() + 30
    number = -1
    while function._backed._loop_reads is None or not function._backed._loop_reads.is_open:
        assert time.monotonic() < end
        await function(number)
        number -= 1
        await asyncio.sleep(0.001)


def read_by_loop(url: str, **settings: Any) -> tuple[Any, list[Any]]:
    """A function whose memory has room for one answer."""
    runs: list[Any] = []
    settings = {"namespace": "loop", "version": 1, "maxsize": 1, **settings}

    @cache(backend=RedisBackend(url, listen=False, timeout=settings.pop("timeout", 5)), **settings)
    async def function(argument: Any) -> Any:
        runs.append(argument)
        return [argument, len(runs)]

    return function, runs


class NoThreads:
    """Counts what is done on another thread."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.count = 0
        in_thread = _backed._async.in_thread

        async def counted(*args: Any) -> Any:
            self.count += 1
            return await in_thread(*args)

        monkeypatch.setattr(_backed._async, "in_thread", counted)


@pytest.mark.parametrize("kind", ["asyncio", "uvloop"])
def test_loop_reads_hits_of_redis_without_a_thread(
    server: Server, monkeypatch: pytest.MonkeyPatch, kind: str
) -> None:
    threads = NoThreads(monkeypatch)
    function, runs = read_by_loop(server.url, ttl=600, tags=["red"])

    async def calls() -> None:
        first = [await function(number) for number in range(300)]
        await until_read_by_loop(function)
        runs.clear()
        before, hits = threads.count, function.cache_info().l2_hits
        assert [await function(number) for number in range(300)] == first
        assert await asyncio.gather(*map(function, range(300))) == first
        assert threads.count == before and runs == []
        assert function.cache_info().l2_hits - hits >= 599
        # What another process has forgotten is a miss.
        other, _ = counted(server.url, namespace="loop")
        assert invalidate_tags("red")
        assert (await function(7))[1] == 1 and runs == [7]
        assert await function.ainvalidate_cache(8) is False
        assert (await function(8))[1] == 2
        assert await function.ainvalidate_cache(8) is True
        assert (await function(8))[1] == 3
        # A caller that is cancelled takes no answer away from another.
        await function(9)
        tasks = [asyncio.ensure_future(function(8)) for _ in range(3)]
        await asyncio.sleep(0)
        tasks[0].cancel()
        assert await asyncio.gather(*tasks[1:]) == [[8, 3]] * 2

    if kind == "uvloop":
        uvloop = pytest.importorskip("uvloop")
        uvloop.run(calls())
    else:
        asyncio.run(calls())
        # Another loop has a connection of its own.
        asyncio.run(calls())


def test_loop_reads_large_answers_and_those_of_many_callers(server: Server) -> None:
    function, runs = read_by_loop(server.url)

    async def calls() -> None:
        contents = [bytes([number]) * 3_000_000 for number in range(4)]
        for content in contents:
            await function(content)
        await until_read_by_loop(function)
        runs.clear()
        answers = await asyncio.gather(*(function(content) for content in contents * 5))
        assert [answer[0] for answer in answers] == contents * 5
        assert runs == []

    asyncio.run(calls())


def test_loop_goes_on_when_its_connection_ends_or_says_nothing(server: Server) -> None:
    import signal

    function, runs = read_by_loop(server.url, timeout=0.3, circuit_breaker=False)

    async def calls() -> None:
        for number in range(20):
            await function(number)
        await until_read_by_loop(function)
        runs.clear()
        server.process.send_signal(signal.SIGSTOP)
        try:
            answers = await asyncio.gather(*map(function, range(10)))
        finally:
            server.process.send_signal(signal.SIGCONT)
        assert [answer[0] for answer in answers] == list(range(10))
        assert sorted(runs) == list(range(10))
        assert not function._backed._loop_reads.is_open
        assert function.cache_info().l2_failures >= 10
        await until_read_by_loop(function)
        server.stop()
        assert (await function(30))[0] == 30
        assert not function._backed._loop_reads.is_open
        server.start()
        assert (await function(31))[0] == 31
        await until_read_by_loop(function)

    asyncio.run(calls())


def test_loop_reads_nothing_while_its_breaker_is_open(
    server: Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    from tidemark_cache import Backpressure, CircuitBreaker

    threads = NoThreads(monkeypatch)
    breaker, pressure = CircuitBreaker(failures=1), Backpressure(concurrent=1, queue=0)
    function, runs = read_by_loop(server.url, circuit_breaker=breaker, backpressure=pressure)

    async def calls() -> None:
        first = [await function(number) for number in range(50)]
        await until_read_by_loop(function)
        runs.clear()
        before = threads.count
        # Their connection is one, and the server reads for one after another.
        assert await asyncio.gather(*map(function, range(50))) == first
        assert threads.count == before and runs == []
        server.stop()
        assert (await function(7))[0] == 7
        while function.get_health_status()["tiers"]["redis"] != "degraded: its breaker is open":
            await function(8)
        rejected = function.cache_info().l2_rejected
        assert (await function(9))[0] == 9
        assert function.cache_info().l2_rejected > rejected

    asyncio.run(calls())


WAITING = """
import asyncio, os, sys
from tidemark_cache import RedisBackend, cache

@cache(backend=RedisBackend(sys.argv[1]), namespace="waiting", version=1)
async def slow(number):
    print("began", flush=True)
    await asyncio.to_thread(sys.stdin.readline)
    return os.getpid()

slow._backed._identity = slow._backed._of_calls = slow._backed._names = bytes(32)
print(asyncio.run(slow(1)))
"""


@pytest.mark.parametrize("kind", ["asyncio", "trio"])
def test_async_call_that_waits_for_another_process_is_woken(
    server: Server, monkeypatch: pytest.MonkeyPatch, kind: str
) -> None:
    from tidemark_cache import _waiting

    command = [sys.executable, "-c", WAITING, server.url]
    pipe = subprocess.PIPE
    leader = subprocess.Popen(command, stdin=pipe, stdout=pipe, text=True)
    assert leader.stdin is not None and leader.stdout is not None
    assert leader.stdout.readline() == "began\n"
    pause, released = _waiting.pause, []

    async def pause_long(call: Any, seconds: float) -> bool:
        # A process that is notified of the release looks rarely, and here hardly ever.
        is_notified = seconds >= 0.1
        if is_notified and not released:
            released.append(seconds)
            leader.stdin.write("\n")
            leader.stdin.flush()
        return await pause(call, 600.0 if is_notified else seconds)

    monkeypatch.setattr(_waiting, "pause", pause_long)

    @cache(backend=RedisBackend(server.url), namespace="waiting", version=1)
    async def slow(number: int) -> int:
        pytest.fail("another process runs the body")

    slow._backed._identity = slow._backed._of_calls = slow._backed._names = bytes(32)
    if kind == "trio":
        import trio

        answer = trio.run(slow, 1)
    else:
        answer = asyncio.run(slow(1))
    assert answer == leader.pid and released
    assert leader.wait() == 0


def test_arguments_of_a_call_that_is_cancelled_are_not_kept(server: Server) -> None:
    began, is_over = threading.Event(), threading.Event()

    def leads(number: int) -> int:
        began.set()
        is_over.wait(60)
        return number

    async def follows(number: int) -> int:
        return number

    follows.__qualname__ = leads.__qualname__
    # With other rules, so that it has leases of its own, as another process has.
    settings: dict[str, Any] = {"backend": server.url, "namespace": "wait", "version": 1}
    leader = cache(leads, circuit_breaker=False, **settings)
    follower: Any = cache(follows, **settings)
    thread = threading.Thread(target=leader, args=(1,))
    thread.start()
    assert began.wait(60)

    async def main() -> None:
        running = follower._backed._recent._running
        task = asyncio.ensure_future(follower(1))
        end = time.monotonic() + 30
        while not running:
            assert time.monotonic() < end
            await asyncio.sleep(0.001)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        while running:
            assert time.monotonic() < end
            await asyncio.sleep(0.001)

    try:
        asyncio.run(main())
    finally:
        is_over.set()
        thread.join()
