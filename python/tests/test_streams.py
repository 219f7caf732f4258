"""Answers that stay in memory for as long as the stream of Redis goes on, and what ends that."""

import pathlib
import signal
import subprocess
import sys
import time
import weakref
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from test_listening import command
from test_redis import Server

from tidemark_cache import RedisBackend, _backed, _functions, _listening, cache, invalidate_tags

#: A function that two processes have, and what another process does with it, line by line.
OTHER = """
import sys, time
from tidemark_cache import RedisBackend, cache, invalidate_namespace, invalidate_tags
values = {}
@cache(backend=RedisBackend(sys.argv[1], listen=sys.argv[2] == "listen"), namespace="streams",
       version=1, tags=["red"], keep_arguments=sys.argv[3] == "keep")
def function(number):
    return values.get(number, 0)
backed = function._backed
backed._identity, backed._names = bytes(32), bytes(32) + backed._names[32:]
backed._start = bytes(len(backed._start))
backed._of_calls = backed._identity + backed._start
for line in sys.stdin:
    print(eval(line), flush=True)
"""


@pytest.fixture
def server(tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Server]:
    monkeypatch.setattr(_functions, "all_of_process", weakref.WeakSet())
    server = Server(tmp_path)
    yield server
    server.stop()


class Other:
    """Another process."""

    def __init__(self, server: Server, listens: str = "listen", keeps: str = "no") -> None:
        self.process = subprocess.Popen(
            [sys.executable, "-c", OTHER, server.url, listens, keeps],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )

    def send(self, words: str) -> None:
        assert self.process.stdin is not None
        print(words, file=self.process.stdin, flush=True)

    def answer(self) -> Any:
        assert self.process.stdout is not None
        return eval(self.process.stdout.readline())

    def does(self, words: str) -> Any:
        self.send(words)
        return self.answer()


@pytest.fixture
def other(server: Server) -> Iterator[Other]:
    yield from running(Other(server))


def running(other: Other) -> Iterator[Other]:
    yield other
    other.process.kill()
    other.process.communicate()


def counted(server: Server, **settings: Any) -> tuple[Any, list[int]]:
    """The function in this process."""
    runs: list[int] = []
    backend = RedisBackend(server.url, listen=settings.pop("listen", True))
    settings = {"tags": ["red"], "circuit_breaker": False, **settings}

    @cache(backend=backend, namespace="streams", version=1, **settings)
    def function(number: int) -> int:
        runs.append(number)
        return -len(runs)

    backed = function._backed
    backed._identity, backed._names = bytes(32), bytes(32) + backed._names[32:]
    backed._start = bytes(len(backed._start))
    backed._of_calls = backed._identity + backed._start
    return function, runs


def until(is_so: Callable[[], bool]) -> None:
    end = time.monotonic() + 30
    while not is_so():
        assert time.monotonic() < end
        time.sleep(0.002)


def until_live(function: Any) -> None:
    function(-1)
    until(lambda: function.get_health_status()["stream"] == "live")


def commands_of_calls(server: Server) -> dict[str, str]:
    """How often the server was asked for what calls need."""
    lines = command(server, "INFO", "commandstats").split()
    counts = dict(line.split(":", 1) for line in lines if line.startswith("cmdstat_"))
    names = ("get", "pttl", "eval", "evalsha", "set")
    return {name: counts.get(f"cmdstat_{name}", "").split(",")[0] for name in names}


def keep_asking(function: Any, seconds: float) -> set[int]:
    answers = set()
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        answers |= {function(1), function(2)}
        time.sleep(0.01)
    return answers


def test_memory_answers_for_ten_seconds_without_a_command(server: Server, other: Other) -> None:
    function, runs = counted(server)
    until_live(function)
    first = [function(1), function(2)]
    before, hits = commands_of_calls(server), function.cache_info().l2_hits
    assert keep_asking(function, 10.0) == set(first)
    assert commands_of_calls(server) == before
    info = function.cache_info()
    assert info.l1_renewals >= 4 and info.l2_hits == hits and runs == [-1, 1, 2]
    # Known though it was long ago that the tier was asked for it.
    assert other.does("function.invalidate_cache(1)") is True
    until(lambda: not function.cache_contains(1))
    assert function.cache_contains(2) and function(2) == first[1]
    assert function(1) == -4


@pytest.mark.parametrize(
    "act, listens, keeps",
    [
        ("function.invalidate_cache(1)", "listen", "no"),
        ("function.invalidate_cache(1)", "no", "no"),
        ("function.cache_clear()", "no", "no"),
        ("invalidate_tags('red')", "listen", "no"),
        ("values.update({1: 7}) or function.cache_refresh(1)", "no", "no"),
        ("values.update({1: 7}) or function.cache_refresh(1)", "no", "keep"),
        ("function.cache_set(7, 1)", "no", "no"),
        ("function.cache_set(7, 1)", "no", "keep"),
        ("function.invalidate_cache(1)", "no", "keep"),
        ("invalidate_namespace('streams')", "no", "no"),
        ("function.invalidate_where(lambda number: number == 1)", "no", "keep"),
    ],
)
def test_what_another_process_does_ends_an_answer(
    server: Server, monkeypatch: pytest.MonkeyPatch, act: str, listens: str, keeps: str
) -> None:
    # Nothing but the notice ends it.
    monkeypatch.setattr(_backed, "STALE_S", 3_600.0)
    for other in running(Other(server, listens, keeps)):
        function, _ = counted(server, keep_arguments=keeps == "keep")
        until_live(function)
        assert function(1) == -2 and function(1) == -2
        other.does(act)
        until(lambda: function(1) != -2)
        if "7" in act:
            assert function(1) == 7


@pytest.mark.parametrize(
    "words", ["DEL {stream}", "FLUSHALL", "HINCRBY {stream} n 1"]
)
def test_gap_clears_memory(
    server: Server, monkeypatch: pytest.MonkeyPatch, words: str
) -> None:
    monkeypatch.setattr(_backed, "STALE_S", 3_600.0)
    function, _ = counted(server)
    until_live(function)
    function(1)
    command(server, *words.replace("{stream}", "tidemark:python-2:{stream}").split())
    until(lambda: not function.cache_contains(1))
    # Another run begins, and what is read in it stays again.
    until_live(function)
    function(1)
    assert not any(function(1) != function(1) for _ in range(100))


def test_server_that_starts_again_empty_clears_memory(
    server: Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(_backed, "STALE_S", 3_600.0)
    function, runs = counted(server)
    until_live(function)
    function(1)
    server.stop()
    server.start()
    until(lambda: not function.cache_contains(1))
    until_live(function)
    assert function(1) == function(1) and runs[-1] == 1


@pytest.mark.parametrize("settings", [{"listen": False}, {"refresh_ahead": 0.9, "ttl": 600}])
def test_function_without_a_stream_asks_again(
    server: Server, monkeypatch: pytest.MonkeyPatch, settings: dict[str, Any]
) -> None:
    monkeypatch.setattr(_backed, "STALE_S", 0.2)
    function, runs = counted(server, **settings)
    assert function(1) == -1
    hits = function.cache_info().l2_hits
    keep_asking(function, 0.5)
    info = function.cache_info()
    assert info.l2_hits > hits and info.l1_renewals == 0
    assert function.get_health_status()["stream"] is None


def test_memory_asks_again_once_nothing_listens(server: Server) -> None:
    function, _ = counted(server)
    until_live(function)
    function(1)
    _listening.listeners.stop()
    try:
        begin = time.monotonic()
        renewals = function.cache_info().l1_renewals
        while not function.cache_info().l2_hits:
            function(1)
            assert time.monotonic() < begin + 30
        assert function.cache_info().l1_renewals <= renewals + 1
        assert function.get_health_status()["stream"] == "not followed"
    finally:
        _listening._new_process()


def test_entry_stays_no_longer_than_its_own_lifetime(server: Server) -> None:
    function, runs = counted(server, ttl=5)
    until_live(function)
    begin = time.monotonic()
    function(1)
    while function(1) == -2:
        assert time.monotonic() < begin + 30
    assert runs == [-1, 1, 1] and 4.9 < time.monotonic() - begin
    assert function.cache_info().l1_renewals > 0


def test_process_that_was_stopped_gives_no_older_answer(server: Server, other: Other) -> None:
    function, _ = counted(server)
    other.does("values.update({1: 5})")
    assert other.does("function(1)") == 5
    until(lambda: bool(other.does("function(1) and function.cache_info().l1_renewals")))
    assert function(1) == 5
    other.process.send_signal(signal.SIGSTOP)
    assert function.invalidate_cache(1) is True
    other.send("values.update({1: 6}) or function(1)")
    time.sleep(_backed.STALE_S)
    other.process.send_signal(signal.SIGCONT)
    assert other.answer() == 6


def test_functions_of_one_process_with_the_same_entries_know_of_each_other(
    server: Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(_backed, "STALE_S", 3_600.0)
    (first, runs), (second, _) = counted(server), counted(server)
    acts: list[Callable[[], object]] = [
        lambda: second.invalidate_cache(1),
        second.cache_clear,
        lambda: second.cache_set(9, 1),
        lambda: second.cache_refresh(1),
        lambda: invalidate_tags("red"),
    ]
    for act in acts:
        before = first(1)
        assert first(1) == before == second(1)
        act()
        assert not first.cache_contains(1)
        first(1)


def test_child_of_a_fork_keeps_nothing_of_its_parent(server: Server) -> None:
    program = """
import os, sys, time
from tidemark_cache import cache
@cache(backend=sys.argv[1], namespace="f", version=1)
def function(number):
    return os.getpid()
while function.get_health_status()["stream"] != "live":
    function(1)
parent = function(1)
pid = os.fork()
if not pid:
    # A call of another number begins to listen.
    function(2)
    end = time.monotonic() + 3.1
    while function.get_health_status()["stream"] != "live" or time.monotonic() < end:
        time.sleep(0.01)
    before = function.cache_info().l2_hits
    is_right = function(1) == parent and function.cache_info().l2_hits == before + 1
    os._exit(0 if is_right else 1)
print(os.waitpid(pid, 0)[1])
"""
    python = [sys.executable, "-W", "ignore", "-c", program, server.url]
    done = subprocess.run(python, capture_output=True, text=True, timeout=60)
    assert (done.stdout, done.stderr) == ("0\n", "")


def test_async_and_large_answers_stay_as_well(server: Server) -> None:
    import asyncio

    @cache(backend=RedisBackend(server.url), namespace="async", version=1)
    async def function(number: int) -> list[int]:
        return [number] * 1_000

    async def calls() -> None:
        await function(0)
        while function.get_health_status()["stream"] != "live":
            await asyncio.sleep(0.01)
        await function(1)
        before = commands_of_calls(server)
        end = time.monotonic() + _backed.STALE_S + 1
        while time.monotonic() < end:
            assert (await function(1))[0] == 1
            await asyncio.sleep(0.01)
        assert commands_of_calls(server) == before
        assert function.cache_info().l1_renewals > 0

    asyncio.run(calls())
