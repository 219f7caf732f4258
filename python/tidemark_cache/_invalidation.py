"""What makes answers invalid, beside the attributes of a function: tags, namespaces, writers."""

import functools
import inspect
import sys
from collections.abc import Callable, Iterable
from typing import Any

from tidemark_cache import _async, _namespaces, _native, _settings
from tidemark_cache._decorator import deferred, name_of, namespaces, tagged_by_result


def invalidate_tags(*tags: str, backend: Any = None) -> bool:
    """Make every entry under any of ``tags`` invalid, in every function of this process, and of
    the others that share a backend with one of them.

    Args:
        tags: Strings.
        backend: A backend as for ``cache``, whose entries are made invalid too. Give it where
            this process may have no function with that backend, as in a script.

    Returns:
        Whether every tier has done so. One that failed may still give the entries.
    """
    for tag in tags:
        if not isinstance(tag, str):
            raise TypeError(f"a tag must be a str, not {type(tag).__name__}")
    tiers = _tiers_of(backend)
    return deferred(("tags", tags, tiers), lambda: _forget_tags(tags, tiers))


def _tiers_of(backend: Any) -> Any:
    if backend is None:
        return None
    from tidemark_cache import _tiers

    if _settings.in_environment(backend):
        from tidemark_cache import _environment

        backend = _environment.backend_of()
        if backend is None:
            raise ValueError("backend is 'environment', and no variable names a tier")
    return _tiers.backends_of(backend)


def _forget_in_tiers(names: Callable[[], bytes], are_tags: bool, tiers: Any) -> bool:
    """In those of this process and these; whether each has done so."""
    if tiers is not None:
        from tidemark_cache import _functions  # noqa: F401
    backed = sys.modules.get("tidemark_cache._functions")
    return backed is None or bool(backed.forget(names(), are_tags, tiers))


def _forget_tags(tags: tuple[str, ...], tiers: Any) -> bool:
    def names() -> bytes:
        from tidemark_cache import _tags

        return b"".join(map(_tags.name_of, tags))

    # First, so that no run that begins now finds in a tier what is to be forgotten.
    is_whole = _forget_in_tiers(names, True, tiers)
    for tag in tags:
        _native.invalidate_tag(tag)
    for function in list(tagged_by_result.get("", ())) if tags else ():
        # Memory does not know which of its answers have these tags.
        function._forget_in_memory()
    return is_whole


def invalidate_namespace(namespace: str, *, prefix: bool = False, backend: Any = None) -> bool:
    """Forget every answer of every function of a namespace: of this process, and of all others in
    the backends that this process has.

    Args:
        namespace: What the functions were given as ``namespace``.
        prefix: Also forget those of each namespace that begins so. Of other processes these are
            found if the prefix ends with ``.``, ``:``, ``/`` or a space, or if one of these comes
            next in their names: ``"shop"`` reaches ``"shop"`` and ``"shop:prices"`` everywhere,
            and ``"shopping"`` where this process has decorated a function of it. Such a prefix may
            have four parts.
        backend: As for ``invalidate_tags``.

    Returns:
        Whether every tier has done so. One that failed may still give the answers.
    """
    if not isinstance(prefix, bool):
        raise TypeError(f"prefix must be a bool, not {type(prefix).__name__}")
    names = _namespaces.names_to_forget(_namespaces.checked(namespace), prefix)
    tiers = _tiers_of(backend)

    def functions() -> list[Any]:
        if not prefix:
            return list(namespaces.get(namespace, ()))
        known = list(namespaces.items())
        return [one for name, those in known if name.startswith(namespace) for one in list(those)]

    def forget() -> bool:
        # First, so that no run that begins now finds in a tier what is to be forgotten.
        is_whole = _forget_in_tiers(lambda: names, False, tiers)
        for function in functions():
            backed = function._backed
            if backed is not None and not backed.is_under(names):
                is_whole &= backed.clear()
            function._forget_in_memory()
        return is_whole

    return deferred(("namespace", namespace, prefix, tiers), forget)


#: Gets the writer's arguments.
_OfCall = Callable[..., Iterable[Any]]


def invalidates(
    *functions: Any,
    tags: Iterable[str] | _OfCall = (),
    calls: _OfCall | None = None,
    namespaces: Iterable[str] = (),
    backend: Any = None,
) -> Callable[[Any], Any]:
    """Have a writer make answers invalid each time it has returned, and not when it raises.

    Args:
        functions: Cached functions, of which every answer is forgotten.
        tags: As for ``invalidate_tags``; or a callable that gets the writer's arguments and
            returns strings.
        calls: Gets the writer's arguments and returns the calls whose answers are forgotten, each
            a tuple of the cached function and its arguments.
        namespaces: As for ``invalidate_namespace``.
        backend: As for ``invalidate_tags``, for the tags and the namespaces.

    Inside of ``defer_invalidations`` they wait for its end. What a backend does not do is counted
    and logged by its functions, and not raised: the writer has written.
    """
    for function in functions:
        _check_cached(function)
    tags_of: _OfCall = tags if callable(tags) else _always(tags)
    names = tuple(map(_namespaces.checked, _settings.strings("namespaces", namespaces)))
    tiers = _tiers_of(backend)
    if calls is not None and not callable(calls):
        raise TypeError(f"calls must be callable, not {type(calls).__name__}")
    if not (functions or names or calls is not None or callable(tags) or tuple(tags_of())):
        raise TypeError("invalidates() needs functions, tags, calls or namespaces")

    def work_of(args: Any, kwargs: Any) -> Callable[[], None]:
        # Before the writer runs, which may change its arguments: what is wrong with these
        # callables shall keep it from writing.
        tags_now = _settings.strings("tags", tags_of(*args, **kwargs))
        calls_now = [_checked_call(one) for one in calls(*args, **kwargs)] if calls else []

        def work() -> None:
            for function in functions:
                function.cache_clear()
            for name in names:
                invalidate_namespace(name, backend=tiers)
            for cached, *arguments in calls_now:
                cached.invalidate_cache(*arguments)
            if tags_now:
                invalidate_tags(*tags_now, backend=tiers)

        return work

    return lambda writer: _writer(writer, work_of)


def _writer(writer: Any, work_of: Callable[[Any, Any], Callable[[], None]]) -> Any:
    if inspect.isclass(writer) or not callable(writer):
        raise TypeError(f"invalidates() decorates functions, not {type(writer).__name__}")
    if inspect.isgeneratorfunction(writer) or inspect.isasyncgenfunction(writer):
        raise TypeError(f"{name_of(writer)} is a generator function: it has no end to wait for")
    if inspect.iscoroutinefunction(writer):

        @functools.wraps(writer)
        async def written_async(*args: Any, **kwargs: Any) -> Any:
            work = work_of(args, kwargs)
            result = await writer(*args, **kwargs)
            await _async.in_thread(work)
            return result

        return written_async

    @functools.wraps(writer)
    def written(*args: Any, **kwargs: Any) -> Any:
        work = work_of(args, kwargs)
        result = writer(*args, **kwargs)
        work()
        return result

    return written


def _always(tags: Iterable[str]) -> _OfCall:
    kept = _settings.strings("tags", tags)
    return lambda *_, **__: kept


def _check_cached(function: Any) -> None:
    if not hasattr(function, "invalidate_cache"):
        kind = type(function).__name__
        raise TypeError(f"invalidates() takes functions that are cached, not {kind}")


def _checked_call(call: Any) -> tuple[Any, ...]:
    if not isinstance(call, tuple) or len(call) < 2:
        raise TypeError("calls must give tuples of a cached function and its arguments")
    _check_cached(call[0])
    return call
