"""Laws that hold on every tier, with generated values and generated histories."""

import itertools
import pathlib
import tempfile
import weakref
from collections.abc import Iterator
from typing import Any, NamedTuple

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from test_memcached import Server as Memcached
from test_redis import Server

from tidemark_cache import FileBackend, RedisBackend, _functions, cache, invalidate_tags

KINDS = ["file", "redis", "memcached", "object", "file and redis"]
#: Namespaces are used once, so that examples do not meet.
NUMBERS = itertools.count()


class Pair(NamedTuple):
    left: Any
    right: Any


class Shelf:
    """A tier of whole records."""

    def __init__(self) -> None:
        self.records: dict[str, bytes] = {}

    def get(self, key: str) -> bytes | None:
        return self.records.get(key)

    def set(self, key: str, value: bytes, ttl: int) -> None:
        self.records[key] = value

    def delete(self, key: str) -> bool:
        return self.records.pop(key, None) is not None


@pytest.fixture(scope="module")
def backends() -> Iterator[dict[str, Any]]:
    with tempfile.TemporaryDirectory() as folder:
        server, memcached = Server(pathlib.Path(folder)), Memcached(pathlib.Path(folder))
        file = FileBackend(folder=f"{folder}/tier", megabytes=8, listen=False)
        redis = RedisBackend(server.url, listen=False)
        tiers = [file, redis, memcached.url, Shelf(), [file, redis]]
        yield dict(zip(KINDS, tiers, strict=True))
        server.stop()
        memcached.stop()


@pytest.fixture(autouse=True)
def no_functions_of_other_tests(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(_functions, "all_of_process", weakref.WeakSet())


def demand_same(found: Any, wanted: Any) -> None:
    assert type(found) is type(wanted) and found == wanted
    if isinstance(wanted, dict):
        for pair in zip(found.items(), wanted.items(), strict=True):
            demand_same(*pair)
    elif isinstance(wanted, (list, tuple)):
        for one, other in zip(found, wanted, strict=True):
            demand_same(one, other)


LEAVES = st.one_of(
    st.none(), st.booleans(), st.integers(), st.floats(allow_nan=False), st.text(), st.binary(),
    st.datetimes(), st.decimals(allow_nan=False), st.binary(min_size=3_000, max_size=9_000),
)  # fmt: skip
TREES = st.recursive(
    LEAVES,
    lambda inner: st.one_of(
        st.lists(inner),
        st.dictionaries(st.one_of(st.text(), st.integers()), inner),
        st.builds(Pair, inner, inner),
    ),
    max_leaves=12,
)
# The tiers stay for all examples: only the names in them are new.
shared = settings(suppress_health_check=[HealthCheck.function_scoped_fixture], max_examples=60)


def reader(backend: Any, namespace: str, source: Any, **rules: Any) -> Any:
    """The function as another process has it: with no answer in memory."""

    @cache(backend=backend, namespace=namespace, version=1, circuit_breaker=False, **rules)
    def function(key: int) -> Pair:
        return Pair(key, source(key))

    return function


@pytest.mark.parametrize("kind", KINDS)
@shared
@given(value=TREES)
def test_every_tier_gives_what_memory_gives(
    backends: dict[str, Any], kind: str, value: Any
) -> None:
    namespace = f"equal {next(NUMBERS)}"
    in_memory = cache(lambda: Pair(0, value))
    writer = reader(backends[kind], namespace, lambda _: value)
    demand_same(writer(0), in_memory())
    other = reader(backends[kind], namespace, lambda _: pytest.fail("the tier has it"))
    demand_same(other(0), in_memory())
    assert other.cache_info().l2_hits == 1


#: What one process does with a key: changes its source, and how it then invalidates.
ACTS = ["call", "tag", "function", "read", "read elsewhere", "set", "refresh", "set elsewhere"]
HISTORIES = st.lists(st.tuples(st.sampled_from(ACTS), st.integers(0, 2)), max_size=12)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("has_own_tags", [False, True])
@shared
@given(history=HISTORIES)
def test_read_after_an_invalidation_gives_what_the_source_has(
    backends: dict[str, Any],
    kind: str,
    has_own_tags: bool,
    history: list[tuple[str, int]],
) -> None:
    namespace = f"history {next(NUMBERS)}"
    source = [0, 0, 0]
    rules: dict[str, Any] = {"tags": lambda key: [f"{namespace} {key}"]}
    if has_own_tags:
        rules = {"result_tags": lambda pair: [f"{namespace} {pair.left}"]}

    def process() -> Any:
        return reader(backends[kind], namespace, source.__getitem__, **rules)

    function = process()
    for act, key in history:
        if act == "read elsewhere":
            assert process()(key) == (key, source[key])
        elif act == "set elsewhere":
            process().cache_set(Pair(key, source[key]), key)
        elif act == "set":
            function.cache_set(Pair(key, source[key]), key)
        elif act == "refresh":
            assert function.cache_refresh(key) == (key, source[key])
        elif act != "read":
            source[key] += 1
            if act == "call":
                function.invalidate_cache(key)
            elif act == "tag":
                assert invalidate_tags(f"{namespace} {key}")
            else:
                function.cache_clear()
        assert function(key) == (key, source[key])
    for key, version in enumerate(source):
        assert process()(key) == (key, version)
