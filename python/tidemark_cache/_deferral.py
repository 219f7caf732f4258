"""Invalidations that wait for the end of a transaction."""

import contextvars
import threading
from collections.abc import Callable, Hashable
from typing import Any

from tidemark_cache import _async

#: A transaction that has more of them invalidates a function or a tag instead.
_DEFERRED_MAX = 100_000

current: "contextvars.ContextVar[Deferral | None]" = contextvars.ContextVar(
    "tidemark_cache_deferral", default=None
)


class Deferral:
    """A block whose invalidations are carried out at its end, and dropped if it raises.

    Those of tasks and of threads that run in a copy of its context belong to it as well. A block
    inside another one hands its own to that one.
    """

    def __init__(self) -> None:
        #: Whether every tier has done so, once it is over; None if it raised or stands in another.
        self.is_whole: bool | None = None
        # The thread that holds it may come again, by what an object runs at its end.
        self._lock = threading.RLock()
        self._work: dict[Hashable, Callable[[], bool]] = {}
        self._is_begun = self._is_over = False
        self._outer: Deferral | None = None

    def __enter__(self) -> "Deferral":
        if self._is_begun:
            raise RuntimeError("a block of deferred invalidations can be entered once")
        self._is_begun = True
        self._outer = current.get()
        current.set(self)
        return self

    def __exit__(self, kind: object, *_: object) -> None:
        self._carry_out(self._end(kind is not None))

    async def __aenter__(self) -> "Deferral":
        return self.__enter__()

    async def __aexit__(self, kind: object, *_: object) -> None:
        work = self._end(kind is not None)
        if work:
            # A tier may be slow.
            await _async.in_thread(self._carry_out, work)
        else:
            self._carry_out(work)

    def add(self, key: Hashable, work: Callable[[], bool]) -> bool:
        """Has the work done at the end, once for each key; at once if that has come."""
        with self._lock:
            if not self._is_over:
                if len(self._work) >= _DEFERRED_MAX and key not in self._work:
                    raise RuntimeError(
                        f"more than {_DEFERRED_MAX} invalidations are deferred; invalidate a "
                        "function, a namespace or a tag"
                    )
                self._work[key] = work
                return True
        return work() if self._outer is None else self._outer.add(key, work)

    def _end(self, is_failed: bool) -> list[Callable[[], bool]] | None:
        """What is to be done now; None if nothing is, or the outer block does it."""
        current.set(self._outer)
        with self._lock:
            self._is_over = True
            work, self._work = self._work, {}
        if is_failed:
            return None
        if self._outer is None:
            return list(work.values())
        for key, one in work.items():
            self._outer.add(key, one)
        return None

    def _carry_out(self, work: list[Callable[[], bool]] | None) -> None:
        if work is None:
            return
        is_whole, raised = True, None
        for one in work:
            try:
                is_whole &= one()
            except BaseException as error:
                # The others still have to be done.
                raised = raised or error
        self.is_whole = is_whole and raised is None
        if raised is not None:
            raise raised


def defer_invalidations() -> Any:
    """A block (``with`` or ``async with``) whose invalidations are carried out at its end.

    Write to the source of the answers inside of it, so that they are forgotten after the
    transaction has been committed: a call that runs before would store the old value again. If
    the block raises, as one that rolls back does, nothing is forgotten. Until the end calls are
    answered as before; what an invalidation returns inside is ``True`` and says nothing.
    """
    return Deferral()
