"""Settings, presets and attributes of the decorator that are no matter of keys, values or time."""

import asyncio
import copy
import gc
import hashlib
import os
import pathlib
import pickle
import re
import struct
import subprocess
import sys
import weakref
from typing import Any

import pytest

import tidemark_cache
from tidemark_cache import CacheConfig, MemoryBudget, cache, invalidate_namespace

PACKAGE = str(pathlib.Path(tidemark_cache.__file__ or "").parents[1])
GOLDEN = pathlib.Path(__file__).with_name("golden_keys.txt")


@pytest.mark.parametrize(
    "settings, words",
    [
        ({"max_size": 3}, "no setting 'max_size'; did you mean 'maxsize'"),
        ({"colour": "secret"}, "no setting 'colour'$"),
        ({"serializer": "secret"}, "'serializer' yet: it is for tiers below memory"),
        ({"encryption": "secret"}, "'encryption' yet"),
        ({"interop": "secret"}, "'interop' yet"),
        ({"backend": object()}, "backend must be None, \"file\", \"environment\""),
        ({"backend": "mongodb://:secret@host"}, "not another text"),
        ({"backend": "redissy://:secret@host"}, "not another text"),
        ({"circuit_breaker": 3}, "circuit_breaker must be a bool or a CircuitBreaker, not int"),
        ({"backpressure": None}, "backpressure must be a bool or a Backpressure, not NoneType"),
        ({"write_behind": 1}, "write_behind must be a bool"),
        ({"backend": "file", "ttl": 1, "refresh_ttl_on_get": True}, "refresh_ttl_on_get and"),
        ({"l1_enabled": False}, "l1_enabled must be True"),
        ({"maxsize": 1, "max_entries": 1}, "maxsize and max_entries"),
        ({"config": {"ttl": 1}}, "config must be a CacheConfig, not dict"),
        ({"cache_errors": 3}, "cache_errors"),
        ({"cache_errors": KeyboardInterrupt}, "cache_errors"),
        ({"namespace": 3}, "namespace must be a str"),
        ({"version": 1.5}, "version"),
        ({"on_evict": 3}, "on_evict must be callable"),
        ({"tags": 3}, "tags must be several str, not int"),
        ({"ignore": None}, "ignore must be several str, not NoneType"),
        ({"ignore": lambda: ()}, "ignore must be several str, not function"),
        ({"max_bytes": "1"}, "max_bytes must be an int"),
        ({"materialise": 1}, "materialise must be a bool, not int"),
        ({"refresh_ttl_on_get": 1, "ttl": 1}, "refresh_ttl_on_get must be a bool"),
    ],
)
def test_setting_that_is_unknown_or_not_supported_is_named_and_never_shown(
    settings: dict[str, Any], words: str
) -> None:
    with pytest.raises(TypeError, match=words) as refused:
        cache(**settings)
    assert "secret" not in str(refused.value)


@pytest.mark.parametrize(
    "settings, words",
    [
        ({"namespace": "ck"}, "reserved"),
        ({"namespace": "ck:a"}, "reserved"),
        ({"namespace": ""}, "1 to 200"),
        ({"max_bytes": 0}, "max_bytes must be from 1"),
    ],
)
def test_setting_out_of_range_is_refused(settings: dict[str, Any], words: str) -> None:
    with pytest.raises(ValueError, match=words):
        cache(**settings)


def test_presets_have_lifetimes_that_keywords_override() -> None:
    def ttl(decorated: Any) -> Any:
        return decorated._config.ttl

    presets = (cache.minimal, cache.production, cache.dev, cache.test, cache.local)
    assert [ttl(preset(len)) for preset in presets] == [300, 600, 300, 300, 300]
    assert [preset(len)._config.refresh_ahead for preset in presets[:2]] == [False, True]
    assert cache.local(len).cache_info().maxsize == 256
    assert ttl(cache.production(ttl=5)(len)) == 5
    assert ttl(cache(len)) is None


@pytest.mark.parametrize("settings", [{"jitter": 0.1}, {"ttl": 1.5}, {"ttl": True}, {"tags": []}])
def test_local_preset_takes_few_settings(settings: dict[str, Any]) -> None:
    with pytest.raises(TypeError, match="cache.local"):
        cache.local(**settings)
    with pytest.raises(ValueError, match="at least 1"):
        cache.local(ttl=0)


def test_preset_of_a_tier_that_is_not_there_is_refused() -> None:
    for preset in (cache.secure, cache.io):
        with pytest.raises(TypeError, match="not supported yet"):
            preset(len)


def test_config_is_shared_and_keywords_override_it() -> None:
    config = CacheConfig(ttl=60, maxsize=3)
    one = cache(config=config, maxsize=5)(lambda number: number)
    assert (one.cache_info().maxsize, one._config.ttl) == (5, 60)
    with pytest.raises(AttributeError):
        config.ttl = 5  # type: ignore[misc]
    with pytest.raises(ValueError, match="ttl"):
        CacheConfig(ttl=-1)


def test_namespace_is_forgotten_as_one() -> None:
    one = cache(namespace="shop")(lambda number: number)
    other = cache(namespace="shop")(lambda number: number)
    apart = cache(namespace="else")(lambda number: number)
    one(1), other(1), apart(1)
    assert invalidate_namespace("shop") is True
    assert [f.cache_contains(1) for f in (one, other, apart)] == [False, False, True]
    reference = weakref.ref(one)
    del one
    gc.collect()
    assert reference() is None and invalidate_namespace("shop")
    assert invalidate_namespace("none") is True


def test_attributes_read_and_write_single_answers() -> None:
    runs: list[int] = []

    @cache
    def double(number: int) -> list[int]:
        runs.append(number)
        return [number, number]

    with pytest.raises(KeyError, match="double"):
        double.cache_get(1)
    double.cache_set([7], 1)
    assert double(1) == [7] and not runs
    got = double.cache_get(number=1)
    got.append(8)
    assert double.cache_peek(1) == [7]
    hits = double.cache_info().hits
    double.cache_peek(1)
    assert double.cache_info().hits == hits == 2
    assert double.cache_refresh(1) == [1, 1] == double(1) and runs == [1]
    assert double.cache_bypass(1) == [1, 1] and runs == [1, 1]
    assert double.check_health()["status"] == "healthy"
    assert double.get_health_status()["counts"]["hits"] == double.cache_info().hits
    info = double.cache_info()
    assert info.l1_hits + info.l2_hits == info.hits


def test_attributes_of_a_method_mean_its_instance() -> None:
    class Shop:
        @cache(ttl=60)
        def price(self, item: str) -> str:
            return item

    one, other = Shop(), Shop()
    one.price.cache_set("dear", "tea")
    assert (one.price("tea"), other.price("tea")) == ("dear", "tea")
    assert one.price.cache_peek("tea") == "dear" and one.price.cache_touch("tea")
    assert one.price.cache_refresh("tea") == "tea" == one.price.cache_get("tea")


def test_attributes_of_an_async_function_are_awaited_where_the_body_runs() -> None:
    runs: list[int] = []

    @cache
    async def double(number: int) -> int:
        runs.append(number)
        return number * 2

    async def main() -> None:
        assert await double.cache_refresh(2) == 4 == double.cache_get(2)
        assert await double(2) == 4 and runs == [2]
        double.cache_set(9, 3)
        assert await double(3) == 9
        assert (await double.check_health())["status"] == "healthy"
        await double.acache_clear()
        assert not double.cache_contains(2)

    asyncio.run(main())


def test_failed_refresh_on_request_leaves_the_older_answer() -> None:
    runs: list[int] = []

    @cache
    def read() -> int:
        runs.append(1)
        if len(runs) == 2:
            raise OSError("down")
        return len(runs)

    read()
    with pytest.raises(OSError, match="down"):
        read.cache_refresh()
    assert read() == 1


def test_bytes_are_bounded_over_all_instances() -> None:
    class Shop:
        @cache(max_bytes=100_000)
        def page(self, number: int) -> bytes:
            return bytes(9_000)

    shops = [Shop() for _ in range(10)]
    for shop in shops:
        for number in range(10):
            assert shop.page(number) == bytes(9_000)
            assert Shop.page.cache_info().bytes <= 100_000
    assert Shop.page.cache_info().evictions >= 80
    large = cache(max_bytes=1_000)(lambda: [bytes(2_000)])
    large(), large()
    assert large.cache_info()[:4] == (0, 2, 10_000, 0), "larger than the bound: never kept"
    del shops, shop
    gc.collect()
    assert Shop.page.cache_info().bytes == 0


def test_bytes_are_bounded_over_all_functions_that_share_them() -> None:
    budget = MemoryBudget(100_000)
    pages = [cache(max_bytes=budget)(lambda number: bytes(4_000)) for _ in range(5)]
    for page in pages:
        for number in range(20):
            assert page(number) == bytes(4_000)
            assert budget.bytes <= budget.max_bytes == 100_000
    held = [page.cache_info().bytes or 0 for page in pages]
    assert sum(held) == budget.bytes > 90_000
    assert pages[-1].cache_info().currsize > 1, "the others have made room"
    assert sum(page.cache_info().evictions for page in pages) > 70
    large = cache(max_bytes=budget)(lambda: bytes(200_000))
    large(), large()
    assert large.cache_info().misses == 2 and budget.bytes > 90_000
    del page
    while pages:
        pages.pop()
        gc.collect()
        assert budget.bytes == sum(page.cache_info().bytes or 0 for page in pages)
    assert budget.bytes == 0
    alone = cache(max_bytes=budget)(lambda number: bytes(4_000))
    alone(1), alone(1)
    assert alone.cache_info().hits == 1, "what has ended pays for nobody"


def test_budget_is_checked_and_no_method_shares_one() -> None:
    for wrong in (0, -1, 2**48 + 1):
        with pytest.raises(ValueError, match="max_bytes must be from 1 to 281474976710656 bytes"):
            MemoryBudget(wrong)
    # Until 3.11 the interpreter raises an exception of its own for one of `__set_name__`.
    with pytest.raises((TypeError, RuntimeError)) as refused:

        class Shop:
            @cache(max_bytes=MemoryBudget(1_000))
            def page(self) -> bytes:
                return b""

    error = refused.value.__cause__ or refused.value
    assert "a method cannot share a MemoryBudget" in str(error)


def test_on_evict_hears_of_each_entry_that_leaves_and_may_call_the_cache() -> None:
    told: list[tuple[str, Any]] = []

    def hear(reason: str, value: Any) -> None:
        told.append((reason, value))
        small.cache_info(), small.cache_contains(1)

    small = cache(maxsize=1, on_evict=hear)(lambda number: number)
    small(1), small(2)
    small.cache_set(5, 2)
    small.invalidate_cache(2)
    small(3)
    small.cache_clear()
    assert told == [("evicted", 1), ("replaced", 2), ("invalidated", 5), ("cleared", 3)]


def test_on_evict_that_raises_harms_no_caller(monkeypatch: pytest.MonkeyPatch) -> None:
    seen: list[Any] = []
    monkeypatch.setattr(sys, "unraisablehook", seen.append)
    small = cache(maxsize=1, on_evict=lambda reason, value: 1 / 0)(lambda number: number)
    assert [small(1), small(2), small(3)] == [1, 2, 3]
    assert [type(one.exc_value) for one in seen] == [ZeroDivisionError] * 2


def golden() -> list[tuple[str, str]]:
    lines = GOLDEN.read_text().splitlines()
    return [tuple(line.split(" = ")) for line in lines if line]  # type: ignore[misc]


@pytest.mark.parametrize("spelled, expected", golden())
def test_canonical_key_is_the_golden_one(spelled: str, expected: str) -> None:
    import collections
    import datetime
    import decimal
    import enum
    import fractions
    import uuid

    names = {
        "collections": collections,
        "datetime": datetime,
        "decimal": decimal,
        "fractions": fractions,
        "uuid": uuid,
        "pathlib": pathlib,
        "enum": enum,
    }
    key = cache(lambda value: None).cache_key(eval(spelled, names))
    assert key.rpartition(":")[2] == expected


def spelled_out(value: Any) -> bytes:
    """The canonical bytes of built-in values, written down once more."""

    def part(tag: bytes, content: bytes) -> bytes:
        return tag + struct.pack("<Q", len(content)) + content

    def unordered(tag: bytes, parts: list[bytes]) -> bytes:
        return tag + struct.pack("<Q", len(parts)) + b"".join(part(b"_", one) for one in parts)

    kind = type(value)
    if value is None or kind is bool:
        return {None: b"N", True: b"T", False: b"F"}[value]
    if kind is int:
        if -(2**63) <= value < 2**63:
            return b"i" + struct.pack("<q", value)
        return part(b"I", hex(value).encode())
    if kind is float:
        return b"f" + struct.pack("<d", value)
    if kind is str:
        return part(b"u", value.encode("utf-8", "surrogatepass"))
    if kind in (bytes, bytearray):
        return part(b"b" if kind is bytes else b"y", bytes(value))
    if kind in (tuple, list):
        tag = b"t" if kind is tuple else b"l"
        return tag + struct.pack("<Q", len(value)) + b"".join(map(spelled_out, value))
    if kind in (set, frozenset):
        return unordered(b"s" if kind is set else b"z", sorted(map(spelled_out, value)))
    pairs = sorted((spelled_out(key), spelled_out(item)) for key, item in value.items())
    return unordered(b"d", [key + item for key, item in pairs])


def test_canonical_bytes_of_built_in_values_are_as_spelled_out() -> None:
    checked = 0
    for spelled, expected in golden():
        if re.match(r"[a-z]+\.|range|slice|complex", spelled):
            continue
        digest = hashlib.blake2b(spelled_out(eval(spelled)), digest_size=32).hexdigest()
        assert digest == expected, spelled
        checked += 1
    assert checked == 23


def test_canonical_key_is_the_same_in_every_process_and_names_what_has_none() -> None:
    program = (
        "from tidemark_cache import cache\n"
        "def f(*values): pass\n"
        "print(cache(f).cache_key({'a', 'b', 'c'}, {frozenset({'x', 'y'}): {'k'}}))\n"
    )
    run = [sys.executable, "-c", program]
    seeds = ("0", "1", "2")
    said = {
        subprocess.run(run, capture_output=True, env={"PYTHONHASHSEED": seed}).stdout
        for seed in seeds
    }
    assert len(said) == 1 and said != {b""}
    with pytest.raises(TypeError, match="object of type object"):
        cache(lambda value: None).cache_key(object())


def test_canonical_key_has_namespace_and_version() -> None:
    named = cache(namespace="shop", version=2)(golden)
    assert named.cache_key().startswith("shop:tests.test_surface.golden:2:") or (
        named.cache_key().startswith("shop:test_surface.golden:2:")
    )


def test_import_brings_nothing_that_is_not_needed() -> None:
    program = "import sys, tidemark_cache; print(*sys.modules)"
    # Without `site`, which may import anything.
    run = [sys.executable, "-S", "-c", program]
    environment = os.environ | {"PYTHONPATH": PACKAGE}
    done = subprocess.run(run, capture_output=True, text=True, env=environment)
    loaded = set(done.stdout.split())
    assert "tidemark_cache._native" in loaded, done.stderr
    assert not loaded & {"asyncio", "logging", "numpy", "pandas", "polars", "trio"}
    # A fifth of the memory of an import, needed once a function is decorated.
    assert not loaded & {"collections", "functools", "types"}


def test_import_and_first_call_bring_none_of_what_imports_slowly() -> None:
    program = """
import sys
before = set(sys.modules)
from tidemark_cache import cache
@cache(ttl=60, maxsize=10)
def read(name, *, number=2): return {name: [number, (1.5, b"x")]}
assert read("a") == read(name="a", number=2) and read("a") is not read("a")
print(*set(sys.modules) - before)
"""
    # Without `site`, which may import anything. What keeps the lock off saves a warning of it.
    run = [sys.executable, "-S", "-c", program]
    lock = {name: text for name, text in os.environ.items() if name == "PYTHON_GIL"}
    environment = {"PYTHONPATH": PACKAGE} | lock
    done = subprocess.run(run, capture_output=True, text=True, env=environment)
    assert done.returncode == 0, done.stderr
    slow = {"dataclasses", "datetime", "decimal", "enum", "fractions", "inspect", "ipaddress"}
    slow |= {"pathlib", "queue", "re", "typing", "uuid", "zoneinfo"}
    assert not set(done.stdout.split()) & slow


@pytest.mark.parametrize("of_code", [True, False])
def test_parameters_are_those_of_the_signature(of_code: bool) -> None:
    def function(a, b=1, /, c=2, *more, d, e=3, **f):  # type: ignore[no-untyped-def]
        return (a, b, c, more, d, e, f)

    if not of_code:
        # Then `inspect` says it.
        function.mark = True  # type: ignore[attr-defined]
    cached = cache(function)
    assert cached(0, d=4) == cached(0, 1, 2, d=4, e=3) == (0, 1, 2, (), 4, 3, {})
    assert cached(0, 1, 2, 9, d=4, b=5) == (0, 1, 2, (9,), 4, 3, {"b": 5})
    assert cached.cache_info()[:2] == (1, 2)
    with pytest.raises(ValueError, match="no parameter"):
        cache(ignore=["more"])(function)


def test_config_cannot_be_changed_and_compares_by_its_settings() -> None:
    config = CacheConfig(ttl=5, maxsize=3)
    assert config == CacheConfig(maxsize=3, ttl=5) != CacheConfig(ttl=5)
    assert hash(config) == hash(CacheConfig(maxsize=3, ttl=5))
    assert repr(config) == "CacheConfig(ttl=5, maxsize=3)"
    assert pickle.loads(pickle.dumps(config)) == copy.copy(config) == config
    for change in (lambda: setattr(config, "ttl", 6), lambda: delattr(config, "ttl")):
        with pytest.raises(AttributeError, match="cannot be changed"):
            change()
    with pytest.raises(TypeError, match="no setting 'tl'; did you mean 'ttl'"):
        CacheConfig(tl=5)  # type: ignore[call-arg]
