"""What stands for an object in a cache key, when it is none of the built-in types.

The native encoder asks for objects of other types only, and tags what it gets with the exact
type. So a part here need not name its type; it must tell apart any two objects that differ.
"""

import array
import collections
import dataclasses
import datetime
import decimal
import enum
import fractions
import ipaddress
import pathlib
import struct
import types
import uuid
import zoneinfo
from collections.abc import Callable
from typing import Any

from tidemark_cache import _arrays


def _zone(zone: datetime.tzinfo | None, moment: datetime.datetime | None) -> Any:
    if zone is None:
        return None
    if type(zone) is datetime.timezone:
        return ("offset", str(zone.utcoffset(moment)), zone.tzname(moment))
    if type(zone) is zoneinfo.ZoneInfo and zone.key is not None:
        return ("zone", zone.key)
    return ("object", zone)


def _datetime(value: datetime.datetime) -> Any:
    naive = value.replace(tzinfo=None, fold=0)
    # The zone decides what the moment is, so it stands beside its offset.
    return (naive.isoformat(), value.fold, str(value.utcoffset()), _zone(value.tzinfo, value))


def _time(value: datetime.time) -> Any:
    naive = value.replace(tzinfo=None, fold=0)
    return (naive.isoformat(), value.fold, _zone(value.tzinfo, None))


def _timedelta(value: datetime.timedelta) -> Any:
    # The one of pandas is a subclass and finer.
    return (value.days, value.seconds, value.microseconds, getattr(value, "nanoseconds", 0))


def _memory(value: memoryview) -> Any:
    return (value.format, value.shape, value.readonly, value.tobytes())


_ENCODERS: dict[type, Callable[[Any], Any]] = {
    complex: lambda value: struct.pack("<dd", value.real, value.imag),
    range: lambda value: (value.start, value.stop, value.step),
    slice: lambda value: (value.start, value.stop, value.step),
    memoryview: _memory,
    array.array: lambda value: (value.typecode, value.tobytes()),
    datetime.datetime: _datetime,
    datetime.date: datetime.date.isoformat,
    datetime.time: _time,
    datetime.timedelta: _timedelta,
    # The text keeps sign, exponent and the payload of a NaN; `==` keeps none of them.
    decimal.Decimal: str,
    fractions.Fraction: lambda value: (value.numerator, value.denominator),
    uuid.UUID: lambda value: value.bytes,
    pathlib.PosixPath: str,
    pathlib.WindowsPath: str,
    pathlib.PurePosixPath: str,
    pathlib.PureWindowsPath: str,
    ipaddress.IPv4Address: str,
    ipaddress.IPv6Address: str,
    collections.OrderedDict: lambda value: list(value.items()),
    collections.defaultdict: lambda value: (dict(value), value.default_factory),
    collections.Counter: dict,
    collections.deque: lambda value: (list(value), value.maxlen),
    collections.ChainMap: lambda value: value.maps,
    types.MappingProxyType: dict,
    types.SimpleNamespace: vars,
}

#: Subclasses of these are taken apart like the class itself, beside what they add, unless they
#: say by an `__eq__` of their own what is equal. In this order: `datetime` is a `date`.
_BASES: dict[type, Callable[[Any], Any]] = {
    datetime.datetime: _datetime,
    datetime.date: datetime.date.isoformat,
    datetime.time: _time,
    datetime.timedelta: _timedelta,
    decimal.Decimal: decimal.Decimal.__str__,
    fractions.Fraction: _ENCODERS[fractions.Fraction],
    collections.OrderedDict: _ENCODERS[collections.OrderedDict],
    collections.defaultdict: _ENCODERS[collections.defaultdict],
    collections.deque: _ENCODERS[collections.deque],
    # `==` takes 0.0 for -0.0 and no NaN for itself.
    float: lambda value: struct.pack("<d", value),
    complex: _ENCODERS[complex],
    tuple: lambda value: tuple(tuple.__iter__(value)),
    list: lambda value: list(list.__iter__(value)),
    dict: lambda value: dict(dict.items(value)),
    set: lambda value: set(set.__iter__(value)),
    frozenset: lambda value: frozenset(frozenset.__iter__(value)),
    bytearray: bytes,
}
#: Types of pandas that say by an `__eq__` of their own what a `datetime` says.
_FOREIGN_EQ = ("pandas",)


def _state(value: object) -> Any:
    """What a subclass adds to its base: attributes in a `__dict__` or in slots."""
    slots = [
        name
        for kind in type(value).__mro__
        for name in _slot_names(kind)
        if hasattr(value, name)
    ]
    return (getattr(value, "__dict__", None), [(name, getattr(value, name)) for name in slots])


def _slot_names(kind: type) -> tuple[str, ...]:
    slots = kind.__dict__.get("__slots__", ())
    names = (slots,) if isinstance(slots, str) else tuple(slots)
    return tuple(name for name in names if name not in ("__dict__", "__weakref__"))


def _equality(kind: type) -> Any:
    return kind.__eq__


def _of_base(value: object, kind: Any) -> Any:
    for base, encoder in _BASES.items():
        if isinstance(value, base):
            is_foreign = kind.__module__.startswith(_FOREIGN_EQ)
            if _equality(kind) is not _equality(base) and not is_foreign:
                return None
            return (encoder(value), None if is_foreign else _state(value))
    return None


def _fields_of(value: Any, kind: Any) -> Any:
    """The fields of an object whose class compares by them: every one, those included that
    `==` leaves out, since the body may read them."""
    if _equality(kind) is _equality(object):
        return None
    for base in kind.__mro__:
        parameters = base.__dict__.get("__dataclass_params__")
        if parameters is not None and parameters.eq:
            return [getattr(value, field.name, None) for field in dataclasses.fields(value)]
        if "__attrs_attrs__" in base.__dict__:
            return [getattr(value, field.name, None) for field in kind.__attrs_attrs__]
        if "__pydantic_validator__" in base.__dict__:
            private = getattr(value, "__pydantic_private__", None)
            return [value.__dict__, getattr(value, "__pydantic_extra__", None), private]
        if "__eq__" in base.__dict__ and "__struct_fields__" not in base.__dict__:
            return None
        if hasattr(base, "__struct_fields__"):
            return [getattr(value, name, None) for name in kind.__struct_fields__]
    return None


def parts_of(value: object) -> object:
    """What the native encoder writes for ``value``, or None if it has no encoding."""
    kind = type(value)
    encoder = _ENCODERS.get(kind)
    if encoder is not None:
        return encoder(value)
    if isinstance(value, enum.Enum):
        return (value.name, None if value.name else value.value)
    parts = _fields_of(value, kind)
    if parts is None:
        parts = _arrays.parts_of(value, kind)
    if parts is None:
        parts = _of_base(value, kind)
    return parts
