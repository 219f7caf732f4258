"""The tier below memory of one function: a file that all processes of a host share.

The native side runs the body once for each miss in memory. What it runs here looks into the file
first, and writes what the body gives. A failing tier never reaches the caller.
"""

import contextvars
import dataclasses
import functools
import os
import pathlib
import threading
import time
from collections.abc import Callable
from typing import Any, NamedTuple

from tidemark_cache import _native
from tidemark_cache._codec import Codec

#: An invalidation by one process counts for all others after this time at the latest: so long an
#: answer of the file, or one that no file has, is handed out from memory.
STALE_S = 3.0

_STRIPES = 16
_MEGABYTES_MAX = 1 << 20
_FILE = "python-1.tier"
_TOKEN_BYTES = 16
#: A token is written again after this time, since the ring overwrites what was written first.
_TOKEN_AGAIN_S = 10.0
#: Failures of one kind are logged this often.
_LOG_S = 60.0

#: Set for one call: run the body whatever the file holds.
forced = contextvars.ContextVar("tidemark_cache_forced", default=False)

#: The lifetime in memory of the value that a body has given, until the native side asks for it.
_decided = threading.local()

_open: dict[tuple[str, int], _native.SharedFile] = {}
_open_lock = threading.Lock()


@dataclasses.dataclass(frozen=True, kw_only=True)
class FileBackend:
    """A cache file shared by the processes of this host and this user.

    Args:
        folder: Where it is, on a local file system. Default: ``tidemark-cache`` in the user's
            cache folder. It must belong to this user, and no other may write to it.
        megabytes: Size of the whole file, taken when it is made. One that is there keeps its
            size. An entry may take a 64th of it.
    """

    folder: str | os.PathLike[str] | None = None
    megabytes: int = 256

    def __post_init__(self) -> None:
        if self.folder is not None and not isinstance(self.folder, (str, os.PathLike)):
            raise TypeError(f"folder must be a path, not {type(self.folder).__name__}")
        if isinstance(self.megabytes, bool) or not isinstance(self.megabytes, int):
            raise TypeError(f"megabytes must be an int, not {type(self.megabytes).__name__}")
        if not 1 <= self.megabytes <= _MEGABYTES_MAX:
            raise ValueError(f"megabytes must be from 1 to {_MEGABYTES_MAX}, not {self.megabytes}")


def path_of(backend: FileBackend) -> str:
    if backend.folder is not None:
        return os.path.join(os.path.abspath(os.fspath(backend.folder)), _FILE)
    base = os.environ.get("XDG_CACHE_HOME")
    folder = pathlib.Path(base) if base else pathlib.Path.home() / ".cache"
    return str(folder / "tidemark-cache" / _FILE)


def tier_of(backend: FileBackend) -> _native.SharedFile:
    """One object for each file, so that a process opens it once."""
    place = (path_of(backend), backend.megabytes)
    with _open_lock:
        tier = _open.get(place)
        if tier is None:
            tier = _open[place] = _native.SharedFile(place[0], place[1] << 20, _STRIPES)
        return tier


def _new_lock() -> None:
    global _open_lock
    _open_lock = threading.Lock()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_new_lock)


def refuse_ambiguous(function: Any, config: Any) -> None:
    """Two functions of one name must not read each other's entries, in this process or another."""
    name = getattr(function, "__qualname__", None)
    module = getattr(function, "__module__", None)
    is_named = config.key is not None or (
        config.namespace is not None and config.version is not None
    )
    if name is None or module is None:
        raise TypeError("a backend needs a function with a module and a qualified name")
    is_ambiguous = "<locals>" in name or "<lambda>" in name or module == "__main__"
    if is_ambiguous and not is_named:
        raise TypeError(
            f"{module}.{name} may be the name of another function as well, so it cannot share "
            "entries with other processes; give namespace and version, or key"
        )


class _Reading(NamedTuple):
    """What the file said before the body runs."""

    #: The value in a tuple, or None.
    found: tuple[Any] | None
    #: The key of the entry; None if the file cannot be used for this call.
    key: bytes | None
    ticket: tuple[int, int] | None
    begin_s: float


class BackedFunction:
    """The entries of one function in its file."""

    def __init__(self, function: Any, config: Any, policy: Callable[[Any], Any] | None) -> None:
        self.function = function
        self.cached: Any = None
        self.hits = 0
        self.failures = 0
        self._backend: FileBackend = config.backend
        self._opened: _native.SharedFile | None = None
        self._codec = Codec(function)
        self._policy = policy
        self._ttl_s: float | None = config.ttl_s
        self._jitter: float = config.jitter
        # Modules that only a tier needs are imported where it is used.
        from hashlib import blake2b

        self._blake2b = blake2b
        parts = [config.namespace, function.__module__, function.__qualname__, config.version]
        identity = repr(parts).encode()
        self._identity = blake2b(identity, digest_size=32).digest()
        self._token_key = b"token" + self._identity
        self._token_written_s = -_TOKEN_AGAIN_S
        self._logged: dict[str, float] = {}

    def body(self, is_async: bool) -> Any:
        """What the native side runs in the place of the function."""
        function = self.function
        if is_async:

            async def ask_async(*args: Any, **kwargs: Any) -> Any:
                reading = self._read(args, kwargs)
                if reading.found is not None:
                    return reading.found[0]
                value = await function(*args, **kwargs)
                self._write(reading, value)
                return value

            return functools.wraps(function)(ask_async)

        def ask(*args: Any, **kwargs: Any) -> Any:
            reading = self._read(args, kwargs)
            if reading.found is not None:
                return reading.found[0]
            value = function(*args, **kwargs)
            self._write(reading, value)
            return value

        return functools.wraps(function)(ask)

    def _tier(self) -> _native.SharedFile:
        # Found once: what the path means depends on the environment and the working folder.
        tier = self._opened
        if tier is None:
            tier = self._opened = tier_of(self._backend)
        return tier

    def _key(self, tier: _native.SharedFile, content: bytes) -> bytes:
        digest = self._blake2b(content, digest_size=32, key=self._identity)
        return digest.digest() + self._token(tier)

    def _token(self, tier: _native.SharedFile) -> bytes:
        """Part of each key of this function. To delete it is to forget them all."""
        found, ticket = tier.load(self._token_key, self._codec)
        now_s = time.monotonic()
        if found is not None:
            token: bytes = found[0]
            if now_s - self._token_written_s >= _TOKEN_AGAIN_S:
                self._token_written_s = now_s
                again = tier.ticket(self._token_key)
                # Between the two reads it may have been deleted; then this is not the token.
                if tier.load(self._token_key, self._codec)[0] == found:
                    tier.store(self._token_key, token, self._codec, None, again)
            return token
        tier.store(self._token_key, os.urandom(_TOKEN_BYTES), self._codec, None, ticket)
        # Another process may have written its own meanwhile.
        found, _ = tier.load(self._token_key, self._codec)
        if found is None:
            raise _native.TierFailure("busy", "the entries of this function are being forgotten")
        written: bytes = found[0]
        return written

    def _has_token(self, key: bytes) -> bool:
        """Whether the function's entries have not been forgotten since the key was made."""
        try:
            found, _ = self._tier().load(self._token_key, self._codec)
        except Exception as error:
            self._failed(error)
            return False
        return found is not None and key.endswith(found[0])

    def _content(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> bytes | None:
        key = _native.CallKey.of(self.cached, args, kwargs)
        return None if key is None else key.canonical()

    def _read(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> _Reading:
        is_forced = forced.get()
        if is_forced:
            # For this call, and not for those that its body makes.
            forced.set(False)
        begin_s = time.monotonic()
        # An argument without canonical bytes is the caller's error, and raised.
        content = self._content(args, kwargs)
        if content is None:
            return _Reading(None, None, None, begin_s)
        key = None
        try:
            tier = self._tier()
            key = self._key(tier, content)
            if is_forced:
                return _Reading(None, key, tier.ticket(key), begin_s)
            found, ticket = tier.load(key, self._codec)
        except Exception as error:
            self._failed(error)
            return _Reading(None, None, None, begin_s)
        if found is None:
            return _Reading(None, key, ticket, begin_s)
        value, left_ms = found
        self.hits += 1
        left_s = STALE_S if left_ms is None else left_ms / 1_000
        _decide(value, min(STALE_S, left_s))
        return _Reading((value,), key, None, begin_s)

    def _write(self, reading: _Reading, value: Any) -> None:
        lifetime_s = self._lifetime(value)
        if lifetime_s == 0:
            _decide(value, 0)
            return
        # What no file has is as old as the reading it was computed from.
        memory_s = max(0.0, reading.begin_s + STALE_S - time.monotonic())
        if reading.key is not None:
            is_kept = self._store(reading.key, value, lifetime_s, reading.ticket)
            if is_kept is not None:
                # Nothing had been forgotten until now, or else it is wrong for later callers.
                memory_s = STALE_S if is_kept and self._has_token(reading.key) else 0.0
        _decide(value, memory_s if lifetime_s is None else min(memory_s, lifetime_s))

    def _store(
        self, key: bytes, value: Any, lifetime_s: float | None, ticket: tuple[int, int] | None
    ) -> bool | None:
        """Whether it was stored; None if the file failed."""
        lifetime_ms = None if lifetime_s is None else max(1, round(lifetime_s * 1_000))
        try:
            return self._tier().store(key, value, self._codec, lifetime_ms, ticket)
        except TypeError as error:
            raise TypeError(f"{self.function.__qualname__}: {error}") from None
        except Exception as error:
            self._failed(error)
            return None

    def _lifetime(self, value: Any) -> float | None:
        """Seconds, 0 not to store it, None for no end."""
        lifetime_s = self._ttl_s
        if self._policy is not None:
            of_value = self._policy(value)
            if of_value is not None:
                lifetime_s = None if of_value == float("inf") else float(of_value)
        if lifetime_s is None:
            return None
        if not self._jitter:
            return lifetime_s
        from random import random

        return lifetime_s * (1 - self._jitter * random())

    def put(self, args: tuple[Any, ...], kwargs: dict[str, Any], value: Any) -> None:
        """Stores a value that no body has given."""
        content = self._content(args, kwargs)
        key = None
        try:
            if content is not None:
                key = self._key(self._tier(), content)
        except Exception as error:
            self._failed(error)
        self._write(_Reading(None, key, None, time.monotonic()), value)

    def delete(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> bool:
        """Whether there was an entry; False also if the file failed, which is logged."""
        content = self._content(args, kwargs)
        try:
            tier = self._tier()
            return content is not None and tier.delete(self._key(tier, content))
        except Exception as error:
            self._failed(error)
            return False

    def clear(self) -> None:
        """Forgets every entry of the function."""
        try:
            self._tier().delete(self._token_key)
        except Exception as error:
            self._failed(error)

    def status(self) -> str:
        """``healthy``, or why the file cannot be used."""
        try:
            self._tier().check()
        except Exception as error:
            return f"degraded: {error.args[-1] if error.args else error!r}"
        return "healthy"

    def _failed(self, error: Exception) -> None:
        self.failures += 1
        kind = error.args[0] if isinstance(error, _native.TierFailure) else type(error).__name__
        now_s = time.monotonic()
        if now_s - self._logged.get(kind, -_LOG_S) < _LOG_S:
            return
        self._logged[kind] = now_s
        import logging

        text = error.args[-1] if error.args else repr(error)
        log = logging.getLogger("tidemark_cache")
        log.warning("the file tier of %s failed (%s): %s", self.function.__qualname__, kind, text)


def _decide(value: Any, lifetime_s: float) -> None:
    _decided.lifetime = (value, lifetime_s)


def lifetime_in_memory(value: Any) -> float:
    """Seconds, for the native side, which asks right after a body has given the value."""
    decided = getattr(_decided, "lifetime", None)
    _decided.lifetime = None
    # Of another value if copying this one has called a function with a tier: not kept in memory.
    return decided[1] if decided is not None and decided[0] is value else 0.0
