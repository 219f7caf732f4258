from collections.abc import Callable, Iterable
from datetime import timedelta
from typing import Any, Concatenate, Generic, NamedTuple, ParamSpec, TypeVar, overload

__all__ = ["CacheCounts", "cache", "invalidate_tags"]

P = ParamSpec("P")
Q = ParamSpec("Q")
R = TypeVar("R")
R_co = TypeVar("R_co", covariant=True)
S = TypeVar("S")

class CacheCounts(NamedTuple):
    hits: int
    misses: int
    maxsize: int
    currsize: int | None

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
    def cache_contains(self, *args: P.args, **kwargs: P.kwargs) -> bool: ...
    # Any arguments: without any, everything is forgotten.
    def invalidate_cache(self, *args: Any, **kwargs: Any) -> bool: ...
    async def ainvalidate_cache(self, *args: Any, **kwargs: Any) -> bool: ...

@overload
def cache(function: Callable[P, R], /) -> CachedFunction[P, R]: ...
@overload
def cache(
    *,
    ttl: float | timedelta | Callable[[Any], float | timedelta | None] | None = None,
    maxsize: int = 10_000,
    copy: str = "auto",
    key: Callable[..., Any] | None = None,
    ignore: Iterable[str] = (),
    when: Callable[[Any], Any] | None = None,
    unless: Callable[[Any], Any] | None = None,
    tags: Iterable[str] | Callable[..., Iterable[str]] = (),
    flight_wait: float | timedelta = 30.0,
) -> Callable[[Callable[P, R]], CachedFunction[P, R]]: ...
def invalidate_tags(*tags: str) -> None: ...
