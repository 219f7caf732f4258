"""One run for each miss of concurrent callers, and nothing that hangs."""

import asyncio
import contextvars
import gc
import os
import queue
import signal
import subprocess
import sys
import sysconfig
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest

from tidemark_cache import cache, invalidate_tags
from tidemark_cache._native import ownership


def in_threads(count: int, function: Any, *args: Any) -> list[Any]:
    """What each of `count` threads got, or the exception it met."""
    ready = threading.Barrier(count)

    def run() -> Any:
        ready.wait()
        try:
            return function(*args)
        except Exception as error:
            return error

    with ThreadPoolExecutor(count) as pool:
        return [one.result() for one in [pool.submit(run) for _ in range(count)]]


class Asked:
    """An argument that says when its call has joined a run: arguments are compared after that."""

    def __init__(self, joined: threading.Semaphore) -> None:
        self.joined = joined

    def __hash__(self) -> int:
        return 1

    def __eq__(self, other: object) -> bool:
        self.joined.release()
        return isinstance(other, Asked)


def until_joined(argument: Asked, count: int) -> None:
    for _ in range(count):
        assert argument.joined.acquire(timeout=60)


def test_threads_that_miss_together_share_one_run_and_no_object() -> None:
    runs: list[int] = []
    joined = threading.Semaphore(0)

    @cache
    def slow(argument: Asked) -> list[int]:
        runs.append(7)
        until_joined(argument, 11)
        return [7]

    answers = in_threads(12, lambda: slow(Asked(joined)))
    assert (answers, runs) == ([[7]] * 12, [7])
    assert len({id(answer) for answer in answers}) == 12
    assert slow.cache_info()[:2] == (11, 1)


def test_exception_reaches_every_waiter_and_is_not_stored() -> None:
    runs: list[int] = []
    joined = threading.Semaphore(0)

    @cache
    def flaky(argument: Asked) -> str:
        runs.append(1)
        if len(runs) == 1:
            until_joined(argument, 5)
            raise OSError("first run fails")
        return "ok"

    answers = in_threads(6, lambda: flaky(Asked(joined)))
    assert [str(answer) for answer in answers] == ["first run fails"] * 6 and len(runs) == 1
    assert (flaky(Asked(joined)), flaky(Asked(joined)), len(runs)) == ("ok", "ok", 2)


def test_body_that_asks_for_its_own_key_runs_unshared() -> None:
    depth = []

    @cache
    def nested() -> int:
        depth.append(1)
        return nested() + 1 if len(depth) < 3 else 0

    assert (nested(), len(depth)) == (2, 3)


def test_run_that_is_over_makes_no_later_call_run_unshared() -> None:
    runs = []
    is_led, go_on = threading.Event(), threading.Event()

    @cache
    def slow(number: int) -> int:
        runs.append(number)
        if len(runs) > 1:
            is_led.set()
            go_on.wait(20)
        return number

    slow(1)
    slow.cache_clear()
    with ThreadPoolExecutor(2) as pool:
        leader = pool.submit(slow, 1)
        assert is_led.wait(20)
        # The context that led the first run, and a thread with a copy of it.
        copied = pool.submit(contextvars.copy_context().run, slow, 1)
        threading.Timer(0.1, go_on.set).start()
        assert (slow(1), copied.result(20), leader.result(20)) == (1, 1, 1)
    assert runs == [1, 1]


def test_body_that_asks_for_its_own_key_from_a_pool_does_not_hang() -> None:
    pool = ThreadPoolExecutor(1)
    runs = []

    @cache
    def nested() -> int:
        runs.append(1)
        if len(runs) > 1:
            return 1
        context = contextvars.copy_context()
        return 1 + pool.submit(context.run, nested).result(timeout=10)

    assert nested() == 2
    pool.shutdown()


@pytest.mark.parametrize("variables", [0, 1, 20, 300])
@pytest.mark.parametrize("changed", ["neither", "the copy", "the original"])
def test_context_copied_in_a_run_that_is_over_belongs_to_no_later_run(
    variables: int, changed: str
) -> None:
    """Contexts share what they hold until one is changed, and more of it the more they hold."""
    runs: list[int] = []
    copies: list[contextvars.Context] = []
    is_led, go_on = threading.Event(), threading.Event()
    others = [contextvars.ContextVar[int](f"other {number}") for number in range(variables)]
    last = contextvars.ContextVar[int]("last")

    @cache(flight_wait=600)
    def slow(number: int) -> int:
        runs.append(number)
        if number == 0:
            copies.append(contextvars.copy_context())
        else:
            is_led.set()
            assert go_on.wait(20)
        return number

    def lead() -> int:
        [other.set(1) for other in others]
        slow(0)
        if changed == "the copy":
            copies[0].run(last.set, 1)
        elif changed == "the original":
            last.set(1)
        return slow(1)

    leader = in_daemon(lead)
    assert is_led.wait(20)
    joined = in_daemon(lambda: copies[0].run(slow, 1))
    with pytest.raises(queue.Empty):
        joined.get(timeout=0.1)
    go_on.set()
    assert (leader.get(timeout=20), joined.get(timeout=20)) == (1, 1)
    assert runs == [0, 1]


@pytest.mark.skipif(
    bool(sysconfig.get_config_var("Py_GIL_DISABLED")),
    reason="counts of references, which say who knows a context, are spread over threads",
)
@pytest.mark.parametrize("enter", [None, contextvars.Context().run], ids=["thread", "run"])
def test_later_run_of_a_context_is_named_there_already(enter: Any) -> None:
    """A value set in a context costs as much as all the rest of a miss. Where the interpreter keeps
    the context of a thread is found out, and differs between its versions."""
    named = cache(lambda number: id(ownership.get()))

    def miss() -> set[int]:
        return {named(number) for number in range(5)}

    with ThreadPoolExecutor(1) as pool:
        task = pool.submit(miss) if enter is None else pool.submit(enter, miss)
        assert len(task.result(timeout=20)) == 1


def test_context_copied_in_a_later_run_of_a_thread_belongs_to_it() -> None:
    pool = ThreadPoolExecutor(1)
    runs = []

    @cache(flight_wait=600)
    def nested(number: int) -> int:
        runs.append(number)
        if number < 5 or len(runs) > 6:
            return 1
        context = contextvars.copy_context()
        return 1 + pool.submit(context.run, nested, number).result(timeout=10)

    assert [nested(number) for number in range(6)] == [1, 1, 1, 1, 1, 2]
    assert runs == [0, 1, 2, 3, 4, 5, 5]
    pool.shutdown()


def in_daemon(function: Any) -> "queue.SimpleQueue[Any]":
    """Where the answer of `function` comes, from a thread that may hang for ever."""
    answers: queue.SimpleQueue[Any] = queue.SimpleQueue()
    is_started = threading.Lock()

    def run() -> None:
        # Not before `start` has returned, which allocates: a collection must not begin there.
        with is_started:
            answers.put(function())

    with is_started:
        threading.Thread(target=run, daemon=True).start()
    return answers


def test_body_that_asks_for_its_own_key_in_another_context_runs_unshared() -> None:
    depth = []

    @cache(flight_wait=600)
    def nested() -> int:
        depth.append(1)
        return contextvars.Context().run(nested) + 1 if len(depth) < 3 else 0

    assert (in_daemon(nested).get(timeout=20), len(depth)) == (2, 3)
    assert nested() == 2 and len(depth) == 3


def with_garbage_at_the_first_allocation(destructor: Any, function: Any) -> Any:
    """What `function` gives in a thread whose next allocations collect an object with it."""

    class Garbage:
        def __init__(self) -> None:
            self.me = self

        def __del__(self) -> None:
            destructor()

    before = gc.get_threshold()
    gc.disable()
    try:
        Garbage()
        gc.set_threshold(1)
        gc.enable()
        return function()
    finally:
        gc.set_threshold(*before)
        gc.enable()


def test_destructor_that_asks_for_the_key_of_its_thread_runs_unshared() -> None:
    runs, answers = [], []

    @cache(flight_wait=600)
    def plain() -> int:
        runs.append(1)
        return 7

    def ask() -> int:
        # A thread without a context makes one once it leads the run, and that may collect.
        answer = with_garbage_at_the_first_allocation(lambda: answers.append(plain()), plain)
        gc.collect()
        return int(answer)

    assert in_daemon(ask).get(timeout=20) == 7
    assert answers == [7] and len(runs) <= 2


def test_destructor_that_would_close_a_circle_of_waits_runs_unshared() -> None:
    """One thread leads `left`; its collection asks for `right`, whose leader asks for `left`."""
    # Locks, because waiting for an event allocates, and would collect in the wrong thread.
    right_runs, left_is_led = threading.Lock(), threading.Lock()
    right_runs.acquire(), left_is_led.acquire()
    runs, answers = [], []

    @cache(flight_wait=600)
    def left() -> int:
        return 1

    @cache(flight_wait=600)
    def right() -> int:
        runs.append(1)
        if len(runs) > 1:
            return 2
        right_runs.release()
        assert left_is_led.acquire(timeout=20)
        return left() + 1

    def destructor() -> None:
        left_is_led.release()
        answers.append(right())

    def ask() -> int:
        answer = with_garbage_at_the_first_allocation(destructor, left)
        gc.collect()
        return int(answer)

    other = in_daemon(right)
    assert right_runs.acquire(timeout=20)
    one = in_daemon(ask)
    assert (one.get(timeout=20), other.get(timeout=20), answers) == (1, 2, [2])


def test_runs_that_would_wait_for_each_other_do_not() -> None:
    both = threading.Barrier(2, timeout=60)
    runs = {"left": 0, "right": 0}

    @cache(flight_wait=600)
    def left() -> int:
        runs["left"] += 1
        if runs["left"] > 1:
            return 0
        both.wait()
        return right() + 1

    @cache(flight_wait=600)
    def right() -> int:
        runs["right"] += 1
        if runs["right"] > 1:
            return 0
        both.wait()
        return left() + 1

    answers: list[int] = []
    one = threading.Thread(target=lambda: answers.append(left()))
    other = threading.Thread(target=lambda: answers.append(right()))
    one.start(), other.start()
    one.join(60), other.join(60)
    assert not one.is_alive() and not other.is_alive()
    assert sorted(answers) == [1, 2]


def test_wait_is_bounded_and_then_the_body_runs() -> None:
    release = threading.Event()
    runs = []

    @cache(flight_wait=0.1)
    def slow() -> int:
        runs.append(1)
        if len(runs) == 1:
            release.wait(10)
        return len(runs)

    leader = threading.Thread(target=slow)
    leader.start()
    while not runs:
        time.sleep(0.001)
    assert slow() == 2
    release.set()
    leader.join()


@pytest.mark.parametrize("how", ["call", "clear", "tag"])
def test_invalidation_happens_before_every_later_call(how: str) -> None:
    began, go_on = threading.Event(), threading.Event()
    source = ["old"]

    @cache(tags=["source"])
    def read(name: str) -> str:
        value = source[0]
        began.set()
        go_on.wait(10)
        return value

    answers: list[str] = []
    first = threading.Thread(target=lambda: answers.append(read("a")))
    first.start()
    began.wait(10)
    source[0] = "new"
    {
        "call": lambda: read.invalidate_cache("a"),
        "clear": read.cache_clear,
        "tag": lambda: invalidate_tags("source"),
    }[how]()
    later = threading.Thread(target=lambda: answers.append(read("a")))
    later.start()
    time.sleep(0.05)
    go_on.set()
    first.join(), later.join()
    assert sorted(answers) == ["new", "old"]
    assert read("a") == "new"


def test_ctrl_c_ends_a_wait() -> None:
    program = """
import signal, threading
from tidemark_cache import cache
class Asked:
    def __hash__(self): return 1
    def __eq__(self, other):
        # This call has joined the run of the other thread.
        threading.Timer(0.2, lambda: signal.raise_signal(signal.SIGINT)).start()
        return True
@cache(flight_wait=600)
def slow(argument):
    is_led.set()
    threading.Event().wait(600)
is_led = threading.Event()
threading.Thread(target=slow, args=[Asked()], daemon=True).start()
is_led.wait()
try:
    slow(Asked())
except KeyboardInterrupt:
    print("stopped")
"""
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, timeout=60)
    assert (done.stdout, done.stderr) == (b"stopped\n", b"")


def test_ctrl_c_in_the_leader_lets_a_waiter_run() -> None:
    runs = []

    @cache
    def slow() -> int:
        runs.append(1)
        if len(runs) == 1:
            time.sleep(0.1)
            raise KeyboardInterrupt
        return 5

    def lead() -> None:
        with pytest.raises(KeyboardInterrupt):
            slow()

    leader = threading.Thread(target=lead)
    leader.start()
    while not runs:
        time.sleep(0.001)
    assert slow() == 5
    leader.join()


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")
def test_child_of_a_fork_waits_for_no_thread_of_its_parent() -> None:
    began, go_on = threading.Event(), threading.Event()

    @cache
    def slow(number: int) -> int:
        if os.getpid() == parent:
            began.set()
            go_on.wait(10)
        return number

    parent = os.getpid()
    leader = threading.Thread(target=slow, args=(1,))
    leader.start()
    began.wait(10)
    child = os.fork()
    if child == 0:
        signal.alarm(10)
        os._exit(0 if slow(1) == 1 else 1)
    assert os.waitpid(child, 0)[1] == 0
    go_on.set()
    leader.join()


def test_async_calls_that_miss_together_share_one_run_and_no_object() -> None:
    runs = []

    @cache
    async def slow(number: int) -> list[int]:
        runs.append(number)
        await asyncio.sleep(0.02)
        return [number]

    async def main() -> None:
        answers = await asyncio.gather(*(slow(1) for _ in range(20)))
        assert answers == [[1]] * 20
        assert len({id(answer) for answer in answers}) == 20
        answers[0].append(2)
        assert await slow(1) == [1]
        assert await asyncio.create_task(slow(1)) == [1]

    asyncio.run(main())
    asyncio.run(main())
    assert runs == [1]


def test_async_cancelling_one_caller_cancels_nobody_else() -> None:
    ended = []
    go_on = asyncio.Event()

    @cache
    async def slow(number: int) -> int:
        try:
            await go_on.wait()
        except asyncio.CancelledError:
            ended.append("cancelled")
            raise
        ended.append("whole")
        return number

    async def some_turns() -> None:
        for _ in range(20):
            await asyncio.sleep(0)

    async def main() -> None:
        callers = [asyncio.create_task(slow(1)) for _ in range(3)]
        await some_turns()
        callers[0].cancel()
        await some_turns()
        go_on.set()
        results = await asyncio.gather(*callers, return_exceptions=True)
        assert isinstance(results[0], asyncio.CancelledError)
        assert results[1:] == [1, 1] and ended == ["whole"]
        go_on.clear()
        alone = asyncio.create_task(slow(2))
        await some_turns()
        alone.cancel()
        await some_turns()
        assert ended == ["whole", "cancelled"]
        go_on.set()
        assert await slow(2) == 2

    asyncio.run(main())


def test_async_run_cancelled_before_its_first_step_keeps_nobody_waiting() -> None:
    @cache
    async def called(number: int) -> int:
        return number

    async def main() -> None:
        # Where no task begins at once.
        loop = asyncio.get_running_loop()
        loop.set_task_factory(lambda loop, body, **more: asyncio.Task(body, loop=loop, **more))
        callers = [asyncio.create_task(called(1)) for _ in range(3)]
        await asyncio.sleep(0)
        for task in asyncio.all_tasks() - {asyncio.current_task(), *callers}:
            task.cancel()
        ended = asyncio.gather(*callers, return_exceptions=True)
        first, *others = await asyncio.wait_for(ended, 20)
        assert isinstance(first, asyncio.CancelledError)
        assert others == [1, 1] and await called(1) == 1

    asyncio.run(main())


def test_async_exception_is_shared_and_not_stored() -> None:
    runs = []

    @cache
    async def flaky() -> str:
        runs.append(1)
        await asyncio.sleep(0.01)
        if len(runs) == 1:
            raise OSError("first")
        return "ok"

    async def main() -> None:
        results = await asyncio.gather(flaky(), flaky(), return_exceptions=True)
        assert [str(result) for result in results] == ["first", "first"]
        assert await flaky() == "ok"

    asyncio.run(main())


def test_async_body_that_asks_for_its_own_key_runs_unshared() -> None:
    depth = []

    @cache
    async def nested() -> int:
        depth.append(1)
        return await nested() + 1 if len(depth) < 3 else 0

    @cache
    async def left() -> int:
        depth.append(1)
        return await right() if len(depth) < 5 else 0

    @cache
    async def right() -> int:
        return await left()

    assert asyncio.run(asyncio.wait_for(nested(), 5)) == 2
    assert asyncio.run(asyncio.wait_for(left(), 5)) == 0


def test_async_invalidation_happens_before_every_later_call() -> None:
    source = ["old"]

    @cache(tags=lambda name: [f"source:{name}"])
    async def read(name: str) -> str:
        value = source[0]
        await asyncio.sleep(0.02)
        return value

    async def main() -> None:
        for how in (
            lambda: read.invalidate_cache("a"),
            read.cache_clear,
            lambda: invalidate_tags("source:a"),
        ):
            read.cache_clear()
            source[0] = "old"
            first = asyncio.create_task(read("a"))
            await asyncio.sleep(0.005)
            source[0] = "new"
            how()
            assert [await read("a"), await first, await read("a")] == ["new", "old", "new"]

    asyncio.run(main())


def test_async_run_is_shared_by_loops_of_several_threads() -> None:
    runs = []

    @cache
    async def slow() -> int:
        runs.append(1)
        await asyncio.sleep(0.1)
        return 3

    async def wrapped() -> int:
        return await slow()

    answers = in_threads(6, lambda: asyncio.run(wrapped()))
    assert answers.count(3) == 6, answers
    assert len(runs) == 1


def test_async_run_of_a_loop_that_closed_is_taken_over() -> None:
    runs = []

    @cache
    async def slow() -> int:
        runs.append(1)
        if len(runs) == 1:
            await asyncio.sleep(60)
        return 4

    loop = asyncio.new_event_loop()
    task = loop.create_task(slow())
    loop.run_until_complete(asyncio.sleep(0.01))
    loop.close()
    assert asyncio.run(asyncio.wait_for(slow(), 5)) == 4
    del task
    # The loop says of its task that it has not ended: here, and not when the tests are over.
    gc.collect()


def test_async_hit_is_awaited_once_and_can_be_closed() -> None:
    @cache
    async def give() -> tuple[int, int]:
        return (1, 2)

    async def main() -> None:
        await give()
        one = give()
        assert await one == (1, 2)
        with pytest.raises(RuntimeError, match="already awaited"):
            await one
        give().close()
        with pytest.raises(ValueError, match="thrown"):
            give().throw(ValueError("thrown"))
        with pytest.raises(StopIteration) as stop:
            give().send(None)
        assert stop.value.value == (1, 2)

    asyncio.run(main())
