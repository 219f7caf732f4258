"""The tier that the environment names, for ``backend="environment"``.

The names are those of cachekit, so that a service keeps its settings. No error shows what a
variable holds: it may be a password.
"""

import json
import os
from collections.abc import Callable, Mapping
from typing import Any, TypeVar

from tidemark_cache import _tiers

_N = TypeVar("_N", int, float)

#: What names a tier, each alone. One of them at once.
_SELECTORS = ("CACHEKIT_REDIS_URL", "CACHEKIT_FILE_CACHE_DIR", "CACHEKIT_MEMCACHED_SERVERS")
#: What names a tier where none of these is set.
_COMMON = "REDIS_URL"
#: Tiers that this package does not have.
_MISSING = ("CACHEKIT_API_KEY", "CACHEKIT_API_URL")
_VALUE_MAX = 4_096


def backend_of(environment: Mapping[str, str] = os.environ) -> "_tiers.Backend | None":
    """The one tier that is named; None if none is: answers stay in memory."""
    chosen = [name for name in (*_SELECTORS, *_MISSING[:1]) if environment.get(name)]
    if len(chosen) > 1:
        raise ValueError(f"{' and '.join(chosen)} are set, of which each names a backend")
    for name in _MISSING:
        if environment.get(name):
            raise ValueError(f"{name} is set, and this package has no managed backend")
    name = chosen[0] if chosen else _COMMON
    value = environment.get(name)
    if not value:
        return None
    if len(value) > _VALUE_MAX:
        raise ValueError(f"{name} may have {_VALUE_MAX} characters, not {len(value)}")
    if name == "CACHEKIT_FILE_CACHE_DIR":
        return _named(name, lambda: _file(value, environment))
    if name == "CACHEKIT_MEMCACHED_SERVERS":
        return _named(name, lambda: _memcached(value, environment))
    return _named(name, lambda: _redis(value, environment))


def _named(name: str, made: "Callable[[], _tiers.Backend]") -> "_tiers.Backend":
    try:
        return made()
    except _OfVariable as error:
        raise ValueError(str(error)) from None
    except (TypeError, ValueError) as error:
        # Neither repeats the value: they say its form.
        raise ValueError(f"{name}: {error}") from None


class _OfVariable(Exception):
    """What is wrong with a variable that is named already."""


def _number(
    environment: Mapping[str, str], name: str, kind: Callable[[str], _N], least: _N, most: _N
) -> "dict[str, _N]":
    """One number under its name here, or nothing if it is not set."""
    value = environment.get(name)
    if not value:
        return {}
    what = "a whole number" if kind is int else "a number"
    try:
        number = kind(value[:40])
    except ValueError:
        raise _OfVariable(f"{name} must be {what} from {least} to {most}") from None
    if not least <= number <= most:
        raise _OfVariable(f"{name} must be {what} from {least} to {most}")
    return {_FIELDS[name]: number}


#: What settings are called here.
_FIELDS = {
    "CACHEKIT_CONNECTION_POOL_SIZE": "connections",
    "CACHEKIT_SOCKET_TIMEOUT": "timeout",
    "CACHEKIT_SOCKET_CONNECT_TIMEOUT": "connect_timeout",
    "CACHEKIT_FILE_CACHE_MAX_SIZE_MB": "megabytes",
    "CACHEKIT_MEMCACHED_TIMEOUT": "timeout",
    "CACHEKIT_MEMCACHED_CONNECT_TIMEOUT": "connect_timeout",
}
_DAY_S = 86_400.0


def _file(folder: str, environment: Mapping[str, str]) -> _tiers.FileBackend:
    size: dict[str, Any] = _number(
        environment, "CACHEKIT_FILE_CACHE_MAX_SIZE_MB", int, 1, _tiers.MEGABYTES_MAX
    )
    return _tiers.FileBackend(folder=folder, **size)


def _redis(url: str, environment: Mapping[str, str]) -> _tiers.RedisBackend:
    settings: dict[str, Any] = {
        **_number(environment, "CACHEKIT_CONNECTION_POOL_SIZE", int, 1, 10_000),
        **_number(environment, "CACHEKIT_SOCKET_TIMEOUT", float, 0.001, _DAY_S),
        **_number(environment, "CACHEKIT_SOCKET_CONNECT_TIMEOUT", float, 0.001, _DAY_S),
    }
    return _tiers.RedisBackend(url, **settings)


def _memcached(servers: str, environment: Mapping[str, str]) -> _tiers.MemcachedBackend:
    try:
        named = json.loads(servers)
    except (ValueError, RecursionError):
        named = None
    if not isinstance(named, list) or not all(isinstance(one, str) for one in named):
        raise ValueError('it must be a JSON list such as ["host:11211"]')
    if len(named) != 1:
        raise ValueError(f"it must name one server, not {len(named)}")
    settings: dict[str, Any] = {
        **_number(environment, "CACHEKIT_MEMCACHED_TIMEOUT", float, 0.001, _DAY_S),
        **_number(environment, "CACHEKIT_MEMCACHED_CONNECT_TIMEOUT", float, 0.001, _DAY_S),
    }
    prefix = environment.get("CACHEKIT_MEMCACHED_KEY_PREFIX")
    if prefix:
        settings["prefix"] = prefix
    return _tiers.MemcachedBackend(f"memcached://{named[0]}", **settings)
