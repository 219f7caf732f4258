"""How an async call waits for the process that computes its value."""

from __future__ import annotations

import sys

from tidemark_cache import _async, _native

TYPE_CHECKING = False
if TYPE_CHECKING:
    import asyncio
    from typing import Any


async def pause(call: _native.StackedCall | None, seconds: float) -> bool:
    """Let others run until the other process is ready, as far as this one is notified, and for so
    long at most; False if the kind of loop is unknown."""
    assert call is not None
    loop = _async._loop()
    if loop is None:
        return False
    if isinstance(loop, _async._TrioLoop):
        await _pause_in_trio(call, seconds)
    else:
        await _pause_in_asyncio(loop, call, seconds)
    return True


async def _pause_in_asyncio(
    loop: asyncio.AbstractEventLoop, call: _native.StackedCall, seconds: float
) -> None:
    future: asyncio.Future[None] = loop.create_future()

    def resolve() -> None:
        if not future.done():
            future.set_result(None)

    def wake() -> None:
        try:
            loop.call_soon_threadsafe(resolve)
        except RuntimeError:
            # The loop is closed: nothing waits there any more.
            pass

    if call.wake_by(wake):
        await sys.modules["asyncio"].wait((future,), timeout=seconds)


async def _pause_in_trio(call: _native.StackedCall, seconds: float) -> None:
    trio: Any = sys.modules["trio"]
    token = trio.lowlevel.current_trio_token()
    event = trio.Event()

    def wake() -> None:
        try:
            token.run_sync_soon(event.set)
        except trio.RunFinishedError:
            pass

    if call.wake_by(wake):
        with trio.move_on_after(seconds):
            await event.wait()
