"""What ``cache_info()`` gives."""

from typing import NamedTuple


class CacheCounts(NamedTuple):
    """What ``cache_info()`` gives; the first names are those of ``functools.lru_cache``."""

    #: Calls answered without running the body, those that waited for another's run included.
    hits: int
    misses: int
    maxsize: int
    #: Entries held; None for a method, whose instances hold their own.
    currsize: int | None
    #: Bytes held, for all instances of a method together; None unless ``max_bytes`` is given.
    bytes: int | None = None
    #: Those of the hits that were past their lifetime.
    stale_hits: int = 0
    #: Refreshes that brought a value, and those that failed.
    refreshes: int = 0
    refresh_failures: int = 0
    #: Entries that left for want of space, and because their time was over.
    evictions: int = 0
    expirations: int = 0
    #: Hits of each tier; their sum is ``hits``.
    l1_hits: int = 0
    l2_hits: int = 0
    #: What tiers below memory did not do: reads, stores and deletions.
    l2_failures: int = 0
    #: Reads and stores that did not take place: the breaker was open, or too many were under way.
    l2_rejected: int = 0
    #: How often memory kept an answer past its 3 seconds, by the stream of its tier.
    l1_renewals: int = 0

    def __repr__(self) -> str:
        """The names of ``lru_cache``, and of the others what is not zero."""
        others = [one for one in zip(self._fields, self, strict=True) if one[0] != "l1_hits"]
        shown = [*others[:4], *(one for one in others[4:] if one[1])]
        return f"CacheCounts({', '.join(f'{name}={value!r}' for name, value in shown)})"
