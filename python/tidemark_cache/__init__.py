"""A function cache whose hit costs what ``functools.lru_cache`` costs, and which isolates.

>>> from tidemark_cache import cache
>>> @cache(ttl=60)
... def area(width: int, height: int) -> int:
...     return width * height
>>> area(2, 3), area(width=2, height=3)
(6, 6)
>>> area.cache_info().hits
1
"""

from tidemark_cache._decorator import CacheCounts, cache, invalidate_tags

__all__ = ["CacheCounts", "cache", "invalidate_tags"]
