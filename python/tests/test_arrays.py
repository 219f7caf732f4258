"""Arrays and frames, as arguments and as values."""

import datetime
from typing import Any

import numpy
import pandas
import pytest

from tidemark_cache import cache


def keys_are_apart(one: Any, other: Any) -> bool:
    read = cache(lambda value: None)
    read(one), read(other), read(one)
    return read.cache_info().misses == 2


NEAR_EQUAL = [
    (numpy.float64(0.0), numpy.float64(-0.0)),
    (numpy.float64(1.0), 1.0),
    (numpy.int64(1), numpy.int32(1)),
    (numpy.array([1]), numpy.array([1.0])),
    (numpy.array([1, 2]), numpy.array([[1, 2]])),
    (numpy.array([0.0]), numpy.array([-0.0])),
    (numpy.array([1, "a"], dtype=object), numpy.array([True, "a"], dtype=object)),
    (
        pandas.Timestamp("2026-01-01 12:00", tz="UTC"),
        pandas.Timestamp("2026-01-01 13:00", tz=datetime.timezone(datetime.timedelta(hours=1))),
    ),
    (pandas.Timedelta(1, "ns"), pandas.Timedelta(2, "ns")),
    (pandas.DataFrame({"a": [1, 2]}), pandas.DataFrame({"a": [1.0, 2.0]})),
    (pandas.DataFrame({"a": [1]}), pandas.DataFrame({"b": [1]})),
    (pandas.DataFrame({"a": [1]}), pandas.DataFrame({"a": [1]}, index=[5])),
    (pandas.Series([1], name="a"), pandas.Series([1], name="b")),
    (pandas.Series(["a", "b"]), pandas.Series(["ab", ""])),
]


@pytest.mark.parametrize("one, other", NEAR_EQUAL, ids=lambda value: type(value).__name__)
def test_near_equal_arrays_have_entries_of_their_own(one: Any, other: Any) -> None:
    assert keys_are_apart(one, other) and keys_are_apart([one], [other])


@pytest.mark.parametrize(
    "make",
    [
        lambda: numpy.arange(5),
        lambda: numpy.float64("nan"),
        lambda: pandas.DataFrame({"a": [1, 2], "b": ["x", None]}),
        lambda: pandas.Series([1.5, float("nan")]),
        lambda: pandas.Timestamp("2026-01-01", tz="Europe/Berlin"),
    ],
)
def test_equal_arrays_share_an_entry(make: Any) -> None:
    assert not keys_are_apart(make(), make())


def test_small_array_is_copied_and_large_one_is_a_view_that_nobody_can_change() -> None:
    small = cache(lambda: numpy.arange(10))
    small()[0] = 99
    assert small()[0] == 0 and small().flags.writeable
    large = cache(lambda: numpy.arange(100_000).reshape(100, 1000))
    first = large()
    assert first.shape == (100, 1000) and (first == large()).all()
    for _ in range(2):
        with pytest.raises(ValueError):
            large()[0, 0] = 99
    with pytest.raises(ValueError):
        first.flags.writeable = True
    assert numpy.shares_memory(first, large())


def test_miss_returns_of_arrays_and_frames_what_a_hit_returns() -> None:
    for make in (lambda: numpy.arange(100_000), lambda: pandas.DataFrame({"a": [1]})):
        read = cache(make)
        miss, hit = read(), read()
        assert type(miss) is type(hit)
        if isinstance(miss, numpy.ndarray):
            assert miss.flags.writeable == hit.flags.writeable


def test_frame_is_isolated_in_its_columns_and_in_its_cells() -> None:
    made: list[pandas.DataFrame] = []

    @cache
    def frame() -> pandas.DataFrame:
        made.append(pandas.DataFrame({"a": [1, 2], "b": ["x", "y"]}))
        return made[0]

    one = frame()
    one.loc[0, "a"] = 99
    one["c"] = 1
    made[0].loc[0, "a"] = 98
    assert list(frame()["a"]) == [1, 2] and list(frame().columns) == ["a", "b"]

    @cache
    def cells() -> pandas.DataFrame:
        return pandas.DataFrame({"a": [[1], [2]], "b": [1, 2]})

    cells()["a"][0].append(99)
    assert cells()["a"][0] == [1]
    series = cache(lambda: pandas.Series([[1]], name="a"))
    series()[0].append(99)
    assert series()[0] == [1] and series().name == "a"


def test_frame_is_weighed_by_what_it_holds() -> None:
    frames = cache(max_bytes=1_000_000)(lambda n: pandas.DataFrame({"a": numpy.zeros(50_000)}))
    for number in range(5):
        frames(number)
    assert frames.cache_info().currsize == 2
