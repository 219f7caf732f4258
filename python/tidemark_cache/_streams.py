"""Answers that stay in memory for as long as the stream of their tier goes on.

A Redis server numbers what is invalidated, and the thread that listens asks it each second how far
it is. An answer whose time in memory is over is kept from that moment on, if no number was missing
since before it was read. The native side does this; here is which functions it is for.
"""

from typing import Any

from tidemark_cache import _native, _tiers

#: An answer that no call asks for leaves memory after this time, in microseconds.
HELD_US = 60_000_000


def suited(backends: tuple[_tiers.Backend, ...]) -> _tiers.RedisBackend | None:
    """The tier, if it is the only one: the stream says nothing of a file that has old entries."""
    first, *others = backends
    if others or not isinstance(first, _tiers.RedisBackend):
        return None
    return first if first.listen else None


def _server(backend: _tiers.RedisBackend) -> _native.SharedRedis:
    server = _tiers.noting_tier_of(backend)
    assert isinstance(server, _native.SharedRedis)
    return server


def renew(cached: Any, backend: _tiers.RedisBackend, span_s: float) -> None:
    """Have the memory of a function keep its answers, for this time after they were known to be
    right."""
    _native.renew_by(cached, _server(backend), round(span_s * 1_000))


def state(backend: _tiers.RedisBackend, span_s: float) -> str:
    """Whether memory keeps answers now."""
    age_ms = _server(backend).stream_age_ms()
    return "live" if age_ms is not None and age_ms < span_s * 1_000 else "not followed"
