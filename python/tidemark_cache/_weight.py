"""Bytes of values, for functions whose cache is bounded in bytes."""

import sys
from typing import Any

#: What the table itself takes for an entry.
_ENTRY_BYTES = 112
#: Larger values are weighed in part: their shape has been seen by then.
_OBJECTS_MAX = 1_000_000


def bytes_of(value: Any) -> int:
    """Bytes of a value and of everything it holds, each object once."""
    total, waiting = _ENTRY_BYTES, [value]
    seen: set[int] = set()
    while waiting and len(seen) < _OBJECTS_MAX:
        one = waiting.pop()
        if id(one) in seen or isinstance(one, type):
            continue
        seen.add(id(one))
        total += _own_bytes(one)
        if isinstance(one, dict):
            waiting.extend(one.keys())
            waiting.extend(one.values())
        elif isinstance(one, (list, tuple, set, frozenset)):
            waiting.extend(one)
        else:
            waiting.extend(_attributes(one))
    return total


def _own_bytes(value: Any) -> int:
    package = type(value).__module__.partition(".")[0]
    if package == "pandas" and hasattr(value, "memory_usage"):
        usage = value.memory_usage(deep=True)
        return int(usage if isinstance(usage, int) else usage.sum())
    if package == "polars" and hasattr(value, "estimated_size"):
        return int(value.estimated_size())
    if package == "numpy" and hasattr(value, "nbytes"):
        # A view is as large as what it keeps alive is another's business.
        return int(value.nbytes) + 112
    try:
        return sys.getsizeof(value)
    except (TypeError, ValueError):
        return 64


def _attributes(value: Any) -> list[Any]:
    if type(value).__module__.partition(".")[0] in ("pandas", "polars", "numpy", "builtins"):
        return []
    held = getattr(value, "__dict__", None)
    return [held] if isinstance(held, dict) else []
