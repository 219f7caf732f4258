"""Hits of Redis that an event loop of asyncio reads itself, without a thread in between.

Each loop has one connection to each server, for all its calls. It answers what needs one round
trip; any other call asks as before, on a thread of the loop's pool. So does every call until there
is a connection, and under Trio.
"""

from __future__ import annotations

import contextlib
import os
import time

from tidemark_cache import _async, _native, _tiers

TYPE_CHECKING = False
if TYPE_CHECKING:
    import asyncio
    from typing import Any

#: Seconds until a connection that could not be made, or has ended, is made again.
_AGAIN_S = 1.0


class LoopReads:
    """The connection of one loop to one server."""

    __slots__ = ("_again_s", "_connection", "_is_opening", "_is_timed", "_loop", "backend")

    def __init__(self, loop: asyncio.AbstractEventLoop, backend: _tiers.RedisBackend) -> None:
        self.backend = backend
        self._loop = loop
        self._connection: _native.LoopConnection | None = None
        self._is_opening = False
        self._is_timed = False
        self._again_s = 0.0

    @property
    def loop(self) -> asyncio.AbstractEventLoop:
        """Whose it is."""
        return self._loop

    @property
    def is_open(self) -> bool:
        """Whether there is a connection."""
        return self._connection is not None

    def ask(
        self, reader: _native.TierReader, key: bytes, names: bytes
    ) -> asyncio.Future[Any] | None:
        """A future with what comes of it; None if the call has to ask by itself."""
        connection = self._connection
        if connection is None:
            return None
        future = self._loop.create_future()
        is_sent = connection.ask(future, reader, key, names)
        if is_sent is None:
            return None
        if not is_sent:
            self._loop.add_writer(connection.fileno(), self._send)
        if not self._is_timed:
            self._look()
        return future

    def open(self) -> None:
        """Have a thread make the connection, unless there is one or one is being made."""
        if self._connection is not None or self._is_opening or time.monotonic() < self._again_s:
            return
        server = _tiers.noting_tier_of(self.backend)
        assert isinstance(server, _native.SharedRedis)
        self._is_opening = True
        try:
            opening = self._loop.run_in_executor(None, _opened, server)
        except RuntimeError:
            # The loop is about to end.
            return
        opening.add_done_callback(self._keep)

    def end(self) -> None:
        """The loop is closed, or the connection is not to be used any more."""
        connection, self._connection = self._connection, None
        self._again_s = time.monotonic() + _AGAIN_S
        if connection is None:
            return
        if not self._loop.is_closed():
            self._loop.remove_reader(connection.fileno())
            self._loop.remove_writer(connection.fileno())
        # What waits in a closed loop cannot be resolved, and nothing there runs any more.
        with contextlib.suppress(RuntimeError):
            connection.end()

    def _keep(self, opening: asyncio.Future[_native.LoopConnection | None]) -> None:
        self._is_opening = False
        self._again_s = time.monotonic() + _AGAIN_S
        connection = None if opening.cancelled() else opening.result()
        if connection is None:
            return
        try:
            self._loop.add_reader(connection.fileno(), self._read)
        except (NotImplementedError, RuntimeError):
            # A loop that watches no files, or is about to end.
            self._again_s = float("inf")
            return
        self._connection = connection

    def _read(self) -> None:
        connection = self._connection
        if connection is None:
            return
        try:
            connection.read()
        finally:
            self._look_after(connection)

    def _send(self) -> None:
        connection = self._connection
        if connection is None:
            return
        if connection.send():
            self._loop.remove_writer(connection.fileno())
        self._look_after(connection)

    def _look(self) -> None:
        """Ends what has waited too long. Comes again for as long as something waits."""
        self._is_timed = False
        connection = self._connection
        if connection is None:
            return
        # Where the loop was held up, answers may have come that were not taken yet.
        self._read()
        left_s = connection.left_s()
        if left_s is not None:
            self._is_timed = True
            self._loop.call_later(left_s, self._look)
        self._look_after(connection)

    def _look_after(self, connection: _native.LoopConnection) -> None:
        if not connection.is_open:
            self.end()


def _opened(server: _native.SharedRedis) -> _native.LoopConnection | None:
    try:
        return _native.LoopConnection.open(server)
    except _native.TierFailure:
        # Calls find out by themselves, and count it.
        return None


def suited(backend: _tiers.Backend) -> _tiers.RedisBackend | None:
    """The tier, if it can be read so: Redis, not by TLS, nor by Sentinels or a Cluster."""
    if not isinstance(backend, _tiers.RedisBackend) or backend.is_discovered:
        return None
    return None if backend.url.startswith("rediss://") else backend


#: Of this process.
_all: dict[tuple[asyncio.AbstractEventLoop, _tiers.RedisBackend], LoopReads] = {}


def of(backend: _tiers.RedisBackend, last: LoopReads | None) -> LoopReads | None:
    """The one of the loop that runs now, which may be the one of the last call; None under other
    kinds of loops."""
    loop = _async.asyncio_loop()
    if loop is None:
        return None
    if last is not None and last.loop is loop:
        return last
    reads = _all.get((loop, backend))
    if reads is None:
        for key in list(_all):
            # Another thread may do the same.
            gone = _all.pop(key, None) if key[0].is_closed() else None
            if gone is not None:
                gone.end()
        reads = _all.setdefault((loop, backend), LoopReads(loop, backend))
    return reads


if hasattr(os, "register_at_fork"):
    # The loops of the parent do not run here, and their connections are its own.
    os.register_at_fork(after_in_child=lambda: _all.clear())
