"""Whether a predicate on the arguments can choose the calls to forget."""

from typing import Any

from tidemark_cache._decorator import name_of


class PredicateError(TypeError):
    """The arguments of this function's calls are not kept for a predicate."""


def check_predicate(cached: Any, predicate: Any) -> None:
    """Refuses a predicate that would get no arguments."""
    if not callable(predicate):
        raise TypeError(f"a predicate must be callable, not {type(predicate).__name__}")
    why = None
    if cached._backed is not None and not cached._config.keep_arguments:
        why = "its backend knows a call by a digest of its arguments, without keep_arguments=True"
    elif cached._is_method:
        why = "a method's answers are in its instances"
    elif cached._config.key is not None:
        why = "its calls are known by what key gives"
    if why is not None:
        raise PredicateError(
            f"invalidate_where cannot be used with {name_of(cached)}: {why}; give the calls tags, "
            "tags=lambda …: […], and use invalidate_tags"
        )
