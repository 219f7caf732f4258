"""Models of pydantic, structs of msgspec and tables as bytes: each comes back as itself."""

import decimal
import warnings
from typing import Any, Generic, TypeVar

import msgspec
import numpy
import pandas
import polars
import pyarrow
import pydantic
import pytest

from tidemark_cache import _models, cache, register_class
from tidemark_cache._codec import Codec
from tidemark_cache._native import dumps, loads

with warnings.catch_warnings():
    # It warns of interpreters that it was not written for.
    warnings.simplefilter("ignore")
    import pydantic.v1 as pydantic_v1

T = TypeVar("T")


class Address(pydantic.BaseModel):
    street: str


class User(pydantic.BaseModel, extra="allow"):
    name: str
    address: Address | None = None
    tags: list[str] = []
    _seen: int = pydantic.PrivateAttr(default=4)


class Frozen(pydantic.BaseModel, frozen=True):
    number: int

    @pydantic.field_validator("number")
    @classmethod
    def check(cls, number: int) -> int:
        RUNS.append("validator")
        return number

    def model_post_init(self, _: Any) -> None:
        RUNS.append("model_post_init")


class Numbers(pydantic.RootModel[list[int]]):
    pass


class Box(pydantic.BaseModel, Generic[T]):
    content: T


class Old(pydantic_v1.BaseModel):
    number: int
    other: str = "o"
    _hidden: int = pydantic_v1.PrivateAttr(default=1)

    class Config:
        extra = "allow"


class Struct(msgspec.Struct, frozen=True):
    number: int
    inner: "Struct | None" = None


class Keywords(msgspec.Struct, kw_only=True, tag="k", rename="camel"):
    first_name: str
    amount: decimal.Decimal = decimal.Decimal(0)


class Busy(msgspec.Struct):
    number: int

    def __post_init__(self) -> None:
        RUNS.append("__post_init__")


RUNS: list[str] = []


def allowed() -> list[User | Frozen | Numbers | Box[int] | Old | Struct | Keywords | Busy]:
    return []


CODEC = Codec(allowed)


def trip(value: Any) -> Any:
    return loads(dumps(value, CODEC), CODEC)


def user() -> User:
    value = User(name="n", address=Address(street="s"), more=1)  # type: ignore[call-arg]
    value._seen = 5
    return value


@pytest.mark.parametrize(
    "value",
    [
        user(), User(name="n"), Frozen(number=1), Numbers([1, 2]), Box[int](content=3),
        Old(number=1), Old(number=1, other="p", more=2), Struct(1, Struct(2)),
        Keywords(first_name="f"),
    ],
    ids=repr,
)  # fmt: skip
def test_model_comes_back_as_itself_and_no_code_of_it_runs(value: Any) -> None:
    RUNS.clear()
    back = trip({"in": [value]})["in"][0]
    assert type(back) is type(value) and back == value and repr(back) == repr(value)
    state = "__fields_set__" if isinstance(value, Old) else "__pydantic_fields_set__"
    for name in (state, "__pydantic_private__", "_hidden"):
        assert getattr(back, name, None) == getattr(value, name, None)
    assert not RUNS


def test_model_that_holds_more_than_its_fields_is_refused_with_the_name() -> None:
    value = Frozen(number=1)
    value.__dict__["stray"] = 1
    with pytest.raises(TypeError, match="Frozen with 'stray', which is none of its fields"):
        dumps(value, CODEC)
    with pytest.raises(TypeError, match="whose __post_init__ would run at each read"):
        dumps(Busy(1), CODEC)


def test_model_whose_class_has_other_fields_now_is_refused() -> None:
    none = (None, None, set())
    for kind, state in (
        (Frozen, ({"number": 1, "stray": 2}, *none)),
        (Frozen, ({"number": 1}, {"stray": 2}, None, set())),
        (Frozen, ({"number": 1}, None, {"_stray": 2}, set())),
        (Frozen, ({"number": 1}, None, None, {"stray"})),
        (Old, ({"stray": 2}, *none)),
        (Struct, [1]),
        (Busy, [1]),
    ):
        with pytest.raises(ValueError, match="has other fields now"):
            _models.restored(kind, state)


def test_model_of_a_class_that_no_annotation_names_can_be_registered() -> None:
    class Local(pydantic.BaseModel):
        number: int

    with pytest.raises(TypeError, match="may not restore"):
        dumps(Local(number=1), CODEC)
    register_class(Local)
    assert trip(Local(number=1)) == Local(number=1)
    with pytest.raises(TypeError, match="pydantic model, msgspec struct"):
        register_class(dict)


def test_model_is_cached_as_bytes_and_each_caller_has_his_own() -> None:
    @cache(copy="bytes")
    def load(name: str) -> User:
        return User(name=name, tags=["a"])

    first, second = load("n"), load("n")
    first.tags.append("b")
    assert second.tags == load("n").tags == ["a"]


TIMES = pandas.date_range("2026-01-01", periods=3, freq="h", tz="Europe/Berlin")
COLUMNS: dict[str, Any] = {
    "int": pandas.Series([1, 2, 3]), "float32": pandas.Series([1, -0.0, None], dtype="float32"),
    "bool": pandas.Series([True, False, True]), "text": pandas.Series(["a", None, "é"]),
    "string": pandas.Series(["a", None, "é"], dtype="string"),
    "objects": pandas.Series([1, "a", [2]], dtype=object),
    "time": pandas.Series(TIMES), "naive": pandas.Series(TIMES.tz_localize(None)),
    "delta": pandas.Series(TIMES - TIMES[0]),
    "category": pandas.Series(["b", "a", None]).astype("category"),
    "Int64": pandas.Series([1, None, 3], dtype="Int64"),
    "UInt8": pandas.Series([1, None, 3], dtype="UInt8"),
    "Float64": pandas.Series([1.5, None, 3], dtype="Float64"),
    "boolean": pandas.Series([True, None, False], dtype="boolean"),
}  # fmt: skip
MANY = pandas.MultiIndex.from_product([["a", "b"], [1, 2]], names=["x", None])
FRAMES: list[Any] = [
    pandas.DataFrame(COLUMNS), pandas.DataFrame(), pandas.DataFrame({"a": []}),
    pandas.DataFrame(numpy.eye(2), columns=["same", "same"], index=["r", "s"]),
    pandas.DataFrame({"a": range(4)}, index=MANY), pandas.DataFrame({"a": range(3)}, index=TIMES),
    pandas.DataFrame([[1, 2, 3, 4]], columns=MANY), pandas.DataFrame({1: [1], None: [2]}),
    *COLUMNS.values(), pandas.Series([1, 2], index=[3, 4], name=("a", 1)),
    pandas.Series([1, 2], index=pandas.RangeIndex(5, 1, -2, name="i")),
]  # fmt: skip


@pytest.mark.parametrize("value", FRAMES, ids=lambda value: f"{type(value).__name__}{value.shape}")
def test_table_of_pandas_comes_back_as_itself(value: Any) -> None:
    value.attrs["unit"] = {"m": 1}
    back = trip(value)
    assert type(back) is type(value) and back.attrs == value.attrs
    if isinstance(value, pandas.DataFrame):
        pandas.testing.assert_frame_equal(back, value, check_exact=True, check_freq=True)
        assert all(type(one) is type(other) for one, other in zip(back.dtypes, value.dtypes))
    else:
        pandas.testing.assert_series_equal(back, value, check_exact=True, check_freq=True)
    assert type(back.index) is type(value.index)


def test_table_comes_back_writable() -> None:
    frame = pandas.DataFrame({"a": [1, 2], "b": [0.5, 1.5]})
    back = trip(frame)
    back.loc[0, "a"] = 9
    back["c"] = back["a"] + back["b"]
    assert list(back["a"]) == [9, 2] and list(frame["a"]) == [1, 2]


INDEXES = [TIMES, MANY, pandas.Index(["a"], name="n"), pandas.RangeIndex(3)]


@pytest.mark.parametrize("value", INDEXES, ids=lambda value: type(value).__name__)
def test_index_of_pandas_comes_back_as_itself(value: Any) -> None:
    pandas.testing.assert_index_equal(trip(value), value, exact=True)


def test_table_whose_columns_cannot_be_stored_is_refused_with_the_type() -> None:
    periods = pandas.Series(pandas.period_range("2026", periods=2, freq="D"))
    with pytest.raises(TypeError, match="type period"):
        dumps(periods, CODEC)
    with pytest.raises(TypeError, match="type interval"):
        dumps(pandas.Series(pandas.interval_range(0, 2)), CODEC)
    with pytest.raises(TypeError, match="column 'a' of Python objects"):
        dumps(polars.DataFrame({"a": [object()]}), CODEC)


def test_table_of_polars_comes_back_as_itself() -> None:
    frame = polars.DataFrame({
        "int": [1, None], "text": ["a", "é"], "list": [[1], []], "struct": [{"a": 1}, {"a": 2}],
        "category": polars.Series(["x", None], dtype=polars.Categorical),
        "time": polars.Series([0, 1]).cast(polars.Datetime("us", "Europe/Berlin")),
    })  # fmt: skip
    for value in (frame, polars.DataFrame(), frame.clear()):
        back = trip(value)
        assert back.schema == value.schema and back.equals(value)
    for series in (frame["list"], frame["category"], polars.Series("named", [1.5])):
        back = trip(series)
        assert back.name == series.name and back.dtype == series.dtype and back.equals(series)


def test_table_of_pyarrow_comes_back_as_itself() -> None:
    columns = {"a": [1, None], "b": [["x"], []], "c": [{"d": 1.5}, None]}
    table = pyarrow.table(columns).replace_schema_metadata({"k": "v"})
    for value in (table, table.slice(0, 0), *table.to_batches()):
        back = trip(value)
        assert type(back) is type(value)
        assert back.schema.equals(value.schema, check_metadata=True) and back.equals(value)
