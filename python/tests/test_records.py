"""Instances of plain classes: each caller's own, put together without code of their class."""

import copy
import copyreg
import dataclasses
import gc
import weakref
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tidemark_cache import _values, cache


@dataclasses.dataclass
class Point:
    x: Any
    y: Any = None


@dataclasses.dataclass(slots=True)
class Slotted:
    x: Any
    y: Any = None


@dataclasses.dataclass(frozen=True)
class Sealed:
    items: list[Any]


class Plain:
    def __init__(self, **attributes: Any) -> None:
        self.__dict__.update(attributes)

    def __eq__(self, other: object) -> bool:
        return type(other) is type(self) and self.__dict__ == other.__dict__


class Mixed(Point):
    __slots__ = ("extra",)


class Loud(Plain):
    """Refuses what a copy must not do."""

    def __setattr__(self, name: str, value: Any) -> None:
        raise AssertionError("no code of the class runs")

    def __init__(self, **attributes: Any) -> None:
        if not attributes:
            raise AssertionError("no code of the class runs")
        super().__init__(**attributes)


def returning(value: Any) -> Any:
    @cache
    def give() -> Any:
        return value

    return give


def mixed() -> Mixed:
    value = Mixed([1], {"a": [2]})
    value.extra = [3]  # type: ignore[attr-defined]
    return value


TAKEN_APART = [
    lambda: Point(1, "a"),
    lambda: Point([1], {"a": [2]}),
    lambda: Slotted([1], {"a": [2]}),
    lambda: Sealed([1]),
    lambda: Plain(a=[1], b=Point([2])),
    lambda: Loud(a=[1]),
    mixed,
    lambda: [Point([1]), {"a": Slotted((Point([2]), 3))}],
    lambda: Plain(),
]


def containers(value: Any) -> list[Any]:
    """Everything in a value that can be changed."""
    if isinstance(value, dict):
        parts = list(value.values())
    elif isinstance(value, (list, tuple)):
        parts = list(value)
    elif isinstance(value, (Point, Slotted, Sealed, Plain)):
        slots = [getattr(value, name, None) for name in ("x", "y", "extra")]
        parts = [*getattr(value, "__dict__", {}).values(), *slots]
    else:
        return []
    own = [] if isinstance(value, tuple) else [value]
    return own + [one for part in parts for one in containers(part)]


@pytest.mark.parametrize("make", TAKEN_APART)
def test_instance_is_each_callers_own(make: Any) -> None:
    give = returning(make())
    first, second = give(), give()
    third = give()
    for one in (second, third):
        assert type(one) is type(first)
        assert one == first == make()
    shared = {id(one) for one in containers(second)} & {id(one) for one in containers(third)}
    assert not shared
    assert not {id(one) for one in containers(first)} & {id(one) for one in containers(second)}


def test_instance_is_taken_apart_rather_than_copied_by_python(monkeypatch: Any) -> None:
    give = returning([Point([1]), Slotted([2])])
    give()
    monkeypatch.setattr(copy, "deepcopy", None)
    monkeypatch.setattr(_values, "deep_copy", None)
    assert give() == [Point([1]), Slotted([2])]


def test_attributes_beside_the_fields_are_kept() -> None:
    value = Point(1)
    value.later = [2]  # type: ignore[attr-defined]
    del value.y
    give = returning(value)
    give()
    got = give()
    assert got.__dict__ == {"x": 1, "later": [2]}
    assert got.later is not value.later  # type: ignore[attr-defined]


def test_aliases_and_cycles_through_instances_come_back() -> None:
    inner = Point([1])
    value = Point(inner, [inner])
    value.x.y = value
    give = returning(value)
    give()
    got = give()
    assert got is not value and got.x is got.y[0] and got.x.y is got
    assert give() is not got


class Counted:
    made = 0

    def __new__(cls, *_: Any) -> "Counted":
        cls.made += 1
        return super().__new__(cls)

    def __init__(self) -> None:
        self.items = [1]


class Setter:
    calls = 0

    def __init__(self) -> None:
        self.__dict__["items"] = [1]

    @property
    def items(self) -> Any:
        return self.__dict__["items"]

    @items.setter
    def items(self, value: Any) -> None:
        Setter.calls += 1
        self.__dict__["items"] = value


class Stateful:
    def __init__(self) -> None:
        self.items = [1]

    def __getstate__(self) -> Any:
        return {"items": [1, "stated"]}


class Many(list[Any]):
    note = "x"


class Registered:
    def __init__(self) -> None:
        self.items = [1]


copyreg.pickle(Registered, lambda value: (Registered, ()))  # type: ignore[arg-type]


@pytest.mark.parametrize(
    "make", [Counted, Setter, Stateful, lambda: Many([1]), Registered, lambda: ValueError([1])]
)
def test_class_with_a_way_of_its_own_is_copied_by_it(make: Any) -> None:
    value = make()
    assert _values.record_of(value) is None
    give = returning(value)
    give()
    got, wanted = give(), copy.deepcopy(value)
    assert type(got) is type(wanted)
    assert getattr(got, "__dict__", None) == getattr(wanted, "__dict__", None)


def test_kept_value_holds_no_instance() -> None:
    value = Plain(a=[1])
    seen = weakref.ref(value)
    give = returning(value)
    give()
    give.__wrapped__.__closure__[0].cell_contents = None
    del value
    gc.collect()
    assert seen() is None
    assert give() == Plain(a=[1])


leaves = st.none() | st.integers() | st.text(max_size=5)
values = st.recursive(
    leaves,
    lambda part: st.one_of(
        st.lists(part, max_size=3),
        st.dictionaries(st.text(max_size=3), part, max_size=3),
        st.tuples(part, part),
        st.builds(Point, part, part),
        st.builds(Slotted, part, part),
        st.builds(Plain, a=part),
    ),
    max_leaves=12,
)


@given(values)
def test_generated_values_are_equal_and_isolated(value: Any) -> None:
    give = returning(value)
    give()
    got = give()
    assert got == value == copy.deepcopy(value)
    assert not {id(one) for one in containers(got)} & {id(one) for one in containers(value)}
