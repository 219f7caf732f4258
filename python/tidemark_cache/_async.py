"""Misses of async functions: one run per key, that many may await.

Under asyncio a run is a task of its own, in a copy of the first caller's context: cancelling one
caller cancels no other call, and cancelling the last one cancels the run. Under Trio the
first caller runs the body itself; if it is cancelled, one of the waiters begins again. A waiter in
another loop or another kind of loop is woken through that loop's own thread-safe call.

asyncio is imported where it runs already: it is most of what importing this package would cost.
"""

from __future__ import annotations

import contextlib
import sys
import weakref

from tidemark_cache._native import CallKey, TaskRun, lead, ownership

TYPE_CHECKING = False
if TYPE_CHECKING:
    import asyncio
    from collections.abc import Callable, Coroutine, Iterator
    from typing import Any, TypeVar

    T = TypeVar("T")

#: How often a waiter looks whether the loop that runs the body is still open.
_SLICE_S = 0.5

#: Tasks of refreshes, which the loop itself holds only weakly.
_tasks: set[asyncio.Task[None]] = set()


async def awaited(value: Any) -> Any:
    """Await it in a coroutine of the interpreter's own."""
    return await value


def run_failed(run: TaskRun, error: Exception, only_there: bool) -> None:
    """End the run of a body that raised: with an old value, or with the exception."""
    key = run.key
    if only_there:
        key.count_refresh(False)
        return
    old = key.stand_in()
    if old is not None:
        run.end_with(_OldValue(key, old[0]))
        return
    key.keep_error(error)
    run.fail(error)


class _OldValue:
    """A value past its lifetime that answers in the place of a failed body."""

    def __init__(self, key: CallKey, value: Any) -> None:
        self._key = key
        self._value = (value,)

    def answer(self) -> Any:
        found = self._key.find(False) or self._value
        return found[0]


async def miss(
    cached: Any, args: tuple[Any, ...], kwargs: dict[str, Any], key: CallKey | None
) -> Any:
    """Answer a call that found no entry when it was made, and what key it had if it had one."""
    while True:
        led = lead(cached, args, kwargs, key)
        if led is None:
            # A key is of one run: the next one may have another that no invalidation has meant.
            key = None
            answer = await _joined(cached, args, kwargs)
            if answer is not None:
                return answer[0]
            continue
        # In this very coroutine: one more costs every miss.
        run, future, number, edges = led
        del led
        if future is not None:
            try:
                # No limit and no look at the loop: the run is a task of this very loop.
                await future
            except BaseException:
                run.leave(number)
                raise
            finally:
                del edges
        if not run.is_answered:
            # The body itself was cancelled, from inside.
            raise sys.modules["asyncio"].CancelledError
        return run.answer()


async def _joined(cached: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> tuple[Any] | None:
    """The answer to a call that begins no run in a task; None if it has to begin again."""
    key = CallKey.of(cached, args, kwargs)
    if key is None:
        return (await cached.__wrapped__(*args, **kwargs),)
    loop = _loop()
    if loop is None:
        # A loop of an unknown kind: the answer is stored, and each caller runs the body.
        key.begin(True)
        with _lone_body(cached, key):
            value = await cached._body(*args, **kwargs)
            return (key.keep(value).answer(),)
    found = key.find(True)
    if found is not None:
        return found
    if isinstance(loop, _TrioLoop):
        new = TaskRun(cached._runs, key, loop)
        run = cached._runs.setdefault(key, new)
        if run is new:
            return (await _lead_in_trio(run),)
    else:
        run = cached._runs.get(key)
        if run is None:
            return None
    if not run.is_joinable():
        run.discard()
        return None
    edges = run.wait_edges()
    if edges is None:
        # The run waits for this very code.
        return (await cached.__wrapped__(*args, **kwargs),)
    try:
        if isinstance(loop, _TrioLoop):
            is_ended = await _wait_in_trio(run, cached._flight_wait_s)
        else:
            is_ended = await _wait_in_asyncio(loop, run, cached._flight_wait_s)
    finally:
        del edges
    if not is_ended:
        return (await cached.__wrapped__(*args, **kwargs),)
    error = run.error
    if error is not None:
        from tidemark_cache._values import error_for_caller

        raise error_for_caller(error)
    return (run.answer(),) if run.is_answered else None


async def _wait_in_asyncio(loop: asyncio.AbstractEventLoop, run: TaskRun, limit_s: float) -> bool:
    """Wait for the end of the run; False when it takes too long."""
    future = loop.create_future()
    number = run.add_future(loop, future)
    if number is None:
        return True
    end = loop.time() + limit_s
    wait = sys.modules["asyncio"].wait
    try:
        while not (run.is_over or future.done()):
            left = end - loop.time()
            if left <= 0:
                return False
            if not run.is_alive():
                run.give_up()
                return True
            await wait((future,), timeout=min(left, _SLICE_S))
        return True
    except BaseException:
        run.leave(number)
        raise
    finally:
        run.remove(number)


class _TrioLoop:
    """A run of Trio, where no task may outlive its caller."""

    __slots__ = ("token",)

    def __init__(self) -> None:
        self.token = weakref.ref(sys.modules["trio"].lowlevel.current_trio_token())

    def is_closed(self) -> bool:
        token = self.token()
        if token is None:
            return True
        try:
            token.run_sync_soon(lambda: None)
        except sys.modules["trio"].RunFinishedError:
            return True
        return False


async def _lead_in_trio(run: TaskRun) -> Any:
    # The body runs in the caller's own context, which owns the run only so long.
    before = ownership.get(None)
    try:
        await run
    finally:
        ownership.set(before)
    if not run.is_answered:
        raise RuntimeError("the run ended without an answer")
    return run.answer()


async def _wait_in_trio(run: TaskRun, limit_s: float) -> bool:
    trio = sys.modules["trio"]
    token = trio.lowlevel.current_trio_token()
    event = trio.Event()

    def wake() -> None:
        try:
            token.run_sync_soon(event.set)
        except trio.RunFinishedError:
            pass

    number = run.add(wake)
    if number is None:
        return True
    end = trio.current_time() + limit_s
    try:
        while not (run.is_over or event.is_set()):
            left = end - trio.current_time()
            if left <= 0:
                return False
            if not run.is_alive():
                run.give_up()
                return True
            with trio.move_on_after(min(left, _SLICE_S)):
                await event.wait()
        return True
    except BaseException:
        run.leave(number)
        raise
    finally:
        run.remove(number)


def _loop() -> asyncio.AbstractEventLoop | _TrioLoop | None:
    """What runs the code of this thread."""
    trio = sys.modules.get("trio")
    if trio is not None:
        try:
            trio.lowlevel.current_task()
            return _TrioLoop()
        except RuntimeError:
            pass
    return _running_loop()


def _running_loop() -> asyncio.AbstractEventLoop | None:
    # Of asyncio itself or not: all loops that run its tasks say so there.
    events: Any = sys.modules.get("asyncio.events")
    try:
        loop: asyncio.AbstractEventLoop | None = events and events._get_running_loop()
        return loop
    except AttributeError:
        # Another thread is still importing it.
        return None


def asyncio_loop() -> asyncio.AbstractEventLoop | None:
    """The loop that runs the code of this thread, if it is one of asyncio."""
    loop = _loop()
    return None if isinstance(loop, _TrioLoop) else loop


async def at_once(function: Callable[..., T], *args: Any) -> T:
    """Call it on this thread."""
    return function(*args)


async def in_thread(function: Callable[..., T], *args: Any) -> T:
    """Call it on another thread, in this context, where the kind of loop is known."""
    loop = _loop()
    if isinstance(loop, _TrioLoop):
        trio = sys.modules["trio"]
        result: T = await trio.to_thread.run_sync(function, *args)
        return result
    if loop is None:
        return function(*args)
    result = await sys.modules["asyncio"].to_thread(function, *args)
    return result


def start_apart(coroutine: Coroutine[Any, Any, None]) -> bool:
    """Run it in a task that no call waits for; False if the kind of loop is unknown."""
    loop = _loop()
    if isinstance(loop, _TrioLoop):
        sys.modules["trio"].lowlevel.spawn_system_task(lambda: coroutine)
    elif loop is not None:
        task = loop.create_task(coroutine)
        _tasks.add(task)
        task.add_done_callback(_tasks.discard)
    return loop is not None


def refresh_in_loop(loop: asyncio.AbstractEventLoop, cached: Any, key: CallKey) -> None:
    """Begin a refresh in a task of this loop, unless a run of the same call is under way."""
    run = TaskRun(cached._runs, key, loop, True)
    if cached._runs.setdefault(key, run) is not run:
        return
    task = loop.create_task(run)
    _tasks.add(task)
    cached._refreshing.add(run)

    def forget(_: object) -> None:
        _tasks.discard(task)
        cached._refreshing.discard(run)

    task.add_done_callback(forget)


def refresh_elsewhere(cached: Any, key: CallKey) -> None:
    """As `refresh_in_loop`, under Trio; under any other kind of loop nothing is refreshed."""
    loop = _loop()
    if not isinstance(loop, _TrioLoop):
        return
    run = TaskRun(cached._runs, key, loop, True)
    if cached._runs.setdefault(key, run) is not run:
        return

    async def refresh() -> None:
        cached._refreshing.add(run)
        try:
            await run
        finally:
            cached._refreshing.discard(run)

    sys.modules["trio"].lowlevel.spawn_system_task(refresh)


@contextlib.contextmanager
def _lone_body(cached: Any, key: CallKey) -> Iterator[None]:
    """A body that no other call can join, until its value is stored: invalidations find it."""
    cached._lone_bodies[id(key)] = key
    try:
        yield
    finally:
        del cached._lone_bodies[id(key)]


async def refreshed(cached: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """Run the body now and keep what it gives."""
    key = CallKey.of(cached, args, kwargs)
    if key is None:
        return await cached.__wrapped__(*args, **kwargs)
    key.begin(False)
    if cached._backed is not None:
        from tidemark_cache import _tiers

        _tiers.forced.set(True)
    with _lone_body(cached, key):
        try:
            value = await cached._body(*args, **kwargs)
        except BaseException:
            key.count_refresh(False)
            raise
        key.count_refresh(True)
        return key.keep(value).answer()
