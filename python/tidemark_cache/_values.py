"""Isolation of values that are not built-in containers."""

import collections.abc
import copy
import copyreg
import dataclasses
import datetime
import decimal
import enum
import fractions
import inspect
import io
import ipaddress
import pathlib
import sys
import types
import uuid
import zoneinfo
from collections.abc import Callable
from typing import Any

from tidemark_cache import _native

#: Types whose objects cannot change. `datetime` and `time` are not here: their zone may.
IMMUTABLE: list[type] = [
    datetime.date,
    datetime.timedelta,
    datetime.timezone,
    decimal.Decimal,
    fractions.Fraction,
    ipaddress.IPv4Address,
    ipaddress.IPv6Address,
    pathlib.PosixPath,
    pathlib.PurePosixPath,
    pathlib.PureWindowsPath,
    pathlib.WindowsPath,
    types.BuiltinFunctionType,
    types.EllipsisType,
    types.FunctionType,
    types.NotImplementedType,
    uuid.UUID,
    zoneinfo.ZoneInfo,
]

_UNCHANGEABLE = frozenset(IMMUTABLE)
_native.add_immutable(IMMUTABLE)

_ONCE_ONLY = (
    collections.abc.Iterator,
    collections.abc.AsyncIterator,
    collections.abc.Coroutine,
    io.IOBase,
)


def frozen_fields(value: object) -> tuple[Any, ...] | None:
    """Everything an immutable object is made of, or None for any other object."""
    kind = type(value)
    if kind in _UNCHANGEABLE:
        # The native side knows these, but not before this module is imported.
        return ()
    if isinstance(value, enum.Enum):
        # There is one object for each member, for all callers: a copy would be the same one.
        return ()
    if kind in (datetime.datetime, datetime.time):
        return (value.tzinfo,)  # type: ignore[attr-defined]
    if isinstance(value, tuple) and hasattr(kind, "_fields") and not kind.__dictoffset__:
        return tuple(value)
    parameters = kind.__dict__.get("__dataclass_params__")
    if parameters is not None and parameters.frozen:
        names = {field.name for field in dataclasses.fields(value)}  # type: ignore[arg-type]
        if names.issuperset(getattr(value, "__dict__", ())):
            return tuple(getattr(value, name) for name in names)
    return None


class Record(list[Any]):
    """An instance taken apart: its class, the tuple of its attributes' names, their values."""

    __slots__ = ()


#: A class that defines one of these says itself how its instances are made or copied.
_OWN_COPY = (
    "__new__",
    "__copy__",
    "__deepcopy__",
    "__reduce__",
    "__reduce_ex__",
    "__getstate__",
    "__setstate__",
    "__getattribute__",
)


def record_of(value: object) -> Record | None:
    """The instance taken apart, or None where putting it together again could differ from
    `copy.deepcopy`: then that is the way."""
    kind = type(value)
    if type(kind) is not type or kind in copyreg.dispatch_table:
        return None
    if any(getattr(kind, name, None) is not getattr(object, name, None) for name in _OWN_COPY):
        return None
    try:
        # Refuses an instance that holds more than its attributes.
        reduced: Any = object.__reduce_ex__(value, 2)
    except TypeError:
        return None
    _, arguments, state, *more = reduced
    if arguments != (kind,) or any(part is not None for part in more):
        return None
    plain, slots = state if isinstance(state, tuple) else (state, None)
    if slots and kind.__setattr__ is not object.__setattr__:
        return None
    attributes = {**(plain or {}), **(slots or {})}
    for name in plain or ():
        # Its setter would run at each hit.
        static = inspect.getattr_static(kind, name, None)
        if type(name) is not str or hasattr(type(static), "__set__"):
            return None
    return Record((kind, tuple(attributes), *attributes.values()))


def error_for_caller(error: BaseException) -> BaseException:
    """An exception that no other caller raises: each raising adds to the traceback.

    One that cannot be copied is shared, its traceback taken off.
    """
    try:
        new = copy.copy(error)
        if type(new) is not type(error) or new is error:
            raise TypeError
        new.__cause__ = error.__cause__
        new.__suppress_context__ = error.__suppress_context__
    except Exception:
        return error.with_traceback(None)
    return new


def own_way(value: object) -> tuple[Callable[[Any], Any], Any] | None:
    """A function, and what it makes each caller's value from; None if `deep_copy` or the native
    copy is the way."""
    kind = type(value)
    package = kind.__module__.partition(".")[0]
    if kind is memoryview:
        return _memory(value)
    if package == "numpy":
        return _numpy(value, kind)
    if package == "pandas":
        return _pandas(value)
    if package == "polars":
        return _polars(value)
    return None


def _memory(value: Any) -> tuple[Callable[[Any], Any], Any]:
    content, shape, form = value.tobytes(), value.shape, value.format
    is_readonly = value.readonly

    def view(_: object) -> memoryview:
        whole = memoryview(content if is_readonly else bytearray(content))
        if len(shape) == 1:
            return whole if form == "B" else whole.cast(form)
        return whole.cast(form, shape)

    try:
        view(None)
    except (TypeError, ValueError) as error:
        # Of another order of bytes, of several fields, or of several dimensions without an item.
        raise TypeError(
            f"a cached function returned a memoryview of format {form!r} and shape {shape} that "
            f"cannot be copied for each caller ({error}); copy='share' hands out the same object"
        ) from error
    return view, None


#: Arrays up to this size are copied for each caller; of larger ones each gets a read-only view.
_ARRAY_COPIED_BYTES = 64 << 10


def _numpy(value: Any, kind: Any) -> tuple[Callable[[Any], Any], Any] | None:
    numpy: Any = sys.modules["numpy"]
    if kind is not numpy.ndarray or value.dtype.hasobject:
        return None
    if value.nbytes <= _ARRAY_COPIED_BYTES:
        return kind.copy, value.copy()
    # Over `bytes` numpy lets no caller make it writable again.
    order = "F" if value.flags.f_contiguous and not value.flags.c_contiguous else "C"
    content, shape, dtype = value.tobytes(order), value.shape, value.dtype

    def view(_: object) -> Any:
        return numpy.ndarray(shape, dtype, content, order=order)

    return view, None


def _pandas(value: Any) -> tuple[Callable[[Any], Any], Any] | None:
    pandas = sys.modules["pandas"]
    if type(value) not in (pandas.DataFrame, pandas.Series):
        return None
    if int(pandas.__version__.partition(".")[0]) < 3 or value.attrs:
        return None
    columns = [value] if value.ndim == 1 else [value.iloc[:, n] for n in range(value.shape[1])]
    for column in columns:
        # A shallow copy shares the cells, and these could be changed in place.
        if column.dtype == object and not all(map(_is_unchangeable, column)):
            return _pickled_cells(value)
    stored = value.copy(deep=True)
    return _shallow, stored


def _shallow(frame: Any) -> Any:
    return frame.copy(deep=False)


def _pickled_cells(value: Any) -> tuple[Callable[[Any], Any], Any]:
    """`deepcopy` of pandas leaves the cells shared: they are copied one by one."""

    def cells(frame: Any) -> Any:
        new = frame.copy(deep=True)
        parts = [new] if new.ndim == 1 else [new.iloc[:, n] for n in range(new.shape[1])]
        for number, part in enumerate(parts):
            if part.dtype != object:
                continue
            numpy = sys.modules["numpy"]
            copied = numpy.empty(len(part), dtype=object)
            copied[:] = [deep_copy(cell) for cell in part]
            if new.ndim == 1:
                return type(new)(copied, index=new.index, name=new.name)
            new.isetitem(number, copied)
        return new

    return cells, cells(value)


def _is_unchangeable(cell: object) -> bool:
    return cell is None or isinstance(cell, (str, bytes, int, float, complex)) or (
        type(cell) in _UNCHANGEABLE
    )


def _polars(value: Any) -> tuple[Callable[[Any], Any], Any] | None:
    polars = sys.modules["polars"]
    if type(value) not in (polars.DataFrame, polars.Series):
        return None
    # Columns are immutable and shared; `clone` copies the frame around them.
    return type(value).clone, value.clone()


def deep_copy(value: object) -> object:
    """A private copy.

    Raises:
        TypeError: when the value can be used up or cannot be copied, and so cannot be cached.
    """
    if isinstance(value, _ONCE_ONLY):
        raise TypeError(
            f"a cached function returned an object of type {type(value).__name__}, which the "
            "first caller uses up; return a list, or give materialise=True"
        )
    if type(value) is memoryview:
        way, stored = _memory(value)
        return way(stored)
    memo: dict[int, Any] = {}
    try:
        return copy.deepcopy(value, memo)
    except (TypeError, RecursionError) as error:
        raise TypeError(
            f"a cached function returned an object of type {type(value).__name__} that cannot "
            f"be copied for each caller ({error}); copy='share' hands out the same object"
        ) from error
