"""One run for each miss under Trio, and between Trio, asyncio and uvloop."""

import asyncio
import threading
from typing import Any

import pytest
import trio
import trio.testing

from tidemark_cache import cache


def test_trio_calls_that_miss_together_share_one_run_and_no_object() -> None:
    runs: list[int] = []

    @cache
    async def slow(number: int) -> list[int]:
        runs.append(number)
        await trio.sleep(0.02)
        return [number]

    answers: list[list[int]] = []

    async def ask() -> None:
        answers.append(await slow(1))

    async def main() -> None:
        async with trio.open_nursery() as nursery:
            for _ in range(20):
                nursery.start_soon(ask)
        assert await slow(1) == [1]

    trio.run(main)
    assert answers == [[1]] * 20 and runs == [1]
    assert len({id(answer) for answer in answers}) == 20
    trio.run(main)
    assert runs == [1]


def test_trio_waiter_leads_when_the_leader_is_cancelled() -> None:
    runs: list[str] = []

    @cache
    async def slow() -> int:
        runs.append(trio.lowlevel.current_task().name)
        await trio.sleep(0.05 if len(runs) > 1 else 60)
        return len(runs)

    answers: list[int] = []

    async def main() -> None:
        async def ask() -> None:
            answers.append(await slow())

        scope = trio.CancelScope()

        async def lead() -> None:
            with scope:
                await slow()

        async with trio.open_nursery() as nursery:
            nursery.start_soon(lead)
            await trio.testing.wait_all_tasks_blocked()
            for _ in range(3):
                nursery.start_soon(ask)
            await trio.testing.wait_all_tasks_blocked()
            scope.cancel()

    trio.run(main)
    assert answers == [2, 2, 2] and len(runs) == 2


def test_trio_exception_reaches_every_waiter_and_is_not_stored() -> None:
    runs: list[int] = []

    @cache
    async def flaky() -> str:
        runs.append(1)
        await trio.sleep(0.01)
        if len(runs) == 1:
            raise OSError("first")
        return "ok"

    caught: list[Exception] = []

    async def main() -> None:
        async def ask() -> None:
            try:
                await flaky()
            except OSError as error:
                caught.append(error)

        async with trio.open_nursery() as nursery:
            for _ in range(3):
                nursery.start_soon(ask)
        assert await flaky() == "ok"

    trio.run(main)
    assert [str(error) for error in caught] == ["first"] * 3 and len(runs) == 2


def test_trio_body_that_asks_for_its_own_key_runs_unshared() -> None:
    depth: list[int] = []

    @cache
    async def nested() -> int:
        depth.append(1)
        return await nested() + 1 if len(depth) < 3 else 0

    async def main() -> int:
        with trio.fail_after(10):
            return await nested()

    assert trio.run(main) == 2


def test_trio_hit_late_in_its_lifetime_is_refreshed() -> None:
    runs: list[int] = []

    @cache(ttl=60, refresh_ahead=0.0)
    async def read() -> int:
        runs.append(1)
        return len(runs)

    async def main() -> None:
        assert (await read(), await read()) == (1, 1)
        with trio.fail_after(10):
            while await read() < 2:
                await trio.sleep(0.001)

    trio.run(main)


def test_run_is_shared_between_trio_and_asyncio() -> None:
    began, runs = threading.Event(), []

    @cache
    async def slow() -> int:
        runs.append(1)
        began.set()
        await asyncio.sleep(0.1)
        return 3

    answers: list[Any] = []

    async def ask() -> int:
        return await slow()

    one = threading.Thread(target=lambda: answers.append(asyncio.run(ask())))
    one.start()
    began.wait(10)
    other = threading.Thread(target=lambda: answers.append(trio.run(ask)))
    other.start()
    one.join(20), other.join(20)
    assert answers == [3, 3] and len(runs) == 1


def test_run_of_a_trio_loop_that_ended_is_taken_over() -> None:
    runs: list[int] = []

    @cache
    async def slow() -> int:
        runs.append(1)
        if len(runs) == 1:
            await trio.sleep(60)
        return 4

    async def ask() -> int:
        return await slow()

    async def cut_off() -> None:
        with trio.move_on_after(0.01):
            await slow()

    trio.run(cut_off)
    assert trio.run(ask) == 4


def test_uvloop_calls_that_miss_together_share_one_run() -> None:
    uvloop = pytest.importorskip("uvloop")
    runs: list[int] = []

    @cache
    async def slow(number: int) -> int:
        runs.append(number)
        await asyncio.sleep(0.01)
        return number

    async def main() -> None:
        assert await asyncio.gather(*(slow(1) for _ in range(20))) == [1] * 20
        assert await slow(1) == 1

    uvloop.run(main())
    assert runs == [1]
