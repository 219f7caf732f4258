"""A function cache: isolated results, one run for each miss, keys that keep types apart.

>>> from tidemark_cache import cache
>>> @cache(ttl=60)
... def area(width: int, height: int) -> int:
...     return width * height
>>> area(2, 3), area(width=2, height=3)
(6, 6)
>>> area.cache_info().hits
1
"""

import os

from tidemark_cache import _attributes as _attributes
from tidemark_cache._decorator import cache
from tidemark_cache._settings import CacheConfig

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

#: Where names are that cost an import only those programs that use them.
_LATER = {
    "Backpressure": "_tiers",
    "CacheCounts": "_counts",
    "CircuitBreaker": "_tiers",
    "FileBackend": "_tiers",
    "MemcachedBackend": "_tiers",
    "MemoryBudget": "_native",
    "PredicateError": "_predicate",
    "RedisBackend": "_tiers",
    "defer_invalidations": "_deferral",
    "invalidate_namespace": "_invalidation",
    "invalidate_tags": "_invalidation",
    "invalidates": "_invalidation",
    "register_class": "_codec",
}
_OF_CALLS = ("_async", "_bound", "_counts", "_encoders", "_refresh", "_values", "_weight")


def __getattr__(name: str) -> object:
    module = _LATER.get(name)
    if module is None:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    found: object = getattr(_imported(module), name)
    globals()[name] = found
    return found


def _imported(module: str) -> object:
    return __import__(f"{__name__}.{module}", fromlist=("*",))


def _import_all() -> None:
    """Import what a call may import. The child of a fork would wait for ever for a module that
    another thread was importing."""
    try:
        for module in _OF_CALLS:
            _imported(module)
    except ImportError:
        # The interpreter ends, and imports nothing any more.
        pass


if hasattr(os, "register_at_fork"):
    os.register_at_fork(before=_import_all)
