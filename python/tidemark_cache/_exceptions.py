"""Exceptions as values, taken apart and made again without running any code of their class.

As where ``copy`` and ``pickle`` make them again, the traceback, the cause and the context of an
exception stay behind.
"""

import builtins
import struct
from typing import Any

from tidemark_cache import _parts

#: Made again by their own code, which is the interpreter's.
BUILT_IN: frozenset[type[BaseException]] = frozenset(
    kind
    for kind in vars(builtins).values()
    if isinstance(kind, type) and issubclass(kind, BaseException)
)
#: The place of weak references, of which a class adds one to a base without.
_POINTER_BYTES = struct.calcsize("P")


def is_restorable(kind: type[BaseException]) -> bool:
    """Whether all that an instance has are its arguments and its ``__dict__``."""
    # Fields of C, of Rust or in `__slots__` make an instance larger, in whatever class they are.
    has_references = kind.__weakrefoffset__ > 0
    plain_bytes = BaseException.__basicsize__ + has_references * _POINTER_BYTES
    return kind.__basicsize__ == plain_bytes and _is_made_by_base(kind)


def _is_made_by_base(kind: type[BaseException]) -> bool:
    """Whether the interpreter makes one past the ``__new__`` of its class."""
    if hasattr(kind, "__del__"):
        # It would run for the one made here.
        return False
    try:
        BaseException.__new__(kind)
    except TypeError:
        return False
    return True


def parts_of(value: BaseException) -> Any:
    """What an exception is made from again."""
    kind = type(value)
    if kind in BUILT_IN:
        reduced: Any = value.__reduce__()
        if not _is_bounded(kind, reduced[1]):
            other = type(reduced[1][1]).__name__
            raise TypeError(f"is a {kind.__name__} of a {other}, which cannot be stored")
        return reduced[1:]
    return (value.args, dict(vars(value)))


def _is_bounded(kind: type[BaseException], args: tuple[Any, ...]) -> bool:
    """Whether what the class goes through in its arguments is in the bytes as a whole."""
    if not issubclass(kind, (BaseExceptionGroup, SyntaxError)) or len(args) != 2:
        return True
    return type(args[1]) in (tuple, list, str)


def restored(kind: type[BaseException], parts: Any) -> BaseException:
    """What ``parts_of`` took apart.

    Raises:
        ValueError: when the parts are those of another class.
    """
    args = _parts.exact(tuple, parts[0])
    if kind in BUILT_IN:
        if not _is_bounded(kind, args):
            raise ValueError(f"{kind.__name__} is made from other arguments")
        value = kind(*args)
        if type(value) is not kind:
            raise ValueError(f"{kind.__name__} is made from other arguments")
        for state in parts[1:]:
            value.__setstate__(state)
        return value
    (state,) = parts[1:]
    value = BaseException.__new__(kind, *args)
    vars(value).update(_parts.exact(dict, state))
    return value
