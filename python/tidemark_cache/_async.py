"""Misses of async functions: one run per key, that many may await.

Under asyncio a run is a task of its own, in a copy of the first caller's context: cancelling one
caller cancels no other call, and cancelling the last one cancels the run. Under Trio the
first caller runs the body itself; if it is cancelled, one of those who wait begins again. Who waits
in another loop or another kind of loop is woken through that loop's own thread-safe call.

asyncio is imported where it runs already: it is most of what importing this package would cost.
"""

from __future__ import annotations

import contextvars
import os
import sys
import threading
import weakref

from tidemark_cache import _tiers, _values
from tidemark_cache._native import CallKey, TaskRun, discard_run

TYPE_CHECKING = False
if TYPE_CHECKING:
    import asyncio
    from collections.abc import Callable, Coroutine
    from typing import Any

#: How often a waiter looks whether the loop that runs the body is still open.
_SLICE_S = 0.5

#: Names the runs that the code of a context belongs to; set by the native side.
_OWNERSHIP: contextvars.ContextVar[Any] = contextvars.ContextVar("tidemark_cache_ownership")

#: Tasks of refreshes, which the loop itself holds only weakly.
_tasks: set[asyncio.Task[None]] = set()


class _Run:
    """One run of a body, and how to wake those who wait for it."""

    __slots__ = (
        "count",
        "ending",
        "is_alive",
        "is_over",
        "key",
        "lock",
        "node",
        "process",
        "runs",
        "stop",
        "wakers",
    )

    def __init__(self, runs: dict[CallKey, "_Run"], key: CallKey) -> None:
        self.runs = runs
        self.key = key
        # A child of a fork inherits the run and not the thread whose loop leads it.
        self.process = os.getpid()
        self.node = TaskRun()
        self.lock = threading.Lock()
        self.wakers: dict[int, Callable[[], None]] = {}
        self.count = 0
        self.is_over = False
        #: Whether the loop that leads it is still there.
        self.is_alive: Callable[[], bool] = lambda: True
        #: Ends the run for which no call waits any more; None where that is not this module's.
        self.stop: Callable[[], None] | None = None
        #: (value, None), (None, exception), or None when the run was given up.
        self.ending: tuple[Any, BaseException | None] | None = None

    def end(self, ending: tuple[Any, BaseException | None] | None) -> None:
        with self.lock:
            if self.is_over:
                return
            self.ending = ending
            self.is_over = True
            wakers = list(self.wakers.values())
        self.node.end()
        discard_run(self.runs, self.key, self)
        for wake in wakers:
            wake()

    def add(self, wake: Callable[[], None]) -> int | None:
        """Have `wake` called at the end; None if that has come already."""
        with self.lock:
            if self.is_over:
                return None
            self.count += 1
            self.wakers[self.count] = wake
            return self.count

    def remove(self, number: int) -> None:
        with self.lock:
            self.wakers.pop(number, None)

    def is_joinable(self) -> bool:
        """Whether a call made now may have this run's answer."""
        if self.is_over or self.process != os.getpid() or not self.is_alive():
            return False
        return bool(self.key.is_current())

    def answer(self) -> Any:
        assert self.ending is not None
        value, error = self.ending
        if error is not None:
            raise error
        return value.answer()


async def _body(run: _Run, cached: Any, call: tuple[Any, Any], only_there: bool) -> None:
    """Run the body for everybody who waits, and store what it gives."""
    key = run.key
    try:
        key.begin(not only_there)
        value = await cached._body(*call[0], **call[1])
        run.end((key.keep(value, only_there), None))
    except Exception as error:
        if only_there:
            key.count_refresh(False)
            run.end(None)
            return
        old = key.stand_in()
        if old is not None:
            run.end((_OldValue(key, old[0]), None))
            return
        key.keep_error(error)
        run.end((None, error))
    else:
        if only_there:
            key.count_refresh(True)


class _OldValue:
    """A value past its lifetime that answers in the place of a failed body."""

    def __init__(self, key: CallKey, value: Any) -> None:
        self._key = key
        self._value = (value,)

    def answer(self) -> Any:
        found = self._key.find(False) or self._value
        return found[0]


async def miss(cached: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """Answer a call that found no entry when it was made."""
    key = CallKey.of(cached, args, kwargs)
    if key is None:
        return await cached.__wrapped__(*args, **kwargs)
    host = _host()
    if host is None:
        # A loop of no kind we know: the answer is stored, and each caller runs the body.
        key.begin(True)
        value = await cached._body(*args, **kwargs)
        return key.keep(value, False).answer()
    while True:
        found = key.find(True)
        if found is not None:
            return found[0]
        new = _Run(cached._runs, key)
        # One step, so that of several threads one leads.
        run = cached._runs.setdefault(key, new)
        if run is new:
            return await host.lead(run, cached, (args, kwargs))
        if not run.is_joinable():
            discard_run(cached._runs, key, run)
            continue
        edges = run.node.wait_edges()
        if edges is None:
            # The run waits for this very code.
            return await cached.__wrapped__(*args, **kwargs)
        try:
            is_ended = await host.wait(run, cached._flight_wait_s)
        finally:
            del edges
        if not is_ended:
            return await cached.__wrapped__(*args, **kwargs)
        if run.ending is not None:
            if run.ending[1] is not None:
                raise _values.error_for_caller(run.ending[1])
            return run.answer()


class _Asyncio:
    """asyncio, and loops that stand in for its own, as uvloop does."""

    @staticmethod
    async def lead(run: _Run, cached: Any, call: tuple[Any, Any]) -> Any:
        import asyncio

        loop = asyncio.get_running_loop()
        _start(loop, run, cached, call, False)
        edges = run.node.wait_edges()
        try:
            await _Asyncio.wait(run, float("inf"))
        finally:
            del edges
        if run.ending is None:
            # The body itself was cancelled, from inside.
            raise asyncio.CancelledError
        return run.answer()

    @staticmethod
    async def wait(run: _Run, limit_s: float) -> bool:
        """Wait for the end of the run; False when it takes too long."""
        import asyncio

        loop = asyncio.get_running_loop()
        waiter: asyncio.Future[None] = loop.create_future()
        number = run.add(_waker(loop, waiter))
        if number is None:
            return True
        end = loop.time() + limit_s
        try:
            while not waiter.done():
                left = end - loop.time()
                if left <= 0:
                    return False
                if not run.is_alive():
                    run.end(None)
                    return True
                await asyncio.wait((waiter,), timeout=min(left, _SLICE_S))
            return True
        except asyncio.CancelledError:
            run.remove(number)
            if not run.wakers and not run.is_over and run.stop is not None:
                run.stop()
            raise
        finally:
            run.remove(number)


def _waker(loop: asyncio.AbstractEventLoop, waiter: asyncio.Future[None]) -> Callable[[], None]:
    def set_result() -> None:
        if not waiter.done():
            waiter.set_result(None)

    def wake() -> None:
        try:
            loop.call_soon_threadsafe(set_result)
        except RuntimeError:
            # That loop is closed, and no call waits in it any more.
            pass

    return wake


def _start(
    loop: asyncio.AbstractEventLoop, run: _Run, cached: Any, call: tuple[Any, Any], only_there: bool
) -> asyncio.Task[None]:
    context = contextvars.copy_context()
    context.run(run.node.enter)

    async def body() -> None:
        try:
            await _body(run, cached, call, only_there)
        finally:
            run.end(None)

    task = loop.create_task(body(), context=context)
    run.is_alive = lambda: not loop.is_closed()

    def cancel_if_alone() -> None:
        if not run.wakers and not run.is_over:
            discard_run(run.runs, run.key, run)
            task.cancel()

    def stop() -> None:
        try:
            loop.call_soon_threadsafe(cancel_if_alone)
        except RuntimeError:
            pass

    run.stop = None if only_there else stop
    return task


class _Trio:
    """Trio, where no task may outlive its caller."""

    @staticmethod
    async def lead(run: _Run, cached: Any, call: tuple[Any, Any]) -> Any:
        run.is_alive = _trio_is_alive()
        # The body runs in the caller's own context, which owns the run only so long.
        before = _OWNERSHIP.get(None)
        run.node.enter()
        try:
            await _body(run, cached, call, False)
        finally:
            _OWNERSHIP.set(before)
            run.end(None)
        if run.ending is None:
            raise RuntimeError("the run ended without an answer")
        return run.answer()

    @staticmethod
    async def wait(run: _Run, limit_s: float) -> bool:
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
            while not event.is_set():
                left = end - trio.current_time()
                if left <= 0:
                    return False
                if not run.is_alive():
                    run.end(None)
                    return True
                with trio.move_on_after(min(left, _SLICE_S)):
                    await event.wait()
            return True
        finally:
            run.remove(number)
            if not run.wakers and not run.is_over and run.stop is not None:
                run.stop()


def _trio_is_alive() -> Callable[[], bool]:
    trio = sys.modules["trio"]
    token = trio.lowlevel.current_trio_token()
    running = weakref.ref(token)

    def is_alive() -> bool:
        held = running()
        if held is None:
            return False
        try:
            held.run_sync_soon(lambda: None)
        except trio.RunFinishedError:
            return False
        return True

    return is_alive


def _host() -> type[_Asyncio] | type[_Trio] | None:
    """What runs the code of this thread."""
    trio = sys.modules.get("trio")
    if trio is not None:
        try:
            trio.lowlevel.current_task()
            return _Trio
        except RuntimeError:
            pass
    loops = sys.modules.get("asyncio")
    try:
        if loops is not None and loops.get_running_loop():
            return _Asyncio
    except RuntimeError:
        pass
    return None


async def pause(seconds: float) -> bool:
    """Let others run for that long; False if the kind of loop is unknown."""
    host = _host()
    if host is _Trio:
        await sys.modules["trio"].sleep(seconds)
    elif host is _Asyncio:
        import asyncio

        await asyncio.sleep(seconds)
    return host is not None


def start_apart(coroutine: Coroutine[Any, Any, None]) -> bool:
    """Run it in a task that no call waits for; False if the kind of loop is unknown."""
    host = _host()
    if host is _Trio:
        sys.modules["trio"].lowlevel.spawn_system_task(lambda: coroutine)
    elif host is _Asyncio:
        import asyncio

        task = asyncio.get_running_loop().create_task(coroutine)
        _tasks.add(task)
        task.add_done_callback(_tasks.discard)
    return host is not None


def refresh_in_loop(
    loop: asyncio.AbstractEventLoop, cached: Any, key: CallKey, args: Any, kwargs: Any
) -> None:
    """Begin a refresh in a task of this loop, unless a run of the same call is under way."""
    run = _Run(cached._runs, key)
    if cached._runs.setdefault(key, run) is not run:
        return
    task = _start(loop, run, cached, (args, kwargs), True)
    _tasks.add(task)
    cached._refreshing.add(run)

    def forget(_: object) -> None:
        _tasks.discard(task)
        cached._refreshing.discard(run)

    task.add_done_callback(forget)


def refresh_elsewhere(cached: Any, key: CallKey, args: Any, kwargs: Any) -> None:
    """As `refresh_in_loop`, under Trio; under any other kind of loop nothing is refreshed."""
    if _host() is not _Trio:
        return
    run = _Run(cached._runs, key)
    if cached._runs.setdefault(key, run) is not run:
        return
    run.is_alive = _trio_is_alive()

    async def refresh() -> None:
        run.node.enter()
        cached._refreshing.add(run)
        try:
            await _body(run, cached, (args, kwargs), True)
        finally:
            cached._refreshing.discard(run)
            run.end(None)

    sys.modules["trio"].lowlevel.spawn_system_task(refresh)


async def refreshed(cached: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """Run the body now and keep what it gives."""
    key = CallKey.of(cached, args, kwargs)
    if key is None:
        return await cached.__wrapped__(*args, **kwargs)
    key.begin(False)
    _tiers.forced.set(cached._backed is not None)
    try:
        value = await cached._body(*args, **kwargs)
    except BaseException:
        key.count_refresh(False)
        raise
    key.count_refresh(True)
    return key.keep(value, False).answer()
