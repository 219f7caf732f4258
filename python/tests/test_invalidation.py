"""Tags of results, invalidations at the end of a transaction, and writers that invalidate."""

import asyncio
import pathlib
import threading
import weakref
from typing import Any

import pytest

from tidemark_cache import (
    CacheConfig,
    FileBackend,
    _backed,
    _functions,
    _decorator,
    _invalidation,
    cache,
    defer_invalidations,
    invalidate_namespace,
    invalidate_tags,
    invalidates,
)


@pytest.fixture(autouse=True)
def no_functions_of_other_tests(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(_functions, "all_of_process", weakref.WeakSet())
    known: dict[str, Any] = {}
    for module in (_decorator, _invalidation):
        monkeypatch.setattr(module, "namespaces", known)


@pytest.fixture(params=["memory", "file"])
def backend(request: pytest.FixtureRequest, tmp_path: pathlib.Path) -> Any:
    if request.param == "memory":
        return None
    return FileBackend(folder=tmp_path / "tier", megabytes=8)


def counted(backend: Any = None, **settings: Any) -> tuple[Any, list[Any]]:
    runs: list[Any] = []
    settings = {"namespace": "test", "version": 1, **settings}

    @cache(backend=backend, **settings)
    def function(argument: Any) -> Any:
        runs.append(list(argument) if isinstance(argument, list) else argument)
        return [argument, len(runs)]

    return function, runs


def team_of(result: Any) -> list[str]:
    return [f"team {result[0] % 2}"]


def test_tags_of_results_forget_entries(backend: Any) -> None:
    function, runs = counted(backend, result_tags=team_of, ttl=60)
    for number in (1, 2, 3):
        function(number)
    assert invalidate_tags("team 1")
    again = counted(backend, result_tags=team_of, ttl=60)
    for now, ran in ((function, runs), again):
        ran.clear()
        for number in (1, 2, 3):
            now(number)
    # Memory alone forgets all of the function's; a tier exactly those under the tag.
    assert runs == ([1, 3] if backend else [1, 2, 3])
    assert again[1] == ([] if backend else [1, 2, 3])
    invalidate_tags("another")
    invalidate_tags()
    assert function(1)[0] == 1


def test_tag_of_a_result_that_is_forgotten_while_it_is_computed(backend: Any) -> None:
    runs: list[int] = []
    forget = [True]

    def made() -> Any:
        @cache(backend=backend, namespace="t", version=1, result_tags=lambda result: ["red"])
        def function(number: int) -> int:
            runs.append(number)
            if forget:
                forget.pop()
                invalidate_tags("red")
            return len(runs)

        return function

    function = made()
    assert function(1) == 1 and function(1) == 2 and function(1) == 2
    if backend is not None:
        assert made()(1) == 2


def test_tags_of_results_are_checked(tmp_path: pathlib.Path) -> None:
    backend = FileBackend(folder=tmp_path / "tier", megabytes=8)
    for tags in ("red", [3], [f"{number}" for number in range(65)]):
        function, _ = counted(backend, result_tags=lambda _, tags=tags: tags)
        with pytest.raises((TypeError, ValueError)):
            function(1)
    with pytest.raises(TypeError, match="result_tags must be callable"):
        counted(result_tags=["red"])


def test_entry_with_tags_of_its_own_is_no_entry_of_a_function_without(
    tmp_path: pathlib.Path,
) -> None:
    backend = FileBackend(folder=tmp_path / "tier", megabytes=8)
    tagged, _ = counted(backend, result_tags=team_of)
    plain, runs = counted(backend)
    assert tagged(1) == [1, 1] and plain(1) == [1, 1] and runs == [1]


def test_tags_of_results_with_writes_behind_and_a_refresh(tmp_path: pathlib.Path) -> None:
    backend = FileBackend(folder=tmp_path / "tier", megabytes=8)
    behind, _ = counted(backend, result_tags=team_of, write_behind=True)
    behind(1)
    again, runs = counted(backend, result_tags=team_of)
    while again._backed._look_up((1,), {}, _backed.ReadOptions()).found is None:
        pass
    assert again(1) == [1, 1] and runs == []
    assert again.cache_refresh(1) == [1, 1] and runs == [1]
    again.cache_set([7, 7], 1)
    third, runs = counted(backend, result_tags=team_of)
    assert third(1) == [7, 7] and runs == []
    invalidate_tags("team 1")
    assert third(1) == [1, 1]


def test_deferred_invalidations_are_carried_out_at_the_end(backend: Any) -> None:
    function, runs = counted(backend, tags=["red"])
    acts = [
        lambda: function.invalidate_cache(1),
        function.cache_clear,
        lambda: invalidate_tags("red"),
        lambda: invalidate_namespace("test"),
    ]
    for act in acts:
        before = function(1)
        with defer_invalidations() as block:
            for _ in range(3):
                act()
            assert function(1) == before and block.is_whole is None
        assert block.is_whole is True
        assert function(1) == [1, before[1] + 1]


def test_deferred_invalidations_are_dropped_by_an_exception(backend: Any) -> None:
    function, _ = counted(backend)
    before = function(1)
    with pytest.raises(OSError):
        with defer_invalidations():
            function.invalidate_cache(1)
            raise OSError
    assert function(1) == before


def test_deferred_invalidations_of_inner_blocks_wait_for_the_outer_one() -> None:
    function, _ = counted()
    before = function(1), function(2)
    with defer_invalidations():
        with defer_invalidations() as inner:
            function.invalidate_cache(1)
        with pytest.raises(OSError):
            with defer_invalidations():
                function.invalidate_cache(2)
                raise OSError
        assert (function(1), function(2)) == before and inner.is_whole is None
    assert function(1) != before[0] and function(2) == before[1]
    with pytest.raises(RuntimeError, match="once"):
        with inner:
            pass


def test_deferred_invalidation_means_the_arguments_it_was_called_with(backend: Any) -> None:
    function, runs = counted(backend)
    argument = [1]
    function(argument), function([2])
    with defer_invalidations():
        function.invalidate_cache(argument)
        argument[0] = 2
    function([2]), function([1])
    assert runs == [[1], [2], [1]]


def test_deferred_invalidations_are_bounded_and_counted_once(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    from tidemark_cache import _deferral

    monkeypatch.setattr(_deferral, "_DEFERRED_MAX", 3)
    function, _ = counted()
    with defer_invalidations():
        for number in (1, 2, 3, 1, 2, 3):
            function.invalidate_cache(number)
        with pytest.raises(RuntimeError, match="more than 3 invalidations"):
            function.invalidate_cache(4)


def test_deferred_invalidations_of_tasks_and_of_what_outlives_the_block(backend: Any) -> None:
    function, _ = counted(backend)

    async def calls() -> None:
        before = function(1)
        is_over = asyncio.Event()

        async def late() -> None:
            await is_over.wait()
            assert function.invalidate_cache(1)

        async with defer_invalidations() as block:
            await asyncio.gather(asyncio.create_task(function.ainvalidate_cache(1)))
            task = asyncio.create_task(late())
            assert function(1) == before
        assert block.is_whole is True
        between = function(1)
        assert between != before
        is_over.set()
        await task
        assert function(1) != between

    asyncio.run(calls())


def test_deferral_of_one_thread_is_not_that_of_another() -> None:
    function, _ = counted()
    function(1)
    with defer_invalidations():
        other = threading.Thread(target=function.invalidate_cache, args=(1,))
        other.start()
        other.join()
        assert not function.cache_contains(1)


def test_deferred_invalidation_that_a_tier_does_not_take() -> None:
    function, _ = counted(FileBackend(folder="/proc/nowhere"))
    function(1)
    with defer_invalidations() as block:
        function.invalidate_cache(1)
    assert block.is_whole is False


def test_deferred_invalidations_all_take_place_though_one_raises() -> None:
    function, _ = counted()
    before = function(1)
    with pytest.raises(ZeroDivisionError):
        with defer_invalidations() as block:
            block.add("wrong", lambda: 1 // 0 > 0)
            function.invalidate_cache(1)
    assert function(1) != before and block.is_whole is False


def test_writer_invalidates_when_it_has_returned(backend: Any) -> None:
    function, runs = counted(backend, tags=lambda number: [f"number {number}"])
    other, other_runs = counted(backend, version=2, namespace="other")

    @invalidates(tags=lambda number, fails=False: [f"number {number}"])
    def write(number: int, fails: bool = False) -> int:
        if fails:
            raise OSError
        return number

    @invalidates(calls=lambda number: [(function, number), (other, number)])
    def write_calls(number: int) -> None:
        pass

    @invalidates(other, namespaces=["nowhere"], tags=["number 1"])
    async def write_all(number: int) -> int:
        return number

    for number in (1, 2):
        function(number), other(number)
    with pytest.raises(OSError):
        write(1, fails=True)
    function(1), function(2)
    assert runs == [1, 2]
    assert write(number=1) == 1 and write.__name__ == "write"
    function(1), function(2)
    assert runs == [1, 2, 1]
    write_calls(2)
    function(1), function(2), other(1), other(2)
    assert runs == [1, 2, 1, 2] and other_runs == [1, 2, 2]
    assert asyncio.run(write_all(3)) == 3
    function(1), function(2), other(1), other(2)
    assert runs == [1, 2, 1, 2, 1] and other_runs == [1, 2, 2, 1, 2]
    with defer_invalidations():
        write(1)
        assert function(1) == [1, 5]
    assert function(1) == [1, 6]


def test_writer_does_not_write_when_what_it_invalidates_cannot_be_said() -> None:
    function, _ = counted()
    written: list[int] = []
    for settings in (
        {"tags": lambda number: "red"},
        {"tags": lambda number: [3]},
        {"calls": lambda number: [function]},
        {"calls": lambda number: [(function,)]},
        {"calls": lambda number: [(print, 1)]},
        {"calls": lambda: []},
    ):
        with pytest.raises(TypeError):
            invalidates(**settings)(written.append)(1)
    assert written == []


def test_writer_decorator_is_checked() -> None:
    def generator() -> Any:
        yield 1

    function, _ = counted()
    for make in (
        lambda: invalidates(),
        lambda: invalidates(tags=[]),
        lambda: invalidates(print),
        lambda: invalidates(tags="red"),
        lambda: invalidates(tags=[3]),
        lambda: invalidates(namespaces="red"),
        lambda: invalidates(calls=3),
        lambda: invalidates(function)(generator),
        lambda: invalidates(function)(3),
        lambda: invalidates(function)(int),
    ):
        with pytest.raises(TypeError):
            make()


def test_namespaces_are_forgotten_by_prefix(backend: Any) -> None:
    first, runs = counted(backend, namespace="shop prices")
    second, _ = counted(backend, namespace="shop stock")
    other, other_runs = counted(backend, namespace="shipping")
    for function in (first, second, other):
        function(1)
    assert invalidate_namespace("shop") and invalidate_namespace("shop ")
    assert invalidate_namespace("hop", prefix=True) and first(1) == [1, 1]
    assert invalidate_namespace("shop ", prefix=True)
    for function in (first, second, other):
        function(1)
    assert runs == [1, 1] and other_runs == [1]


def test_iterators_of_names_are_gone_through_once(backend: Any) -> None:
    config = CacheConfig(tags=(tag for tag in ["red"]), ignore=iter(["page"]))
    assert hash(config) == hash(CacheConfig(tags=["red"], ignore=["page"]))
    for settings in ({"config": config}, {"tags": (tag for tag in ["red"])}):
        runs: list[int] = []

        @cache(backend=backend, namespace="names", version=1, **settings)
        def function(number: int, page: int = 1) -> int:
            runs.append(number)
            return number

        function(1), function(1)
        assert invalidate_tags("red")
        function(1)
        assert runs == [1, 1], settings
        function.cache_clear()


@pytest.mark.parametrize("wrong, words", [
    ({"tags": 3}, "tags must be several str, not int"),
    ({"tags": "red"}, r"tags must be several str, not one: write \['red'\]"),
    ({"namespaces": b"a"}, "namespaces must hold str, not int"),
    ({"namespaces": None}, "namespaces must be several str, not NoneType"),
], ids=str)  # fmt: skip
def test_names_of_writers_are_refused_by_the_name_of_their_setting(
    wrong: dict[str, Any], words: str
) -> None:
    with pytest.raises(TypeError, match=words):
        invalidates(**wrong)
    if "tags" in wrong:
        written = invalidates(tags=lambda: wrong["tags"])(lambda: None)
        with pytest.raises(TypeError, match=words):
            written()
