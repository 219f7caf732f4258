"""Faults seen in the keys and values of cachekit 0.24.1: each test passes here and fails there.

In an environment with cachekit, `TIDEMARK_FAULTS_OF=cachekit pytest tests/test_faults.py` runs them
on it. A test that does not fail then fails the run: what the guide says of cachekit is no longer so.
"""

import collections
import dataclasses
import datetime
import decimal
import enum
import logging
import os
import pathlib
import uuid
from collections.abc import Callable
from typing import Any, NamedTuple

import pytest

IS_CACHEKIT = os.environ.get("TIDEMARK_FAULTS_OF") == "cachekit"
if IS_CACHEKIT:
    import cachekit  # type: ignore[import-not-found,unused-ignore]

    logging.disable(logging.CRITICAL)
    pytestmark = pytest.mark.xfail(strict=True, reason="a fault of cachekit")
else:
    from tidemark_cache import FileBackend, cache


class Shared:
    """What any backend of cachekit offers."""

    def __init__(self) -> None:
        self._held: dict[str, bytes] = {}

    def get(self, key: str) -> bytes | None:
        return self._held.get(key)

    def set(self, key: str, value: bytes, ttl: int | None = None) -> None:
        self._held[key] = bytes(value)

    def delete(self, key: str) -> bool:
        return self._held.pop(key, None) is not None

    def exists(self, key: str) -> bool:
        return key in self._held

    def health_check(self) -> tuple[bool, dict[str, Any]]:
        return True, {}


def in_memory(function: Any) -> Any:
    if IS_CACHEKIT:
        return cachekit.cache(backend=None, ttl=60)(function)
    return cache(ttl=60)(function)


@pytest.fixture
def backed(tmp_path: pathlib.Path) -> Callable[..., Any]:
    """Decorates a function that shares answers with others of its name."""
    shared = Shared()
    # Of this test alone: cachekit keeps one memory for each namespace.
    namespace = f"faults-{uuid.uuid4()}"

    def decorate(function: Any, **names: Any) -> Any:
        if IS_CACHEKIT:
            return cachekit.cache(backend=shared, namespace=namespace, ttl=60)(function)
        backend = FileBackend(folder=tmp_path / "tier", megabytes=1)
        return cache(backend=backend, namespace=namespace, ttl=60, **names)(function)

    return decorate


class Colour(enum.Enum):
    RED = "red"


@dataclasses.dataclass(frozen=True)
class Point:
    x: int


class Pair(NamedTuple):
    left: int
    right: int


class Counted:
    """A function of one argument, and how often it has run."""

    def __init__(self, value: Any = None) -> None:
        self.runs = 0
        self.value = value

    def function(self) -> Any:
        def body(argument: Any) -> Point | Pair | Colour | Any:
            self.runs += 1
            return self.runs if self.value is None else self.value

        return body


def test_call_by_position_and_by_name_is_one() -> None:
    counted = Counted()
    read = in_memory(counted.function())
    assert [read(1), read(argument=1)] == [1, 1]


NUMBER = uuid.UUID(int=5)
PAIRS = {
    "tuple and list": ((1, 2), [1, 2]),
    "Decimal and text": (decimal.Decimal("1"), "1"),
    "path and text": (pathlib.Path("a"), "a"),
    "UUID and text": (NUMBER, str(NUMBER)),
    "member and its value": (Colour.RED, "red"),
}
DEPTHS: dict[str, Callable[[Any], Any]] = {
    "alone": lambda one: one,
    "in a list": lambda one: [one],
    "in a dict in a tuple": lambda one: ({"key": one},),
}


@pytest.mark.parametrize("depth", DEPTHS)
@pytest.mark.parametrize("pair", PAIRS)
def test_arguments_of_two_types_are_two(pair: str, depth: str) -> None:
    read = in_memory(Counted().function())
    assert [read(DEPTHS[depth](one)) for one in PAIRS[pair]] == [1, 2]


ARGUMENTS: dict[str, Callable[[], Any]] = {
    "set": lambda: {1, 2},
    "frozenset": lambda: frozenset({1, 2}),
    "date": lambda: datetime.date(2026, 1, 2),
    "datetime without a zone": lambda: datetime.datetime(2026, 1, 2),
    "data class": lambda: Point(1),
    "integer of 65 bits": lambda: 2**64,
    "complex": lambda: 1j,
    "range": lambda: range(3),
    "object": lambda: Ellipsis,
}


@pytest.mark.parametrize("kind", ARGUMENTS)
def test_argument_is_a_key_of(kind: str) -> None:
    counted = Counted()
    read = in_memory(counted.function())
    assert [read(ARGUMENTS[kind]()), read(ARGUMENTS[kind]())] == [1, 1]


def test_method_is_cached() -> None:
    class Shop:
        runs = 0

        @in_memory
        def price(self, item: str) -> int:
            self.runs += 1
            return self.runs

    shop = Shop()
    assert [shop.price("tea"), shop.price("tea")] == [1, 1]


def test_functions_of_one_name_answer_for_themselves(backed: Any) -> None:
    def making(number: int) -> Any:
        def read() -> int:
            return number

        return backed(read)

    try:
        one, other = making(1), making(2)
    except TypeError:
        # `namespace` and `version` would distinguish them; without these they are refused.
        return
    assert (one(), other()) == (1, 2)


KEPT_TYPES: dict[str, Callable[[], Any]] = {
    "tuple": lambda: (1, 2),
    "named tuple": lambda: Pair(1, 2),
    "OrderedDict": lambda: collections.OrderedDict(a=1),
    "defaultdict": lambda: collections.defaultdict(list, a=[1]),
    "bytearray": lambda: bytearray(b"ab"),
}


def once_and_again(backed: Any, value: Any) -> tuple[int, Any, Any]:
    """Runs of the body, what the first caller gets, and what one gets of the shared tier."""
    counted = Counted(value)
    names = {} if IS_CACHEKIT else {"version": 1}
    first, second = (backed(counted.function(), **names) for _ in range(2))
    answers = first("a"), second("a")
    return counted.runs, *answers


@pytest.mark.parametrize("kind", KEPT_TYPES)
def test_hit_has_the_type_of_the_miss(backed: Any, kind: str) -> None:
    _, missed, hit = once_and_again(backed, KEPT_TYPES[kind]())
    assert hit == missed and type(hit) is type(missed)


CACHED_VALUES: dict[str, Callable[[], Any]] = {
    "dict with other keys than texts": lambda: {1: "a", (2, 3): "b"},
    "data class": lambda: Point(1),
    "timedelta": lambda: datetime.timedelta(seconds=1),
    "Decimal": lambda: decimal.Decimal("1.0"),
    "integer of 71 bits": lambda: 2**70,
    "member of an enum": lambda: Colour.RED,
    "path": lambda: pathlib.Path("a"),
}


@pytest.mark.parametrize("kind", CACHED_VALUES)
def test_value_is_cached(backed: Any, kind: str) -> None:
    runs, missed, hit = once_and_again(backed, CACHED_VALUES[kind]())
    assert runs == 1 and hit == missed and type(hit) is type(missed)


def test_iterator_is_not_used_up_by_its_first_caller() -> None:
    @in_memory
    def numbers() -> Any:
        return iter([1, 2])

    try:
        answers = [list(numbers()), list(numbers())]
    except TypeError:
        # Refused, with an explanation.
        return
    assert answers == [[1, 2]] * 2
