"""Isolation of values that are not built-in containers."""

import collections.abc
import copy
import dataclasses
import datetime
import decimal
import enum
import fractions
import io
import ipaddress
import pathlib
import types
import uuid
import zoneinfo
from typing import Any

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

_ONCE_ONLY = (
    collections.abc.Iterator,
    collections.abc.AsyncIterator,
    collections.abc.Coroutine,
    io.IOBase,
)


def frozen_fields(value: object) -> tuple[Any, ...] | None:
    """Everything an immutable object is made of, or None for any other object."""
    kind = type(value)
    if isinstance(value, enum.Enum):
        # There is one object for each member, whoever asks: a copy would be the same one.
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


def deep_copy(value: object) -> object:
    """A private copy.

    Raises:
        TypeError: when the value can be used up or cannot be copied, and so cannot be cached.
    """
    if isinstance(value, _ONCE_ONLY):
        raise TypeError(
            f"a cached function returned an object of type {type(value).__name__}, which the "
            "first caller uses up; return a list, or a value that can be read again"
        )
    memo: dict[int, Any] = {}
    try:
        return copy.deepcopy(value, memo)
    except (TypeError, RecursionError) as error:
        raise TypeError(
            f"a cached function returned an object of type {type(value).__name__} that cannot "
            f"be copied for each caller ({error}); copy='share' hands out the same object"
        ) from error
