"""Exceptions as values, taken apart and made again without running any code of their class.

As where ``copy`` and ``pickle`` make them again, the traceback, the cause and the context of an
exception stay behind.
"""

import builtins
from typing import Any

#: Made again by their own code, which is the interpreter's.
BUILT_IN: frozenset[type[BaseException]] = frozenset(
    kind
    for kind in vars(builtins).values()
    if isinstance(kind, type) and issubclass(kind, BaseException)
)
#: The flag of a class that code has made.
_HEAP_TYPE = 1 << 9


def is_restorable(kind: type[BaseException]) -> bool:
    """Whether all that an instance has are its arguments and its ``__dict__``."""
    base: type = kind
    while base.__flags__ & _HEAP_TYPE and base.__base__ is not None:
        base = base.__base__
    has_slots = any(vars(one).get("__slots__") for one in kind.__mro__)
    # Others, as OSError, have fields that only their own ``__init__`` fills.
    return base.__basicsize__ == BaseException.__basicsize__ and not has_slots


def parts_of(value: BaseException) -> Any:
    """What an exception is made from again."""
    if type(value) in BUILT_IN:
        reduced: Any = value.__reduce__()
        return reduced[1:]
    return (value.args, dict(vars(value)))


def restored(kind: type[BaseException], parts: Any) -> BaseException:
    """What ``parts_of`` took apart.

    Raises:
        ValueError: when the parts are those of another class.
    """
    if kind in BUILT_IN:
        value = kind(*parts[0])
        if type(value) is not kind:
            raise ValueError(f"{kind.__name__} is made from other arguments")
        for state in parts[1:]:
            value.__setstate__(state)
        return value
    args, state = parts
    value = BaseException.__new__(kind, *args)
    vars(value).update(state)
    return value
