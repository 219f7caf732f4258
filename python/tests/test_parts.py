"""Bytes of a tier that say they are more than they are: refused before anything is made of them."""

import struct
import types
from typing import Any

import numpy
import pandas
import pyarrow
import pydantic
import pytest

from tidemark_cache._codec import Codec
from tidemark_cache._native import dumps, loads


class Parts:
    """An object that is encoded under any name and from any parts."""

    def __init__(self, name: str, *parts: Any) -> None:
        self.name, self.parts = name, parts


class ForeignCodec(Codec):
    """What another program may have written."""

    def parts_of(self, value: Any) -> tuple[str, Any]:
        return (value.name, *value.parts) if isinstance(value, Parts) else super().parts_of(value)


class Model(pydantic.BaseModel):
    name: str


def restores() -> Model | KeyError: ...


def array(content: Any) -> Parts:
    whole = numpy.array(content)
    return Parts("numpy.ndarray", (whole.dtype.str, whole.shape, "C", whole.tobytes()))


#: So many items of nearly no bytes. Not more: a test that fails shall end soon.
RANGE = range(10_000)
LONG = ("range", 0, 10_000, 1, None)
ONE = ("range", 0, 1, 1, None)
MODEL = f"{__name__}.Model"
NETWORK = Parts("ipaddress.IPv4Network", "10.0.0.0/16")


@pytest.mark.parametrize("parts", [
    Parts("fractions.Fraction", ("1e5000",)),
    Parts("fractions.Fraction", (True, 2)),
    Parts("fractions.Fraction", (Parts("decimal.Decimal", "1e5000"), 2)),
    Parts("builtins.complex", range(2)),
    Parts("datetime.timedelta", range(3)),
    Parts("collections.Counter", RANGE),
    Parts("collections.Counter", NETWORK),
    Parts("collections.OrderedDict", RANGE),
    Parts("collections.deque", (RANGE, None)),
    Parts("collections.deque", (NETWORK, None)),
    Parts("collections.defaultdict", (None, [range(2)])),
    Parts("builtins.memoryview", ("B", (10_000,), False, 10_000)),
    Parts("builtins.memoryview", ("B", (10_000,), True, Parts("builtins.memoryview",
                                                            ("B", (1,), True, b"a")))),
    Parts("numpy.ndarray", ("u1", (10_000,), "C", 10_000)),
    Parts("builtins.ValueError", (RANGE,)),
    Parts("builtins.ExceptionGroup", (("a", range(1)),)),
    Parts("builtins.SyntaxError", (("a", range(4)),)),
    Parts("builtins.KeyError", RANGE),
    Parts(MODEL, ({"name": "a"}, RANGE, None, {"name"})),
    Parts(MODEL, ({"name": "a"}, None, [], {"name"})),
    Parts(MODEL, ({"name": "a"}, None, None, RANGE)),
    Parts("pyarrow.Table", [b"a"]),
    Parts("polars.DataFrame", "a"),
    Parts("pandas.DataFrame", (ONE, LONG, [("plain", 5)], {})),
    Parts("pandas.DataFrame", (ONE, LONG, [("plain", array(5))], {})),
    Parts("pandas.DataFrame", (ONE, ONE, [("plain", array([5]))], [range(2)])),
    Parts("pandas.Series", (LONG, ("plain", array(5)), None, {})),
    Parts("pandas.Series", (LONG, ("objects", RANGE), None, {})),
    Parts("pandas.Series", (LONG, ("texts", RANGE, "python", False), None, {})),
    Parts("pandas.Series", (LONG, ("masked", RANGE, array([False]), "Int64"), None, {})),
    Parts("pandas.Series", (ONE, ("plain", array([5])), None, [range(2)])),
    Parts("pandas.Index", ("multi", [LONG], [array([0])], [None])),
], ids=lambda parts: parts.name)  # fmt: skip
def test_parts_that_stand_for_more_than_their_bytes_are_refused(parts: Parts) -> None:
    frame = dumps([parts], ForeignCodec(restores))
    with pytest.raises(ValueError, match="made from|a part is|dimensions"):
        loads(frame, Codec(restores))


def test_what_the_classes_are_made_from_is_still_restored() -> None:
    own = Codec(restores)
    levels = pandas.MultiIndex.from_arrays(
        [pandas.RangeIndex(3), pandas.date_range("2026-01-01", periods=3)], names=["a", None]
    )
    for value in [
        Model(name="a"),
        levels,
        pandas.DataFrame(index=pandas.RangeIndex(10_000)),
        ExceptionGroup("a", [ValueError(range(3))]),
        SyntaxError("a", ("b", 1, 2, "c")),
    ]:
        restored = loads(dumps(value, own), own)
        assert type(restored) is type(value)
        if isinstance(value, pandas.MultiIndex):
            assert restored.equals(value) and restored.names == value.names
            assert restored.levels[1].freq == value.levels[1].freq
        elif not isinstance(value, pandas.DataFrame | Exception):
            assert restored == value


def test_group_of_exceptions_that_could_not_be_restored_is_refused_before_it_is_kept() -> None:
    class Items(list[Exception]):
        pass

    group = ExceptionGroup("a", Items([ValueError(1)]))
    with pytest.raises(TypeError, match="result is a ExceptionGroup of a Items"):
        dumps(group, Codec(restores))


@pytest.mark.parametrize("kind", ["Table", "RecordBatch"])
def test_offsets_beyond_the_memory_of_a_table_are_refused(kind: str) -> None:
    batch = pyarrow.record_batch({"a": ["x", "yy", "zzz"]})
    value = batch if kind == "RecordBatch" else pyarrow.Table.from_batches([batch])
    codec = Codec(restores)
    name, content = codec.parts_of(value)
    assert codec.restore(name, content).equals(value)
    offsets = struct.pack("<4i", 0, 1, 3, 6)
    assert content.count(offsets) == 1
    for wrong in [(0, 1, 1 << 30, 6), (0, 1, -5, 6), (0, 1, 3, 1 << 30)]:
        lying = content.replace(offsets, struct.pack("<4i", *wrong))
        with pytest.raises(pyarrow.ArrowInvalid):
            codec.restore(name, lying)


def test_no_parts_are_objects_of_python() -> None:
    with pytest.raises(ValueError, match="tuple is not made from a SimpleNamespace"):
        Codec(restores).restore("tuple", types.SimpleNamespace())
