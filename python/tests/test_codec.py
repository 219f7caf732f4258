"""Values as bytes of a tier: each type comes back as itself, and no bytes do any harm."""

import array
import collections
import dataclasses
import datetime
import decimal
import enum
import fractions
import inspect
import ipaddress
import pathlib
import random
import re
import uuid
import zlib
import zoneinfo
from typing import Any, NamedTuple

import attrs
import numpy
import pyarrow
import pydantic
import pydantic_core
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tidemark_cache import _exceptions, cache, register_class
from tidemark_cache._codec import Codec
from tidemark_cache._native import decoded, dumps, loads


class Colour(enum.Enum):
    RED = 1
    BLUE = "b"


class Bits(enum.Flag):
    ONE = 1
    TWO = 2


class Pair(NamedTuple):
    left: Any
    right: Any


@dataclasses.dataclass(frozen=True, slots=True)
class Point:
    x: Any
    y: Any = 0


@dataclasses.dataclass
class Shape:
    points: list[Point]
    colour: Colour = Colour.RED
    count: int = dataclasses.field(default=0, init=False)


@attrs.define
class Tag:
    text: str


def allowed() -> dict[str, list[Shape | Pair | Tag | Bits] | None]:
    return {}


CODEC = Codec(allowed)
ZONE = zoneinfo.ZoneInfo("Europe/Berlin")
UTC = datetime.timezone.utc
NAMED = datetime.timezone(datetime.timedelta(hours=1), "CET")
VALUES = [
    None, True, False, 0, -1, 2**63 - 1, -(2**63), 2**63, -(2**200), 0.0, -0.0, 1e300,
    float("inf"), "", "é😀", "\ud800", b"", b"\x00\xff", bytearray(b"ab"),
    [], [1, [2, [3]]], (), (1,), ((), []), {}, {1: 2, None: 3, (1,): "x", "b": {}}, set(),
    {1, "a"}, frozenset({(1, 2)}), 1j, range(1, 9, 2),
    datetime.datetime(2026, 1, 2, 3, 4, 5, 6),
    datetime.datetime(2026, 10, 25, 2, 30, tzinfo=ZONE, fold=1),
    datetime.datetime(1, 1, 1, tzinfo=UTC), datetime.datetime(2026, 1, 1, tzinfo=NAMED),
    datetime.date(2026, 1, 2), datetime.time(1, 2, 3, 4, tzinfo=UTC, fold=1),
    datetime.timedelta(-1, 2, 3), UTC, NAMED, ZONE,
    decimal.Decimal("1.0"), decimal.Decimal("-0E+5"), fractions.Fraction(1, 3), uuid.UUID(int=5),
    pathlib.PurePosixPath("/a/b"), pathlib.Path("c"), pathlib.PureWindowsPath("c:\\x"),
    ipaddress.ip_address("1.2.3.4"), ipaddress.ip_network("fe80::/10"),
    collections.OrderedDict([(2, 1), (1, 2)]), collections.defaultdict(list, {"a": [1]}),
    collections.defaultdict(None), collections.Counter("aab"), collections.deque([1, 2], 5),
    Colour.BLUE, Bits.ONE, Bits.ONE | Bits.TWO, Bits(0), Pair(1, (2,)), Point(1, [2]),
    Shape([Point(1)], Colour.BLUE), Tag("t"), "x" * 5_000, list(range(3_000)),
]  # fmt: skip


def trip(value: Any) -> Any:
    return loads(dumps(value, CODEC), CODEC)


def demand_same(one: Any, other: Any) -> None:
    assert type(one) is type(other)
    assert one == other and repr(one) == repr(other)


@pytest.mark.parametrize("value", VALUES, ids=lambda value: repr(value)[:40])
def test_value_comes_back_as_itself(value: Any) -> None:
    demand_same(trip(value), value)
    demand_same(trip([{"in": (value,)}]), [{"in": (value,)}])


LEAVES = st.one_of(
    st.none(), st.booleans(), st.integers(), st.floats(allow_nan=False), st.text(), st.binary(),
    st.datetimes(), st.decimals(allow_nan=False), st.uuids(), st.timedeltas(),
)  # fmt: skip
TREES = st.recursive(
    LEAVES,
    lambda inner: st.one_of(
        st.lists(inner),
        st.dictionaries(st.one_of(st.text(), st.integers()), inner),
        st.tuples(inner, inner),
        st.builds(Pair, inner, inner),
        st.builds(Point, inner, inner),
    ),
    max_leaves=20,
)


@given(TREES)
def test_any_tree_comes_back_as_itself(value: Any) -> None:
    demand_same(trip(value), value)


@given(st.sampled_from(VALUES), st.randoms(use_true_random=False))
def test_damaged_bytes_are_refused(value: Any, numbers: random.Random) -> None:
    frame = bytearray(dumps(value, CODEC))
    frame[numbers.randrange(len(frame))] ^= numbers.randrange(1, 256)
    with pytest.raises(ValueError, match="frame"):
        loads(bytes(frame), CODEC)
    with pytest.raises(ValueError, match="frame"):
        loads(bytes(frame[: numbers.randrange(len(frame))]), CODEC)


PAYLOADS = st.one_of(st.binary(), st.sampled_from(VALUES).map(lambda value: unsealed(value)))


@given(PAYLOADS, st.data())
def test_any_bytes_in_a_frame_are_a_value_or_refused(given_bytes: bytes, data: Any) -> None:
    payload = bytearray(given_bytes)
    for _ in range(data.draw(st.integers(0, 4))):
        if payload:
            payload[data.draw(st.integers(0, len(payload) - 1))] = data.draw(st.integers(0, 255))
    try:
        decoded(bytes(payload), CODEC)
    except Exception as error:
        # A name may be that of a class, and its parts be wrong for it: that is a miss as well.
        assert not isinstance(error, (MemoryError, RecursionError)), error


def unsealed(value: Any) -> bytes:
    """The payload of a short value's frame, which is not compressed."""
    frame = dumps(value, CODEC)
    return frame[12:] if frame[1] & 1 == 0 else b""


@pytest.mark.parametrize(
    "payload",
    [
        b"l\xff\xff\xff\xff\xff\xff\xff\xff\xff\x01", b"l" * 100_000, b"t\x01" * 100_000,
        b"u\x05ab", b"i" + b"\xff" * 11, b"I\x03zzz", b"d\x01l\x00N", b"S\x01l\x00", b"NN", b"", b"?",
        b"u\x01\xff", b"o\x01xN", b"f1234567",
    ],
)  # fmt: skip
def test_payload_that_lies_is_refused(payload: bytes) -> None:
    with pytest.raises((ValueError, TypeError)):
        decoded(payload, CODEC)


@pytest.mark.parametrize("dtype", ["i1", "<u8", ">i4", "f2", "c16", "?", "M8[s]", "S3", "U2"])
@pytest.mark.parametrize("shape", [(), (0,), (3,), (2, 3), (2, 1, 2)])
def test_arrays_come_back_as_they_were(dtype: str, shape: tuple[int, ...]) -> None:
    array = numpy.ones(shape).astype(dtype)
    for given_array in (array, numpy.asfortranarray(array)):
        found = trip(given_array)
        assert type(found) is numpy.ndarray and found.dtype == given_array.dtype
        assert found.shape == given_array.shape and found.flags.writeable
        assert (found == given_array).all()
    record = numpy.array([(1, 2.0)], dtype=[("a", "i4"), ("b", "f8")])
    assert (trip(record) == record).all() and trip(record).dtype == record.dtype
    scalar = numpy.float32(1.5)
    assert type(trip(scalar)) is numpy.float32 and trip(scalar) == scalar


MEMORY = array.array("I", [1, 2, 3, 4])
VIEWS = [
    memoryview(b"ab"), memoryview(bytearray(b"abc")), memoryview(b""), memoryview(MEMORY),
    memoryview(array.array("d", [0.0, float("nan")])), memoryview(array.array("q")),
    memoryview(b"abcdef")[::2], memoryview(b"abcd").cast("B", (2, 2)),
    memoryview(bytearray(8)).cast("H", (2, 2)), memoryview(b"a").cast("B", ()),
]  # fmt: skip


@pytest.mark.parametrize("copied", ["a tier", "memory"])
@pytest.mark.parametrize("view", VIEWS, ids=lambda view: f"{view.format}{view.shape}")
def test_memoryviews_come_back_as_they_were(view: memoryview, copied: str) -> None:
    found = trip(view) if copied == "a tier" else cache(lambda: view)()
    assert type(found) is memoryview and (view.readonly or found.obj is not view.obj)
    for name in ("format", "shape", "readonly", "itemsize"):
        assert getattr(found, name) == getattr(view, name), name
    assert found.tobytes() == view.tobytes()


@pytest.mark.parametrize("mode", ["auto", "deep"])
@pytest.mark.parametrize(
    "array", [numpy.zeros(1, ">i4"), numpy.zeros((0, 2), "u1"), numpy.zeros(1, "i4,f8")]
)
def test_memoryview_that_cannot_be_made_again_is_refused_before_it_is_kept(
    array: Any, mode: Any
) -> None:
    view = memoryview(array)
    function = cache(copy=mode)(lambda: view)
    form = re.escape(f"format {view.format!r} and shape {view.shape} that cannot be copied")
    for _ in range(2):
        with pytest.raises(TypeError, match=form):
            function()
    assert function.cache_info().currsize == 0
    shared = cache(copy="share")(lambda: view)
    assert shared() is shared() is view


class Refusal(Exception):
    def __init__(self, code: int, **rest: Any) -> None:
        super().__init__(f"code {code}")
        self.code, self.rest = code, rest


class Lost(KeyError):
    pass


@dataclasses.dataclass
class Late(RuntimeError):
    seconds: float


class OfFiles(OSError):
    pass


class WithSlots(Exception):
    __slots__ = ("place",)


class OfMemory(MemoryError):
    """Which the interpreter makes in a way of its own."""


class WithEnd(Exception):
    def __del__(self) -> None:
        pytest.fail("it ran")


def of_pydantic() -> pydantic_core.ValidationError:
    """One of a class of PyO3, with fields of its own, which `BaseException` does not make."""
    try:
        pydantic.TypeAdapter(int).validate_python("x")
    except pydantic_core.ValidationError as error:
        return error
    pytest.fail("it was taken")


class Bare(Exception):
    __slots__ = ()


def refuse() -> Refusal | Lost | Late | Bare | zlib.error | None:
    return None


def noted(error: BaseException) -> BaseException:
    error.add_note("a note")
    return error


EXCEPTIONS = [
    ValueError(), ValueError("a", [1], {"b": (2,)}), KeyError("k"), StopIteration(4), SystemExit(3),
    OSError("text"), FileNotFoundError(2, "no", "file"), OSError(2, "a", "b", None, "c"),
    BlockingIOError(11, "later", 5), TimeoutError("t"), ImportError("a", name="n", path="p"),
    UnicodeDecodeError("utf-8", b"a", 0, 1, "x"), SyntaxError("m", ("f", 1, 2, "t")),
    ExceptionGroup("several", [ValueError(1), Refusal(3)]), UserWarning("w"), noted(TypeError("t")),
    BaseExceptionGroup("all", [KeyboardInterrupt()]), KeyboardInterrupt(), Late(1.5), Lost("key"),
    Refusal(7, why=["b"]), noted(Refusal(8)), zlib.error("c"), Bare("no references"),
]  # fmt: skip


def shown(error: BaseException) -> Any:
    """What an exception holds and says, exceptions inside it included."""
    fields = {
        name: getattr(error, name)
        for name, _ in inspect.getmembers_static(type(error), inspect.ismemberdescriptor)
    }
    inner = [shown(one) for one in getattr(error, "exceptions", ())]
    fields.pop("exceptions", None)
    held = {name: repr(field) for name, field in (fields | vars(error)).items()}
    return type(error), repr(error), str(error), held, inner


@pytest.mark.parametrize("error", EXCEPTIONS, ids=lambda error: repr(error)[:30])
def test_exceptions_come_back_as_themselves_without_their_traceback(error: BaseException) -> None:
    codec = Codec(refuse)
    try:
        raise error
    except BaseException as raised:
        found = loads(dumps([raised], codec), codec)[0]
    assert shown(found) == shown(error) and found is not error
    assert found.__traceback__ is None and found.__cause__ is None


def test_no_code_of_an_exception_runs_while_it_is_restored(monkeypatch: pytest.MonkeyPatch) -> None:
    codec = Codec(refuse)
    frame = dumps(Refusal(9), codec)
    monkeypatch.setattr(Refusal, "__init__", lambda *_: pytest.fail("it ran"))
    assert loads(frame, codec).code == 9


def test_every_exception_of_the_interpreter_is_known() -> None:
    kinds = [ValueError, OSError, ExceptionGroup, StopAsyncIteration, KeyboardInterrupt]
    assert _exceptions.BUILT_IN.issuperset(kinds) and len(_exceptions.BUILT_IN) > 60


def test_exceptions_that_hold_more_are_refused() -> None:
    codec = Codec(of_pydantic)
    values = [OfFiles(), WithSlots(), OfMemory(), pyarrow.lib.ArrowMemoryError(), of_pydantic()]
    for value in [*values, pydantic_core.PydanticOmit()]:
        kind = type(value)
        words = f"is a {kind.__name__}, which has more than its arguments and attributes"
        with pytest.raises(TypeError, match=words):
            dumps(value, codec)
    for kind in [WithEnd, *map(type, values)]:
        with pytest.raises(TypeError, match="exception that has no more than its arguments"):
            register_class(kind)
    with pytest.raises(TypeError, match="is a Refusal, which this function may not restore"):
        dumps(Refusal(1), CODEC)
    # As the bytes of an exception that has become another kind of class meanwhile.
    with pytest.raises(ValueError, match="is made from other arguments"):
        _exceptions.restored(OSError, ((2, "no"),))


@dataclasses.dataclass
class Stranger:
    x: int


class Plain:
    pass


def nested(depth: int) -> Any:
    value: Any = 1
    for _ in range(depth):
        value = [value]
    return value


REFUSED = [
    (Plain(), "result is a Plain"),
    ([1, {"k": Plain()}], r"result\[1\]\['k'\] is a Plain"),
    (Stranger(1), "result is a Stranger, which this function may not restore"),
    ({"a": {1, Plain}}, r"result\['a'\]\{…\} is a type"),
    (iter([]), "list_iterator"),
    ((x for x in ()), "generator"),
    (collections.defaultdict(lambda: 1), "defaultdict"),
    (numpy.array([object()]), "array of objects"),
    ([memoryview(numpy.zeros(1, ">i4"))], r"result\[0\] is a memoryview of format '>i'"),
    (memoryview(numpy.zeros((0, 2), "u1")), r"is a memoryview of format 'B' and shape \(0, 2\)"),
    (ValueError(Plain()), r"result\.<builtins.ValueError>\[0\]\[0\] is a Plain"),
    (Pair(1, Plain()), r"result\.<.*Pair>\[1\] is a Plain"),
    (nested(201), r"deeper than 200 levels"),
]


@pytest.mark.parametrize("value, words", REFUSED, ids=[words[:30] for _, words in REFUSED])
def test_value_that_would_not_come_back_is_refused_by_its_path(value: Any, words: str) -> None:
    with pytest.raises(TypeError, match=words):
        dumps(value, CODEC)


def test_cycle_is_refused_and_depth_below_the_limit_is_not() -> None:
    cycle: list[Any] = []
    cycle.append(cycle)
    with pytest.raises(TypeError, match="deeper than 200"):
        dumps(cycle, CODEC)
    demand_same(trip(nested(200)), nested(200))


def test_class_that_is_registered_is_stored_by_every_function() -> None:
    @register_class
    @dataclasses.dataclass
    class Registered:
        x: int
        y: "Registered | None" = None

    demand_same(trip(Registered(1, Registered(2))), Registered(1, Registered(2)))
    with pytest.raises(TypeError, match="with 'extra', which is none of its fields"):
        value = Registered(1)
        value.extra = 2  # type: ignore[attr-defined]
        dumps(value, CODEC)
    with pytest.raises(TypeError, match="is no data class"):
        register_class(Plain)


def test_value_of_a_class_that_is_not_allowed_is_not_restored() -> None:
    frame = dumps(Point(1), CODEC)
    with pytest.raises(ValueError, match="not among the classes"):
        loads(frame, Codec(nested))
