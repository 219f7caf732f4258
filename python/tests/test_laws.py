"""Laws of memory for generated calls: what was invalidated is read again, and lifetimes keep their
order."""

import dataclasses
import time
from collections.abc import Callable
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from tidemark_cache import cache, invalidate_namespace, invalidate_tags

KEYS = 4


@dataclasses.dataclass
class Source:
    """What the answers are made of: each key has a version that rises."""

    versions: list[int] = dataclasses.field(default_factory=lambda: [0] * KEYS)
    #: No answer may show an older version than that.
    invalidated: list[int] = dataclasses.field(default_factory=lambda: [0] * KEYS)


def decorated(source: Source, **settings: Any) -> Any:
    @cache(tags=lambda key: ["all", f"parity {key % 2}"], namespace="laws", **settings)
    def read(key: int) -> list[int]:
        return [source.versions[key]]

    return read


#: How to invalidate, and which keys that means.
WAYS: dict[str, tuple[Callable[[Any, int], Any], Callable[[int, int], bool]]] = {
    "call": (lambda read, key: read.invalidate_cache(key), lambda key, one: key == one),
    "all calls": (lambda read, key: read.invalidate_cache(), lambda key, one: True),
    "function": (lambda read, key: read.cache_clear(), lambda key, one: True),
    "tag": (lambda read, key: invalidate_tags("all"), lambda key, one: True),
    "tag of some": (
        lambda read, key: invalidate_tags(f"parity {key % 2}"),
        lambda key, one: key % 2 == one % 2,
    ),
    "namespace": (lambda read, key: invalidate_namespace("laws"), lambda key, one: True),
    "predicate": (
        lambda read, key: read.invalidate_where(lambda one: one == key),
        lambda key, one: key == one,
    ),
}
keys = st.integers(0, KEYS - 1)
steps = st.lists(
    st.tuples(st.sampled_from(["read", "write", "refresh", *WAYS]), keys), min_size=1, max_size=60
)


@given(steps, st.sampled_from([{}, {"maxsize": 2}, {"ttl": 60, "stale_ttl": 60}]))
def test_call_after_an_invalidation_shows_what_was_written_before_it(
    steps: list[tuple[str, int]], settings: dict[str, Any]
) -> None:
    source = Source()
    read = decorated(source, **settings)
    for step, key in steps:
        if step == "write":
            source.versions[key] += 1
        elif step == "read":
            answer = read(key)
            assert source.invalidated[key] <= answer[0] <= source.versions[key]
            # Nor may a caller change what another one gets.
            answer[0] = -1
        elif step == "refresh":
            assert read.cache_refresh(key) == [source.versions[key]]
            source.invalidated[key] = source.versions[key]
        else:
            invalidate, is_meant = WAYS[step]
            invalidate(read, key)
            for one in filter(lambda one: is_meant(key, one), range(KEYS)):
                source.invalidated[one] = source.versions[one]


lifetimes = st.lists(st.integers(0, 30), min_size=2, max_size=6)


@given(lifetimes)
def test_entry_of_a_longer_lifetime_outlives_those_before_it(milliseconds: list[int]) -> None:
    ordered = sorted(milliseconds)

    @cache(ttl=lambda lifetime: lifetime / 1000)
    def kept(number: int) -> int:
        return ordered[number]

    # The longest one last, so that none ends earlier for having begun earlier.
    for number in range(len(ordered)):
        kept(number)
    end = time.monotonic() + 20
    seen = [True] * len(ordered)
    while any(seen):
        assert time.monotonic() < end
        # From the longest one on: what is over when it is looked at was over for all before.
        now = [kept.cache_contains(number) for number in reversed(range(len(ordered)))][::-1]
        assert now == sorted(now), "a longer lifetime ended first"
        assert all(before or not after for before, after in zip(seen, now, strict=True))
        seen = now
