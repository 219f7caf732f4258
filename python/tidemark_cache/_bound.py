"""A cached method, taken off its instance."""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any


class BoundCached:
    # ``instance.method``: calls with the instance in front, and so do the attributes.
    __slots__ = ("__self__", "__func__", "__weakref__")

    __doc__ = property(lambda self: self.__func__.__doc__)

    def __init__(self, cached: Any, instance: Any) -> None:
        self.__func__ = cached
        self.__self__ = instance

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        return self.__func__(self.__self__, *args, **kwargs)

    def __getattr__(self, name: str) -> Any:
        found = getattr(self.__func__, name)
        if name not in _PER_CALL:
            return found

        def of_instance(*args: Any, **kwargs: Any) -> Any:
            if name == "cache_set":
                return found(args[0], self.__self__, *args[1:], **kwargs)
            return found(self.__self__, *args, **kwargs)

        return of_instance

    def cache_clear(self) -> None:
        """Forget the answers of this instance."""
        self.__func__._clear_of(self.__self__)

    def cache_info(self) -> Any:
        """Counters of the method; ``currsize`` is this instance's."""
        return self.__func__._info_of(self.__self__)

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, BoundCached):
            return NotImplemented
        return self.__func__ is other.__func__ and self.__self__ is other.__self__

    def __hash__(self) -> int:
        return hash((id(self.__func__), id(self.__self__)))

    def __reduce__(self) -> tuple[Callable[..., Any], tuple[Any, ...]]:
        return getattr, (self.__self__, self.__func__.__name__)

    def __repr__(self) -> str:
        return f"<cached method {self.__func__.__qualname__} of {self.__self__!r}>"


_PER_CALL = frozenset(
    (
        "ainvalidate_cache",
        "cache_bypass",
        "cache_contains",
        "cache_get",
        "cache_key",
        "cache_peek",
        "cache_refresh",
        "cache_set",
        "cache_touch",
        "invalidate_cache",
    )
)
