"""Refresh-ahead, stale answers, stored exceptions, and lifetimes that change."""

import asyncio
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from typing import Any

import pytest

from tidemark_cache import _refresh, cache


def until(is_so: Callable[[], Any]) -> None:
    """Waits for it, at most 30 seconds."""
    end = time.monotonic() + 30
    while not is_so():
        assert time.monotonic() < end
        time.sleep(0.002)


def is_kept_by(use: Callable[[], bool], begin: Callable[[], Any], lifetime_s: float) -> bool:
    """Whether `use` says so for three lifetimes."""
    start = before = time.monotonic()
    begin()
    while before < start + 3 * lifetime_s:
        now = time.monotonic()
        is_so = use()
        if time.monotonic() - before > lifetime_s / 2:
            # A busy machine stood still, and the entry may have ended.
            return is_kept_by(use, begin, lifetime_s)
        if not is_so:
            return False
        before = now
    return True


def test_hit_late_in_its_lifetime_is_served_and_refreshed() -> None:
    runs: list[str] = []

    @cache(ttl=60, refresh_ahead=0.0)
    def read(number: int) -> int:
        runs.append(threading.current_thread().name)
        return len(runs)

    assert read(1) == 1
    assert read(1) == 1, "the old value, at once"
    until(lambda: read.cache_peek(1) == 2)
    assert runs[0] == threading.current_thread().name != runs[1]
    assert read.cache_info().refreshes >= 1 and read.cache_info().misses == 1


def test_refresh_sees_the_context_and_its_own_copy_of_the_arguments() -> None:
    import contextvars

    variable = contextvars.ContextVar("variable", default="none")
    go_on, seen = threading.Event(), []

    @cache(ttl=60, refresh_ahead=0.0)
    def read(names: list[str]) -> int:
        if seen:
            go_on.wait(10)
        seen.append((variable.get(), list(names)))
        return len(seen)

    names = ["a"]
    variable.set("mine")
    read(names), read(names)
    names.append("b")
    go_on.set()
    until(lambda: len(seen) == 2)
    assert seen == [("mine", ["a"])] * 2


def test_refresh_lands_only_on_the_entry_it_started_from() -> None:
    began, go_on, runs = threading.Event(), threading.Event(), []

    @cache(ttl=60, refresh_ahead=0.0)
    def read() -> int:
        runs.append(1)
        if len(runs) == 2:
            began.set()
            go_on.wait(10)
        return len(runs)

    read(), read()
    assert began.wait(10)
    read.cache_clear()
    go_on.set()
    until(lambda: read.cache_info().refreshes + read.cache_info().refresh_failures)
    assert not read.cache_contains(), "the invalidation wins"


def test_failed_refresh_leaves_the_entry_and_pauses() -> None:
    runs: list[int] = []

    @cache(ttl=60, refresh_ahead=0.0)
    def read() -> int:
        runs.append(1)
        if len(runs) > 1:
            raise OSError("down")
        return 1

    read(), read()
    until(lambda: read.cache_info().refresh_failures)
    assert [read() for _ in range(100)] == [1] * 100
    assert len(runs) == 2, "no other try within the pause"


def test_refreshes_of_one_function_are_bounded() -> None:
    go_on, running = threading.Event(), []

    @cache(ttl=60, refresh_ahead=0.0)
    def read(number: int) -> int:
        if go_on_later:
            running.append(number)
            go_on.wait(20)
        return number

    go_on_later: list[int] = []
    for number in range(100):
        read(number)
    go_on_later.append(1)
    for number in range(100):
        read(number)
    until(lambda: len(running) == 32)
    assert sum(thread.name == "tidemark-cache-refresh" for thread in threading.enumerate()) <= 32
    go_on.set()
    until(lambda: read.cache_info().refreshes == 32)
    assert len(running) == 32


def test_stale_answer_is_served_while_one_caller_refreshes() -> None:
    runs: list[int] = []

    @cache(ttl=0, stale_ttl=60)
    def read() -> int:
        runs.append(1)
        return len(runs)

    assert (read(), read()) == (1, 1)
    until(lambda: len(runs) >= 2)
    info = read.cache_info()
    assert info.stale_hits >= 1 and info.misses == 1
    until(lambda: read() >= 2)


def test_answer_beyond_its_stale_window_is_none() -> None:
    runs: list[int] = []

    @cache(ttl=0, stale_ttl=0.02)
    def read() -> int:
        runs.append(1)
        return len(runs)

    read()
    until(lambda: not read.cache_contains())
    assert read() == 2


def test_old_answer_stands_in_for_a_body_that_fails() -> None:
    is_down = [False]
    runs: list[int] = []

    @cache(ttl=0, stale_if_error=60)
    def read() -> str:
        runs.append(1)
        if is_down[0]:
            raise OSError("down")
        return f"run {len(runs)}"

    assert read() == "run 1"
    assert read() == "run 2", "without a failure the lifetime counts"
    is_down[0] = True
    assert [read(), read(), read()] == ["run 2"] * 3
    assert len(runs) == 3, "after a failure the old answer serves at once for a while"
    read.cache_clear()
    with pytest.raises(OSError, match="down"):
        read()


def test_old_answer_stands_in_for_everybody_who_waits() -> None:
    go_on, is_down = threading.Event(), [False]

    @cache(ttl=0, stale_if_error=60)
    def read() -> list[int]:
        if is_down[0]:
            go_on.wait(10)
            raise OSError("down")
        return [1]

    read()
    is_down[0] = True
    answers: list[Any] = []
    threads = [threading.Thread(target=lambda: answers.append(read())) for _ in range(4)]
    [thread.start() for thread in threads]
    go_on.set()
    [thread.join(10) for thread in threads]
    assert answers == [[1]] * 4 and len({id(answer) for answer in answers}) == 4


def test_exceptions_are_stored_on_request_for_a_lifetime_of_their_own() -> None:
    runs: list[int] = []

    def body(name: str) -> str:
        runs.append(1)
        if name == "none":
            raise KeyError(name)
        raise OSError("down")

    find = cache(ttl=0, cache_errors=(KeyError,), error_ttl=60)(body)
    brief = cache(ttl=60, cache_errors=(KeyError,), error_ttl=0.05)(body)

    caught = []
    for _ in range(3):
        with pytest.raises(KeyError, match="none") as raised:
            find("none")
        caught.append(raised.value)
    assert len(runs) == 1 and len({id(error) for error in caught}) == 3
    assert find.cache_info()[:2] == (2, 1)
    for _ in range(2):
        with pytest.raises(OSError, match="down"):
            find("other")
    assert len(runs) == 3
    begin = time.monotonic()
    with pytest.raises(KeyError, match="none"):
        brief("none")
    until(lambda: not brief.cache_contains("none"))
    assert time.monotonic() - begin > 0.02


def test_stored_exception_does_not_keep_the_frames_of_its_run() -> None:
    import gc
    import weakref

    class Local:
        pass

    references: list[Any] = []

    @cache(cache_errors=ValueError)
    def fail() -> None:
        local = Local()
        references.append(weakref.ref(local))
        raise ValueError("wrong")

    try:
        fail()
    except ValueError:
        pass
    gc.collect()
    assert references[0]() is None
    with pytest.raises(ValueError, match="wrong"):
        fail()


def test_async_exceptions_are_stored_and_old_answers_stand_in() -> None:
    runs: list[int] = []

    @cache(ttl=0, stale_if_error=60)
    async def read() -> int:
        runs.append(1)
        if len(runs) > 1:
            raise OSError("down")
        return 1

    @cache(cache_errors=True)
    async def fail() -> int:
        runs.append(1)
        raise ValueError("wrong")

    async def main() -> None:
        assert [await read() for _ in range(3)] == [1, 1, 1] and len(runs) == 2
        for _ in range(3):
            with pytest.raises(ValueError, match="wrong"):
                await fail()
        assert len(runs) == 3

    asyncio.run(main())


def test_async_hit_late_in_its_lifetime_is_refreshed_in_a_task_of_the_loop() -> None:
    threads: list[int] = []

    @cache(ttl=60, refresh_ahead=0.0)
    async def read() -> int:
        await asyncio.sleep(0)
        threads.append(threading.get_ident())
        return len(threads)

    async def main() -> None:
        assert (await read(), await read()) == (1, 1)
        while len(threads) < 2:
            await asyncio.sleep(0.001)
        assert await read() == 2
        assert set(threads) == {threading.get_ident()}
        assert read.cache_info().refreshes >= 1 and read.cache_info().misses == 1

    asyncio.run(main())


def test_hit_may_begin_the_lifetime_again() -> None:
    @cache(ttl=60, refresh_ttl_on_get=True, ttl_refresh_threshold=1.0, on_evict=print)
    def read() -> int:
        return 1

    read(), read()
    assert read.cache_info().refreshes == 0 and read.cache_info().misses == 1
    runs: list[int] = []

    @cache(ttl=0.3, refresh_ttl_on_get=True, ttl_refresh_threshold=1.0)
    def used() -> int:
        runs.append(1)
        return 1

    def begin() -> None:
        used.cache_clear(), runs.clear(), used()

    # The claim of a hit lasts for ten seconds, and prolonging takes it back.
    assert is_kept_by(lambda: used() == 1 and len(runs) == 1, begin, 0.3)


def test_touch_begins_a_lifetime_again() -> None:
    @cache(ttl=0.2)
    def read(number: int) -> int:
        return number

    def begin() -> None:
        read.cache_clear(), read(1), read(2)

    assert is_kept_by(lambda: read.cache_touch(1) and read.cache_contains(1), begin, 0.2)
    assert not read.cache_contains(2)
    assert not read.cache_touch(2)

    @cache
    def lasting() -> int:
        return 1

    with pytest.raises(TypeError, match="ttl"):
        lasting.cache_touch()


def test_jitter_spreads_the_ends_of_lifetimes() -> None:
    @cache(ttl=10, jitter=1.0)
    def read(number: int) -> int:
        return number

    for number in range(1000):
        read(number)
    # By chance, one in hundreds of thousands of runs has none that is over in the first 0.1 s.
    until(lambda: not all(read.cache_contains(number) for number in range(1000)))
    assert any(read.cache_contains(number) for number in range(1000))


def test_exit_is_silent_and_prompt_with_refreshes_under_way() -> None:
    program = """
import time
from tidemark_cache import _refresh, cache
@cache(ttl=60, refresh_ahead=0.0)
def read(number):
    if started: time.sleep(600)
    return number
started = []
[read(number) for number in range(50)]
started.append(1)
[read(number) for number in range(50)]
"""
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, timeout=60)
    assert (done.returncode, done.stdout, done.stderr) == (0, b"", b"")


@pytest.mark.parametrize("is_gone", [False, True])
def test_due_hit_at_the_end_of_the_interpreter_begins_no_refresh(
    is_gone: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    from tidemark_cache import _refresh

    raised: list[object] = []
    read = cache(ttl=60, refresh_ahead=0.0)(lambda number: number)
    read(1)
    monkeypatch.setattr("sys.unraisablehook", raised.append)
    monkeypatch.setattr(_refresh._pool, "is_over", True)
    # The interpreter without its lock sets the names of a module to None first.
    monkeypatch.setattr(_refresh, "CallKey", None)
    if is_gone:
        monkeypatch.setattr(_refresh, "_pool", None)
    assert read(1) == 1 and not raised


@pytest.mark.parametrize(
    "settings",
    [
        {"refresh_ahead": True},
        {"stale_ttl": 5},
        {"stale_if_error": 5},
        {"refresh_ttl_on_get": True},
        {"ttl": 5, "refresh_ahead": 1.5},
        {"ttl": 5, "refresh_ahead": True, "refresh_ttl_on_get": True},
        {"ttl": 5, "jitter": -0.1},
        {"ttl": 5, "stale_ttl": -1},
    ],
)
def test_freshness_that_cannot_be_is_refused_while_decorating(settings: dict[str, Any]) -> None:
    with pytest.raises(ValueError):
        cache(**settings)(len)


@pytest.mark.parametrize("forget", ["call", "clear", "predicate"])
def test_refresh_on_request_that_an_invalidation_overtakes_stores_nothing(forget: str) -> None:
    rows = {1: "old"}

    async def main() -> None:
        has_read, goes_on = asyncio.Event(), asyncio.Event()

        @cache
        async def row(number: int) -> str:
            found = rows[number]
            has_read.set()
            await goes_on.wait()
            return found

        refresh = asyncio.create_task(row.cache_refresh(1))
        await has_read.wait()
        rows[1] = "new"
        if forget == "call":
            row.invalidate_cache(1)
        elif forget == "clear":
            row.cache_clear()
        else:
            row.invalidate_where(lambda number: number == 1)
        goes_on.set()
        assert await refresh == "old"
        assert await row(1) == "new"

    asyncio.run(main())


def test_refresh_that_no_loop_takes_changes_no_count(monkeypatch: pytest.MonkeyPatch) -> None:
    function = object()
    monkeypatch.setattr(_refresh._async, "start_apart", lambda _: False)
    monkeypatch.setitem(_refresh._tasks, id(function), 2)

    async def refresh() -> None: ...

    _refresh.start(function, refresh)
    assert _refresh._tasks[id(function)] == 2
