"""Checked by mypy and pyright, not run: what a decorated function's types are. See test_types.py.
"""

from collections.abc import AsyncIterator, Callable, Iterator
from typing import TypeVar, assert_type, overload

from tidemark_cache import (
    CacheConfig,
    MemoryBudget,
    cache,
    defer_invalidations,
    invalidate_namespace,
    invalidate_tags,
    invalidates,
)

T = TypeVar("T")


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


@cache
def first(items: list[T]) -> T:
    return items[0]


@cache(max_bytes=MemoryBudget(1_000_000))
def of_budget(number: int) -> bytes:
    return b""


@cache.production(max_bytes=1_000_000, config=CacheConfig(ttl=5))
def of_preset(number: int) -> int:
    return number


@cache.local(ttl=5, max_entries=3)
async def of_local(number: int) -> bytes:
    return b""


class Records:
    def get(self, key: str) -> bytes | None:
        return None

    def set(self, key: str, value: bytes, ttl: int) -> None: ...

    def delete(self, key: str) -> bool:
        return False


@cache(backend=[Records(), "file"], result_tags=lambda number: [str(number)])
def of_object(number: int) -> int:
    return number


@overload
def doubled(value: int) -> int: ...
@overload
def doubled(value: str) -> str: ...
@cache
def doubled(value: int | str) -> int | str:
    return value * 2


@cache(materialise=True, ttl=5)
def rows(number: int) -> Iterator[str]:
    yield str(number)


@cache(materialise=True)
async def rows_async(number: int) -> AsyncIterator[str]:
    yield str(number)


@invalidates(bare, tags=lambda number: [str(number)], calls=lambda number: [(bare, number)])
def writer(number: int) -> str:
    return ""


@invalidates(tags=["a"])
async def writer_async(number: int) -> bytes:
    return b""


async def main() -> None:
    assert_type(of_object(1), int)
    assert_type(doubled(1), int)
    assert_type(doubled("a"), str)
    assert_type(rows(1), list[str])
    assert_type(await rows_async(1), list[str])
    assert_type(writer(1), str)
    assert_type(await writer_async(1), bytes)
    async with defer_invalidations() as block:
        assert_type(block.is_whole, bool | None)
    assert_type(bare(1, text="a"), list[int])
    assert_type(await awaited(1), str)
    assert_type(Shop().price("tea"), float)
    assert_type(Shop().price.cache_info().hits, int)
    assert_type(bare.cache_contains(1), bool)
    assert_type(await awaited.ainvalidate_cache(1), bool)
    assert_type(of_preset(1), int)
    assert_type(of_budget(1), bytes)
    assert_type(await of_local(1), bytes)
    assert_type(of_preset.cache_peek(1), int)
    assert_type(awaited.cache_get(1), str)
    assert_type(await awaited.cache_refresh(1), str)
    assert_type(Shop().price.cache_key("tea"), str)
    assert_type(first([1]), int)
    plain: Callable[[int], list[int]] = bare
    plain(1)
    assert_type(invalidate_tags("a", backend="file"), bool)
    assert_type(invalidate_namespace("a", prefix=True, backend=["file"]), bool)


def wrong() -> None:
    bare("x")  # expect: arg-type
    bare(1, other=2)  # expect: call-arg
    Shop().price(1)  # expect: arg-type
    cache(max_size=3)  # expect: call-overload
    cache.local(jitter=0.5)  # expect: call-overload
    bare.cache_touch("x")  # expect: arg-type
    invalidate_tags(1)  # expect: arg-type
    writer("x")  # expect: arg-type
