"""The entries of one function in the tiers below memory.

The native side runs the body once for each miss in memory. What it runs here asks the tiers first,
and stores what the body gives. A failing tier never reaches the caller.
"""

import functools
import math
import os
import threading
import time
import weakref
from collections.abc import Callable, Iterable
from typing import Any, NamedTuple

from tidemark_cache import _native, _refresh, _tiers
from tidemark_cache._codec import Codec

#: An invalidation by one process counts for all others after this time at the latest: so long an
#: answer of a tier, or one that no tier has, is handed out from memory.
STALE_S = 3.0

#: Tags of one call, each of which costs a read of the tier.
_TAGS_MAX = 64
#: Failures of one kind are logged this often.
_LOG_S = 60.0

#: The lifetime in memory of the value that a body has given, until the native side asks for it.
_decided = threading.local()

#: Those of this process, for what reaches all of them.
_functions: "weakref.WeakSet[BackedFunction]" = weakref.WeakSet()


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
    """What the tiers said before the body runs."""

    #: The value in a tuple, or None.
    found: tuple[Any] | None
    #: With what a value is stored; None if no tier can be used for this call.
    call: _native.StackedCall | None
    begin_s: float


class BackedFunction:
    """The entries of one function in its tiers."""

    def __init__(self, function: Any, config: Any, settings: dict[str, Any]) -> None:
        self.function = function
        self.cached: Any = None
        self.hits = 0
        self.failures = 0
        self.rejected = 0
        #: The tiers and how they are used; functions that agree in it share a stack.
        self.rules = (
            _tiers.backends_of(config.backend),
            _tiers.breaker_of(config.circuit_breaker),
            _tiers.pressure_of(config.backpressure),
        )
        self._is_behind: bool = config.write_behind
        self._stack: _native.StackOfTiers | None = None
        self._codec = Codec(function)
        self._policy: Callable[[Any], Any] | None = settings["policy"]
        self._ttl_s: float | None = config.ttl_s
        self._jitter: float = config.jitter
        # Modules that only a tier needs are imported where it is used.
        from hashlib import blake2b

        self._blake2b = blake2b
        parts = [config.namespace, function.__module__, function.__qualname__, config.version]
        identity = repr(parts).encode()
        self._identity = blake2b(identity, digest_size=32).digest()
        self._tags_of: Callable[..., Iterable[str]] | None = settings["tags_of"]
        self._names = self._identity + self._names_of(settings["tags"])
        self._logged: dict[str, float] = {}
        _functions.add(self)

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

    def _opened(self) -> _native.StackOfTiers:
        # Found once: what a path means depends on the environment and the working folder.
        stack = self._stack
        if stack is None:
            stack = self._stack = _tiers.stack_of(*self.rules)
        return stack

    def _key(self, content: bytes) -> bytes:
        return self._blake2b(content, digest_size=32, key=self._identity).digest()

    def _names_of(self, tags: Iterable[str]) -> bytes:
        # As a set, like those in memory: who names a tag twice means it once.
        different = sorted(set(tags))
        if len(different) > _TAGS_MAX:
            raise ValueError(f"a call may have {_TAGS_MAX} tags in a backend, not {len(different)}")
        return b"".join(map(_name_of_tag, different))

    def _names_for(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> bytes:
        """What the entries of this call depend on: to forget it is to forget them."""
        if self._tags_of is None:
            return self._names
        return self._identity + self._names_of(self._tags_of(*args, **kwargs))

    def _content(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> bytes | None:
        key = _native.CallKey.of(self.cached, args, kwargs)
        return None if key is None else key.canonical()

    def _read(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> _Reading:
        is_forced = _tiers.forced.get()
        if is_forced:
            # For this call, and not for those that its body makes.
            _tiers.forced.set(False)
        return self._ask(args, kwargs, is_forced)

    def _ask(self, args: tuple[Any, ...], kwargs: dict[str, Any], is_forced: bool) -> _Reading:
        begin_s = time.monotonic()
        # An argument without canonical bytes is the caller's error, and raised.
        content = self._content(args, kwargs)
        if content is None:
            return _Reading(None, None, begin_s)
        names = self._names_for(args, kwargs)
        try:
            found, call = self._opened().read(self._key(content), names, self._codec, is_forced)
        except Exception as error:
            self._failed(*_words(error))
            return _Reading(None, None, begin_s)
        self._count(call)
        if found is None:
            return _Reading(None, call, begin_s)
        value, left_ms = found
        self.hits += 1
        left_s = STALE_S if left_ms is None else left_ms / 1_000
        _decide(value, min(STALE_S, left_s))
        return _Reading((value,), None, begin_s)

    def _write(self, reading: _Reading, value: Any) -> None:
        lifetime_s = self._lifetime(value)
        if lifetime_s == 0:
            _decide(value, 0)
            return
        # What no tier has is as old as the reading it was computed from.
        memory_s = max(0.0, reading.begin_s + STALE_S - time.monotonic())
        if reading.call is not None:
            is_kept = self._store(reading.call, value, lifetime_s)
            if is_kept is not None:
                # Nothing had been forgotten until now, or else it is wrong for later callers.
                memory_s = STALE_S if is_kept else 0.0
        _decide(value, memory_s if lifetime_s is None else min(memory_s, lifetime_s))

    def _store(
        self, call: _native.StackedCall, value: Any, lifetime_s: float | None
    ) -> bool | None:
        """Whether it was stored; None if no tier has it, or not yet."""
        lifetime_ms = None if lifetime_s is None else max(1, round(lifetime_s * 1_000))
        try:
            if self._is_behind:
                # Encoded now: the value is its caller's, who may change it.
                return self._store_later(call, _native.dumps(value, self._codec), lifetime_ms)
            is_kept = self._opened().store(call, value, self._codec, lifetime_ms)
        except TypeError as error:
            raise TypeError(f"{self.function.__qualname__}: {error}") from None
        except Exception as error:
            self._failed(*_words(error))
            return None
        self._count(call)
        return is_kept

    def _store_later(
        self, call: _native.StackedCall, frame: bytes, lifetime_ms: int | None
    ) -> bool | None:
        def store() -> bool | None:
            try:
                is_kept = self._opened().store_frame(call, frame, lifetime_ms)
            except Exception as error:
                self._failed(*_words(error))
                return None
            self._count(call)
            return is_kept

        # Where too many wait already, the caller is slowed down to what the tier can take.
        return None if _refresh.submit(self, store) else store()

    def _lifetime(self, value: Any) -> float | None:
        """Seconds, 0 not to store it, None for no end."""
        lifetime_s = self._ttl_s
        if self._policy is not None:
            of_value = self._policy(value)
            if of_value is not None:
                lifetime_s = None if of_value == math.inf else float(of_value)
        if lifetime_s is None:
            return None
        if not self._jitter:
            return lifetime_s
        from random import random

        return lifetime_s * (1 - self._jitter * random())

    def put(self, args: tuple[Any, ...], kwargs: dict[str, Any], value: Any) -> None:
        """Stores a value that no body has given."""
        self._write(self._ask(args, kwargs, True), value)

    def delete(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> bool | None:
        """Whether there was an entry; None if a tier failed, which may still have it."""
        content = self._content(args, kwargs)
        if content is None:
            return False
        names = self._names_for(args, kwargs)
        try:
            was_there, failures = self._opened().delete(self._key(content), names)
        except Exception as error:
            was_there, failures = False, [_words(error)]
        return was_there if self._are_none(failures) else None

    def forget(self, names: bytes) -> bool:
        """Forgets every entry that depends on one of the names; whether each tier did it."""
        try:
            return self._are_none(self._opened().forget(names))
        except Exception as error:
            return self._are_none([_words(error)])

    def clear(self) -> None:
        """Forgets every entry of the function."""
        self.forget(self._identity)

    def states(self) -> dict[str, str]:
        """Of each tier ``healthy``, or why it cannot be used."""
        try:
            states = self._opened().states()
        except Exception as error:
            states = [_words(error)[1]] * len(self.rules[0])
        return {
            "file" if number == 1 else f"file {number}": (
                "healthy" if why is None else f"degraded: {why}"
            )
            for number, why in enumerate(states, 1)
        }

    def _count(self, call: _native.StackedCall) -> None:
        troubles = call.troubles()
        if troubles is not None:
            self.rejected += troubles[0]
            self._are_none(troubles[1])

    def _are_none(self, failures: list[tuple[str, str]]) -> bool:
        for kind, text in failures:
            self._failed(kind, text)
        return not failures

    def _failed(self, kind: str, text: str) -> None:
        self.failures += 1
        now_s = time.monotonic()
        if now_s - self._logged.get(kind, -_LOG_S) < _LOG_S:
            return
        self._logged[kind] = now_s
        import logging

        log = logging.getLogger("tidemark_cache")
        log.warning("a file tier of %s failed (%s): %s", self.function.__qualname__, kind, text)


def _name_of_tag(tag: str) -> bytes:
    from hashlib import blake2b

    return blake2b(tag.encode("utf-8", "surrogatepass"), digest_size=32, person=b"tag").digest()


def forget_tags(tags: Iterable[str]) -> bool:
    """In the tiers of every function of this process; whether each tier did it."""
    names = b"".join(map(_name_of_tag, tags))
    # One function for each stack is enough.
    users = {user.rules: user for user in list(_functions)}
    return all([user.forget(names) for user in users.values()])


def _words(error: Exception) -> tuple[str, str]:
    text = str(error.args[-1]) if error.args else repr(error)
    is_tier = isinstance(error, _native.TierFailure)
    return (error.args[0] if is_tier else type(error).__name__, text)


def _decide(value: Any, lifetime_s: float) -> None:
    _decided.lifetime = (value, lifetime_s)


def lifetime_in_memory(value: Any) -> float:
    """Seconds, for the native side, which asks right after a body has given the value."""
    decided = getattr(_decided, "lifetime", None)
    _decided.lifetime = None
    # Of another value if copying this one has called a function with a tier: not kept in memory.
    return decided[1] if decided is not None and decided[0] is value else 0.0
