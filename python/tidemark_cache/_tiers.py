"""The tiers below memory: what they are, how calls use them, and those that this process has."""

import contextvars
import dataclasses
import datetime
import os
import pathlib
import threading
from collections.abc import Iterable
from typing import Any, ClassVar

from tidemark_cache import _native

_STRIPES = 16
MEGABYTES_MAX = 1 << 20
_TIERS_MAX = 4
#: What Redis keeps under one key.
_ANSWER_MEGABYTES_MAX = 512
_COUNT_MAX = 1 << 20
_FILE = "python-1.tier"
_REDIS_SCHEMES = ("redis://", "rediss://", "redis+unix://")
_MEMCACHED_SCHEMES = ("memcached://", "memcacheds://", "memcached+unix://")
#: Parts of schemes of other clients.
_OTHER_SCHEMES = ("sentinel", "cluster")
#: Bytes of a file with certificates or a key.
_PEM_MAX = 1 << 20
_PREFIX_MAX = 100

#: Set for one call: run the body whatever the tiers hold.
forced = contextvars.ContextVar("tidemark_cache_forced", default=False)

_files: dict[tuple[str, int], _native.SharedFile] = {}
_others: "dict[_OtherBackend, _OtherTier]" = {}
_stacks: dict[Any, _native.StackOfTiers] = {}
#: The thread that holds it may come again, by what an object runs at its end.
_lock = threading.RLock()


@dataclasses.dataclass(frozen=True, kw_only=True)
class FileBackend:
    """A cache file shared by the processes of this host and this user.

    Args:
        folder: Where it is, on a local file system. Default: ``tidemark-cache`` in the user's
            cache folder. It must belong to this user, and no other may write to it.
        megabytes: Size of the whole file, taken when it is made. One that is there keeps its
            size. An entry may take a 64th of it.
        listen: Be notified within some milliseconds of what other processes have invalidated.
    """

    folder: str | os.PathLike[str] | None = None
    megabytes: int = 256
    listen: bool = True

    def __post_init__(self) -> None:
        if self.folder is not None:
            _check_folder(self.folder)
        _count("megabytes", self.megabytes, 1, MEGABYTES_MAX)
        _bool("listen", self.listen)


@dataclasses.dataclass(frozen=True)
class _ServerBackend:
    """What servers of any kind are named by."""

    _schemes: ClassVar[tuple[str, ...]]
    #: What is new in it other versions cannot read, or must not.
    _format: ClassVar[str] = "python-1"

    url: str = dataclasses.field(repr=False)
    prefix: str = dataclasses.field(default="tidemark", kw_only=True)
    timeout: float | datetime.timedelta = dataclasses.field(default=1.0, kw_only=True)
    connect_timeout: float | datetime.timedelta = dataclasses.field(default=1.0, kw_only=True)
    connections: int = dataclasses.field(default=50, kw_only=True)
    megabytes: int = dataclasses.field(default=100, kw_only=True)
    tls_ca: str | os.PathLike[str] | None = dataclasses.field(default=None, kw_only=True)
    tls_certificate: str | os.PathLike[str] | None = dataclasses.field(default=None, kw_only=True)
    tls_key: str | os.PathLike[str] | None = dataclasses.field(default=None, kw_only=True)

    def __post_init__(self) -> None:
        for name in ("url", "prefix"):
            value = getattr(self, name)
            if not isinstance(value, str):
                raise TypeError(f"{name} must be a text, not {type(value).__name__}")
            if not _is_utf8(value):
                raise ValueError(f"{name} must be a text that UTF-8 has bytes for")
        if not self.url.startswith(self._schemes):
            raise ValueError(f"url must begin with {', '.join(self._schemes)}")
        if len(self.prefix) > _PREFIX_MAX:
            raise ValueError(f"prefix may have {_PREFIX_MAX} characters, not {len(self.prefix)}")
        _check_pair(self.tls_certificate, self.tls_key)

    def _settings(self) -> "_native.GivenServer":
        """What the native side makes a tier on a server with."""
        return (
            self.url,
            f"{self.prefix}:{self._format}:",
            _milliseconds("connect_timeout", self.connect_timeout, 0.001),
            _milliseconds("timeout", self.timeout, 0.001),
            _count("connections", self.connections, 1, 10_000),
            _count("megabytes", self.megabytes, 1, _ANSWER_MEGABYTES_MAX) << 20,
            *_pems(self.tls_ca, self.tls_certificate, self.tls_key),
        )


@dataclasses.dataclass(frozen=True)
class RedisBackend(_ServerBackend):
    """A Redis server shared by processes of many hosts.

    Args:
        url: ``redis://[user:password@]host[:port][/database]``, ``rediss://…`` for TLS, or
            ``redis+unix:///path``. No error, log or ``repr`` of this package shows it. With
            ``sentinels``, the host is the name that they have for the server.
        prefix: What its keys begin with.
        timeout: Seconds a call may take, from its first byte to the last one of its answer.
        connect_timeout: Seconds making a connection may take.
        connections: Connections that each process keeps while it does not use them.
        megabytes: Size of the largest entry that is read. A larger one is a miss.
        tls_ca: File in PEM with the authorities to believe, in the place of the system's.
        tls_certificate: File in PEM with the certificates that this client shows.
        tls_key: File in PEM with the key to them.
        sentinels: Addresses of Sentinels, of the form of ``url``, which know where the server is.
        cluster: Addresses of servers of the Redis Cluster that ``url`` is one of; ``url`` again if
            no other is known. All keys of a ``prefix`` are on one of the servers.
        listen: Be notified at once of what other processes have invalidated, on one more
            connection.
    """

    _schemes = _REDIS_SCHEMES
    #: Invalidations of the first format have no numbers: memory would not notice them.
    _format = "python-2"

    sentinels: Iterable[str] = dataclasses.field(default=(), repr=False, kw_only=True)
    cluster: Iterable[str] = dataclasses.field(default=(), repr=False, kw_only=True)
    listen: bool = dataclasses.field(default=True, kw_only=True)

    def __post_init__(self) -> None:
        if isinstance(self.url, str):
            _refuse_other_forms(self.url)
        super().__post_init__()
        for name in ("sentinels", "cluster"):
            object.__setattr__(self, name, _addresses(name, getattr(self, name)))
        if self.sentinels and self.cluster:
            raise ValueError("a server of a Cluster has no Sentinels: name sentinels or cluster")
        _bool("listen", self.listen)
        # All that can be wrong with the address is found here, without connecting.
        self.open()

    def open(self) -> _native.SharedRedis:
        """One more object for this server."""
        return _native.SharedRedis(self._settings(), list(self.sentinels), list(self.cluster))

    @property
    def is_discovered(self) -> bool:
        """Whether Sentinels or a Cluster say where the server is."""
        return bool(self.sentinels or self.cluster)


@dataclasses.dataclass(frozen=True)
class MemcachedBackend(_ServerBackend):
    """A Memcached server shared by processes of many hosts.

    Args:
        url: ``memcached://host[:port]``, ``memcacheds://…`` for TLS, or
            ``memcached+unix:///path``.
        prefix: What its keys begin with.
        timeout: Seconds a call may take, from its first byte to the last one of its answer.
        connect_timeout: Seconds making a connection may take.
        connections: Connections that each process keeps while it does not use them.
        megabytes: Size of the largest entry that is read. The server has its own limit, 1 MB
            unless it was started with another one.
        tls_ca: File in PEM with the authorities to believe, in the place of the system's.
        tls_certificate: File in PEM with the certificates that this client shows.
        tls_key: File in PEM with the key to them.
    """

    _schemes = _MEMCACHED_SCHEMES

    def __post_init__(self) -> None:
        super().__post_init__()
        # All that can be wrong with the address is found here, without connecting.
        self.open()

    def open(self) -> _native.SharedMemcached:
        """One more object for this server."""
        return _native.SharedMemcached(self._settings())


@dataclasses.dataclass(frozen=True, eq=False)
class ObjectBackend:
    """An object of the user's that keeps records; the same object is the same tier."""

    object: Any

    def __eq__(self, other: object) -> bool:
        return isinstance(other, ObjectBackend) and other.object is self.object

    def __hash__(self) -> int:
        return id(self.object)

    def open(self) -> _native.SharedObject:
        """What the native side uses."""
        return _native.SharedObject(self.object)


#: What such an object must have.
_METHODS = ("get", "set", "delete")

#: A tier that passes notices on.
NotingBackend = FileBackend | RedisBackend
#: A tier that is no file, and what the native side uses for it.
_OtherBackend = RedisBackend | MemcachedBackend | ObjectBackend
_OtherTier = _native.SharedRedis | _native.SharedMemcached | _native.SharedObject
#: A tier below memory.
Backend = FileBackend | _OtherBackend


@dataclasses.dataclass(frozen=True, kw_only=True)
class CircuitBreaker:
    """When a tier that fails is left alone, and for how long.

    Args:
        failures: Failures within ``window`` seconds after which its callers go on without it.
        window: How long a failure counts.
        pause: Seconds until it is checked, beside its callers.
        checks: Checks in a row that must be good before callers use it again.
    """

    failures: int = 5
    window: float | datetime.timedelta = 60.0
    pause: float | datetime.timedelta = 30.0
    checks: int = 3

    def __post_init__(self) -> None:
        self.numbers()

    def numbers(self) -> tuple[int, int, int, int]:
        """What the native side needs: counts, and milliseconds."""
        return (
            _count("failures", self.failures, 1, _COUNT_MAX),
            _milliseconds("window", self.window),
            _milliseconds("pause", self.pause),
            _count("checks", self.checks, 1, 100),
        )


@dataclasses.dataclass(frozen=True, kw_only=True)
class Backpressure:
    """How many operations of a tier run at once in a process.

    Args:
        concurrent: Operations at once.
        queue: Callers that wait for their turn; further ones go on without the tier.
        wait: Seconds after which a caller goes on without the tier.
    """

    concurrent: int = 100
    queue: int = 1_000
    wait: float | datetime.timedelta = 0.1

    def __post_init__(self) -> None:
        self.numbers()

    def numbers(self) -> tuple[int, int, int]:
        """What the native side needs: counts, and milliseconds."""
        return (
            _count("concurrent", self.concurrent, 1, _COUNT_MAX),
            _count("queue", self.queue, 0, _COUNT_MAX),
            _milliseconds("wait", self.wait),
        )


def _check_folder(folder: object) -> None:
    if not isinstance(folder, (str, os.PathLike)):
        raise TypeError(f"folder must be a path, not {type(folder).__name__}")
    path = os.fspath(folder)
    if not isinstance(path, str):
        raise TypeError(f"folder must be a path of str, not of {type(path).__name__}")
    if not path or "\0" in path:
        raise ValueError("folder must have at least one character, and none of code 0")


def _count(name: str, value: object, least: int, most: int) -> int:
    if isinstance(value, bool) or not isinstance(value, int):
        raise TypeError(f"{name} must be an int, not {type(value).__name__}")
    if not least <= value <= most:
        raise ValueError(f"{name} must be from {least} to {most}, not {value}")
    return value


def _bool(name: str, value: object) -> None:
    if not isinstance(value, bool):
        raise TypeError(f"{name} must be a bool, not {type(value).__name__}")


def _is_utf8(text: str) -> bool:
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True


def _milliseconds(name: str, value: object, least_s: float = 0) -> int:
    if isinstance(value, datetime.timedelta):
        value = value.total_seconds()
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        raise TypeError(f"{name} must be seconds or a timedelta, not {type(value).__name__}")
    if not least_s <= value <= 86_400:
        raise ValueError(f"{name} must be from {least_s} to 86400 seconds, not {value}")
    return round(value * 1_000)


def _pem(name: str, path: object) -> bytes:
    if not isinstance(path, (str, os.PathLike)):
        raise TypeError(f"{name} must be a path, not {type(path).__name__}")
    with open(path, "rb") as file:
        content = file.read(_PEM_MAX + 1)
    if len(content) > _PEM_MAX:
        raise ValueError(f"{name} may have {_PEM_MAX} bytes")
    return content


def _addresses(name: str, given: Iterable[str]) -> tuple[str, ...]:
    """A list is as good, and cannot be hashed."""
    if isinstance(given, str) or not isinstance(given, Iterable):
        raise TypeError(f"{name} must be several addresses, not {type(given).__name__}")
    addresses = tuple(given)
    for one in addresses:
        if not isinstance(one, str):
            raise TypeError(f"each of {name} must be a text, not {type(one).__name__}")
    return addresses


def _check_pair(certificate: object, key: object) -> None:
    if (certificate is None) != (key is None):
        raise ValueError("tls_certificate and tls_key belong together")


_Path = str | os.PathLike[str] | None


def _pems(
    ca: _Path, certificate: _Path, key: _Path
) -> tuple[bytes | None, tuple[bytes, bytes] | None]:
    """The authorities, and what this client shows."""
    shown = None
    if certificate is not None and key is not None:
        shown = (_pem("tls_certificate", certificate), _pem("tls_key", key))
    return None if ca is None else _pem("tls_ca", ca), shown


def _refuse_other_forms(url: str) -> None:
    """Addresses that users of other clients may try."""
    scheme = url.partition("://")[0]
    if "redis" in scheme and any(other in scheme for other in _OTHER_SCHEMES):
        raise ValueError(
            "name the service as redis://service and the Sentinels by sentinels=[…]; a server of "
            "a Cluster as redis://server, and others of it by cluster=[…]"
        )


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


def backends_of(backend: object) -> tuple[Backend, ...]:
    """The tiers of a setting, nearest first."""
    many = backend if isinstance(backend, (list, tuple)) else (backend,)
    if not 1 <= len(many) <= _TIERS_MAX:
        raise ValueError(f"backend must name from 1 to {_TIERS_MAX} tiers, not {len(many)}")
    return tuple(_backend_of(one) for one in many)


def _backend_of(backend: object) -> Backend:
    if isinstance(backend, Backend):
        return backend
    if isinstance(backend, str) and backend == "file":
        return FileBackend()
    if isinstance(backend, str) and backend.startswith(_REDIS_SCHEMES):
        return RedisBackend(backend)
    if isinstance(backend, str) and backend.startswith(_MEMCACHED_SCHEMES):
        return MemcachedBackend(backend)
    if not isinstance(backend, (str, type)):
        methods = [getattr(backend, name, None) for name in _METHODS]
        if all(map(callable, methods)):
            _refuse_async(backend, methods)
            return ObjectBackend(backend)
    # Another text may be an address with a password in it.
    other = "another text" if isinstance(backend, str) else type(backend).__name__
    raise TypeError(
        'backend must be None, "file", "environment", "redis://…", "memcached://…", a FileBackend, '
        "a RedisBackend, a MemcachedBackend, an object with "
        f"the methods {', '.join(_METHODS)}, or a list of these, not {other}"
    )


def _refuse_async(backend: object, methods: list[Any]) -> None:
    import inspect

    if any(map(inspect.iscoroutinefunction, methods)):
        raise TypeError(
            f"the methods of {type(backend).__name__} must not be async: a tier is asked on a "
            "thread, from functions of both kinds"
        )


def names_of(backends: tuple[Backend, ...]) -> list[str]:
    """What health reports call the tiers."""
    kinds = [_kind_of(one) for one in backends]
    return [kind if not number else f"{kind} {number + 1}" for number, kind in enumerate(kinds)]


def with_notices(backends: Iterable[Backend]) -> list[NotingBackend]:
    """Those that pass invalidations on from one process to the others."""
    return [one for one in backends if isinstance(one, NotingBackend) and one.listen]


def check_listing(backends: Iterable[Backend]) -> None:
    """Refuses those whose entries cannot be listed for a predicate on their arguments."""
    for backend in backends:
        if not isinstance(backend, NotingBackend):
            raise TypeError(
                f"keep_arguments needs tiers that list their entries, a file or Redis; "
                f"{_kind_of(backend)} does not"
            )


def _kind_of(backend: Backend) -> str:
    if isinstance(backend, ObjectBackend):
        return type(backend.object).__name__
    kinds = {FileBackend: "file", RedisBackend: "redis", MemcachedBackend: "memcached"}
    return kinds[type(backend)]


def breaker_of(setting: object) -> CircuitBreaker | None:
    """What ``circuit_breaker`` means."""
    if setting is True:
        return CircuitBreaker()
    if setting is False or isinstance(setting, CircuitBreaker):
        return setting or None
    kind = type(setting).__name__
    raise TypeError(f"circuit_breaker must be a bool or a CircuitBreaker, not {kind}")


def pressure_of(setting: object) -> Backpressure | None:
    """What ``backpressure`` means."""
    if setting is True:
        return Backpressure()
    if setting is False or isinstance(setting, Backpressure):
        return setting or None
    raise TypeError(
        f"backpressure must be a bool or a Backpressure, not {type(setting).__name__}"
    )


def path_of(backend: FileBackend) -> str:
    if backend.folder is not None:
        return os.path.join(os.path.abspath(os.fspath(backend.folder)), _FILE)
    base = os.environ.get("XDG_CACHE_HOME")
    folder = pathlib.Path(base) if base else pathlib.Path.home() / ".cache"
    return str(folder / "tidemark-cache" / _FILE)


def file_of(backend: FileBackend) -> _native.SharedFile:
    """One object for each file, so that a process opens it once."""
    place = (path_of(backend), backend.megabytes)
    with _lock:
        return _file_at(place)


def _file_at(place: tuple[str, int]) -> _native.SharedFile:
    file = _files.get(place)
    if file is None:
        file = _files[place] = _native.SharedFile(place[0], place[1] << 20, _STRIPES)
    return file


def _tier_at(
    place: tuple[str, int] | _OtherBackend,
) -> _native.SharedFile | _OtherTier:
    if isinstance(place, tuple):
        return _file_at(place)
    other = _others.get(place)
    if other is None:
        other = _others[place] = place.open()
    return other


def noting_tier_of(backend: NotingBackend) -> _native.SharedFile | _native.SharedRedis:
    """One object for each file and server, so that a process has one set of connections."""
    if isinstance(backend, FileBackend):
        return file_of(backend)
    with _lock:
        server = _tier_at(backend)
    assert isinstance(server, _native.SharedRedis)
    return server


def stack_of(
    backends: Iterable[Backend],
    breaker: CircuitBreaker | None,
    pressure: Backpressure | None,
    stale_s: float,
) -> _native.StackOfTiers:
    """One object for all functions with these tiers and rules: what one learns, all know. A file
    next to a server answers for ``stale_s``."""
    places = tuple(
        (path_of(backend), backend.megabytes) if isinstance(backend, FileBackend) else backend
        for backend in backends
    )
    key = (places, breaker, pressure)
    with _lock:
        stack = _stacks.get(key)
        if stack is None:
            stack = _stacks[key] = _native.StackOfTiers(
                [_tier_at(place) for place in places],
                None if breaker is None else breaker.numbers(),
                None if pressure is None else pressure.numbers(),
                round(stale_s * 1_000),
            )
        return stack


def failure_of(error: Exception) -> tuple[str, str]:
    """Of which kind a failure is, and what happened."""
    text = str(error.args[-1]) if error.args else repr(error)
    is_tier = isinstance(error, _native.TierFailure)
    return (error.args[0] if is_tier else type(error).__name__, text)


def _new_lock() -> None:
    global _lock
    _lock = threading.RLock()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_new_lock)
