"""The decorator and its presets: from a function and its settings to the native callable."""

from __future__ import annotations

import itertools
import sys

from tidemark_cache import _native, _settings

TYPE_CHECKING = False
if TYPE_CHECKING:
    import weakref
    from collections.abc import Callable, Hashable
    from typing import Any

    from tidemark_cache._settings import CacheConfig

_slots = itertools.count(1)

#: The functions of each namespace.
namespaces: dict[str, weakref.WeakSet[Any]] = {}
#: Those whose results say which tags they have: under one name, since a set is made when needed.
tagged_by_result: dict[str, weakref.WeakSet[Any]] = {}

#: Flags of a code object.
_TAKES_MORE, _TAKES_NAMES = 0x04, 0x08
_GENERATOR, _COROUTINE, _ASYNC_GENERATOR = 0x20, 0x80, 0x200


def _decorator(config: CacheConfig, function: Any) -> Any:
    if function is None:
        return lambda function: _decorated(function, config)
    return _decorated(function, config)


def cache(function: Any = None, /, **settings: Any) -> Any:
    """Answer repeated calls with equal arguments from memory.

    Callers that miss together share one run of the body; its exception reaches them all and is
    not stored unless ``cache_errors`` says so. No caller can change what another one gets. The
    settings are those of ``CacheConfig``; the guide explains each.

    Args:
        ttl: Lifetime in seconds or as a ``timedelta``; a callable gets the result and returns
            its lifetime, None for no end. Default: entries never expire.
        maxsize: Entries held, for a method in each instance. Default: 10,000.
        copy: ``"auto"`` (default) isolates callers at the least cost, ``"share"`` hands out the
            same object, ``"deep"`` always uses ``copy.deepcopy``, ``"bytes"`` keeps bytes and makes
            a value from them for each caller.
        materialise: True for functions that return iterators, generator functions among them:
            callers get a list of the items.
        key: Callable that gets the call's arguments and returns what stands for them.
        ignore: Names of parameters left out of the key.
        tags: Strings, or a callable that gets the call's arguments and returns strings;
            ``invalidate_tags`` makes every entry with one of them invalid.
        result_tags: Callable that gets the result and returns further tags.
        refresh_ahead: Share of the lifetime after which a hit has the body run again in the
            background; True for one half.
        stale_ttl: Seconds after its lifetime in which an entry still answers while the body runs.
        backend: ``"file"`` or a ``FileBackend``: a file that all processes of the host share;
            ``"redis://…"`` or a ``RedisBackend``; ``"memcached://…"`` or a ``MemcachedBackend``;
            ``"environment"``: the one that environment variables name, or none; an object with the
            methods ``get``, ``set`` and ``delete``; or a list of these, the nearest first.
        stale_if_error: Seconds after its lifetime in which an entry answers if the body fails.

    Raises:
        TypeError: while decorating, for an unknown keyword or an argument of the wrong type;
            while calling, for an argument that can be part of no key, or a result that cannot be
            handed out twice.
        ValueError: while decorating, when a limit is out of range.
    """
    return _decorator(_settings.configured(settings), function)


def _preset(name: str, preset: dict[str, Any]) -> Any:
    def decorate(function: Any = None, /, **settings: Any) -> Any:
        return _decorator(_settings.configured(settings, preset), function)

    decorate.__name__ = decorate.__qualname__ = name
    settings = ", ".join(f"{key}={value}" for key, value in preset.items())
    decorate.__doc__ = f"``cache`` with {settings}."
    return decorate


def _local(function: Any = None, /, **settings: Any) -> Any:
    """``cache`` with ``ttl=300`` and ``max_entries=256``; takes only these two, ``namespace`` and
    ``key``."""
    return _decorator(_settings.local(**settings), function)


def _not_yet(name: str, why: str) -> Any:
    def refuse(function: Any = None, /, **settings: Any) -> Any:
        raise TypeError(f"cache.{name} is not supported yet: {why}")

    return refuse


for _name_of_preset, _its_settings in _settings.PRESETS.items():
    setattr(cache, _name_of_preset, _preset(_name_of_preset, _its_settings))
setattr(cache, "local", _local)
setattr(cache, "secure", _not_yet("secure", "it needs an encrypted tier below memory"))
setattr(cache, "io", _not_yet("io", "it needs a managed backend"))


def _decorated(function: Any, config: CacheConfig) -> Any:
    # Either order of the two decorators works.
    if isinstance(function, (staticmethod, classmethod)):
        return type(function)(_decorated(function.__func__, config))
    if isinstance(function, type) or not callable(function):
        raise TypeError(f"cache decorates functions, not {type(function).__name__}")
    # What the arguments are bound to, whatever stands around it.
    bound = function
    if config.materialise:
        from tidemark_cache import _materialise

        function = _materialise.materialised(function)
    is_async = _is_async(function)
    settings = _settings.native(config)
    if config.copy == "bytes":
        from tidemark_cache._codec import Codec

        settings["codec"] = Codec(function)
    backed = None
    given = config
    if config.backend is not None:
        from tidemark_cache import _backed, _tiers

        # Even if the environment names no tier here: on another machine it may.
        _tiers.refuse_ambiguous(function, config)
    if _settings.in_environment(config.backend):
        from tidemark_cache import _environment

        found = _environment.backend_of()
        config = _settings.configured({"config": config, "backend": found})
    if config.backend is not None:
        backed = _backed.BackedFunction(function, config, settings, is_async)
        settings |= _backed.OF_MEMORY | {"renewable_us": backed.renewable_us}
    body = function if backed is None else backed.body(is_async)
    parameters = _parameters(bound, settings["ignore"])
    cached = _native.make(body, settings | parameters | {"is_async": is_async})
    # Most of what importing this package would bring, where nothing else has.
    from functools import update_wrapper

    update_wrapper(cached, function)
    # With these, `inspect.iscoroutinefunction` sees what kind of function it is.
    for name in ("__code__", "__defaults__", "__kwdefaults__"):
        if hasattr(function, name):
            setattr(cached, name, getattr(function, name))
    cached._config = given
    cached._body = body
    cached._backed = backed
    if backed is not None:
        backed.cached = cached
    cached._parameters = len(parameters["names"])
    cached._maxsize = settings["entries_max"]
    cached._flight_wait_s = settings["flight_wait"]
    cached._is_async = is_async
    cached._runs = {}
    # Bodies of async functions that no other call can join, by the identity of their keys.
    cached._lone_bodies = {}
    cached._refreshing = set()
    cached._is_method = False
    if config.namespace is not None:
        _put(namespaces, config.namespace, cached)
    if config.result_tags is not None:
        _put(tagged_by_result, "", cached)
    if is_async:
        # Before the first call, and before the interpreter's end.
        from tidemark_cache import _async  # noqa: F401
    if settings["refresh_share"] is not None or settings["stale_us"]:
        from tidemark_cache import _refresh  # noqa: F401
    return cached


def _is_simple(function: Any) -> bool:
    """Whether the code of a function says how it is called: it wraps no other one, and nothing
    marks it as another kind."""
    return type(function) is type(_is_simple) and not function.__dict__


def _is_async(function: Any) -> bool:
    if _is_simple(function):
        flags = function.__code__.co_flags
        is_generator, is_async = flags & (_GENERATOR | _ASYNC_GENERATOR), flags & _COROUTINE
    else:
        import inspect

        is_generator = inspect.isgeneratorfunction(function) or inspect.isasyncgenfunction(function)
        is_async = inspect.iscoroutinefunction(function)
    if is_generator:
        raise TypeError(
            f"{name_of(function)} is a generator function: its first caller would use up the "
            "result; return a list instead, or give materialise=True"
        )
    return bool(is_async)


def _put(sets: dict[str, weakref.WeakSet[Any]], name: str, cached: Any) -> None:
    import weakref

    sets.setdefault(name, weakref.WeakSet()).add(cached)


def deferred(key: Hashable, work: Callable[[], bool]) -> bool:
    """Does the work now, or at the end of the block of deferred invalidations around this code."""
    current = getattr(sys.modules.get("tidemark_cache._deferral"), "current", None)
    deferral = None if current is None else current.get()
    return bool(work() if deferral is None else deferral.add(key, work))


def name_of(function: Any) -> str:
    """The qualified name, or what kind of thing it is."""
    name = getattr(function, "__qualname__", None)
    return str(name or f"a {type(function).__name__}")


def _parameters(function: Any, ignore: tuple[str, ...]) -> dict[str, Any]:
    """How calls are bound."""
    found = _in_code(function) if _is_simple(function) else _in_signature(function)
    names = found["names"]
    for name in ignore:
        if name not in names:
            raise ValueError(f"ignore names {name!r}, which is no parameter of {name_of(function)}")
    return found | {"is_ignored": [name in ignore for name in names]}


def _in_code(function: Any) -> dict[str, Any]:
    """As `_in_signature`, without what `inspect` costs to import and to run."""
    code = function.__code__
    positional = code.co_argcount
    names = list(code.co_varnames[: positional + code.co_kwonlyargcount])
    defaults: list[Any] = [None] * positional
    for index, default in enumerate(reversed(function.__defaults__ or ())):
        defaults[positional - 1 - index] = (default,)
    by_name = function.__kwdefaults__ or {}
    defaults += [(by_name[name],) if name in by_name else None for name in names[positional:]]
    return {
        "names": names,
        "defaults": defaults,
        "positional_only": code.co_posonlyargcount,
        "positional": positional,
        "takes_more": bool(code.co_flags & _TAKES_MORE),
        "takes_names": bool(code.co_flags & _TAKES_NAMES),
    }


def _in_signature(function: Any) -> dict[str, Any]:
    """Of the function itself, not of what it wraps: it binds its arguments too."""
    import inspect

    kinds = inspect.Parameter
    try:
        parameters = list(inspect.signature(function, follow_wrapped=False).parameters.values())
    except ValueError:
        # Some built-in functions do not say; then only equal spellings share an entry.
        unnamed = kinds("args", kinds.VAR_POSITIONAL)
        parameters = [unnamed, kinds("kwargs", kinds.VAR_KEYWORD)]
    of_kind = [parameter.kind for parameter in parameters]
    named = [
        parameter
        for parameter in parameters
        if parameter.kind not in (kinds.VAR_POSITIONAL, kinds.VAR_KEYWORD)
    ]
    only = of_kind.count(kinds.POSITIONAL_ONLY)
    return {
        "names": [parameter.name for parameter in named],
        "defaults": [
            None if parameter.default is parameter.empty else (parameter.default,)
            for parameter in named
        ],
        "positional_only": only,
        "positional": only + of_kind.count(kinds.POSITIONAL_OR_KEYWORD),
        "takes_more": kinds.VAR_POSITIONAL in of_kind,
        "takes_names": kinds.VAR_KEYWORD in of_kind,
    }


def _set_name(self: Any, owner: type, name: str) -> None:
    if self._config.backend is not None:
        raise TypeError(
            f"{name_of(self)} is a method: its instances are those of one process, so it cannot "
            "have a backend; decorate a function that gets what identifies the instance"
        )
    if not self._is_method:
        self._slot = f"_tidemark_cache_{next(_slots)}"
    _native.mark_method(self, owner, self._slot)
    self._is_method = True


setattr(_native.Cached, "__set_name__", _set_name)
