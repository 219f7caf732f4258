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

from tidemark_cache._attributes import CacheCounts
from tidemark_cache._codec import register_class
from tidemark_cache._decorator import cache, invalidate_namespace, invalidate_tags
from tidemark_cache._settings import CacheConfig
from tidemark_cache._tiers import Backpressure, CircuitBreaker, FileBackend, RedisBackend

__all__ = [
    "Backpressure",
    "CacheConfig",
    "CacheCounts",
    "CircuitBreaker",
    "FileBackend",
    "RedisBackend",
    "cache",
    "invalidate_namespace",
    "invalidate_tags",
    "register_class",
]
