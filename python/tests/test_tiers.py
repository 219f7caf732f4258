"""Several tiers, what tags make them forget, and how calls use them."""

import asyncio
import datetime
import gc
import os
import pathlib
import signal
import subprocess
import sys
import threading
import time
import weakref
from typing import Any

import pytest
from test_redis import Server

from tidemark_cache import (
    Backpressure,
    CircuitBreaker,
    FileBackend,
    _backed,
    _functions,
    _tags,
    cache,
    invalidate_tags,
)


def file(folder: pathlib.Path, name: str) -> FileBackend:
    return FileBackend(folder=folder / name, megabytes=8)


@pytest.fixture(autouse=True)
def no_functions_of_other_tests(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(_functions, "all_of_process", weakref.WeakSet())


@pytest.fixture
def backend(tmp_path: pathlib.Path) -> FileBackend:
    return file(tmp_path, "tier")


def counted(backend: Any, **settings: Any) -> tuple[Any, list[Any]]:
    """A function in tiers, and the arguments its body has run with."""
    runs: list[Any] = []
    settings = {"namespace": "test", "version": 1, **settings}

    @cache(backend=backend, **settings)
    def function(argument: Any) -> Any:
        runs.append(argument)
        return [argument, len(runs)]

    return function, runs


def test_value_goes_into_every_tier_and_back_into_the_nearer_one(tmp_path: pathlib.Path) -> None:
    near, far = file(tmp_path, "near"), file(tmp_path, "far")
    both, runs = counted([near, far])
    assert both(1) == [1, 1] and both.cache_info().l2_failures == 0
    for one in (near, far):
        again, later_runs = counted(one)
        assert again(1) == [1, 1] and later_runs == []
    counted(near)[0].cache_clear()
    again, later_runs = counted((near, far))
    assert again(1) == [1, 1] and later_runs == []
    again, later_runs = counted(near)
    assert again(1) == [1, 1] and later_runs == []
    both.invalidate_cache(1)
    for backends in (near, far, [near, far]):
        again, later_runs = counted(backends)
        assert again(1) == [1, 1] and later_runs == [1]
        again.invalidate_cache(1)
    assert list(both.get_health_status()["tiers"]) == ["memory", "file", "file 2"]


def test_function_in_tiers_that_calls_itself_is_collected(backend: FileBackend) -> None:
    def made() -> weakref.ref[Any]:
        @cache(backend=backend, namespace="test", version=1)
        def factorial(number: int) -> int:
            return number * factorial(number - 1) if number else 1

        assert factorial(5) == factorial(5) == 120
        return weakref.ref(factorial)

    gone = made()
    gc.collect()
    assert gone() is None


def test_value_that_holds_itself_is_refused(backend: FileBackend) -> None:
    around: dict[Any, Any] = {}
    around[(1, 2)] = around

    @cache(backend=backend, namespace="test", version=1)
    def deep() -> dict[Any, Any]:
        return around

    with pytest.raises(TypeError, match="is nested deeper than 200 levels"):
        deep()


def test_broken_tier_leaves_the_other_in_use(tmp_path: pathlib.Path) -> None:
    backends = [FileBackend(folder="/proc/nowhere"), file(tmp_path, "far")]
    first, runs = counted(backends)
    assert first(1) == [1, 1]
    again, later_runs = counted(backends)
    assert again(1) == [1, 1] and later_runs == [] and again.cache_info().l2_hits == 1
    assert again.cache_info().l2_failures > 0
    # A tier that did not delete may still have it.
    assert first.invalidate_cache(1) is False
    states = first.get_health_status()["tiers"]
    assert states["file"].startswith("degraded: ") and states["file 2"] == "healthy"


def test_tag_forgets_entries_of_every_function_under_it(backend: FileBackend) -> None:
    def three() -> list[tuple[Any, list[Any]]]:
        return [
            counted(backend, tags=["red"]),
            counted(backend, version=2, tags=lambda number: ["red" if number % 2 else "blue"]),
            counted(backend, version=3, tags=["blue", "green", "green"]),
        ]

    for function, _ in three():
        function(1), function(2)
    assert invalidate_tags("red") is True
    ran = []
    for function, runs in three():
        function(1), function(2)
        ran.append(runs)
    assert ran == [[1, 2], [1], []]
    invalidate_tags("green", "nothing")
    assert [(function(1), function(2), runs)[2] for function, runs in three()] == [[], [], [1, 2]]
    function, runs = three()[0]
    function(1), function.invalidate_cache(1), function(1), function(2)
    assert runs == [1]


def test_tags_are_bounded(backend: FileBackend) -> None:
    tags = [f"tag {number}" for number in range(65)]
    function, _ = counted(backend, tags=tags[:64])
    assert function(1) == [1, 1]
    with pytest.raises(ValueError, match="64 tags in a backend, not 65"):
        counted(backend, tags=tags)
    function, runs = counted(backend, tags=lambda _: tags)
    with pytest.raises(ValueError, match="64 tags in a backend, not 65"):
        function(1)
    assert runs == []


def test_run_that_a_tag_overtakes_is_not_stored(backend: FileBackend) -> None:
    runs: list[int] = []

    @cache(backend=backend, namespace="test", version=1, tags=["red"])
    def slow(number: int) -> int:
        runs.append(number)
        if len(runs) == 1:
            # As another process would: in the tiers, and not in this memory.
            _functions.forget(_tags.name_of("red"), True)
        return len(runs)

    assert slow(1) == 1
    assert slow(1) == 2 and slow(1) == 2


PROGRAM = '''
import os, sys
from tidemark_cache import FileBackend, cache, invalidate_tags

@cache(backend=FileBackend(folder=os.environ["TIER_FOLDER"], megabytes=8), namespace="p", version=1,
       tags=["red"])
def function(number):
    return [number, os.getpid()]
'''


def other_process(folder: pathlib.Path, program: str) -> str:
    environment = {**os.environ, "TIER_FOLDER": str(folder)}
    command = [sys.executable, "-c", PROGRAM + program]
    done = subprocess.run(command, env=environment, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    return done.stdout.strip()


def test_tag_forgotten_by_a_process_that_never_called_counts_for_others(
    tmp_path: pathlib.Path,
) -> None:
    first = other_process(tmp_path, "print(function(1))")
    assert other_process(tmp_path, "print(function(1))") == first
    assert other_process(tmp_path, "print(invalidate_tags('red'))") == "True"
    assert other_process(tmp_path, "print(function(1))") != first


def test_writes_behind_the_caller_arrive(backend: FileBackend) -> None:
    first, _ = counted(backend, write_behind=True)
    values = [first(number) for number in range(100)]
    for value in values:
        # It belongs to the caller already.
        value.append("mine")
    end = time.monotonic() + 30
    for number in range(100):
        while True:
            again, runs = counted(backend, key=None)
            found = again._backed._look_up((number,), {}, _backed.ReadOptions()).found
            if found is not None:
                break
            assert time.monotonic() < end
        assert found == ([number, number + 1],)
    assert first.cache_info().l2_failures == 0


def test_write_behind_the_caller_is_overtaken_by_a_deletion(
    backend: FileBackend, monkeypatch: pytest.MonkeyPatch
) -> None:
    later: list[Any] = []
    monkeypatch.setattr(_backed._refresh, "submit", lambda _, work: later.append(work) or True)
    first, runs = counted(backend, write_behind=True)
    assert first(1) == [1, 1] and len(later) == 1
    first.invalidate_cache(1)
    assert later[0]() is False
    again, later_runs = counted(backend)
    assert again(1) == [1, 1] and later_runs == [1]
    # Where there is no room for work, the caller does it.
    monkeypatch.setattr(_backed._refresh, "submit", lambda *_: False)
    first(2)
    again, later_runs = counted(backend)
    assert again(2) == [2, 2] and later_runs == []


def test_stack_is_used_by_many_threads_and_loops(tmp_path: pathlib.Path) -> None:
    rules = {"backpressure": Backpressure(concurrent=1, queue=100, wait=60)}
    backends = [file(tmp_path, "near"), file(tmp_path, "far")]
    function, runs = counted(backends, tags=["red"], **rules)

    @cache(backend=backends, namespace="a", version=1, **rules)
    async def awaited(number: int) -> list[int]:
        await asyncio.sleep(0)
        return [number]

    async def many() -> None:
        assert await asyncio.gather(*map(awaited, range(50))) == [[n] for n in range(50)]

    def work() -> None:
        for number in range(200):
            assert function(number % 50)[0] == number % 50
            if number % 20 == 0:
                invalidate_tags("red")
        asyncio.run(many())

    threads = [threading.Thread(target=work) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    info = function.cache_info()
    assert info.l2_rejected == 0 and info.l2_failures == 0


def test_rules_check_their_numbers() -> None:
    for backends in ([], ["file"] * 5):
        with pytest.raises(ValueError, match=f"from 1 to 4 tiers, not {len(backends)}"):
            cache(backend=backends)
    with pytest.raises(TypeError, match="not another text"):
        cache(backend=["file", "mongodb://:secret@host"])
    breaker: Any = CircuitBreaker(window=datetime.timedelta(minutes=1))
    pressure: Any = Backpressure(wait=0)
    assert breaker.numbers() == (5, 60_000, 30_000, 3)
    assert pressure.numbers() == (100, 1_000, 0)
    wrongs: list[tuple[Any, dict[str, Any]]] = [
        (CircuitBreaker, {"failures": 0}),
        (CircuitBreaker, {"checks": 101}),
        (CircuitBreaker, {"pause": -1}),
        (CircuitBreaker, {"window": float("nan")}),
        (Backpressure, {"concurrent": 0}),
        (Backpressure, {"queue": -1}),
        (Backpressure, {"wait": 86_401}),
    ]
    for kind, wrong in wrongs:
        name = next(iter(wrong))
        with pytest.raises(ValueError, match=f"{name} must be from"):
            kind(**wrong)
        for other in (None, "1", True):
            with pytest.raises(TypeError, match=f"{name} must be"):
                kind(**{name: other})


class Clock:
    """Lets a test give entries an age: their lifetimes here are a tenth of a second and more."""

    @staticmethod
    def pass_s(seconds: float) -> None:
        threading.Event().wait(seconds)


def until(condition: Any) -> None:
    end = time.monotonic() + 30
    while not condition():
        assert time.monotonic() < end
        time.sleep(0.002)


def test_value_past_its_lifetime_answers_while_one_process_refreshes_it(
    backend: FileBackend,
) -> None:
    # What the second run gives does not end, however slow the machine is.
    rules: dict[str, Any] = {"ttl": lambda answer: 0.1 if answer[1] == 1 else 600, "stale_ttl": 600}
    first, runs = counted(backend, **rules)
    again, later_runs = counted(backend, **rules)
    assert first(1) == [1, 1]
    Clock.pass_s(0.11)
    assert first(1) == [1, 1]
    until(lambda: first.cache_info().refreshes == 1)
    assert runs == [1, 1]
    assert again(1) == [1, 2] and later_runs == []
    assert first.cache_info().stale_hits == 1
    # Entries under other rules are others: these would take an old value for a fresh one.
    plain, plain_runs = counted(backend, ttl=0.1)
    assert plain(1) == [1, 1] and plain_runs == [1]


def test_refresh_is_left_to_the_process_that_has_begun_it(backend: FileBackend) -> None:
    began, go_on = threading.Event(), threading.Event()

    def made(wait: bool) -> tuple[Any, list[int]]:
        runs: list[int] = []

        @cache(backend=backend, namespace="test", version=1, ttl=0.05, stale_ttl=600)
        def function(number: int) -> int:
            runs.append(number)
            if wait and len(runs) == 2:
                began.set()
                go_on.wait(30)
            return len(runs)

        return function, runs

    first, runs = made(True)
    assert first(1) == 1
    Clock.pass_s(0.06)
    first(1)
    assert began.wait(30)
    program = f"""
import time
from tidemark_cache import _backed, _refresh
function = cache(backend=FileBackend(folder={str(backend.folder)!r}, megabytes=8), namespace="test",
    version=1, ttl=0.05, stale_ttl=600)(lambda number: print("ran"))
function._backed._identity = function._backed._of_calls = {first._backed._identity!r}
function._backed._names = {first._backed._names!r}
print(function(1))
while _refresh._pool.pending:
    time.sleep(0.01)
print(function.cache_info().refreshes, function.cache_info().stale_hits)
"""
    assert other_process(pathlib.Path("/nowhere"), program) == "1\n0 1"
    go_on.set()
    until(lambda: first.cache_info().refreshes == 1)
    assert runs == [1, 1]


def test_refresh_ahead_keeps_an_entry_from_ending(backend: FileBackend) -> None:
    function, runs = counted(backend, ttl=600, refresh_ahead=0.0001)
    function(1)
    Clock.pass_s(0.07)
    again, later_runs = counted(backend, ttl=600, refresh_ahead=0.0001)
    assert again(1) == [1, 1]
    until(lambda: again.cache_info().refreshes == 1)
    info = again.cache_info()
    assert (info.stale_hits, info.misses, later_runs, runs) == (0, 0, [1], [1])
    young, young_runs = counted(backend, ttl=600, refresh_ahead=True)
    assert young(1) == [1, 1] and young_runs == []


def test_old_value_answers_for_a_body_that_fails(backend: FileBackend) -> None:
    rules: dict[str, Any] = {"ttl": 0.05, "stale_if_error": 600}
    first, _ = counted(backend, **rules)
    first(1)

    @cache(backend=backend, namespace="test", version=1, **rules)
    def failing(argument: int) -> Any:
        if is_interrupt:
            raise KeyboardInterrupt
        raise OSError("the source is down")

    failing._backed._identity = failing._backed._of_calls = first._backed._identity
    failing._backed._names = first._backed._names
    is_interrupt = False
    Clock.pass_s(0.06)
    assert failing(1) == [1, 1] and failing(1) == [1, 1]
    assert failing.cache_info().stale_hits == 2
    with pytest.raises(OSError):
        failing(2)
    is_interrupt = True
    with pytest.raises(KeyboardInterrupt):
        failing(1)
    assert first(1) == [1, 2]


def test_async_functions_wait_and_refresh(backend: FileBackend) -> None:
    runs: list[int] = []

    @cache(backend=backend, namespace="a", version=1, ttl=0.05, stale_ttl=600, stale_if_error=900)
    async def function(number: int) -> int:
        runs.append(number)
        await asyncio.sleep(0.001)
        return len(runs)

    async def calls() -> None:
        assert await function(1) == 1
        await asyncio.sleep(0.06)
        assert await function(1) == 1
        while not function.cache_info().refreshes:
            await asyncio.sleep(0.001)
        assert await function(1) == 2

    asyncio.run(calls())
    assert runs == [1, 1]


LEADERS = '''
import os, sys, time
from tidemark_cache import FileBackend, cache

file = FileBackend(folder=os.environ["TIER_FOLDER"], megabytes=8)

@cache(backend=file, namespace="p", version=1)
def slow(number):
    print("began", flush=True)
    sys.stdin.readline()
    return [number, os.getpid()]

@cache(backend=os.environ.get("TIER_URL", file), namespace="q", version=1)
def brief(number):
    with open(os.environ["TIER_FOLDER"] + "/runs", "a") as runs:
        runs.write(f"{number}\\n")
    time.sleep(0.02)
    return number
'''


def start(folder: pathlib.Path, program: str, **variables: str) -> "subprocess.Popen[str]":
    environment = {**os.environ, "TIER_FOLDER": str(folder), **variables}
    command = [sys.executable, "-c", LEADERS + program]
    pipe = subprocess.PIPE
    return subprocess.Popen(command, env=environment, stdin=pipe, stdout=pipe, text=True)


def line(process: "subprocess.Popen[str]") -> str:
    assert process.stdout is not None
    return process.stdout.readline().strip()


@pytest.mark.parametrize("kind", ["file", "redis"])
def test_eight_processes_run_one_body_for_each_miss(
    tmp_path: pathlib.Path, kind: str, request: pytest.FixtureRequest
) -> None:
    variables = {}
    if kind == "redis":
        server = Server(tmp_path)
        request.addfinalizer(server.stop)
        variables["TIER_URL"] = server.url
    # Processes that make the tokens of a function in the same moment may each run its first body.
    first = start(tmp_path, "brief(-1)", **variables)
    first.communicate()
    program = "sys.stdin.readline()\nprint([brief(n) for n in range(20)] == list(range(20)))"
    processes = [start(tmp_path, program, **variables) for _ in range(8)]
    for process in processes:
        assert process.stdin is not None
        process.stdin.write("go\n")
        process.stdin.flush()
    for process in processes:
        assert process.communicate()[0].strip() == "True"
    runs = (tmp_path / "runs").read_text().split()
    assert sorted(map(int, runs)) == list(range(-1, 20))


@pytest.mark.parametrize("fate", ["killed", "stopped"])
def test_leader_that_dies_or_sleeps_is_followed_by_another(
    tmp_path: pathlib.Path, fate: str
) -> None:
    leader = start(tmp_path, "print(slow(1))\nprint(slow(1), slow._backed.hits)")
    assert line(leader) == "began"
    waiter = start(tmp_path, "print(slow(1))")
    os.kill(leader.pid, signal.SIGKILL if fate == "killed" else signal.SIGSTOP)
    # Its lease is not renewed any more, and overdue after three seconds.
    assert line(waiter) == "began"
    value, _ = waiter.communicate("\n")
    assert value.strip() == f"[1, {waiter.pid}]"
    if fate == "stopped":
        # It wakes late. Its own call has its own value, which no other call gets.
        os.kill(leader.pid, signal.SIGCONT)
        said, _ = leader.communicate("\n")
        assert said.splitlines() == [f"[1, {leader.pid}]", f"[1, {waiter.pid}] 1"]
    leader.wait()
    assert start(tmp_path, "print(slow(1))").communicate()[0].strip() == value.strip()


def test_body_longer_than_its_lease_keeps_it(tmp_path: pathlib.Path) -> None:
    leader = start(tmp_path, "print(slow(1))")
    assert line(leader) == "began"
    waiter = start(tmp_path, "print(slow(1))")
    # Longer than a lease lasts that is not renewed.
    Clock.pass_s(4)
    value, _ = leader.communicate("\n")
    assert waiter.communicate("\n")[0] == value


def test_body_that_fails_keeps_no_other_process_waiting(backend: FileBackend) -> None:
    errors = [OSError("first"), None]

    @cache(backend=backend, namespace="test", version=1)
    def flaky(number: int) -> int:
        error = errors.pop(0)
        if error is not None:
            raise error
        return number

    with pytest.raises(OSError) as held:
        flaky(1)
    # The exception holds the call's frame, and not its lease.
    assert held.value.__traceback__ is not None
    assert flaky(1) == 1
    with pytest.raises(TypeError, match="generator"):
        cache(backend=backend, namespace="test", version=2)(lambda n: (i for i in range(n)))(1)


AGED = """
rules = {"namespace": "r", "version": 1, "ttl": 0.05, "stale_if_error": 600, "lease": "stale"}
file = FileBackend(folder=os.environ["TIER_FOLDER"], megabytes=8)

@cache(backend=file, **rules)
def aged(number):
    print("began", flush=True)
    sys.stdin.readline()
    return os.getpid()

@cache(backend=file, **rules)
async def aged_async(number):
    print("began", flush=True)
    sys.stdin.readline()
    return os.getpid()
"""


@pytest.mark.parametrize("call", ["aged(1)", "__import__('asyncio').run(aged_async(1))"])
def test_old_value_answers_while_another_process_runs_the_body(
    tmp_path: pathlib.Path, call: str
) -> None:
    program = f"print({call}, flush=True); time.sleep(0.1); print({call}, flush=True)"
    leader = start(tmp_path, AGED + program)
    assert leader.stdin is not None
    assert line(leader) == "began"
    leader.stdin.write("\n")
    leader.stdin.flush()
    assert line(leader) == str(leader.pid)
    # Its value is past its lifetime now, and it has the lease.
    assert line(leader) == "began"
    function = "aged_async" if "async" in call else "aged"
    other = start(tmp_path, AGED + f"print({call}, {function}.cache_info().stale_hits)")
    assert other.communicate()[0].strip() == f"{leader.pid} 1"
    leader.communicate("\n")
    # Without an old value a call waits, as ever.
    waiter = start(tmp_path, AGED + f"print({call.replace('1', '2')})")
    assert line(waiter) == "began"
    assert waiter.communicate("\n")[0].strip() == str(waiter.pid)


def test_lease_that_serves_old_values_needs_a_time_for_them() -> None:
    with pytest.raises(ValueError, match="needs stale_if_error"):
        cache(backend="file", ttl=1, lease="stale")
    with pytest.raises(ValueError, match="must be one of wait, stale, run"):
        cache(lease="leave")
