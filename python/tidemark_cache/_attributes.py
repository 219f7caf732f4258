"""What a decorated function offers beside being called."""

from __future__ import annotations

from tidemark_cache import _native, _settings
from tidemark_cache._decorator import deferred, name_of

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

    from tidemark_cache._counts import CacheCounts


def _cache_info(self: Any) -> CacheCounts:
    held = None if self._is_method else _native.entries(self)
    return _counts(self, held)


def _counts(self: Any, held: int | None) -> CacheCounts:
    hits, misses, stale, refreshes, failures, *others = _native.counts(self)
    evicted, expired, used, renewals = others
    from tidemark_cache._counts import CacheCounts

    backed = self._backed
    of_file = 0 if backed is None else backed.hits
    return CacheCounts(
        hits=hits + of_file,
        # Of memory, some of which the file has answered.
        misses=max(0, misses - of_file),
        maxsize=self._maxsize,
        currsize=held,
        bytes=None if self._config.max_bytes is None else used,
        stale_hits=stale + (0 if backed is None else backed.stale_hits),
        refreshes=refreshes + (0 if backed is None else backed.refreshes),
        refresh_failures=failures + (0 if backed is None else backed.refresh_failures),
        evictions=evicted,
        expirations=expired,
        l1_hits=hits,
        l2_hits=of_file,
        l2_failures=0 if backed is None else backed.failures,
        l2_rejected=0 if backed is None else backed.rejected,
        l1_renewals=renewals,
    )


def _info_of(self: Any, instance: Any) -> CacheCounts:
    held = _native.entries(self, instance) if self._is_method else _native.entries(self)
    return _counts(self, held)


def _forget_runs(self: Any, runs: list[Any]) -> None:
    for run in runs:
        run.key.detach()
        run.discard()


def _detach_lone_bodies(self: Any, is_meant: Callable[[_native.CallKey], bool]) -> None:
    """Let the bodies that run by themselves, such as those of ``cache_refresh``, store nothing."""
    for key in list(self._lone_bodies.values()):
        if is_meant(key):
            key.detach()


def _forget_in_memory(self: Any) -> None:
    _forget_runs(self, list(self._runs.values()))
    _native.clear(self)


def _forget_call(self: Any, key: _native.CallKey) -> bool:
    """In memory; whether there was an answer."""
    run = self._runs.get(key)
    if run is not None:
        _forget_runs(self, [run])
    _detach_lone_bodies(self, key.__eq__)
    return bool(key.invalidate())


def _cache_clear(self: Any) -> None:
    """Forget every answer; runs in progress are not stored."""

    def clear() -> bool:
        # First, so that no run that begins now finds in the file what is to be forgotten.
        is_whole = self._backed is None or self._backed.clear()
        _forget_in_memory(self)
        return is_whole

    deferred(("function", id(self)), clear)


async def _acache_clear(self: Any) -> None:
    """As ``cache_clear``, to be awaited."""
    if self._backed is None:
        _cache_clear(self)
    else:
        from tidemark_cache import _async

        await _async.in_thread(_cache_clear, self)


def _clear_of(self: Any, instance: Any) -> None:
    if not self._is_method:
        return _cache_clear(self)

    def clear() -> bool:
        runs = [run for run in list(self._runs.values()) if run.key.is_of(instance)]
        _forget_runs(self, runs)
        _detach_lone_bodies(self, lambda key: key.is_of(instance))
        _native.clear(self, instance)
        return True

    deferred(("instance", id(self), id(instance)), clear)
    return None


def _key_of(self: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> _native.CallKey:
    key = _native.CallKey.of(self, args, kwargs)
    if key is None:
        raise TypeError(f"{name_of(self)} cannot be called with these arguments")
    return key


def _invalidate_cache(self: Any, *args: Any, **kwargs: Any) -> bool:
    """Forget the answer to one call, or every answer when there are no arguments.

    Returns:
        Whether something was forgotten; always True without arguments, and if it is
        deferred. False if a tier below memory failed, which may still have the answer.
    """
    if not args and not kwargs:
        _cache_clear(self)
        return True
    if self._is_method and len(args) == 1 and not kwargs:
        _clear_of(self, args[0])
        return True
    key = _key_of(self, args, kwargs)
    # What the call is must be known now: an argument may be changed until the end of a deferral.
    delete = None if self._backed is None else self._backed.deletion(args, kwargs)
    answer = True

    def forget() -> bool:
        nonlocal answer
        was_in_tiers = delete is not None and delete()
        was_in_memory = _forget_call(self, key)
        is_whole = was_in_tiers is not None
        answer = is_whole and (was_in_memory or bool(was_in_tiers))
        return is_whole

    deferred(("call", id(self), key), forget)
    return answer


def _invalidate_where(self: Any, predicate: Any) -> int:
    """Forget the answer to each call for whose arguments, in the order of the parameters and with
    defaults, ``predicate`` gives something true; how many were forgotten, 0 if it is deferred.

    An argument named by ``ignore`` is None. A call with an argument of another type than ``int``,
    ``str``, ``bytes``, ``float``, ``bool`` and None is always forgotten: its key is bytes.

    With a backend and ``keep_arguments`` each entry of the function there is looked at, for up to
    half a minute, and may be of any process. Where that takes longer, a tier fails, or more than
    100,000 calls are meant, every answer of the function is forgotten.

    Raises:
        PredicateError: where the arguments of calls are not kept: with a backend and without
            ``keep_arguments``, with ``key``, and for methods. Tags do what it is meant for.
    """
    from tidemark_cache._predicate import check_predicate

    check_predicate(self, predicate)
    count = 0

    def forget() -> bool:
        nonlocal count
        in_tiers, is_whole = 0, True
        if self._backed is not None:
            # First, so that no run that begins now finds in a tier what is to be forgotten.
            from tidemark_cache import _listed

            in_tiers, is_whole = _listed.forget_where(self._backed, predicate)
        _forget_runs(self, list(self._runs.values()))
        _detach_lone_bodies(self, lambda _: True)
        count = max(in_tiers, _native.invalidate_where(self, predicate))
        return is_whole

    deferred(("predicate", id(self), id(predicate)), forget)
    return count


async def _ainvalidate_where(self: Any, predicate: Any) -> int:
    """As ``invalidate_where``, to be awaited; the predicate runs on another thread then."""
    if self._backed is None:
        return _invalidate_where(self, predicate)
    from tidemark_cache import _async

    return await _async.in_thread(_invalidate_where, self, predicate)


async def _ainvalidate_cache(self: Any, *args: Any, **kwargs: Any) -> bool:
    """As ``invalidate_cache``, to be awaited."""
    if self._backed is None:
        return _invalidate_cache(self, *args, **kwargs)
    from tidemark_cache import _async

    return await _async.in_thread(lambda: _invalidate_cache(self, *args, **kwargs))


def _cache_contains(self: Any, *args: Any, **kwargs: Any) -> bool:
    """Whether this call would be answered from memory."""
    return bool(_key_of(self, args, kwargs).contains())


def _cache_get(self: Any, *args: Any, **kwargs: Any) -> Any:
    """The answer in memory, which counts as a hit; ``KeyError`` if there is none."""
    return _found(self, args, kwargs, True)


def _cache_peek(self: Any, *args: Any, **kwargs: Any) -> Any:
    """The answer in memory, without counting it as a use; ``KeyError`` if there is none."""
    return _found(self, args, kwargs, False)


def _found(self: Any, args: tuple[Any, ...], kwargs: dict[str, Any], is_counted: bool) -> Any:
    found = _key_of(self, args, kwargs).find(is_counted)
    if found is None:
        raise KeyError(f"no answer of {name_of(self)} to these arguments is in memory")
    return found[0]


def _cache_set(self: Any, value: Any, /, *args: Any, **kwargs: Any) -> None:
    """Store ``value`` as the answer to the call with the other arguments."""
    key = _key_of(self, args, kwargs)
    key.begin(False)
    if self._backed is not None:
        self._backed.put(key, args, kwargs, value)
    key.keep(value)


def _cache_touch(self: Any, *args: Any, **kwargs: Any) -> bool:
    """Begin the lifetime of an answer again; whether there is one."""
    ttl = self._config.ttl
    if self._backed is not None:
        raise TypeError(f"cache_touch does not reach the file of {name_of(self)}")
    if ttl is None or callable(ttl):
        raise TypeError(f"cache_touch needs a ttl in seconds, which {name_of(self)} has not")
    lifetime_s = _settings.seconds("ttl", ttl)
    return bool(_key_of(self, args, kwargs).touch(round(lifetime_s * 1e6)))


def _cache_refresh(self: Any, *args: Any, **kwargs: Any) -> Any:
    """Run the body now, keep its answer and return it; to be awaited if the function is. If
    another run of this call is under way, its answer is the one. A body that fails leaves the
    older answer where it is."""
    if self._is_async:
        from tidemark_cache import _async

        return _async.refreshed(self, args, kwargs)
    key = _key_of(self, args, kwargs)
    if self._backed is None:
        refreshed = key.refresh(args, kwargs, False)
    else:
        from tidemark_cache import _tiers

        token = _tiers.forced.set(True)
        try:
            refreshed = key.refresh(args, kwargs, False)
        finally:
            _tiers.forced.reset(token)
    return self(*args, **kwargs) if refreshed is None else refreshed[0]


def _cache_bypass(self: Any, *args: Any, **kwargs: Any) -> Any:
    """Call the function itself: nothing is looked up, and nothing stored."""
    return self.__wrapped__(*args, **kwargs)


def _cache_key(self: Any, *args: Any, **kwargs: Any) -> str:
    """A text that two calls share only if they share an answer, the same in every process:
    namespace, function, version, and BLAKE2b-256 of the canonical bytes of the arguments.

    Raises:
        TypeError: when an argument has no canonical encoding.
    """
    import hashlib

    content = _key_of(self, args, kwargs).canonical()
    digest = hashlib.blake2b(content, digest_size=32).hexdigest()
    function = f"{self.__module__}.{self.__qualname__}"
    parts = [self._config.namespace, function, self._config.version, digest]
    return ":".join(str(part) for part in parts if part is not None)


def _get_health_status(self: Any) -> dict[str, Any]:
    """What works and what was counted. Memory has no state but healthy. ``stream`` says whether it
    keeps answers by the stream of the tier: ``live``, ``not followed``, or None where it has none.
    """
    tiers = {"memory": "healthy"}
    if self._backed is not None:
        tiers |= self._backed.states()
    is_whole = all(state == "healthy" for state in tiers.values())
    return {
        "status": "healthy" if is_whole else "degraded",
        "tiers": tiers,
        "stream": None if self._backed is None else self._backed.stream(),
        "function": name_of(self),
        "counts": _cache_info(self)._asdict(),
    }


def _check_health(self: Any) -> Any:
    """As ``get_health_status``; to be awaited if the function is."""
    status = _get_health_status(self)
    if not self._is_async:
        return status

    async def checked() -> dict[str, Any]:
        return status

    return checked()


def _reduce(self: Any) -> str:
    return name_of(self)


def _repr(self: Any) -> str:
    return f"<cached function {name_of(self)}>"


for _attribute, _method in {
    "__reduce__": _reduce,
    "__repr__": _repr,
    "_clear_of": _clear_of,
    "_forget_call": _forget_call,
    "_forget_in_memory": _forget_in_memory,
    "_info_of": _info_of,
    "acache_clear": _acache_clear,
    "ainvalidate_cache": _ainvalidate_cache,
    "ainvalidate_where": _ainvalidate_where,
    "cache_bypass": _cache_bypass,
    "cache_clear": _cache_clear,
    "cache_contains": _cache_contains,
    "cache_get": _cache_get,
    "cache_info": _cache_info,
    "cache_key": _cache_key,
    "cache_peek": _cache_peek,
    "cache_refresh": _cache_refresh,
    "cache_set": _cache_set,
    "cache_touch": _cache_touch,
    "check_health": _check_health,
    "get_health_status": _get_health_status,
    "invalidate_cache": _invalidate_cache,
    "invalidate_where": _invalidate_where,
}.items():
    setattr(_native.Cached, _attribute, _method)
