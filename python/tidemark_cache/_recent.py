"""Which calls memory may have answers of, by what stands for them in the tiers."""

import threading
import time

from tidemark_cache._native import CallKey

#: Calls remembered for each span of time.
_CALLS_MAX = 10_000


class RecentCalls:
    """The calls of one function: those under way, and those that ended within a span of time."""

    def __init__(self, span_s: float) -> None:
        self._span_s = span_s
        # The thread that holds it may come again: a call's arguments end with the call, and run
        # what they please. So none ends in the middle of a change here.
        self._lock = threading.RLock()
        self._running: dict[bytes, CallKey] = {}
        # Of this span and of the one before, so that no time is kept for each of them.
        self._ended: dict[bytes, CallKey] = {}
        self._ended_before: dict[bytes, CallKey] = {}
        self._begin_s = time.monotonic()
        #: Until then calls may be missing here.
        self._lost_until_s = 0.0

    def begin(self, digest: bytes, key: CallKey) -> None:
        """A call asks its tiers."""
        lost: dict[bytes, CallKey] = {}
        with self._lock:
            if len(self._running) >= _CALLS_MAX:
                self._lost_until_s = time.monotonic() + self._span_s
                lost, self._running = self._running, lost
            self._running[digest] = key

    def end(self, digest: bytes, key: CallKey) -> None:
        """Memory is about to have its answer, if it may have one."""
        now_s = time.monotonic()
        with self._lock:
            was_running = self._running.pop(digest, None)
            was_before = self._begin_span(now_s)
            if len(self._ended) >= _CALLS_MAX:
                self._lost_until_s = now_s + self._span_s
                lost, self._ended_before, self._ended = self._ended_before, self._ended, {}
            self._ended[digest] = key
        del was_running, was_before

    def prune(self) -> None:
        """Forgets what memory has no answers of any more, arguments included."""
        with self._lock:
            forgotten = self._begin_span(time.monotonic())
        del forgotten

    def _begin_span(self, now_s: float) -> dict[bytes, CallKey] | None:
        """What is forgotten by it. The caller lets go of it behind the lock."""
        if now_s - self._begin_s < self._span_s:
            return None
        self._begin_s = now_s
        forgotten, self._ended_before, self._ended = self._ended_before, self._ended, {}
        return forgotten

    def keys(self, digest: bytes) -> list[CallKey] | None:
        """The calls that this stands for; None if it is not known."""
        with self._lock:
            if time.monotonic() < self._lost_until_s:
                return None
            places = (self._running, self._ended, self._ended_before)
            return [place[digest] for place in places if digest in place]
