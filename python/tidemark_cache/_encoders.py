"""What stands for an object in a cache key, when it is none of the built-in types.

The native encoder asks for objects of other types only, and tags what it gets with the exact
type. So a part here need not name its type; it must tell apart any two objects that differ.
"""

import dataclasses
import datetime
import decimal
import fractions
import ipaddress
import pathlib
import sys
import uuid
import zoneinfo
from collections.abc import Callable
from typing import Any


def _zone(zone: datetime.tzinfo | None, moment: datetime.datetime | None) -> Any:
    if zone is None or type(zone) is datetime.timezone:
        offset = zone.utcoffset(moment) if zone else None
        return None if offset is None else ("offset", str(offset), zone.tzname(moment))
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
    return (value.days, value.seconds, value.microseconds)


_ENCODERS: dict[type, Callable[[Any], Any]] = {
    complex: lambda value: (value.real, value.imag),
    range: lambda value: (value.start, value.stop, value.step),
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
}


def _array(value: Any) -> Any:
    if value.dtype.hasobject:
        return (value.dtype.descr, value.shape, value.tolist())
    return (value.dtype.descr, value.shape, value.tobytes())


def parts_of(value: object) -> object:
    """What the native encoder writes for ``value``, or None if it has no encoding."""
    kind = type(value)
    encoder = _ENCODERS.get(kind)
    if encoder is not None:
        return encoder(value)
    if isinstance(value, tuple) and hasattr(kind, "_fields"):
        return tuple(value)
    parameters = kind.__dict__.get("__dataclass_params__")
    if parameters is not None and parameters.eq:
        # Every field, those included that `==` leaves out: the body may read them.
        fields = dataclasses.fields(value)  # type: ignore[arg-type]
        return tuple(getattr(value, field.name) for field in fields)
    numpy = sys.modules.get("numpy")
    if numpy is not None and kind is numpy.ndarray:
        return _array(value)
    return None
