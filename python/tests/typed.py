"""Checked by mypy, not run: what a decorated function's types are. See test_types.py."""

from collections.abc import Callable
from typing import assert_type

from tidemark_cache import cache, invalidate_tags


@cache
def bare(number: int, text: str = "") -> list[int]:
    return [number]


@cache(ttl=60, tags=["a"], copy="share")
async def awaited(number: int) -> str:
    return str(number)


class Shop:
    @cache(maxsize=3)
    def price(self, item: str) -> float:
        return 1.0

    @classmethod
    @cache
    def of_class(cls, number: int) -> int:
        return number


async def main() -> None:
    assert_type(bare(1, text="a"), list[int])
    assert_type(await awaited(1), str)
    assert_type(Shop().price("tea"), float)
    assert_type(Shop().price.cache_info().hits, int)
    assert_type(bare.cache_contains(1), bool)
    assert_type(await awaited.ainvalidate_cache(1), bool)
    plain: Callable[[int], list[int]] = bare
    plain(1)
    invalidate_tags("a")


def wrong() -> None:
    bare("x")  # expect: arg-type
    bare(1, other=2)  # expect: call-arg
    Shop().price(1)  # expect: arg-type
    cache(max_size=3)  # expect: call-overload
    invalidate_tags(1)  # expect: arg-type
