"""Functions that keep bytes, and make a value from them for each caller."""

import asyncio
import collections
import copy
import dataclasses
import datetime
import decimal
import enum
import threading
from collections.abc import Callable
from typing import Any, NamedTuple

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tidemark_cache import cache


class Pair(NamedTuple):
    left: Any
    right: Any


class Colour(enum.Enum):
    RED = 1


@dataclasses.dataclass
class Basket:
    items: list[Any]
    owner: Pair | None = None
    colour: Colour = Colour.RED


class Other:
    pass


def keeping(value: Any, **settings: Any) -> Any:
    @cache(copy="bytes", **settings)
    def give() -> Basket | Pair | Any:
        return value

    return give


VALUES: list[Callable[[], Any]] = [
    lambda: 7,
    lambda: {"a": [1, {2, 3}, (4, [5])], 6: bytearray(b"x"), None: b"y"},
    lambda: collections.OrderedDict(a=[1]),
    lambda: collections.defaultdict(list, a=[1]),
    lambda: Basket([1, [2]], Pair("a", [3])),
    lambda: [datetime.datetime(2026, 1, 2), decimal.Decimal("1.0"), 2**70, -0.0],
]


@pytest.mark.parametrize("make", VALUES)
def test_bytes_give_each_caller_an_equal_value_of_the_same_type(make: Any) -> None:
    original = make()
    give = keeping(original)
    answers = [give() for _ in range(3)]
    for answer in answers:
        assert answer == make() and type(answer) is type(make())
        assert repr(answer) == repr(make())
    assert give.cache_info()[:2] == (2, 1)
    if not isinstance(original, int):
        assert len({id(answer) for answer in answers}) == 3
        assert answers[0] is not original, "who misses gets what a hit would"


def spoil(value: Any) -> None:
    if isinstance(value, dict):
        for item in value.values():
            spoil(item)
        value["spoilt"] = True
    elif isinstance(value, (list, tuple)):
        for item in value:
            spoil(item)
        if isinstance(value, list):
            value.append("spoilt")
    elif isinstance(value, set):
        value.add("spoilt")


trees = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=3) | st.binary(),
    lambda inner: st.lists(inner, max_size=4)
    | st.dictionaries(st.text(max_size=2) | st.integers(), inner, max_size=4)
    | st.lists(inner, max_size=3).map(tuple)
    | st.sets(st.integers(), max_size=3),
    max_leaves=20,
)


@given(trees)
def test_bytes_are_spoilt_by_no_caller(value: Any) -> None:
    kept = copy.deepcopy(value)
    give = keeping(value)
    for _ in range(3):
        answer = give()
        assert repr(answer) == repr(kept)
        spoil(answer)
    spoil(value)
    assert repr(give()) == repr(kept)
    assert give.cache_info().misses == 1


def test_bytes_separate_aliases_and_refuse_cycles() -> None:
    inner = [1]
    first, second = keeping([inner, inner])()
    assert first == second and first is not second
    around: list[Any] = []
    around.append(around)
    with pytest.raises(TypeError, match="nested"):
        keeping(around)()


def test_bytes_that_cannot_be_made_are_refused_by_place_and_not_kept() -> None:
    give = keeping({"rows": [1, Other()]})
    for _ in range(2):
        with pytest.raises(TypeError, match=r"result\['rows'\]\[1\] is a Other"):
            give()
    assert give.cache_info()[:4] == (0, 2, 10_000, 0)


def test_bytes_of_a_class_that_is_not_allowed_are_refused() -> None:
    @cache(copy="bytes")
    def give() -> list[Any]:
        return [Basket([])]

    with pytest.raises(TypeError, match="return annotation"):
        give()


def test_bytes_are_what_the_bound_in_bytes_weighs() -> None:
    small = keeping([0] * 1_000, max_bytes=100_000)
    small()
    assert 2_000 <= small.cache_info().bytes <= 2_500, "two bytes for each item"


def test_bytes_are_shown_to_on_evict_as_a_value() -> None:
    told: list[tuple[str, Any]] = []
    give = keeping([1], on_evict=lambda reason, value: told.append((reason, value)))
    give()
    give.cache_clear()
    taken_apart = cache(on_evict=lambda reason, value: told.append((reason, value)))(
        lambda: Basket([2])
    )
    taken_apart()
    taken_apart.cache_clear()
    assert told == [("cleared", [1]), ("cleared", Basket([2]))]


def test_bytes_reach_waiting_threads_tasks_and_methods() -> None:
    begun = threading.Event()

    @cache(copy="bytes")
    def slow() -> list[int]:
        begun.wait()
        return [1]

    answers: list[list[int]] = []
    asking = [threading.Thread(target=lambda: answers.append(slow())) for _ in range(4)]
    [thread.start() for thread in asking]
    begun.set()
    [thread.join() for thread in asking]
    assert answers == [[1]] * 4 and len({id(answer) for answer in answers}) == 4
    assert slow.cache_info().misses == 1

    class Shop:
        @cache(copy="bytes")
        async def prices(self) -> list[int]:
            return [2]

    async def main() -> list[list[int]]:
        shop = Shop()
        together = await asyncio.gather(shop.prices(), shop.prices())
        return [*together, await shop.prices()]

    several = asyncio.run(main())
    assert several == [[2]] * 3 and len({id(answer) for answer in several}) == 3
