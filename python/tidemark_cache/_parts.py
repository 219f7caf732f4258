"""What objects are made from again, checked before anything is made.

The bytes of a tier are not to be trusted, and an object may be much larger than its bytes: a range
is as many items as it says, and a number as many zeros. So what is gone through, or given to a
class as its content, must be what has bytes of its own for each item.
"""

from typing import Any, TypeVar

_T = TypeVar("_T")

#: Each item of these was read from bytes of its own.
_KINDS = (tuple, list, dict, str, bytes)


def check(name: str, parts: object) -> None:
    """Refuses parts that no object is taken apart into."""
    if type(parts) not in _KINDS:
        raise ValueError(f"{name} is not made from a {type(parts).__name__}")


def exact(kind: type[_T], part: Any) -> _T:
    """The part, if it is of this very type."""
    if type(part) is not kind:
        raise ValueError(f"a part is a {type(part).__name__}, and not a {kind.__name__}")
    found: _T = part
    return found
