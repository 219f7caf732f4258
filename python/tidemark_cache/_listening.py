"""Notices of what other processes have invalidated, so that memory forgets it at once.

A thread for each Redis server and cache file receives them. They are bytes that are not to be
trusted: all they can do is to make memory forget. One that is lost leaves an answer in memory for
its 3 seconds: Redis numbers them, and memory keeps for longer what no missing number may mean.
"""

import atexit
import os
import threading
import time
from typing import Protocol

from tidemark_cache import _native, _tiers

#: Seconds until a connection that has ended is made again, at first and at most.
_PAUSE_S = (0.1, 3.0)
#: So long the interpreter's end waits for all threads together.
_EXIT_WAIT_S = 1.0
_SENDER_BYTES = 16
_NAME_BYTES = 32
#: Names in one notice, and in one of a file, whose notices are short.
_NAMES_MAX = 64
_NAMES_IN_FILE_MAX = 2

#: What a notice is about: functions and namespaces, tags, or one call, as its function and its key.
FUNCTIONS, TAGS, CALL = b"f", b"t", b"c"

#: Seconds after which memory is tidied and counts are written. A listener is called more often:
#: some times a second without a notice, and for each notice.
_TICK_S = 1.0


class Listener(Protocol):
    """What is called on the thread that listens."""

    def on_invalidation(
        self, backend: _tiers.NotingBackend, kind: bytes, names: list[bytes]
    ) -> None:
        """Another process has invalidated these."""

    def on_gap(self, backend: _tiers.NotingBackend) -> None:
        """Notices may have been missed: a connection has ended, or a number is missing."""

    def on_tick(self, backend: _tiers.NotingBackend) -> None:
        """About a second has passed, or the thread ends."""


class Listeners:
    """The threads of this process."""

    def __init__(self) -> None:
        self.sender = os.urandom(_SENDER_BYTES)
        self.threads: dict[_tiers.NotingBackend, threading.Thread] = {}
        # The thread that holds it may come again, by what an object runs at its end.
        self.lock = threading.RLock()
        self.is_over = threading.Event()

    def start(self, backend: _tiers.NotingBackend, listener: Listener) -> None:
        """Have a thread listen to what is announced, if this process has none for this tier."""
        with self.lock:
            if backend in self.threads or self.is_over.is_set():
                return
            thread = threading.Thread(
                target=self._run,
                args=(backend, listener),
                name="tidemark-cache-listener",
                daemon=True,
            )
            self.threads[backend] = thread
        try:
            thread.start()
        except RuntimeError:
            # No new thread, as at the interpreter's end.
            pass

    def _run(self, backend: _tiers.NotingBackend, listener: Listener) -> None:
        server = _tiers.noting_tier_of(backend)
        pause_s = _PAUSE_S[0]
        beginnings = 0
        ticked_s = time.monotonic()

        def take(notice: bytes | None) -> bool:
            nonlocal pause_s, beginnings, ticked_s
            if self.is_over.is_set():
                return False
            if notice is None:
                pause_s = _PAUSE_S[0]
                beginnings += 1
                if beginnings > 1:
                    listener.on_gap(backend)
            elif (found := opened(notice, self.sender)) is not None:
                listener.on_invalidation(backend, *found)
            now_s = time.monotonic()
            if now_s - ticked_s >= _TICK_S:
                ticked_s = now_s
                listener.on_tick(backend)
            return True

        while not self.is_over.is_set():
            server.listen(take)
            listener.on_tick(backend)
            self.is_over.wait(pause_s)
            pause_s = min(pause_s * 2, _PAUSE_S[1])

    def stop(self) -> None:
        self.is_over.set()
        for thread in list(self.threads.values()):
            if thread.is_alive():
                thread.join(_EXIT_WAIT_S / max(1, len(self.threads)))


def opened(notice: bytes, own: bytes) -> tuple[bytes, list[bytes]] | None:
    """What another process has announced; None if it was this one, or these are other bytes."""
    kind, sender, names = notice[:1], notice[1 : 1 + _SENDER_BYTES], notice[1 + _SENDER_BYTES :]
    count, rest = divmod(len(names), _NAME_BYTES)
    if sender == own or rest or not 1 <= count <= _NAMES_MAX:
        return None
    if kind not in (FUNCTIONS, TAGS, CALL) or (kind == CALL and count != 2):
        return None
    return kind, names_in(names)


def names_in(names: bytes) -> list[bytes]:
    """Those that stand one after another in these bytes."""
    starts = range(0, len(names), _NAME_BYTES)
    return [names[start : start + _NAME_BYTES] for start in starts]


#: Another one in the child of a fork.
listeners = Listeners()


def head_of(kind: bytes) -> bytes:
    """What begins a notice of this process."""
    return kind + listeners.sender


def announce(backend: _tiers.FileBackend, kind: bytes, names: bytes) -> None:
    """Pass it on to the other processes that listen now. One that fails costs their 3 seconds."""
    file = _tiers.file_of(backend)
    step = _NAMES_IN_FILE_MAX * _NAME_BYTES
    for begin in range(0, len(names), step):
        try:
            file.announce(head_of(kind) + names[begin : begin + step])
        except _native.TierFailure:
            return


def _stop() -> None:
    listeners.stop()


def _new_process() -> None:
    global listeners
    # The threads of the parent are not this process's, and its notices are another's.
    listeners = Listeners()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_new_process)
try:
    # Before threads are joined and destroyed; `atexit` comes later.
    threading._register_atexit(_stop)  # type: ignore[attr-defined]
except (AttributeError, RuntimeError):
    atexit.register(_stop)
