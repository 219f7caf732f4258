"""Which calls memory may have answers of, by what stands for them in the tiers."""

import threading
import time

from tidemark_cache._native import CallKey

#: Calls remembered for each span of time.
_CALLS_MAX = 10_000

_Calls = dict[bytes, CallKey]


class RecentCalls:
    """The calls of one function: those under way, those that ended within a span of time, which is
    how long an answer may take into memory, and those whose answers memory holds."""

    def __init__(self, span_s: float) -> None:
        self._span_s = span_s
        # The thread that holds it may come again: a call's arguments end with the call, and run
        # what they please. So none ends in the middle of a change here.
        self._lock = threading.RLock()
        self._running: _Calls = {}
        # Of this span and of the one before, so that no time is kept for each of them.
        self._ended: _Calls = {}
        self._ended_before: _Calls = {}
        #: Of which it is looked up whether memory holds them.
        self._leaving: _Calls = {}
        self._begin_s = time.monotonic()
        #: How often calls were lost here, and how many times of that memory has forgotten since.
        self.losses = self.forgotten_losses = 0

    def begin(self, digest: bytes, key: CallKey) -> None:
        """A call asks its tiers."""
        lost: _Calls = {}
        with self._lock:
            if len(self._running) >= _CALLS_MAX:
                self.losses += 1
                lost, self._running = self._running, lost
            self._running[digest] = key
        del lost

    def end(self, digest: bytes, key: CallKey) -> None:
        """Memory is about to have its answer, if it may have one."""
        lost: _Calls = {}
        with self._lock:
            was_running = self._running.pop(digest, None)
            if len(self._ended) >= _CALLS_MAX:
                self.losses += 1
                lost, self._ended = self._ended, lost
            self._ended[digest] = key
        del was_running, lost

    def prune(self) -> None:
        """Forgets what memory has no answers of any more, arguments included."""
        with self._lock:
            now_s = time.monotonic()
            if now_s - self._begin_s < self._span_s:
                return
            self._begin_s = now_s
            leaving = self._leaving = self._ended_before
            self._ended_before, self._ended = self._ended, {}
        # A look compares arguments, which may run what they please.
        held = {digest: key for digest, key in leaving.items() if key.is_held()}
        with self._lock:
            self._ended = held | self._ended
            self._leaving = {}
        # What it lets go of ends here, behind the lock.
        del leaving, held

    def keys(self, digest: bytes) -> list[CallKey] | None:
        """The calls that this stands for; None if it is not known, and all of the function is to
        be forgotten."""
        with self._lock:
            if self.losses != self.forgotten_losses:
                return None
            places = (self._running, self._ended, self._ended_before, self._leaving)
            return [place[digest] for place in places if digest in place]
