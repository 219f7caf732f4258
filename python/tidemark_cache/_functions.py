"""The functions of this process that have tiers, for what reaches all of them."""

from __future__ import annotations

import os
import weakref

from tidemark_cache import _listening, _tags, _tiers, _watching

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable

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


def forget_tags(tags: Iterable[str]) -> bool:
    """In the tiers of every function of this process; whether each tier did it."""
    names = b"".join(map(_tags.name_of, tags))
    # One function for each stack is enough.
    users = {user.rules: user for user in all_functions()}
    return all([user.forget_tags(names) for user in users.values()])


def forget_twins(function: BackedFunction, kind: bytes, names: bytes) -> None:
    """In the memory of other functions of this process with the same entries. No notice of its own
    says so to a process."""
    parts = [names[begin : begin + 32] for begin in range(0, len(names), 32)]
    for other in all_functions():
        if other is not function and other.is_twin_of(function) and other.cached is not None:
            other.on_invalidation(kind, parts)


class MemoryListener:
    """Has the memory of every function forget what other processes invalidate."""

    def on_invalidation(
        self, backend: _tiers.NotingBackend, kind: bytes, names: list[bytes]
    ) -> None:
        for function in all_functions():
            if backend in function.rules[0] and function.cached is not None:
                function.on_invalidation(kind, names)

    def on_gap(self) -> None:
        # Memory may have anything of it.
        for function in all_functions():
            if function._notifying and function.cached is not None:
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
