import os
from collections.abc import AsyncIterator, Callable, Coroutine, Iterable, Iterator, Sequence
from datetime import timedelta
from typing import (
    Any,
    Concatenate,
    Generic,
    Literal,
    NamedTuple,
    ParamSpec,
    Protocol,
    TypeAlias,
    TypeVar,
    overload,
)

__all__ = [
    "Backpressure",
    "CacheConfig",
    "CacheCounts",
    "CircuitBreaker",
    "FileBackend",
    "MemcachedBackend",
    "MemoryBudget",
    "PredicateError",
    "RedisBackend",
    "cache",
    "defer_invalidations",
    "invalidate_namespace",
    "invalidate_tags",
    "invalidates",
    "register_class",
]

P = ParamSpec("P")
Q = ParamSpec("Q")
R = TypeVar("R")
R_co = TypeVar("R_co", covariant=True)
S = TypeVar("S")
_T = TypeVar("_T")

_Copy = Literal["auto", "share", "deep", "bytes"]
_Duration = float | timedelta
_Errors = bool | type[Exception] | tuple[type[Exception], ...]
class _Records(Protocol):
    """An object that keeps records: any with these methods is a tier."""

    def get(self, key: str, /) -> Any: ...
    def set(self, key: str, value: bytes, ttl: int, /) -> Any: ...
    def delete(self, key: str, /) -> Any: ...

# A text is "file", "environment", or the address of a Redis or Memcached server.
_Backend: TypeAlias = "str | FileBackend | RedisBackend | MemcachedBackend | _Records"

class CacheCounts(NamedTuple):
    hits: int
    misses: int
    maxsize: int
    currsize: int | None
    bytes: int | None = None
    stale_hits: int = 0
    refreshes: int = 0
    refresh_failures: int = 0
    evictions: int = 0
    expirations: int = 0
    l1_hits: int = 0
    l2_hits: int = 0
    l2_failures: int = 0
    l2_rejected: int = 0
    l1_renewals: int = 0

class MemoryBudget:
    def __init__(self, max_bytes: int) -> None: ...
    @property
    def max_bytes(self) -> int: ...
    @property
    def bytes(self) -> int: ...

class FileBackend:
    def __init__(
        self,
        *,
        folder: str | os.PathLike[str] | None = None,
        megabytes: int = 256,
        listen: bool = True,
    ) -> None: ...
    @property
    def folder(self) -> str | os.PathLike[str] | None: ...
    @property
    def megabytes(self) -> int: ...

class RedisBackend:
    def __init__(
        self,
        url: str,
        *,
        prefix: str = "tidemark",
        timeout: _Duration = 1.0,
        connect_timeout: _Duration = 1.0,
        connections: int = 50,
        megabytes: int = 100,
        tls_ca: str | os.PathLike[str] | None = None,
        tls_certificate: str | os.PathLike[str] | None = None,
        tls_key: str | os.PathLike[str] | None = None,
        sentinels: Iterable[str] = (),
        cluster: Iterable[str] = (),
        listen: bool = True,
    ) -> None: ...
    @property
    def url(self) -> str: ...
    @property
    def prefix(self) -> str: ...

class MemcachedBackend:
    def __init__(
        self,
        url: str,
        *,
        prefix: str = "tidemark",
        timeout: _Duration = 1.0,
        connect_timeout: _Duration = 1.0,
        connections: int = 50,
        megabytes: int = 100,
        tls_ca: str | os.PathLike[str] | None = None,
        tls_certificate: str | os.PathLike[str] | None = None,
        tls_key: str | os.PathLike[str] | None = None,
    ) -> None: ...
    @property
    def url(self) -> str: ...
    @property
    def prefix(self) -> str: ...

class PredicateError(TypeError): ...

class CircuitBreaker:
    def __init__(
        self,
        *,
        failures: int = 5,
        window: _Duration = 60.0,
        pause: _Duration = 30.0,
        checks: int = 3,
    ) -> None: ...

class Backpressure:
    def __init__(
        self, *, concurrent: int = 100, queue: int = 1_000, wait: _Duration = 0.1
    ) -> None: ...

class CacheConfig:
    def __init__(
        self,
        *,
        ttl: _Duration | Callable[[Any], _Duration | None] | None = None,
        jitter: float = 0.0,
        maxsize: int = 10_000,
        max_bytes: int | MemoryBudget | None = None,
        namespace: str | None = None,
        version: str | int | None = None,
        copy: _Copy = "auto",
        materialise: bool = False,
        key: Callable[..., Any] | None = None,
        ignore: Iterable[str] = (),
        when: Callable[[Any], Any] | None = None,
        unless: Callable[[Any], Any] | None = None,
        cache_errors: _Errors = False,
        error_ttl: _Duration = 10.0,
        tags: Iterable[str] | Callable[..., Iterable[str]] = (),
        result_tags: Callable[[Any], Iterable[str]] | None = None,
        on_evict: Callable[[str, Any], Any] | None = None,
        flight_wait: _Duration = 30.0,
        refresh_ahead: bool | float = False,
        refresh_ttl_on_get: bool = False,
        ttl_refresh_threshold: float = 0.5,
        stale_ttl: _Duration = 0.0,
        stale_if_error: _Duration = 0.0,
        backend: _Backend | Sequence[_Backend] | None = None,
        circuit_breaker: bool | CircuitBreaker = True,
        backpressure: bool | Backpressure = True,
        write_behind: bool = False,
        lease: Literal["wait", "stale", "run"] = "wait",
        keep_arguments: bool = False,
        l1_enabled: bool = True,
    ) -> None: ...
    @property
    def ttl(self) -> _Duration | Callable[[Any], _Duration | None] | None: ...
    @property
    def maxsize(self) -> int: ...

class CachedFunction(Generic[P, R_co]):
    """A decorated function: what it was, and what the cache adds."""

    __name__: str
    __qualname__: str
    __wrapped__: Callable[P, R_co]
    def __call__(self, *args: P.args, **kwargs: P.kwargs) -> R_co: ...
    @overload
    def __get__(self, instance: None, owner: type, /) -> CachedFunction[P, R_co]: ...
    @overload
    def __get__(
        self: CachedFunction[Concatenate[S, Q], R], instance: S, owner: type | None = None, /
    ) -> CachedFunction[Q, R]: ...
    def cache_info(self) -> CacheCounts: ...
    def cache_clear(self) -> None: ...
    async def acache_clear(self) -> None: ...
    def cache_contains(self, *args: P.args, **kwargs: P.kwargs) -> bool: ...
    # The value itself, also of an async function: it is there already.
    @overload
    def cache_get(
        self: CachedFunction[P, Coroutine[Any, Any, R]], *args: P.args, **kwargs: P.kwargs
    ) -> R: ...
    @overload
    def cache_get(self: CachedFunction[P, R], *args: P.args, **kwargs: P.kwargs) -> R: ...
    @overload
    def cache_peek(
        self: CachedFunction[P, Coroutine[Any, Any, R]], *args: P.args, **kwargs: P.kwargs
    ) -> R: ...
    @overload
    def cache_peek(self: CachedFunction[P, R], *args: P.args, **kwargs: P.kwargs) -> R: ...
    def cache_set(self, value: Any, /, *args: P.args, **kwargs: P.kwargs) -> None: ...
    def cache_touch(self, *args: P.args, **kwargs: P.kwargs) -> bool: ...
    def cache_refresh(self, *args: P.args, **kwargs: P.kwargs) -> R_co: ...
    def cache_bypass(self, *args: P.args, **kwargs: P.kwargs) -> R_co: ...
    def cache_key(self, *args: P.args, **kwargs: P.kwargs) -> str: ...
    # Any arguments: without any, everything is forgotten.
    def invalidate_cache(self, *args: Any, **kwargs: Any) -> bool: ...
    def invalidate_where(self, predicate: Callable[P, Any]) -> int: ...
    async def ainvalidate_where(self, predicate: Callable[P, Any]) -> int: ...
    async def ainvalidate_cache(self, *args: Any, **kwargs: Any) -> bool: ...
    def get_health_status(self) -> dict[str, Any]: ...
    def check_health(self) -> Any: ...

class _Preset:
    """The decorator, with lifetimes of its own."""

    @overload
    def __call__(self, function: Callable[P, R], /) -> CachedFunction[P, R]: ...
    @overload
    def __call__(
        self,
        *,
        config: CacheConfig | None = None,
        ttl: _Duration | Callable[[Any], _Duration | None] | None = ...,
        jitter: float = 0.0,
        maxsize: int = 10_000,
        max_entries: int = 10_000,
        max_bytes: int | MemoryBudget | None = None,
        namespace: str | None = None,
        version: str | int | None = None,
        copy: _Copy = "auto",
        materialise: Literal[False] = False,
        key: Callable[..., Any] | None = None,
        ignore: Iterable[str] = (),
        when: Callable[[Any], Any] | None = None,
        unless: Callable[[Any], Any] | None = None,
        cache_errors: _Errors = False,
        error_ttl: _Duration = 10.0,
        tags: Iterable[str] | Callable[..., Iterable[str]] = (),
        result_tags: Callable[[Any], Iterable[str]] | None = None,
        on_evict: Callable[[str, Any], Any] | None = None,
        flight_wait: _Duration = 30.0,
        refresh_ahead: bool | float = ...,
        refresh_ttl_on_get: bool = False,
        ttl_refresh_threshold: float = 0.5,
        stale_ttl: _Duration = 0.0,
        stale_if_error: _Duration = 0.0,
        backend: _Backend | Sequence[_Backend] | None = None,
        circuit_breaker: bool | CircuitBreaker = True,
        backpressure: bool | Backpressure = True,
        write_behind: bool = False,
        lease: Literal["wait", "stale", "run"] = "wait",
        keep_arguments: bool = False,
        l1_enabled: bool = True,
    ) -> Callable[[Callable[P, R]], CachedFunction[P, R]]: ...
    # The other settings are those above.
    @overload
    def __call__(self, *, materialise: Literal[True], **settings: Any) -> _Materialised: ...

class _Materialised:
    """The decorator of functions whose iterators become lists."""

    @overload
    def __call__(
        self, function: Callable[P, Coroutine[Any, Any, Iterator[_T] | AsyncIterator[_T]]], /
    ) -> CachedFunction[P, Coroutine[Any, Any, list[_T]]]: ...
    @overload
    def __call__(
        self, function: Callable[P, AsyncIterator[_T]], /
    ) -> CachedFunction[P, Coroutine[Any, Any, list[_T]]]: ...
    @overload
    def __call__(
        self, function: Callable[P, Iterator[_T]], /
    ) -> CachedFunction[P, list[_T]]: ...

class _Local:
    @overload
    def __call__(self, function: Callable[P, R], /) -> CachedFunction[P, R]: ...
    @overload
    def __call__(
        self,
        *,
        ttl: int = 300,
        max_entries: int = 256,
        namespace: str | None = None,
        key: Callable[..., Any] | None = None,
    ) -> Callable[[Callable[P, R]], CachedFunction[P, R]]: ...

class _Cache(_Preset):
    minimal: _Preset
    production: _Preset
    dev: _Preset
    test: _Preset
    local: _Local

cache: _Cache

def register_class(kind: type[_T]) -> type[_T]: ...
def invalidate_tags(
    *tags: str, backend: _Backend | Sequence[_Backend] | None = None
) -> bool: ...
def invalidate_namespace(
    namespace: str,
    *,
    prefix: bool = False,
    backend: _Backend | Sequence[_Backend] | None = None,
) -> bool: ...

class _Deferral:
    is_whole: bool | None
    def __enter__(self) -> _Deferral: ...
    def __exit__(self, *error: object) -> None: ...
    async def __aenter__(self) -> _Deferral: ...
    async def __aexit__(self, *error: object) -> None: ...

def defer_invalidations() -> _Deferral: ...
def invalidates(
    *functions: CachedFunction[..., Any],
    tags: Iterable[str] | Callable[..., Iterable[str]] = (),
    calls: Callable[..., Iterable[tuple[Any, ...]]] | None = None,
    namespaces: Iterable[str] = (),
    backend: _Backend | Sequence[_Backend] | None = None,
) -> Callable[[Callable[P, R]], Callable[P, R]]: ...
