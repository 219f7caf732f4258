"""A miss of an async function: what its body sees, and what its caller may do meanwhile.

The bodies here wait for nothing at first, or at all: from CPython 3.12 on these begin at once.
"""

import asyncio
import contextvars
import gc
import sys
from typing import Any

import pytest

from tidemark_cache import cache
from tidemark_cache._native import TaskRun


@pytest.mark.skipif(sys.version_info < (3, 12), reason="no task begins at once there")
def test_async_body_that_waits_for_nothing_takes_no_turn_of_the_loop() -> None:
    tasks = []
    turns: list[int] = []

    @cache
    async def called(number: int) -> int:
        tasks.append(asyncio.current_task())
        if number < 0:
            raise ValueError(number)
        return number

    async def main() -> None:
        asyncio.get_running_loop().call_soon(turns.append, 1)
        assert await called(1) == 1 and await called(1) == 1
        with pytest.raises(ValueError, match="-1"):
            await called(-1)
        assert turns == []
        assert len(tasks) == 2 and asyncio.current_task() not in tasks
        assert called._runs == {}

    asyncio.run(main())


def test_async_misses_inside_misses_stand_on_no_deep_stack() -> None:
    @cache
    async def depth(number: int) -> int:
        return 1 + await depth(number - 1) if number else 0

    deep = sys.getrecursionlimit()
    assert asyncio.run(depth(deep)) == deep


def test_async_run_is_made_by_the_task_factory_of_the_loop() -> None:
    made = []

    def factory(loop: Any, body: Any, **more: Any) -> Any:
        made.append(body)
        return asyncio.Task(body, loop=loop, **more)

    @cache
    async def called(number: int) -> int:
        return number

    async def main() -> None:
        asyncio.get_running_loop().set_task_factory(factory)
        assert await called(1) == 1 and len(made) == 1

    asyncio.run(main())


def test_async_body_has_a_copy_of_the_context_of_its_caller() -> None:
    variable = contextvars.ContextVar("variable", default="nobody's")

    @cache
    async def called(waits: bool) -> str:
        seen = variable.get()
        variable.set("the body's")
        if waits:
            await asyncio.sleep(0)
        return f"{seen}, {variable.get()}"

    async def main() -> None:
        variable.set("the caller's")
        for waits in (False, True):
            assert await called(waits) == "the caller's, the body's"
            assert variable.get() == "the caller's"

    asyncio.run(main())


def test_async_body_is_a_task_that_waits_and_ends_as_any_other() -> None:
    @cache
    async def called(number: int) -> list[int]:
        mine = asyncio.current_task()
        async with asyncio.TaskGroup() as group:
            parts = [group.create_task(asyncio.sleep(0, part)) for part in range(number)]
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(0):
                await asyncio.Event().wait()
        assert asyncio.current_task() is mine
        return [part.result() for part in parts]

    async def main() -> None:
        mine = asyncio.current_task()
        assert await called(3) == [0, 1, 2]
        assert asyncio.current_task() is mine

    asyncio.run(main())


def test_async_body_that_cancels_its_own_task_cancels_its_callers_call() -> None:
    @cache
    async def called(waits: bool) -> int:
        task = asyncio.current_task()
        assert task is not None
        task.cancel()
        if waits:
            await asyncio.sleep(0)
        return 1

    async def main() -> None:
        with pytest.raises(asyncio.CancelledError):
            await called(True)
        # It had its answer before it could hear.
        assert await called(False) == 1
        task = asyncio.current_task()
        assert task is not None and task.cancelling() == 0 and called._runs == {}

    asyncio.run(main())


def test_async_body_that_cancels_its_caller_does_so_at_the_next_wait() -> None:
    callers: list[asyncio.Task[None]] = []
    ended = []

    @cache
    async def called() -> None:
        callers[0].cancel()
        try:
            await asyncio.Event().wait()
        except asyncio.CancelledError:
            ended.append("body")
            raise

    async def main() -> None:
        callers.append(asyncio.create_task(called()))
        with pytest.raises(asyncio.CancelledError):
            await callers[0]
        for _ in range(5):
            await asyncio.sleep(0)
        assert ended == ["body"] and called._runs == {}

    asyncio.run(main())


@pytest.mark.parametrize("error", [KeyboardInterrupt, SystemExit])
def test_async_body_that_ends_the_loop_leaves_no_run(error: type[BaseException]) -> None:
    errors = [error]

    @cache
    async def called(number: int) -> int:
        while errors:
            raise errors.pop()
        return number

    with pytest.raises(error):
        asyncio.run(called(1))
    assert called._runs == {}
    assert asyncio.run(called(1)) == 1


def test_async_body_that_asks_for_its_own_key_at_once_runs_unshared() -> None:
    runs = []

    @cache
    async def called(number: int) -> int:
        runs.append(number)
        return 1 if len(runs) > 1 else 1 + await called(number)

    assert asyncio.run(called(1)) == 2
    assert runs == [1, 1] and called.cache_info().currsize == 1


def test_async_calls_join_a_run_that_began_at_once() -> None:
    runs = []

    @cache
    async def called(number: int) -> int:
        runs.append(number)
        await asyncio.sleep(0)
        return number

    async def main() -> None:
        assert await asyncio.gather(*(called(1) for _ in range(5))) == [1] * 5
        # The caller that leads it goes; the others have the answer all the same.
        first, *others = [asyncio.create_task(called(2)) for _ in range(3)]
        await asyncio.sleep(0)
        first.cancel()
        assert await asyncio.gather(*others) == [2, 2] and runs == [1, 2]

    asyncio.run(main())


def task_runs() -> list[Any]:
    return [one for one in gc.get_objects() if isinstance(one, TaskRun)]


def test_async_run_is_gone_with_the_last_call_that_waits_for_it() -> None:
    @cache
    async def called(waits: bool) -> bool:
        if waits:
            await asyncio.sleep(0)
        return waits

    async def main() -> None:
        # What other tests have left stays in `before` as well.
        before = task_runs()
        for waits in (False, True):
            await called(waits)
            await asyncio.sleep(0)
            # Without a collection.
            assert len(task_runs()) == len(before)

    gc.collect()
    gc.disable()
    try:
        asyncio.run(main())
    finally:
        gc.enable()


def test_async_run_is_made_by_a_loop_that_makes_its_tasks_itself() -> None:
    made = []

    @cache
    async def called(number: int) -> int:
        return number

    async def main() -> None:
        loop = asyncio.get_running_loop()
        own = loop.create_task

        def create_task(body: Any, **more: Any) -> Any:
            made.append(body)
            return own(body, **more)

        loop.create_task = create_task  # type: ignore[method-assign]
        assert await called(1) == 1 and len(made) == 1

    asyncio.run(main())


def test_async_key_is_that_of_the_arguments_when_the_call_is_awaited() -> None:
    @cache
    async def total(numbers: list[int]) -> int:
        return sum(numbers)

    async def main() -> None:
        numbers = [1, 2]
        call = total(numbers)
        numbers.append(3)
        assert await call == 6
        assert await total([1, 2]) == 3 and await total([1, 2, 3]) == 6
        assert (total.cache_info().hits, total.cache_info().misses) == (1, 2)

    asyncio.run(main())


def test_async_call_that_waited_long_finds_what_another_has_stored() -> None:
    runs = []

    @cache
    async def called(number: int) -> int:
        runs.append(number)
        return number

    async def main() -> None:
        late, later, other = called(1), called(1), called(2)
        assert await called(1) == 1
        assert await late == 1 and runs == [1]
        called.cache_clear()
        # The table is changed since these calls were made.
        assert await called(3) == 3
        assert await later == 1 and await other == 2 and await called(1) == 1
        assert runs == [1, 3, 1, 2] and called.cache_info().currsize == 3

    asyncio.run(main())
