"""What callers get: equal, of the same type, and shared with no other caller."""

import asyncio
import copy
import dataclasses
import datetime
import decimal
import enum
import inspect
import pickle
import threading
from collections import OrderedDict, defaultdict, deque
from collections.abc import AsyncIterator
from typing import Any, NamedTuple

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tidemark_cache import cache


class Pair(NamedTuple):
    a: Any
    b: Any


@dataclasses.dataclass
class Box:
    items: list[int]


@dataclasses.dataclass(frozen=True)
class Frozen:
    items: Any


class Colour(enum.Enum):
    RED = 1


def returning(value: Any, **settings: Any) -> Any:
    @cache(**settings)
    def give() -> Any:
        return value

    return give


def shared_list() -> Any:
    inner = [1]
    return {"a": inner, "b": [inner, (inner, 2)]}


def cycle() -> Any:
    value: list[Any] = [1]
    value.append((value, {"self": value}))
    return value


VALUES = [
    lambda: {"a": [1, {"b": {1, 2}}], "c": (1, [2], bytearray(b"x"))},
    shared_list,
    lambda: OrderedDict(a=[1]),
    lambda: defaultdict(list, a=[1]),
    lambda: deque([[1]]),
    lambda: Pair([1], 2),
    lambda: Box([1]),
    lambda: [Frozen([1]), Frozen(1)],
    lambda: {(1, "a"): [1]},
    lambda: {frozenset({1}): [1]},
    lambda: [{frozenset({1}), Frozen(2)}],
    lambda: [[[[]]]],
    lambda: (1, (2, [3])),
    lambda: bytearray(b"abc"),
    lambda: {1.5, None, "x"},
]


def mutate(value: Any, seen: set[int]) -> None:
    """Spoils every container it can reach."""
    if id(value) in seen or isinstance(value, (str, bytes, type)):
        return
    seen.add(id(value))
    if isinstance(value, dict):
        for item in list(value.values()):
            mutate(item, seen)
        value["spoilt"] = True
    elif isinstance(value, (list, deque)):
        for item in list(value):
            mutate(item, seen)
        value.append("spoilt")
    elif isinstance(value, set):
        value.add("spoilt")
    elif isinstance(value, bytearray):
        value.extend(b"spoilt")
    elif isinstance(value, tuple):
        for item in value:
            mutate(item, seen)
    elif dataclasses.is_dataclass(value):
        for field in dataclasses.fields(value):
            mutate(getattr(value, field.name), seen)


@pytest.mark.parametrize("mode", ["auto", "deep"])
@pytest.mark.parametrize("make", VALUES)
def test_no_caller_changes_what_another_gets(make: Any, mode: str) -> None:
    given_out = make()
    give = returning(given_out, copy=mode)
    for _ in range(4):
        answer = give()
        assert answer == make()
        assert type(answer) is type(make())
        mutate(answer, set())
    mutate(given_out, set())
    assert give() == make()
    assert give.cache_info().misses == 1


trees = st.recursive(
    st.none() | st.integers() | st.text(max_size=3) | st.binary(max_size=3),
    lambda inner: st.lists(inner, max_size=4)
    | st.dictionaries(st.text(max_size=2) | st.integers(), inner, max_size=4)
    | st.lists(inner, max_size=3).map(tuple)
    | st.sets(st.integers(), max_size=3),
    max_leaves=20,
)


@given(trees)
def test_isolation_and_round_trip_hold_for_generated_values(value: Any) -> None:
    kept = copy.deepcopy(value)
    give = returning(value)
    for _ in range(3):
        answer = give()
        assert answer == kept
        assert repr(type(answer)) == repr(type(kept))
        mutate(answer, set())


def test_aliases_and_cycles_come_back_as_they_were() -> None:
    give = returning(shared_list())
    for _ in range(3):
        answer = give()
        assert answer["a"] is answer["b"][0] is answer["b"][1][0]
    turn = returning(cycle())
    one, other = turn(), turn()
    for answer in (one, other):
        assert answer[1][0] is answer and answer[1][1]["self"] is answer
    assert one is not other and one[1] is not other[1]


@pytest.mark.parametrize(
    "value",
    [
        1,
        "text",
        (1, ("a", frozenset({b"x"}))),
        Colour.RED,
        Frozen((1, 2)),
        Pair(1, "a"),
        decimal.Decimal("1.0"),
        datetime.datetime(2026, 1, 1, tzinfo=datetime.timezone.utc),
        range(3),
        int,
    ],
)
def test_immutable_value_is_the_same_object(value: Any) -> None:
    give = returning(value)
    assert give() is give() is value


def test_shared_value_is_the_same_object() -> None:
    value = [1]
    give = returning(value, copy="share")
    assert give() is give() is value


@pytest.mark.parametrize(
    "make, words",
    [
        (lambda: (number for number in range(3)), "uses up"),
        (lambda: iter([1]), "uses up"),
        (lambda: open("/dev/null"), "uses up"),
        (threading.Lock, "copied"),
        (lambda: {"a": [threading.Lock()]}, "copied"),
    ],
)
def test_value_that_cannot_be_handed_out_twice_is_refused(make: Any, words: str) -> None:
    give = cache(make) if make is not threading.Lock else cache(lambda: threading.Lock())
    for _ in range(2):
        with pytest.raises(TypeError, match=words):
            give()
    assert give.cache_info().currsize == 0


def test_value_that_unfolds_without_end_is_kept_in_bounded_time() -> None:
    immutable: Any = (1,)
    for _ in range(100):
        immutable = (immutable, immutable)
    assert returning(immutable)() is immutable
    give = returning([immutable, []])
    give()
    assert give()[0] is immutable
    mutable: Any = [1]
    for _ in range(100):
        mutable = (mutable, mutable)
    twice = returning(mutable)
    twice()
    answer = twice()
    assert answer[0] is answer[1]


def test_value_deeper_than_the_native_copy_is_isolated_or_refused() -> None:
    value: Any = []
    for _ in range(230):
        value = [value]
    give = returning(value)
    first = give()
    first.append(1)
    assert len(give()) == 1
    for _ in range(100_000):
        value = [value]
    with pytest.raises(TypeError, match="recursion"):
        returning(value)()


@dataclasses.dataclass
class Node:
    first: Any
    rest: list[Any]


#: Of each node what it is, and which nodes it holds.
graphs = st.lists(
    st.tuples(st.sampled_from("ldtno"), st.lists(st.integers(0, 7), max_size=3)),
    min_size=1,
    max_size=8,
)


def graph_of(nodes: list[tuple[str, list[int]]]) -> Any:
    """The first node; any but a tuple may lead back to itself."""
    empty = {"l": list, "d": dict, "n": lambda: 7, "o": lambda: Node(None, [])}
    made: list[Any] = [empty.get(kind, lambda: None)() for kind, _ in nodes]
    for number in reversed(range(len(nodes))):
        kind, held = nodes[number]
        if kind == "t":
            made[number] = tuple(made[other] for other in held if number < other < len(nodes))
    for number, (kind, held) in enumerate(nodes):
        parts = [made[other] for other in held if other < len(nodes)]
        if kind == "l":
            made[number].extend(parts)
        elif kind == "d":
            made[number].update(enumerate(parts))
        elif kind == "o":
            made[number].rest.extend(parts)
            made[number].first = parts[0] if parts else None
    return made[0]


@given(graphs)
def test_generated_graphs_come_back_with_the_same_aliases_and_cycles(nodes: Any) -> None:
    value = graph_of(nodes)
    # Two graphs are written alike if they are the same but for the identity of their parts.
    kept = pickle.dumps(value)
    give = returning(value)
    answers = [give() for _ in range(3)]
    assert [pickle.dumps(answer) for answer in answers] == [kept] * 3
    assert give.cache_info().misses == 1


def test_async_iterator_of_a_plain_function_is_refused_with_the_reason() -> None:
    async def numbers() -> AsyncIterator[int]:
        yield 1

    with pytest.raises(TypeError, match="which only an async one can make a list of"):
        cache(materialise=True)(lambda: numbers())()


def test_iterators_are_materialised_on_request() -> None:
    runs: list[int] = []

    @cache(materialise=True)
    def squares(count: int, power: int = 2) -> Any:
        for number in range(count):
            runs.append(number)
            yield number**power

    for answer in (squares(3), squares(count=3, power=2), squares(3)):
        assert answer == [0, 1, 4]
        answer.append(9)
    assert runs == [0, 1, 2]
    assert not inspect.isgeneratorfunction(squares)
    assert str(inspect.signature(squares)) == "(count: int, power: int = 2) -> Any"
    assert squares.cache_bypass(2) == [0, 1]
    mapped = cache(materialise=True)(lambda texts: map(str.upper, texts))
    assert mapped(("a", "b")) == mapped(("a", "b")) == ["A", "B"]
    plain = cache(materialise=True)(lambda: {"a": (1, 2)})
    assert plain() == plain() == {"a": (1, 2)}
    with pytest.raises(TypeError, match="uses up"):
        cache(materialise=True)(lambda: open("/dev/null"))()


def test_async_iterators_are_materialised_on_request() -> None:
    class Shop:
        @cache(materialise=True)
        async def items(self, count: int) -> Any:
            for number in range(count):
                await asyncio.sleep(0)
                yield [number]

    @cache(materialise=True)
    async def numbers() -> Any:
        return iter([1, 2])

    async def main() -> None:
        shop = Shop()
        for _ in range(2):
            assert await shop.items(2) == [[0], [1]]
            assert await numbers() == [1, 2]
        assert inspect.iscoroutinefunction(Shop.items)
        assert shop.items.cache_info()[:2] == (1, 1)

    asyncio.run(main())
