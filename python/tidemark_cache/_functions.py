"""The functions of this process that have tiers, for what reaches all of them."""

from __future__ import annotations

import os
import weakref
from typing import Any

from tidemark_cache import _listening, _tiers, _watching

TYPE_CHECKING = False
if TYPE_CHECKING:
    from tidemark_cache._backed import BackedFunction

all_of_process: weakref.WeakSet[BackedFunction] = weakref.WeakSet()


def all_functions() -> list[BackedFunction]:
    """Those of this process. Another thread may decorate one meanwhile."""
    while True:
        try:
            return list(all_of_process)
        except RuntimeError:
            # The set has changed while it was gone through.
            continue


def forget(names: bytes, are_tags: bool, others: tuple[_tiers.Backend, ...] | None = None) -> bool:
    """Forgets every entry under one of these names, in the tiers of every function of this
    process and in the others; whether each tier did it."""
    # One function for each stack is enough.
    users = {user.rules: user for user in all_functions()}
    done = [user.forget(names, are_tags) for user in users.values()]
    if others is not None and all(user.rules[0] != others for user in users.values()):
        done.append(_forget_in(others, names, are_tags))
    return all(done)


def _forget_in(backends: tuple[_tiers.Backend, ...], names: bytes, are_tags: bool) -> bool:
    from tidemark_cache._backed import STALE_S

    kind = _listening.TAGS if are_tags else _listening.FUNCTIONS
    try:
        stack = _tiers.stack_of(backends, None, None, STALE_S)
        failures = stack.forget(names, are_tags, _listening.head_of(kind))
    except Exception as error:
        failures = [_tiers.failure_of(error)]
    for fault, text in failures:
        import logging

        log = logging.getLogger("tidemark_cache")
        log.warning("a tier has not forgotten what is invalid (%s): %s", fault, text)
    if failures:
        return False
    for backend in backends:
        if isinstance(backend, _tiers.FileBackend):
            _listening.announce(backend, kind, names)
    return True


def forget_twins(function: BackedFunction, kind: bytes, names: bytes) -> None:
    """In the memory of other functions of this process with the same entries. No notice of its own
    says so to a process."""
    parts = [names[begin : begin + 32] for begin in range(0, len(names), 32)]
    for other in all_functions():
        is_twin = other is not function and other._identity == function._identity
        if is_twin and other.cached is not None:
            other.on_invalidation(kind, parts)


def identity_of(function: Any, config: Any, kept_ms: int) -> bytes:
    """What tells a function from others, and from those whose entries have another form."""
    # Modules that only a tier needs are imported where it is used.
    from hashlib import blake2b

    parts = [config.namespace, function.__module__, function.__qualname__, config.version]
    if kept_ms:
        # Others would take an old entry for a fresh one.
        parts.append(kept_ms)
    # Others would take the tags, or the arguments, for a part of the value.
    parts += ["result_tags"] * (config.result_tags is not None)
    parts += ["keep_arguments"] * config.keep_arguments
    return blake2b(repr(parts).encode(), digest_size=32).digest()


class MemoryListener:
    """Has the memory of every function forget what other processes invalidate."""

    def on_invalidation(
        self, backend: _tiers.NotingBackend, kind: bytes, names: list[bytes]
    ) -> None:
        for function in all_functions():
            if backend in function.rules[0] and function.cached is not None:
                function.on_invalidation(kind, names)

    def on_gap(self, backend: _tiers.NotingBackend) -> None:
        # Memory may have anything of it.
        for function in all_functions():
            if backend in function.rules[0] and function.cached is not None:
                function.cached._forget_in_memory()

    def on_tick(self, backend: _tiers.NotingBackend) -> None:
        for function in all_functions():
            function.tidy()
        if isinstance(backend, _tiers.FileBackend):
            _write_counts(backend)


#: Of this process, beside its files.
_counts = _watching.ProcessCounts()


def _write_counts(backend: _tiers.FileBackend) -> None:
    """For who watches the file; nothing as the process ends."""
    process = _listening.listeners.sender
    if _listening.listeners.is_over.is_set():
        _counts.remove(backend, process)
        return
    counts = [
        (function.function, function.cached.cache_info())
        for function in all_functions()
        if backend in function.rules[0] and function.cached is not None
    ]
    _counts.write(backend, process, counts)


def _begin_process() -> None:
    _counts.forget()
    for function in all_functions():
        function.begin_process()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_begin_process)
