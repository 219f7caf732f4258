"""Forgetting the calls that a predicate picks."""

import asyncio
import pathlib
import threading
from typing import Any

import pytest

from tidemark_cache import FileBackend, PredicateError, cache, defer_invalidations


def counted(**settings: Any) -> tuple[Any, list[Any]]:
    runs: list[Any] = []

    @cache(**settings)
    def function(user: Any, page: int = 1, *, kind: str = "a") -> Any:
        runs.append((user, page, kind))
        return len(runs)

    return function, runs


def test_predicate_gets_arguments_in_order_with_defaults() -> None:
    function, runs = counted()
    for user in (1, 2):
        for page in (1, 2):
            function(user, page)
    function(2, kind="b")
    seen: list[Any] = []

    def is_meant(user: Any, page: Any, kind: Any) -> bool:
        seen.append((user, page, kind))
        return bool(user == 2)

    assert function.invalidate_where(is_meant) == 3
    assert sorted(seen) == [(1, 1, "a"), (1, 2, "a"), (2, 1, "a"), (2, 1, "b"), (2, 2, "a")]
    runs.clear()
    assert [function(1, 1), function(1, 2)] == [1, 2] and runs == []
    function(2, 1)
    assert runs == [(2, 1, "a")]
    assert function.invalidate_where(lambda *_: False) == 0


def test_predicate_is_not_asked_for_what_the_key_does_not_keep() -> None:
    function, runs = counted(ignore=["page"])
    function(1, 7)
    function([1, 2], 7)
    function((1, 2))
    seen: list[Any] = []
    assert function.invalidate_where(lambda *call: seen.append(call)) == 2
    assert seen == [(1, None, "a")]
    runs.clear()
    function(1)
    function([1, 2])
    assert runs == [([1, 2], 1, "a")]


def test_predicate_that_raises_forgets_nothing() -> None:
    function, _ = counted()
    function(1)
    function("x")
    with pytest.raises(ZeroDivisionError):
        function.invalidate_where(lambda user, *_: 1 / 0)
    assert function.cache_info().currsize == 2


def test_predicate_may_use_the_function_itself() -> None:
    function, _ = counted()
    for number in range(100):
        function(number)

    def is_meant(user: int, *_: Any) -> bool:
        function.invalidate_cache(user)
        function(user + 1_000)
        return True

    assert function.invalidate_where(is_meant) == 0
    assert function.cache_info().currsize == 100


def test_run_in_progress_is_not_stored_after_a_predicate() -> None:
    began, goes_on = threading.Event(), threading.Event()
    runs: list[int] = []

    @cache
    def function(number: int) -> int:
        runs.append(number)
        began.set()
        assert goes_on.wait(60)
        return len(runs)

    thread = threading.Thread(target=function, args=(1,))
    thread.start()
    assert began.wait(60)
    assert function.invalidate_where(lambda number: True) == 0
    goes_on.set()
    thread.join()
    assert function(1) == 2

    @cache
    async def slow(number: int) -> int:
        runs.append(number)
        await asyncio.sleep(0)
        return len(runs)

    async def calls() -> None:
        runs.clear()
        task = asyncio.ensure_future(slow(1))
        while not runs:
            await asyncio.sleep(0)
        slow.invalidate_where(lambda number: True)
        assert await task == 1
        assert await slow(1) == 2

    asyncio.run(calls())


def test_predicate_waits_for_the_end_of_a_deferral() -> None:
    function, _ = counted()
    function(1)
    with defer_invalidations():
        assert function.invalidate_where(lambda *_: True) == 0
        assert function.cache_contains(1)
    assert not function.cache_contains(1)


def test_predicate_is_refused_where_no_arguments_are_kept(tmp_path: pathlib.Path) -> None:
    backed, _ = counted(backend=FileBackend(folder=tmp_path), namespace="a", version=1)
    keyed, _ = counted(key=lambda user, *_, **__: user)

    class Shop:
        @cache
        def price(self, item: str) -> str:
            return item

    for function, why in [
        (backed, "digest of its arguments, without keep_arguments=True"),
        (keyed, "known by what key gives"),
        (Shop.price, "in its instances"),
    ]:
        with pytest.raises(PredicateError, match=why) as raised:
            function.invalidate_where(lambda *_: True)
        assert "invalidate_tags" in str(raised.value)
    function, _ = counted()
    with pytest.raises(TypeError, match="must be callable, not int"):
        function.invalidate_where(7)
