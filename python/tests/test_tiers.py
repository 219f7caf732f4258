"""Several tiers, what tags make them forget, and how calls use them."""

import asyncio
import datetime
import os
import pathlib
import subprocess
import sys
import threading
import time
import weakref
from typing import Any

import pytest

from tidemark_cache import (
    Backpressure,
    CircuitBreaker,
    FileBackend,
    _backed,
    cache,
    invalidate_tags,
)


def file(folder: pathlib.Path, name: str) -> FileBackend:
    return FileBackend(folder=folder / name, megabytes=8)


@pytest.fixture(autouse=True)
def no_functions_of_other_tests(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(_backed, "_functions", weakref.WeakSet())


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
            _backed.forget_tags(["red"])
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
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=True)
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
            found = again._backed._ask((number,), {}, False).found
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
        cache(backend=["file", "redis://:secret@host"])
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
