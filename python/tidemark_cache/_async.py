"""Misses of async functions: one run per key, in a task of its own, that many may await.

A run belongs to the loop it began in. The task runs in a copy of the first caller's context, and
only its value comes back: cancelling one caller cancels nobody else's call, and cancelling the
last one cancels the run.
"""

import asyncio
import contextvars
import os
from typing import Any

from tidemark_cache._native import CallKey, discard_run

#: How often a waiter looks whether the loop that runs the body is still open.
_SLICE_S = 0.5

#: The runs that the code of a context belongs to.
_owned: contextvars.ContextVar[tuple["_Run", ...]] = contextvars.ContextVar(
    "tidemark_cache_runs", default=()
)


class _Run:
    """One run of a body, and the futures of those who wait for it."""

    __slots__ = (
        "ending",
        "is_over",
        "key",
        "loop",
        "process",
        "runs",
        "task",
        "waiters",
        "waits_for",
    )

    def __init__(self, runs: dict[CallKey, "_Run"], key: CallKey) -> None:
        self.runs = runs
        self.key = key
        self.loop = asyncio.get_running_loop()
        # A child of a fork inherits the run and not the thread whose loop leads it.
        self.process = os.getpid()
        self.task: asyncio.Task[None] | None = None
        self.waiters: set[asyncio.Future[None]] = set()
        self.waits_for: list[_Run] = []
        self.is_over = False
        #: (value, None), (None, exception), or None when the run was given up.
        self.ending: tuple[Any, BaseException | None] | None = None

    def end(self, ending: tuple[Any, BaseException | None] | None) -> None:
        self.ending = ending
        self.is_over = True
        discard_run(self.runs, self.key, self)
        for waiter in tuple(self.waiters):
            try:
                waiter.get_loop().call_soon_threadsafe(_wake, waiter)
            except RuntimeError:
                # That loop is closed, and nobody waits in it any more.
                pass

    def is_joinable(self) -> bool:
        """Whether a call made now may have this run's answer."""
        if self.is_over or self.process != os.getpid() or self.loop.is_closed():
            return False
        return self.key.is_current()

    def leads_to(self, owned: tuple["_Run", ...]) -> bool:
        """Whether this run is one of ``owned``, or waits for one through others."""
        seen: list[_Run] = [self]
        for run in seen:
            if run in owned:
                return True
            seen.extend(next_run for next_run in run.waits_for if next_run not in seen)
        return False


def _wake(waiter: "asyncio.Future[None]") -> None:
    if not waiter.done():
        waiter.set_result(None)


async def _lead(run: _Run, cached: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
    try:
        run.key.begin()
        value = await cached.__wrapped__(*args, **kwargs)
        # Whoever invalidated took the run out of the table, and then its value is not stored.
        is_joinable = run.runs.get(run.key) is run
        run.end((run.key.keep(value, is_joinable), None))
    except Exception as error:
        run.end((None, error))
    finally:
        if not run.is_over:
            run.end(None)


async def _wait(run: _Run, limit_s: float) -> bool:
    """Wait for the end of the run; False when it takes too long or can never come."""
    loop = asyncio.get_running_loop()
    waiter: asyncio.Future[None] = loop.create_future()
    run.waiters.add(waiter)
    if run.is_over:
        _wake(waiter)
    end = loop.time() + limit_s
    try:
        while not waiter.done():
            left = end - loop.time()
            if left <= 0:
                return False
            if run.loop is not loop and run.loop.is_closed():
                run.end(None)
                return True
            await asyncio.wait((waiter,), timeout=min(left, _SLICE_S))
        return True
    finally:
        run.waiters.discard(waiter)


async def miss(cached: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """Answer a call that found no entry when it was made."""
    try:
        asyncio.get_running_loop()
    except RuntimeError:
        return await _unshared(cached, args, kwargs)
    key = CallKey.of(cached, args, kwargs)
    if key is None:
        return await cached.__wrapped__(*args, **kwargs)
    while True:
        found = key.find(True)
        if found is not None:
            return found[0]
        owned = _owned.get()
        runs: dict[CallKey, _Run] = cached._runs
        new = _Run(runs, key)
        # One step, so that of several threads one leads.
        run = runs.setdefault(key, new)
        is_leader = run is new
        if is_leader:
            context = contextvars.copy_context()
            context.run(_owned.set, (*(one for one in owned if not one.is_over), run))
            lead = _lead(run, cached, args, kwargs)
            run.task = run.loop.create_task(lead, context=context)
        elif not run.is_joinable():
            discard_run(runs, key, run)
            continue
        elif run.leads_to(owned):
            return await cached.__wrapped__(*args, **kwargs)
        is_ended = await _wait_as_owner(run, owned, None if is_leader else cached._flight_wait_s)
        if not is_ended:
            return await cached.__wrapped__(*args, **kwargs)
        if run.ending is not None:
            value, error = run.ending
            if error is not None:
                raise error
            return value.answer()
        if is_leader:
            # The body itself was cancelled, from inside.
            raise asyncio.CancelledError


async def _wait_as_owner(run: _Run, owned: tuple[_Run, ...], limit_s: float | None) -> bool:
    for one in owned:
        one.waits_for.append(run)
    try:
        return await _wait(run, float("inf") if limit_s is None else limit_s)
    except asyncio.CancelledError:
        if not run.waiters and not run.is_over and run.task is not None:
            # Nobody else waits. The loop's own thread must do it.
            try:
                run.loop.call_soon_threadsafe(_cancel_if_alone, run)
            except RuntimeError:
                pass
        raise
    finally:
        for one in owned:
            one.waits_for.remove(run)


def _cancel_if_alone(run: _Run) -> None:
    if not run.waiters and not run.is_over and run.task is not None:
        discard_run(run.runs, run.key, run)
        run.task.cancel()


async def _unshared(cached: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """Another kind of loop than asyncio's: stored, and run once for each caller."""
    key = CallKey.of(cached, args, kwargs)
    if key is None:
        return await cached.__wrapped__(*args, **kwargs)
    key.begin()
    before = cached._invalidations
    value = await cached.__wrapped__(*args, **kwargs)
    key.keep(value, cached._invalidations == before)
    return value
