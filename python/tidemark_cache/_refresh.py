"""Bodies that run again before, or shortly after, the lifetime of their entry is over.

Sync functions are refreshed on a few Python threads, async ones in a task of the caller's loop.
The threads end a moment after their work does, and at the latest with the interpreter: what a
refresh brings after that is dropped.
"""

from __future__ import annotations

import atexit
import contextvars
import copy
import os
import queue
import sys
import threading
import time

from tidemark_cache import _async
from tidemark_cache._native import CallKey

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine
    from typing import Any

#: Refreshes at once, in the process and of one function.
_REFRESHES_MAX = 32
#: A thread without work ends after this time.
_IDLE_S = 5.0
#: So long the interpreter's end waits for refreshes in progress, all together.
_EXIT_WAIT_S = 1.0

#: Arguments of these types are copied for the refresh, since the caller may change them meanwhile.
_CHANGEABLE = (list, dict, set, bytearray, tuple)


class _Pool:
    """Threads that are begun when there is work and end when there is none."""

    def __init__(self) -> None:
        # The thread that holds it may come again: what an object runs at its end, or a handler of
        # a signal, can stand in the middle of anything, and call a function that is due.
        self.lock = threading.RLock()
        #: Whether the thread with the lock is changing what stands below.
        self.is_changing = False
        self.work: queue.SimpleQueue[Callable[[], None]] = queue.SimpleQueue()
        self.threads: set[threading.Thread] = set()
        self.is_over = False
        #: Refreshes waiting or under way, by function.
        self.pending: dict[int, int] = {}

    def submit(self, function: Any, work: Callable[[], object]) -> bool:
        """Whether there was room for it."""
        number = id(function)

        def counted() -> None:
            try:
                work()
            finally:
                with self.lock:
                    self.is_changing = True
                    self.pending[number] -= 1
                    if not self.pending[number]:
                        del self.pending[number]
                    self.is_changing = False

        with self.lock:
            if self.is_changing or self.is_over:
                return False
            self.is_changing = True
            try:
                return self._add(number, counted)
            finally:
                self.is_changing = False

    def _add(self, number: int, work: Callable[[], None]) -> bool:
        if self.pending.get(number, 0) >= _REFRESHES_MAX:
            return False
        self.pending[number] = self.pending.get(number, 0) + 1
        self.work.put(work)
        wanted = min(sum(self.pending.values()), _REFRESHES_MAX)
        if len(self.threads) < wanted:
            name = "tidemark-cache-refresh"
            thread = threading.Thread(target=self._run, name=name, daemon=True)
            self.threads.add(thread)
            try:
                thread.start()
            except RuntimeError:
                # No new thread, as at the interpreter's end. The work stays undone.
                self.threads.discard(thread)
        return True

    def _run(self) -> None:
        while True:
            try:
                work = self.work.get(timeout=_IDLE_S)
            except queue.Empty:
                work = None
            with self.lock:
                self.is_changing = True
                is_last = self.is_over or (work is None and self.work.empty())
                if is_last:
                    self.threads.discard(threading.current_thread())
                self.is_changing = False
            if is_last:
                return
            if work is not None:
                work()

    def stop(self) -> None:
        """Begin no further refresh, and give those under way a moment."""
        with self.lock:
            self.is_over = True
            threads = list(self.threads)
        for _ in threads:
            # Wakes those that wait for work.
            self.work.put(lambda: None)
        end = time.monotonic() + _EXIT_WAIT_S
        for thread in threads:
            thread.join(max(0.0, end - time.monotonic()))


_pool = _Pool()

#: Tasks of refreshes under way, by function.
_tasks: dict[int, int] = {}


def _new_pool() -> None:
    global _pool
    # The threads of the parent, and maybe its lock, are not this process's.
    _pool = _Pool()


def _stop() -> None:
    _pool.stop()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_new_pool)
try:
    # Before threads are joined and destroyed; `atexit` comes later.
    threading._register_atexit(_stop)  # type: ignore[attr-defined]
except (AttributeError, RuntimeError):
    atexit.register(_stop)


def submit(function: Any, work: Callable[[], object]) -> bool:
    """Have the work done on a thread of the pool; whether there was room for it."""
    return _pool.submit(function, work)


def _private(value: Any) -> Any:
    if type(value) not in _CHANGEABLE:
        return value
    try:
        return copy.deepcopy(value)
    except Exception:
        return value


def private(
    call: tuple[tuple[Any, ...], dict[str, Any]],
) -> tuple[tuple[Any, ...], dict[str, Any]]:
    """Arguments that the caller cannot change."""
    args, kwargs = call
    return (
        tuple(_private(value) for value in args),
        {name: _private(value) for name, value in kwargs.items()},
    )


def start(function: Any, make: Callable[[], Coroutine[Any, Any, None]]) -> None:
    """Run a coroutine in a task of this loop, if there is room for one more of the function."""
    number = id(function)
    if _tasks.get(number, 0) >= _REFRESHES_MAX:
        return

    def ended() -> None:
        _tasks[number] -= 1
        if not _tasks[number]:
            del _tasks[number]

    async def counted() -> None:
        try:
            await make()
        finally:
            ended()

    _tasks[number] = _tasks.get(number, 0) + 1
    coroutine = counted()
    if not _async.start_apart(coroutine):
        coroutine.close()
        ended()


def begin(cached: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
    """Have the entry of this call refreshed, if there is one and there is room for a refresh."""
    # Destructors call at the end of the interpreter, too, when names may be gone already.
    if _pool is None or _pool.is_over:
        return
    key = CallKey.of(cached, args, kwargs)
    if key is None or not key.start_refresh():
        return
    if cached._is_async:
        _in_task(cached, key)
        return
    own_args, own_kwargs = private((args, kwargs))
    context = contextvars.copy_context()

    def refresh() -> None:
        try:
            context.run(key.refresh, own_args, own_kwargs, True)
        except BaseException as error:
            # The old value goes on serving; no call waits for this one.
            import logging

            logging.getLogger("tidemark_cache").debug("refresh of %s failed: %r", cached, error)

    _pool.submit(cached, refresh)


def _in_task(cached: Any, key: CallKey) -> None:
    loops = sys.modules.get("asyncio")
    try:
        if loops is None:
            raise RuntimeError
        loop = loops.get_running_loop()
    except RuntimeError:
        _async.refresh_elsewhere(cached, key)
        return
    if len(cached._refreshing) < _REFRESHES_MAX:
        _async.refresh_in_loop(loop, cached, key)
