"""Which calls share an entry."""

import dataclasses
import datetime
import decimal
import enum
import fractions
import pathlib
import uuid
import zoneinfo
from typing import Any, NamedTuple

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tidemark_cache import cache


class Runs:
    """A cached function of one argument that counts its runs."""

    def __init__(self, **settings: Any) -> None:
        self.count = 0

        @cache(**settings)
        def identity(value: Any) -> int:
            self.count += 1
            return self.count

        self.call = identity


@dataclasses.dataclass(frozen=True)
class Point:
    x: Any


@dataclasses.dataclass
class Box:
    x: Any
    unseen: Any = dataclasses.field(default=0, compare=False)


class Pair(NamedTuple):
    a: Any
    b: Any


class Colour(enum.Enum):
    RED = 1


class Number(int):
    pass


UTC = datetime.timezone.utc
CET = datetime.timezone(datetime.timedelta(hours=1))
BERLIN = zoneinfo.ZoneInfo("Europe/Berlin")
NOON = datetime.datetime(2026, 10, 25, 2, 30)
SURROGATE = "\ud800"

#: Equal for `==`, or alike in text, and yet two keys.
NEAR_EQUAL = [
    (1, True),
    (1, 1.0),
    (0.0, -0.0),
    ((1,), (True,)),
    ((1,), (1.0,)),
    ((1, 2), [1, 2]),
    (((0.0,),), ((-0.0,),)),
    ({"a": 1}, {"a": True}),
    ({1: "a"}, {True: "a"}),
    ({1}, {True}),
    ({1}, frozenset({1})),
    (frozenset({1}), frozenset({1.0})),
    (b"a", "a"),
    (b"a", bytearray(b"a")),
    (decimal.Decimal("1"), decimal.Decimal("1.0")),
    (decimal.Decimal("1"), "1"),
    (decimal.Decimal("1"), 1),
    (fractions.Fraction(1), 1),
    (pathlib.PurePosixPath("a"), "a"),
    (uuid.UUID(int=1), str(uuid.UUID(int=1))),
    (Colour.RED, 1),
    (Number(1), 1),
    (Point(1), Point(True)),
    (Point(0.0), Point(-0.0)),
    (Box(1, 1), Box(1, 2)),
    (Pair(1, 2), (1, 2)),
    (Pair(1, 2), Pair(True, 2)),
    (NOON.replace(tzinfo=UTC), NOON.replace(tzinfo=CET) + datetime.timedelta(hours=1)),
    (NOON.replace(tzinfo=BERLIN), NOON.replace(tzinfo=BERLIN, fold=1)),
    (NOON, NOON.replace(fold=1)),
    (datetime.date(2026, 1, 1), datetime.datetime(2026, 1, 1)),
    (complex(0.0, 0.0), complex(0.0, -0.0)),
    (range(0), range(1, 1)),
    (2**64, float(2**64)),
    (SURROGATE, SURROGATE.encode("utf-8", "surrogatepass")),
    ([[1], []], [[], [1]]),
    (["ab"], ["a", "b"]),
    ((), None),
]


@pytest.mark.parametrize("wrap", [lambda v: v, lambda v: (v,), lambda v: [{"k": [v]}], Point])
@pytest.mark.parametrize("one, other", NEAR_EQUAL, ids=repr)
def test_near_equal_arguments_have_entries_of_their_own(one: Any, other: Any, wrap: Any) -> None:
    runs = Runs()
    assert runs.call(wrap(one)) == 1
    assert runs.call(wrap(other)) == 2
    assert (runs.call(wrap(one)), runs.call(wrap(other))) == (1, 2)


EQUAL = [
    lambda: 10**30,
    lambda: "".join(["te", "xt"]),
    lambda: float("nan"),
    lambda: (1, ("a", None)),
    lambda: [1, [2.5]],
    lambda: {"a": {1}, "b": {}},
    lambda: dict(reversed(list({"a": {1}, "b": {}}.items()))),
    lambda: {frozenset({1, 2}), ("x",)},
    lambda: {Point(1), Point(2), Point((3,))},
    lambda: datetime.datetime(2026, 1, 1, tzinfo=zoneinfo.ZoneInfo("Europe/Berlin")),
    lambda: Box([1], {"a"}),
    lambda: Number(5),
    lambda: bytearray(b"abc"),
    lambda: SURROGATE + "a",
]


@pytest.mark.parametrize("make", EQUAL)
def test_equal_arguments_share_an_entry(make: Any) -> None:
    runs = Runs()
    assert [runs.call(make()), runs.call(make())] == [1, 1]


values = st.recursive(
    st.none() | st.booleans() | st.integers(-3, 3) | st.floats() | st.text(max_size=2),
    lambda inner: st.lists(inner, max_size=3)
    | st.lists(inner, max_size=3).map(tuple)
    | st.dictionaries(st.text(max_size=1), inner, max_size=3),
    max_leaves=6,
)


def spelled(value: Any) -> Any:
    """The law in its slow form: a text with the type at each level."""
    if isinstance(value, (list, tuple)):
        return type(value).__name__, [spelled(item) for item in value]
    if isinstance(value, dict):
        return "dict", sorted((key, spelled(item)) for key, item in value.items())
    if isinstance(value, float) and value == value:
        return "float", value.hex()
    return type(value).__name__, repr(value)


@given(st.lists(values, min_size=2, max_size=12))
def test_key_is_equal_exactly_when_the_spelling_is(arguments: list[Any]) -> None:
    # One NaN at a time: its sign is a bit of the key, and no part of the spelling.
    runs = Runs()
    by_spelling: dict[str, int] = {}
    for argument in arguments:
        text = repr(spelled(argument))
        if "nan" in text:
            continue
        answer = runs.call(argument)
        assert by_spelling.setdefault(text, answer) == answer
    assert len(set(by_spelling.values())) == len(by_spelling)


def test_spellings_of_one_call_share_an_entry() -> None:
    runs = []

    @cache
    def area(width: int, height: int = 2, /, unit: str = "m", *, scale: int = 1) -> str:
        runs.append(1)
        return f"{width * height * scale}{unit}"

    answers = {
        area(1),
        area(1, 2),
        area(1, 2, "m"),
        area(1, unit="m"),
        area(1, 2, scale=1, unit="m"),
        area(1, **{"".join(["un", "it"]): "m"}),
    }
    assert (answers, len(runs)) == ({"2m"}, 1)


def test_surplus_arguments_are_told_apart() -> None:
    @cache
    def spread(first: int, *more: Any, **named: Any) -> tuple[Any, ...]:
        return first, more, named

    calls = [
        ((1,), {}),
        ((1, 2), {}),
        ((1, "a", 2), {}),
        ((1,), {"a": 2}),
        ((1, ("a", 2)), {}),
        ((1, 2), {"a": 2}),
        ((1,), {"a": 2, "b": 3}),
    ]
    for _ in range(2):
        for args, kwargs in calls:
            assert spread(*args, **kwargs) == (1, args[1:], kwargs)
    assert spread.cache_info()[:2] == (7, 7)
    assert spread(1, b=3, a=2) == (1, (), {"a": 2, "b": 3})
    assert spread.cache_info()[:2] == (8, 7)


def test_call_that_does_not_fit_raises_as_the_function_does() -> None:
    @cache
    def pair(a: int, b: int) -> int:
        return a + b

    calls: Any = [((), {}), ((1,), {}), ((1, 2, 3), {}), ((1, 2), {"a": 1}), ((1,), {"c": 2})]
    for args, kwargs in calls:
        with pytest.raises(TypeError, match="pair()"):
            pair(*args, **kwargs)
    assert pair.cache_info().currsize == 0


def test_changed_list_is_another_argument() -> None:
    runs = Runs()
    items = [1]
    assert runs.call(items) == 1
    items.append(2)
    assert runs.call(items) == 2
    assert runs.call([1]) == 1


def test_default_that_cannot_be_encoded_is_compared_by_identity() -> None:
    missing = object()
    runs = []

    @cache
    def find(name: str, default: object = missing) -> int:
        runs.append(name)
        return len(runs)

    assert (find("a"), find("a"), find("a", missing), find("a", object())) == (1, 1, 1, 2)


class Unhashable:
    __hash__ = None  # type: ignore[assignment]

    def __eq__(self, other: object) -> bool:
        return True


def test_argument_without_encoding_or_hash_is_refused_with_a_way_out() -> None:
    runs = Runs()
    with pytest.raises(TypeError, match="Unhashable.*ignore="):
        runs.call([Unhashable()])
    assert runs.count == 0
    assert Runs(ignore=["value"]).call(Unhashable()) == 1
    assert Runs(key=lambda value: "same").call(Unhashable()) == 1


def test_deep_and_cyclic_arguments_are_refused() -> None:
    runs = Runs()
    for levels, fits in [(200, True), (201, False)]:
        value: Any = 1
        for _ in range(levels):
            value = [value]
        if fits:
            assert runs.call(value) == runs.call(value)
        else:
            with pytest.raises(ValueError, match="200 levels"):
                runs.call(value)
    cycle: list[Any] = []
    cycle.append(cycle)
    with pytest.raises(ValueError, match="200 levels"):
        runs.call(cycle)


def test_argument_that_unfolds_without_end_is_refused_in_bounded_time() -> None:
    value: Any = [1]
    for _ in range(100):
        value = [value, value]
    with pytest.raises(ValueError, match="16777216 bytes"):
        Runs().call(value)


def test_key_and_ignore_decide_what_counts() -> None:
    @cache(ignore=["connection"])
    def load(connection: object, number: int) -> int:
        return number

    assert [load(object(), 1), load([], 1), load(None, 2)] == [1, 1, 2]
    assert load.cache_info()[:2] == (1, 2)

    @cache(key=lambda text: text.lower())
    def shout(text: str) -> str:
        return text.upper()

    assert [shout("a"), shout("A")] == ["A", "A"]
    assert shout.cache_info()[:2] == (1, 1)


def test_numpy_arrays_are_keys_by_type_shape_and_bytes() -> None:
    numpy = pytest.importorskip("numpy")
    runs = Runs()
    one = numpy.arange(4, dtype="int32")
    assert runs.call(one) == runs.call(one.copy()) == 1
    assert runs.call(one.reshape(2, 2)) == 2
    assert runs.call(one.astype("int64")) == 3
    assert runs.call(one.astype("uint32")) == 4
