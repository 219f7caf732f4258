"""What the decorator is given: names, checks, presets, and what the native side gets of it.

No module of the standard library is imported that most programs do without: `dataclasses` alone
would cost half of what importing this package does.
"""

from __future__ import annotations

import sys

from tidemark_cache import _namespaces, _native

TYPE_CHECKING = False
if TYPE_CHECKING:
    import datetime
    from collections.abc import Callable, Iterable, Mapping, Sequence
    from typing import Any

    from tidemark_cache import _tiers

#: A lifetime above a thousand years is a mistake in units.
_TTL_S_MAX = 1000 * 366 * 86_400.0
_MAXSIZE_MAX = 2**31
_BYTES_MAX = 2**48
_LEASES = ("wait", "stale", "run")
_COPY_MODES = ("auto", "share", "deep", "bytes")
#: Share of the lifetime after which a hit has its entry refreshed, where none is given.
_REFRESH_SHARE = 0.5

#: Settings of tiers below memory, which this version does not have.
_OF_OTHER_TIERS = frozenset(
    (
        "encryption",
        "format",
        "integrity_checking",
        "interop",
        "l1",
        "master_key",
        "monitoring",
        "on_tamper",
        "serializer",
    )
)


class CacheConfig:
    """Settings to share between functions: ``cache(config=…)``; keywords override its fields."""

    ttl: float | datetime.timedelta | Callable[[Any], Any] | None = None
    jitter: float = 0.0
    maxsize: int = 10_000
    max_bytes: int | _native.MemoryBudget | None = None
    namespace: str | None = None
    version: str | int | None = None
    copy: str = "auto"
    materialise: bool = False
    key: Callable[..., Any] | None = None
    ignore: Iterable[str] = ()
    when: Callable[[Any], Any] | None = None
    unless: Callable[[Any], Any] | None = None
    cache_errors: bool | type[Exception] | tuple[type[Exception], ...] = False
    error_ttl: float | datetime.timedelta = 10.0
    tags: Iterable[str] | Callable[..., Iterable[str]] = ()
    result_tags: Callable[[Any], Iterable[str]] | None = None
    on_evict: Callable[[str, Any], Any] | None = None
    flight_wait: float | datetime.timedelta = 30.0
    refresh_ahead: bool | float = False
    refresh_ttl_on_get: bool = False
    ttl_refresh_threshold: float = 0.5
    stale_ttl: float | datetime.timedelta = 0.0
    stale_if_error: float | datetime.timedelta = 0.0
    backend: str | _tiers.Backend | Sequence[str | _tiers.Backend] | None = None
    circuit_breaker: bool | _tiers.CircuitBreaker = True
    backpressure: bool | _tiers.Backpressure = True
    write_behind: bool = False
    lease: str = "wait"
    keep_arguments: bool = False
    l1_enabled: bool = True

    def __init__(self, **settings: Any) -> None:
        for name in settings:
            _check_name(name)
        vars(self).update(settings)
        for name in _STRINGS & settings.keys():
            # Here and no more: an iterator has its items once.
            if not callable(settings[name]):
                vars(self)[name] = strings(name, settings[name])
        # All that can be wrong is found while decorating, and here already.
        native(self)
        if self.backend is not None and not in_environment(self.backend):
            from tidemark_cache import _tiers

            tiers = _tiers.backends_of(self.backend)
            backend = tiers if isinstance(self.backend, (list, tuple)) else tiers[0]
            vars(self)["backend"] = backend

    def __setattr__(self, name: str, value: object = None) -> None:
        raise AttributeError(f"a CacheConfig cannot be changed: {name} stays as it is")

    __delattr__ = __setattr__

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, CacheConfig):
            return NotImplemented
        return _fields(self) == _fields(other)

    def __hash__(self) -> int:
        return hash(_fields(self))

    def __repr__(self) -> str:
        given = [name for name in _NAMES if name in vars(self)]
        return f"CacheConfig({', '.join(f'{name}={getattr(self, name)!r}' for name in given)})"

    @property
    def ttl_s(self) -> float | None:
        """The lifetime in seconds; None if there is no end, or the result decides."""
        ttl = self.ttl
        return None if ttl is None or callable(ttl) else seconds("ttl", ttl)


_NAMES = tuple(CacheConfig.__annotations__)
#: Those that are several str.
_STRINGS = {"ignore", "tags"}


def _fields(config: CacheConfig) -> tuple[Any, ...]:
    return tuple(getattr(config, name) for name in _NAMES)



#: Lifetimes are finite in each preset; only the bare decorator never lets an entry expire.
PRESETS: dict[str, dict[str, Any]] = {
    "minimal": {"ttl": 300, "circuit_breaker": False},
    "production": {"ttl": 600, "refresh_ahead": True},
    "dev": {"ttl": 300, "refresh_ahead": True},
    "test": {"ttl": 300, "circuit_breaker": False, "backpressure": False},
}
_LOCAL_NAMES = ("ttl", "max_entries", "namespace", "key")


def configured(settings: Mapping[str, Any], preset: Mapping[str, Any] = {}) -> CacheConfig:
    """The checked settings of one decoration."""
    given = dict(settings)
    config = given.pop("config", None)
    if config is not None and not isinstance(config, CacheConfig):
        raise TypeError(f"config must be a CacheConfig, not {type(config).__name__}")
    if "max_entries" in given:
        if "maxsize" in given:
            raise TypeError("maxsize and max_entries mean the same; give one of them")
        given["maxsize"] = given.pop("max_entries")
    for name in given:
        _check_name(name)
    of_config = {} if config is None else {name: getattr(config, name) for name in _NAMES}
    return CacheConfig(**{**preset, **of_config, **given})


def local(ttl: int = 300, max_entries: int = 256, **others: Any) -> CacheConfig:
    """The settings of ``cache.local``, which takes few."""
    for name in others:
        if name not in _LOCAL_NAMES:
            raise TypeError(
                f"cache.local has no setting {name!r}; it takes {', '.join(_LOCAL_NAMES)}"
            )
    if isinstance(ttl, bool) or not isinstance(ttl, int):
        raise TypeError(f"ttl of cache.local must be an int, not {type(ttl).__name__}")
    if ttl < 1:
        raise ValueError(f"ttl of cache.local must be at least 1 second, not {ttl}")
    return CacheConfig(ttl=ttl, maxsize=max_entries, **others)


def _check_name(name: str) -> None:
    """Never shows a value: it may be a secret."""
    if name in _NAMES:
        return
    if name in _OF_OTHER_TIERS:
        raise TypeError(
            f"cache() does not support {name!r} yet: it is for tiers below memory that this "
            "version does not have"
        )
    import difflib

    near = difflib.get_close_matches(name, _NAMES, 1)
    hint = f"; did you mean {near[0]!r}?" if near else ""
    raise TypeError(f"cache() has no setting {name!r}{hint}")


def native(config: CacheConfig) -> dict[str, Any]:
    """Checks every field, and gives what the native side needs of it."""
    for name in ("key", "when", "unless", "on_evict", "result_tags"):
        value = getattr(config, name)
        if value is not None and not callable(value):
            raise TypeError(f"{name} must be callable, not {type(value).__name__}")
    _backend(config)
    if config.l1_enabled is not True:
        raise TypeError("l1_enabled must be True: a tier below memory is read through it")
    if config.copy not in _COPY_MODES:
        raise ValueError(f"copy must be one of {', '.join(_COPY_MODES)}, not {config.copy!r}")
    if not isinstance(config.materialise, bool):
        raise TypeError(f"materialise must be a bool, not {type(config.materialise).__name__}")
    _namespace(config.namespace)
    if config.version is not None and not isinstance(config.version, (str, int)):
        raise TypeError(f"version must be a str or an int, not {type(config.version).__name__}")
    ttl = config.ttl
    lifetime_s = None if ttl is None or callable(ttl) else seconds("ttl", ttl)
    max_bytes = config.max_bytes
    budget = max_bytes if isinstance(max_bytes, _native.MemoryBudget) else None
    if budget is not None:
        max_bytes = budget.max_bytes
    return {
        "lifetime_us": None if lifetime_s is None else round(lifetime_s * 1e6),
        "entries_max": _whole("maxsize", config.maxsize, _MAXSIZE_MAX, "entries"),
        "bytes_max": None
        if max_bytes is None
        else _whole("max_bytes", max_bytes, _BYTES_MAX, "bytes"),
        "budget": budget,
        "copy": config.copy,
        "key": config.key,
        "ignore": strings("ignore", config.ignore),
        "policy": _policy(ttl if callable(ttl) else None, config.when, config.unless),
        "errors": _errors(config.cache_errors, seconds("error_ttl", config.error_ttl)),
        "tags": () if callable(config.tags) else strings("tags", config.tags),
        "tags_of": config.tags if callable(config.tags) else None,
        "on_evict": config.on_evict,
        "flight_wait": seconds("flight_wait", config.flight_wait),
        **_freshness(config, lifetime_s),
    }


#: Settings that reach no further than memory, and would break what a shared tier promises.
_OF_MEMORY = ("refresh_ttl_on_get",)


def _backend(config: CacheConfig) -> None:
    if not (isinstance(config.circuit_breaker, bool) and isinstance(config.backpressure, bool)):
        from tidemark_cache import _tiers

        _tiers.breaker_of(config.circuit_breaker)
        _tiers.pressure_of(config.backpressure)
    if not isinstance(config.write_behind, bool):
        raise TypeError(f"write_behind must be a bool, not {type(config.write_behind).__name__}")
    if config.lease not in _LEASES:
        raise ValueError(f"lease must be one of {', '.join(_LEASES)}, not {config.lease!r}")
    if not isinstance(config.keep_arguments, bool):
        kind = type(config.keep_arguments).__name__
        raise TypeError(f"keep_arguments must be a bool, not {kind}")
    if config.keep_arguments and config.key is not None:
        raise TypeError("keep_arguments and key exclude each other: calls are known by what key "
                        "gives")  # fmt: skip
    if config.backend is None:
        return
    if not in_environment(config.backend):
        from tidemark_cache import _tiers

        tiers = _tiers.backends_of(config.backend)
        if config.keep_arguments:
            _tiers.check_listing(tiers)
    for name in _OF_MEMORY:
        if getattr(config, name):
            raise TypeError(f"{name} and backend exclude each other in this version")


def in_environment(backend: object) -> bool:
    """Whether the environment names the tier."""
    return isinstance(backend, str) and backend == "environment"


def _freshness(config: CacheConfig, lifetime_s: float | None) -> dict[str, Any]:
    stale_s = seconds("stale_ttl", config.stale_ttl)
    error_s = seconds("stale_if_error", config.stale_if_error)
    threshold = _share("ttl_refresh_threshold", config.ttl_refresh_threshold)
    extends = config.refresh_ttl_on_get
    if not isinstance(extends, bool):
        raise TypeError(f"refresh_ttl_on_get must be a bool, not {type(extends).__name__}")
    share = None
    if config.refresh_ahead is not False:
        ahead = config.refresh_ahead
        share = _REFRESH_SHARE if ahead is True else _share("refresh_ahead", ahead)
    if extends:
        if share is not None:
            raise ValueError("refresh_ttl_on_get and refresh_ahead exclude each other")
        if lifetime_s is None:
            raise ValueError("refresh_ttl_on_get needs a ttl in seconds")
        # At or below this remaining share of the lifetime.
        share = 1.0 - threshold
    needs_end = share is not None or stale_s or error_s
    if needs_end and config.ttl is None:
        name = "refresh_ahead" if share is not None else "stale_ttl and stale_if_error"
        raise ValueError(f"{name} needs a ttl: without one no entry grows old")
    if config.lease == "stale" and not error_s:
        raise ValueError(
            "lease='stale' needs stale_if_error: so long after its lifetime an entry may answer "
            "while another process runs the body"
        )
    return {
        "refresh_share": share,
        "extends": extends,
        "stale_us": round(stale_s * 1e6),
        "error_us": round(error_s * 1e6),
        "renewable_us": 0,
        "jitter": _share("jitter", config.jitter),
    }


def seconds(name: str, value: object) -> float:
    """A duration in seconds, checked."""
    # There is none before its module is imported.
    duration: Any = getattr(sys.modules.get("datetime"), "timedelta", ())
    if isinstance(value, duration):
        value = value.total_seconds()
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        raise TypeError(f"{name} must be seconds or a timedelta, not {type(value).__name__}")
    if not 0 <= value <= _TTL_S_MAX:
        raise ValueError(f"{name} must be from 0 to {_TTL_S_MAX:.0f} seconds, not {value}")
    return float(value)


def _share(name: str, value: object) -> float:
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        raise TypeError(f"{name} must be a number from 0 to 1, not {type(value).__name__}")
    if not 0 <= value <= 1:
        raise ValueError(f"{name} must be from 0 to 1, not {value}")
    return float(value)


def _whole(name: str, value: object, limit: int, unit: str) -> int:
    if isinstance(value, bool) or not isinstance(value, int):
        raise TypeError(f"{name} must be an int, not {type(value).__name__}")
    if not 1 <= value <= limit:
        raise ValueError(f"{name} must be from 1 to {limit} {unit}, not {value}")
    return value


def _namespace(name: object) -> None:
    if name is None:
        return
    name = _namespaces.checked(name)
    if name == "ck" or name.startswith("ck:"):
        raise ValueError(f"namespace {name!r} is reserved")


def strings(name: str, values: Iterable[Any]) -> tuple[str, ...]:
    """Several str, checked; what is none of them is an error by this name."""
    if isinstance(values, str):
        raise TypeError(f"{name} must be several str, not one: write [{values!r}]")
    try:
        items = iter(values)
    except TypeError:
        raise TypeError(f"{name} must be several str, not {type(values).__name__}") from None
    several = tuple(items)
    for string in several:
        if not isinstance(string, str):
            raise TypeError(f"{name} must hold str, not {type(string).__name__}")
    return several


def _policy(
    ttl: Callable[[Any], Any] | None,
    when: Callable[[Any], Any] | None,
    unless: Callable[[Any], Any] | None,
) -> Callable[[Any], float | None] | None:
    """A function that the native side calls with each result: it returns the lifetime in seconds,
    0 not to store the result, None for `ttl`."""
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
        return float("inf") if lifetime is None else seconds("the result of ttl", lifetime)

    return policy


def _errors(kinds: object, lifetime_s: float) -> Callable[[BaseException], float | None] | None:
    """A function that the native side calls with each exception: it returns for how many seconds it
    is stored, or None."""
    if kinds is False or kinds == ():
        return None
    given = (Exception,) if kinds is True else kinds
    known = given if isinstance(given, tuple) else (given,)
    for kind in known:
        if not isinstance(kind, type) or not issubclass(kind, Exception):
            raise TypeError(f"cache_errors must be subclasses of Exception, not {kind!r}")

    def errors(error: BaseException) -> float | None:
        return lifetime_s if isinstance(error, known) else None

    return errors
