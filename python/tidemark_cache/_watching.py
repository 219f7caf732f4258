"""Counts of the processes that share a cache file, for ``python -m tidemark_cache watch``.

Each process that listens on a file writes its counts beside it, once a second if they have changed,
and takes them away at its end. They are numbers and names of functions, no keys and no values.
"""

import json
import os
import stat
import time
from collections.abc import Callable, Iterable, Mapping
from typing import Any, NamedTuple

from tidemark_cache import _tiers
from tidemark_cache._counts import CacheCounts

_SUFFIX = ".counts"
#: Counts of processes that have died, which could not take them away, are kept no longer.
_KEPT_S = 86_400.0
_BYTES_MAX = 1 << 20
_FUNCTIONS_MAX = 1_000
_NAME_MAX = 200
#: Processes of which counts are read.
_PROCESSES_MAX = 10_000


class Watched(NamedTuple):
    """The counts of one function, of one process or of several together."""

    memory: int = 0
    tier: int = 0
    misses: int = 0

    def plus(self, other: "Watched") -> "Watched":
        """Both together."""
        return Watched(*map(sum, zip(self, other, strict=True)))

    def since(self, before: "Watched") -> "Watched":
        """What was counted since. Of a process that has ended nothing is known any more."""
        return Watched(*(max(0, now - then) for now, then in zip(self, before, strict=True)))

    @property
    def calls(self) -> int:
        """How many there were."""
        return self.memory + self.tier + self.misses

    @property
    def ratio(self) -> float | None:
        """The share of calls that ran no body."""
        return (self.memory + self.tier) / self.calls if self.calls else None


#: By process and function.
Counted = dict[tuple[str, str], Watched]


class CountsFile:
    """The counts of this process beside one cache file."""

    def __init__(self, backend: _tiers.FileBackend, process: str) -> None:
        self._path = os.path.join(_folder_of(backend), f"{process}{_SUFFIX}")
        self._last: object = None

    def write(self, functions: Mapping[str, Watched]) -> None:
        """Writes them if they are others than last time. One that fails is no failure."""
        named = sorted(functions.items())[:_FUNCTIONS_MAX]
        counts = {name[:_NAME_MAX]: list(watched) for name, watched in named}
        if counts == self._last:
            return
        unnamed = f"{self._path}.new"
        try:
            flags = os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_NOFOLLOW | os.O_CLOEXEC
            with open(os.open(unnamed, flags, 0o600), "w", encoding="utf-8") as file:
                json.dump({"pid": os.getpid(), "counts": counts}, file)
            os.replace(unnamed, self._path)
        except OSError:
            # The folder is gone or full: `watch` shows older counts.
            return
        self._last = counts

    def remove(self) -> None:
        """At the end of the process."""
        try:
            os.unlink(self._path)
        except OSError:
            pass


class ProcessCounts:
    """The counts of this process beside each of its files."""

    def __init__(self) -> None:
        #: By file and by the name that the process has among listeners.
        self._files: dict[tuple[_tiers.FileBackend, bytes], CountsFile] = {}

    def write(
        self,
        backend: _tiers.FileBackend,
        process: bytes,
        counts: Iterable[tuple[Callable[..., Any], CacheCounts]],
    ) -> None:
        """Writes those of functions that use this file."""
        file = self._files.get((backend, process))
        if file is None:
            file = self._files[backend, process] = CountsFile(backend, process.hex())
        named: dict[str, Watched] = {}
        for function, info in counts:
            name = f"{function.__module__}.{function.__qualname__}"
            now = Watched(info.l1_hits, info.l2_hits, info.misses)
            named[name] = named.get(name, Watched()).plus(now)
        file.write(named)

    def remove(self, backend: _tiers.FileBackend, process: bytes) -> None:
        """At the end of the process."""
        file = self._files.get((backend, process))
        if file is not None:
            file.remove()

    def forget(self) -> None:
        """In a child, whose parent goes on with its files."""
        self._files.clear()


def _folder_of(backend: _tiers.FileBackend) -> str:
    return os.path.dirname(_tiers.path_of(backend))


def counted(backend: _tiers.FileBackend) -> Counted:
    """What all processes have counted. Removes what is left of those that died long ago."""
    found: Counted = {}
    folder = _folder_of(backend)
    names = sorted(name for name in os.listdir(folder) if name.endswith(_SUFFIX))
    for name in names[:_PROCESSES_MAX]:
        path = os.path.join(folder, name)
        try:
            # To open a pipe would wait for a writer.
            flags = os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC | os.O_NONBLOCK
            with open(os.open(path, flags), "rb") as file:
                if not stat.S_ISREG(os.fstat(file.fileno()).st_mode):
                    continue
                if time.time() - os.fstat(file.fileno()).st_mtime > _KEPT_S:
                    os.unlink(path)
                    continue
                content = file.read(_BYTES_MAX + 1)
        except OSError:
            continue
        for function, watched in _checked(content):
            found[name, function] = watched
    return found


def _checked(content: bytes) -> Iterable[tuple[str, Watched]]:
    """The counts in these bytes; none of what cannot be read."""
    try:
        counts: Any = json.loads(content)["counts"] if len(content) <= _BYTES_MAX else {}
        items = list(counts.items())[:_FUNCTIONS_MAX]
    except (ValueError, TypeError, KeyError, AttributeError, RecursionError):
        return
    for name, numbers in items:
        is_whole = isinstance(numbers, list) and len(numbers) == len(Watched._fields)
        if is_whole and all(type(one) is int and 0 <= one < 1 << 63 for one in numbers):
            yield str(name)[:_NAME_MAX], Watched(*numbers)


def table(now: Counted, before: Counted) -> list[str]:
    """Lines for a person: for each function what was counted since, and in all."""
    totals: dict[str, Watched] = {}
    news: dict[str, Watched] = {}
    for (process, function), watched in now.items():
        since = watched.since(before.get((process, function), Watched()))
        totals[function] = totals.get(function, Watched()).plus(watched)
        news[function] = news.get(function, Watched()).plus(since)
    processes = len({process for process, _ in now})
    lines = [f"{processes} process{'' if processes == 1 else 'es'}"]
    width = max([len("function"), *map(len, totals)])
    head = ("calls", "memory", "file", "misses", "ratio", "in all")
    lines.append("function".ljust(width) + "".join(word.rjust(10) for word in head))
    for function in sorted(totals, key=lambda name: (-news[name].calls, name)):
        new = news[function]
        cells = [new.calls, new.memory, new.tier, new.misses]
        shown = [str(cell) for cell in cells] + [_share(new), _share(totals[function])]
        # Names are what other processes wrote.
        name = "".join(letter if letter.isprintable() else "?" for letter in function)
        lines.append(name.ljust(width) + "".join(cell.rjust(10) for cell in shown))
    return lines


def _share(watched: Watched) -> str:
    return "-" if watched.ratio is None else f"{watched.ratio:.1%}"
