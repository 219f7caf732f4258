"""The decorator: checks what it is told, and makes the native callable."""

import contextvars
import datetime
import functools
import inspect
import itertools
import math
from collections.abc import Callable, Iterable
from typing import Any, NamedTuple

from tidemark_cache import _async, _bound, _encoders, _native, _values

_ENTRIES_MAX = 10_000
_FLIGHT_WAIT_S = 30.0
#: A lifetime above a thousand years is a mistake in units.
_TTL_S_MAX = 1000 * 366 * 86_400.0
_MAXSIZE_MAX = 2**31
_COPY_MODES = ("auto", "share", "deep")

_slots = itertools.count(1)

_native.set_up(
    (
        _encoders.parts_of,
        _values.frozen_fields,
        _values.deep_copy,
        _bound.BoundCached,
        _async.miss,
        contextvars.ContextVar("tidemark_cache_ownership"),
    ),
    _values.IMMUTABLE,
)


class CacheCounts(NamedTuple):
    """What ``cache_info()`` gives; the names are those of ``functools.lru_cache``."""

    #: Calls answered without running the body, those that waited for another's run included.
    hits: int
    misses: int
    maxsize: int
    #: Entries held; None for a method, whose instances hold their own.
    currsize: int | None


def cache(function: Any = None, /, **settings: Any) -> Any:
    """Answer repeated calls with equal arguments from memory.

    Callers that miss together share one run of the body; its exception reaches them all and is
    not stored. No caller can change what another one gets.

    Args:
        ttl: Lifetime in seconds or as a ``timedelta``; a callable gets the result and returns
            its lifetime, None for no end. Default: entries never expire.
        maxsize: Entries held, for a method in each instance. Default: 10,000.
        copy: ``"auto"`` (default) isolates callers at the least cost, ``"share"`` hands out the
            same object, ``"deep"`` always uses ``copy.deepcopy``.
        key: Callable that gets the call's arguments and returns what stands for them.
        ignore: Names of parameters left out of the key.
        when: Callable that gets the result and says whether to store it.
        unless: Callable that gets the result and says whether not to store it.
        tags: Texts, or a callable that gets the call's arguments and returns texts;
            ``invalidate_tags`` makes every entry with one of them invalid.
        flight_wait: Seconds a caller waits for another's run of the same call before it runs the
            body itself. Default: 30.

    Raises:
        TypeError: while decorating, for an unknown keyword or an argument of the wrong type;
            while calling, for an argument that can be part of no key, or a result that cannot be
            handed out twice.
        ValueError: while decorating, when a limit is out of range.
    """
    checked = _checked(**settings)
    if function is None:
        return lambda function: _decorated(function, checked)
    return _decorated(function, checked)


def invalidate_tags(*tags: str) -> None:
    """Make every entry under any of ``tags`` invalid, in every function of this process."""
    for tag in tags:
        if not isinstance(tag, str):
            raise TypeError(f"a tag must be a str, not {type(tag).__name__}")
    for tag in tags:
        _native.invalidate_tag(tag)


def _checked(
    *,
    ttl: float | datetime.timedelta | Callable[[Any], Any] | None = None,
    maxsize: int = _ENTRIES_MAX,
    copy: str = "auto",
    key: Callable[..., Any] | None = None,
    ignore: Iterable[str] = (),
    when: Callable[[Any], Any] | None = None,
    unless: Callable[[Any], Any] | None = None,
    tags: Iterable[str] | Callable[..., Iterable[str]] = (),
    flight_wait: float = _FLIGHT_WAIT_S,
) -> dict[str, Any]:
    for name, value in (("key", key), ("when", when), ("unless", unless)):
        if value is not None and not callable(value):
            raise TypeError(f"{name} must be callable, not {type(value).__name__}")
    if isinstance(maxsize, bool) or not isinstance(maxsize, int):
        raise TypeError(f"maxsize must be an int, not {type(maxsize).__name__}")
    if not 1 <= maxsize <= _MAXSIZE_MAX:
        raise ValueError(f"maxsize must be from 1 to {_MAXSIZE_MAX} entries, not {maxsize}")
    if copy not in _COPY_MODES:
        raise ValueError(f"copy must be one of {', '.join(_COPY_MODES)}, not {copy!r}")
    wait_s = _seconds("flight_wait", flight_wait)
    lifetime_s = None if ttl is None or callable(ttl) else _seconds("ttl", ttl)
    static_tags = () if callable(tags) else _texts("tags", tags)
    return {
        "lifetime_us": None if lifetime_s is None else round(lifetime_s * 1e6),
        "entries_max": maxsize,
        "copy": copy,
        "key": key,
        "ignore": _texts("ignore", ignore),
        "policy": _policy(ttl if callable(ttl) else None, when, unless),
        "tags": static_tags,
        "tags_of": tags if callable(tags) else None,
        "flight_wait": wait_s,
    }


def _seconds(name: str, value: object) -> float:
    if isinstance(value, datetime.timedelta):
        value = value.total_seconds()
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        raise TypeError(f"{name} must be seconds or a timedelta, not {type(value).__name__}")
    if not 0 <= value <= _TTL_S_MAX:
        raise ValueError(f"{name} must be from 0 to {_TTL_S_MAX:.0f} seconds, not {value}")
    return float(value)


def _texts(name: str, values: Iterable[str]) -> tuple[str, ...]:
    if isinstance(values, str):
        raise TypeError(f"{name} must be several texts, not one: write [{values!r}]")
    texts = tuple(values)
    for text in texts:
        if not isinstance(text, str):
            raise TypeError(f"{name} must hold texts, not {type(text).__name__}")
    return texts


def _policy(
    ttl: Callable[[Any], Any] | None,
    when: Callable[[Any], Any] | None,
    unless: Callable[[Any], Any] | None,
) -> Callable[[Any], float | None] | None:
    """What the native side asks about each result: seconds, 0 not to store it, None for `ttl`."""
    if ttl is None and when is None and unless is None:
        return None

    def policy(value: Any) -> float | None:
        if when is not None and not when(value):
            return 0.0
        if unless is not None and unless(value):
            return 0.0
        if ttl is None:
            return None
        lifetime = ttl(value)
        return math.inf if lifetime is None else _seconds("the result of ttl", lifetime)

    return policy


def _decorated(function: Any, settings: dict[str, Any]) -> Any:
    # Either order of the two decorators works.
    if isinstance(function, (staticmethod, classmethod)):
        return type(function)(_decorated(function.__func__, settings))
    if inspect.isclass(function) or not callable(function):
        raise TypeError(f"cache decorates functions, not {type(function).__name__}")
    if inspect.isgeneratorfunction(function) or inspect.isasyncgenfunction(function):
        raise TypeError(
            f"{_name(function)} is a generator function: its first caller would use up the "
            "result; return a list instead"
        )
    is_async = inspect.iscoroutinefunction(function)
    cached = _native.make(function, settings | _parameters(function, settings["ignore"])
                          | {"is_async": is_async})
    functools.update_wrapper(cached, function)
    # With these, `inspect.iscoroutinefunction` sees what kind of function it is.
    for name in ("__code__", "__defaults__", "__kwdefaults__"):
        if hasattr(function, name):
            setattr(cached, name, getattr(function, name))
    cached._maxsize = settings["entries_max"]
    cached._flight_wait_s = settings["flight_wait"]
    cached._runs = {}
    cached._invalidations = 0
    cached._is_method = False
    return cached


def _name(function: Any) -> str:
    name = getattr(function, "__qualname__", None)
    return str(name or f"a {type(function).__name__}")


def _parameters(function: Any, ignore: tuple[str, ...]) -> dict[str, Any]:
    """How calls are bound. Of the function itself, not of what it wraps: it binds them too."""
    try:
        parameters = inspect.signature(function, follow_wrapped=False).parameters.values()
    except ValueError:
        # Some built-in functions do not say; then only equal spellings share an entry.
        unnamed = inspect.Parameter("args", inspect.Parameter.VAR_POSITIONAL)
        named = inspect.Parameter("kwargs", inspect.Parameter.VAR_KEYWORD)
        parameters = [unnamed, named]  # type: ignore[assignment]
    kinds = [parameter.kind for parameter in parameters]
    named_parameters = [
        parameter
        for parameter in parameters
        if parameter.kind not in (parameter.VAR_POSITIONAL, parameter.VAR_KEYWORD)
    ]
    names = [parameter.name for parameter in named_parameters]
    for name in ignore:
        if name not in names:
            raise ValueError(f"ignore names {name!r}, which is no parameter of {_name(function)}")
    only = kinds.count(inspect.Parameter.POSITIONAL_ONLY)
    return {
        "names": names,
        "defaults": [
            None if parameter.default is parameter.empty else (parameter.default,)
            for parameter in named_parameters
        ],
        "is_ignored": [name in ignore for name in names],
        "positional_only": only,
        "positional": only + kinds.count(inspect.Parameter.POSITIONAL_OR_KEYWORD),
        "takes_more": inspect.Parameter.VAR_POSITIONAL in kinds,
        "takes_names": inspect.Parameter.VAR_KEYWORD in kinds,
    }


def _set_name(self: Any, owner: type, name: str) -> None:
    if not self._is_method:
        self._slot = f"_tidemark_cache_{next(_slots)}"
    _native.mark_method(self, owner, self._slot)
    self._is_method = True


def _cache_info(self: Any) -> CacheCounts:
    hits, misses = _native.counts(self)
    held = None if self._is_method else _native.entries(self)
    return CacheCounts(hits, misses, self._maxsize, held)


def _info_of(self: Any, instance: Any) -> CacheCounts:
    held = _native.entries(self, instance) if self._is_method else _native.entries(self)
    return _cache_info(self)._replace(currsize=held)


def _cache_clear(self: Any) -> None:
    """Forget every answer; runs in progress are not stored."""
    self._invalidations += 1
    self._runs.clear()
    _native.clear(self)


def _clear_of(self: Any, instance: Any) -> None:
    if not self._is_method:
        return _cache_clear(self)
    self._invalidations += 1
    for run in list(self._runs.values()):
        if run.key.is_of(instance):
            _native.discard_run(self._runs, run.key, run)
    _native.clear(self, instance)
    return None


def _invalidate_cache(self: Any, *args: Any, **kwargs: Any) -> bool:
    """Forget the answer to one call, or every answer when there are no arguments.

    Returns:
        Whether something was forgotten; always True without arguments.
    """
    if not args and not kwargs:
        _cache_clear(self)
        return True
    if self._is_method and len(args) == 1 and not kwargs:
        _clear_of(self, args[0])
        return True
    key = _native.CallKey.of(self, args, kwargs)
    if key is None:
        raise TypeError(f"{_name(self)} cannot be called with these arguments")
    self._invalidations += 1
    self._runs.pop(key, None)
    return bool(key.invalidate())


async def _ainvalidate_cache(self: Any, *args: Any, **kwargs: Any) -> bool:
    """As ``invalidate_cache``, to be awaited."""
    return _invalidate_cache(self, *args, **kwargs)


def _cache_contains(self: Any, *args: Any, **kwargs: Any) -> bool:
    """Whether this call would be answered from memory."""
    key = _native.CallKey.of(self, args, kwargs)
    if key is None:
        raise TypeError(f"{_name(self)} cannot be called with these arguments")
    return bool(key.contains())


def _reduce(self: Any) -> str:
    return _name(self)


def _repr(self: Any) -> str:
    return f"<cached function {_name(self)}>"


for _attribute, _method in {
    "__set_name__": _set_name,
    "__reduce__": _reduce,
    "__repr__": _repr,
    "_clear_of": _clear_of,
    "_info_of": _info_of,
    "ainvalidate_cache": _ainvalidate_cache,
    "cache_clear": _cache_clear,
    "cache_contains": _cache_contains,
    "cache_info": _cache_info,
    "invalidate_cache": _invalidate_cache,
}.items():
    setattr(_native.Cached, _attribute, _method)
