"""What stands for an object in the bytes of a tier, when it is none of the built-in types.

Only the classes named here are restored, and those a function's codec allows: the ones its return
annotation names, and those given to ``register_class``. No code of such a class runs.
"""

import collections
import dataclasses
import datetime
import decimal
import enum
import fractions
import functools
import ipaddress
import pathlib
import sys
import typing
import uuid
import zoneinfo
from collections.abc import Callable
from typing import Any

from tidemark_cache import _exceptions, _models, _native, _parts, _tables

_REGISTERED: dict[str, type] = {}

#: What a defaultdict may make its values with: a function cannot be stored.
_FACTORIES: dict[str, type] = {
    kind.__name__: kind
    for kind in (bool, bytes, dict, float, frozenset, int, list, set, str, tuple)
}


def _text(kind: type) -> tuple[Callable[[Any], Any], Callable[[Any], Any]]:
    return str, kind


def _timezone(parts: Any) -> datetime.timezone:
    offset, name = parts
    if name is None:
        return datetime.timezone(offset)
    return datetime.timezone(offset, name)


def _of_timezone(value: datetime.timezone) -> Any:
    # Without a name of its own, that is, if it equals one that has none and says the same.
    offset = value.utcoffset(None)
    name = value.tzname(None)
    return (offset, None if name == datetime.timezone(offset).tzname(None) else name)


def _of_zone(value: zoneinfo.ZoneInfo) -> str:
    if value.key is None:
        raise TypeError("is a time zone without a key")
    return value.key


def _of_datetime(value: datetime.datetime) -> Any:
    date = (value.year, value.month, value.day)
    time = (value.hour, value.minute, value.second, value.microsecond)
    return (*date, *time, value.tzinfo, value.fold)


def _datetime(parts: Any) -> datetime.datetime:
    return datetime.datetime(*parts[:8], fold=parts[8])


def _of_time(value: datetime.time) -> Any:
    return (value.hour, value.minute, value.second, value.microsecond, value.tzinfo, value.fold)


def _time(parts: Any) -> datetime.time:
    return datetime.time(*parts[:5], fold=parts[5])


def _fraction(parts: Any) -> fractions.Fraction:
    if not all(type(part) is int for part in parts):
        # A short text with an exponent stands for as many digits as it says.
        raise ValueError("a fraction is made from two integers")
    return fractions.Fraction(*parts)


def _deque(parts: Any) -> "collections.deque[Any]":
    items, maxlen = parts
    return collections.deque(_parts.exact(list, items), maxlen)


def _of_defaultdict(value: "collections.defaultdict[Any, Any]") -> Any:
    factory: Any = value.default_factory
    if factory is None:
        return (None, dict(value))
    name = getattr(factory, "__name__", "")
    if _FACTORIES.get(name) is not factory:
        raise TypeError(f"is a defaultdict of {factory!r}, which cannot be stored")
    return (name, dict(value))


def _of_memory(value: memoryview) -> Any:
    parts = (value.format, value.shape, value.readonly, value.tobytes())
    try:
        _memory(parts)
    except (TypeError, ValueError):
        # Of another order of bytes, of several fields, or of several dimensions without an item.
        text = f"is a memoryview of format {value.format!r} and shape {value.shape}"
        raise TypeError(f"{text}, which cannot be stored") from None
    return parts


def _memory(parts: Any) -> memoryview:
    form, shape, is_readonly, content = parts
    content = _parts.exact(bytes, content)
    whole = memoryview(content if is_readonly else bytearray(content))
    if len(shape) == 1:
        return whole if form == "B" else whole.cast(form)
    return whole.cast(form, shape)


def _defaultdict(parts: Any) -> "collections.defaultdict[Any, Any]":
    name, items = parts
    factory = None if name is None else _FACTORIES[name]
    return collections.defaultdict(factory, _parts.exact(dict, items))


#: Exact types of the standard library: how they are taken apart, and how they are made again.
_KNOWN: dict[type, tuple[Callable[[Any], Any], Callable[[Any], Any]]] = {
    complex: (lambda value: (value.real, value.imag), lambda parts: complex(*parts)),
    memoryview: (_of_memory, _memory),
    range: (lambda value: (value.start, value.stop, value.step), lambda parts: range(*parts)),
    datetime.datetime: (_of_datetime, _datetime),
    datetime.date: (
        lambda value: (value.year, value.month, value.day),
        lambda parts: datetime.date(*parts),
    ),
    datetime.time: (_of_time, _time),
    datetime.timedelta: (
        lambda value: (value.days, value.seconds, value.microseconds),
        lambda parts: datetime.timedelta(*parts),
    ),
    datetime.timezone: (_of_timezone, _timezone),
    zoneinfo.ZoneInfo: (_of_zone, zoneinfo.ZoneInfo),
    # The text keeps sign, exponent and the payload of a NaN.
    decimal.Decimal: _text(decimal.Decimal),
    fractions.Fraction: (
        lambda value: (value.numerator, value.denominator),
        _fraction,
    ),
    uuid.UUID: (lambda value: value.bytes, lambda parts: uuid.UUID(bytes=parts)),
    pathlib.PosixPath: _text(pathlib.PosixPath),
    pathlib.PurePosixPath: _text(pathlib.PurePosixPath),
    pathlib.PureWindowsPath: _text(pathlib.PureWindowsPath),
    ipaddress.IPv4Address: _text(ipaddress.IPv4Address),
    ipaddress.IPv6Address: _text(ipaddress.IPv6Address),
    ipaddress.IPv4Network: _text(ipaddress.IPv4Network),
    ipaddress.IPv6Network: _text(ipaddress.IPv6Network),
    ipaddress.IPv4Interface: _text(ipaddress.IPv4Interface),
    ipaddress.IPv6Interface: _text(ipaddress.IPv6Interface),
    collections.OrderedDict: (
        lambda value: list(value.items()),
        lambda parts: collections.OrderedDict(parts),
    ),
    collections.defaultdict: (_of_defaultdict, _defaultdict),
    collections.Counter: (dict, collections.Counter),
    collections.deque: (
        lambda value: (list(value), value.maxlen),
        _deque,
    ),
    **{
        kind: (_exceptions.parts_of, functools.partial(_exceptions.restored, kind))
        for kind in _exceptions.BUILT_IN
    },
}


def _name(kind: type) -> str:
    # 3.13 alone keeps the classes of `pathlib` elsewhere.
    module = kind.__module__.removesuffix("._local") if kind in _KNOWN else kind.__module__
    return f"{module}.{kind.__qualname__}"


_BY_NAME = {_name(kind): kind for kind in _KNOWN}
_ARRAY = "numpy.ndarray"
_SCALAR = "numpy.generic"


def register_class(kind: type) -> type:
    """Let every function store instances of a data class, a named tuple, an attrs class, a model
    of pydantic, a struct of msgspec, an enum or an exception; may decorate it.

    Raises:
        TypeError: when it is none of these.
    """
    if not isinstance(kind, type) or not _is_restorable(kind):
        raise TypeError(
            f"{kind!r} is no data class, named tuple, attrs class, pydantic model, msgspec struct, "
            "enum, or exception that has no more than its arguments and attributes"
        )
    _REGISTERED[_name(kind)] = kind
    return kind


def _fields(kind: Any) -> list[str] | None:
    """The fields of a data class, attrs class, model or struct; None for any other class."""
    if dataclasses.is_dataclass(kind):
        return [field.name for field in dataclasses.fields(kind)]
    attributes = getattr(kind, "__attrs_attrs__", None)
    if attributes is not None:
        return [attribute.name for attribute in attributes]
    return _models.field_names(kind)


def _is_named_tuple(kind: type) -> bool:
    return issubclass(kind, tuple) and isinstance(getattr(kind, "_fields", None), tuple)


def _is_restorable(kind: type) -> bool:
    if issubclass(kind, BaseException):
        return _exceptions.is_restorable(kind)
    return issubclass(kind, enum.Enum) or _is_named_tuple(kind) or _fields(kind) is not None


def _classes_in(annotation: Any, found: dict[str, type]) -> None:
    """The classes an annotation names, and those their fields' annotations name."""
    for argument in typing.get_args(annotation):
        _classes_in(argument, found)
    kind = annotation
    if not isinstance(kind, type) or _name(kind) in found or not _is_restorable(kind):
        return
    found[_name(kind)] = kind
    for hint in _hints(kind).values():
        _classes_in(hint, found)


def _hints(thing: Any) -> dict[str, Any]:
    try:
        return typing.get_type_hints(thing)
    except Exception:
        # A name that is imported for type checkers alone. What it names can be registered.
        return {}


def _of_array(value: Any) -> Any:
    if value.dtype.hasobject:
        raise TypeError("is an array of objects")
    order = "F" if value.flags.f_contiguous and not value.flags.c_contiguous else "C"
    return (_dtype_of(value.dtype), value.shape, order, value.tobytes(order))


def _dtype_of(dtype: Any) -> Any:
    return dtype.descr if dtype.names is not None else dtype.str


def _array(parts: Any) -> Any:
    import numpy

    dtype, shape, order, content = parts
    flat = numpy.frombuffer(bytearray(_parts.exact(bytes, content)), numpy.dtype(dtype))
    return flat.reshape(shape, order=order)


def _scalar(parts: Any) -> Any:
    import numpy

    dtype, content = parts
    return numpy.frombuffer(content, numpy.dtype(dtype))[0]


class Codec:
    """Takes objects apart for one function and makes them again."""

    def __init__(self, function: Any) -> None:
        self._function = function
        self._own: dict[str, type] | None = None

    def _allowed(self, name: str) -> type | None:
        registered = _REGISTERED.get(name)
        if registered is not None:
            return registered
        if self._own is None:
            # At the first use: an annotation may name a class that is defined below the function.
            found: dict[str, type] = {}
            _classes_in(_hints(self._function).get("return"), found)
            self._own = found
        return self._own.get(name)

    def loads(self, content: bytes) -> Any:
        """The value that these bytes stand for."""
        return _native.decoded(content, self)

    def parts_of(self, value: Any) -> tuple[str, Any]:
        """The name of the value's class and what it is made from again."""
        kind = type(value)
        known = _KNOWN.get(kind)
        if known is not None:
            return (_name(kind), known[0](value))
        numpy = sys.modules.get("numpy")
        if numpy is not None and kind is numpy.ndarray:
            return (_ARRAY, _of_array(value))
        if numpy is not None and isinstance(value, numpy.generic) and not value.dtype.hasobject:
            return (_SCALAR, (_dtype_of(value.dtype), value.tobytes()))
        table = _tables.parts_of(value, kind)
        if table is not None:
            return table
        if not _is_restorable(kind):
            more = " has more than its arguments and attributes and"
            why = more if isinstance(value, BaseException) else ""
            raise TypeError(f"is a {kind.__qualname__}, which{why} cannot be stored as bytes")
        name = _name(kind)
        if self._allowed(name) is not kind:
            raise TypeError(
                f"is a {kind.__qualname__}, which this function may not restore; name it in the "
                "return annotation, or give it to register_class"
            )
        if isinstance(value, BaseException):
            return (name, _exceptions.parts_of(value))
        if isinstance(value, enum.Enum):
            return (name, value.name if value.name in kind.__members__ else (value.value,))
        if isinstance(value, tuple):
            return (name, tuple(value))
        if _models.field_names(kind) is not None:
            return (name, _models.state_of(value, kind))
        return (name, _state(value, kind))

    def restore(self, name: str, parts: Any) -> Any:
        """What ``parts_of`` took apart.

        Raises:
            Exception: of any kind, when the parts are none of this class.
        """
        # A range of a few bytes would be as many items as it says.
        _parts.check(name, parts)
        known = _BY_NAME.get(name)
        if known is not None:
            return _KNOWN[known][1](parts)
        if name == _ARRAY:
            return _array(parts)
        if name == _SCALAR:
            return _scalar(parts)
        table = _tables.restorer(name)
        if table is not None:
            return table(parts)
        kind: Any = self._allowed(name)
        if kind is None:
            raise ValueError(f"{name} is not among the classes of this function")
        if issubclass(kind, BaseException):
            return _exceptions.restored(kind, parts)
        if issubclass(kind, enum.Enum):
            return kind[parts] if isinstance(parts, str) else kind(parts[0])
        if issubclass(kind, tuple):
            if len(parts) != len(kind._fields):
                raise ValueError(f"{name} has other fields now")
            return tuple.__new__(kind, parts)
        if _models.field_names(kind) is not None:
            return _models.restored(kind, parts)
        return _restored(kind, parts)


def _state(value: Any, kind: type) -> dict[str, Any]:
    names = _fields(kind) or []
    state = {name: getattr(value, name) for name in names if hasattr(value, name)}
    more = [name for name in getattr(value, "__dict__", ()) if name not in state]
    if more:
        raise TypeError(f"is a {kind.__qualname__} with {more[0]!r}, which is none of its fields")
    return state


def _restored(kind: type, state: Any) -> Any:
    names = _fields(kind) or []
    if not set(state) <= set(names):
        raise ValueError(f"{_name(kind)} has other fields now")
    value: Any = object.__new__(kind)
    for name, field in state.items():
        # Past a frozen class, and past setters of its own.
        object.__setattr__(value, name, field)
    return value
