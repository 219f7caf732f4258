"""Instances of pydantic and msgspec classes, taken apart and made again without running any code
of the class: no validator, no ``__init__`` and no ``__post_init__``.
"""

import sys
from typing import Any

from tidemark_cache import _parts


def field_names(kind: Any) -> list[str] | None:
    """The fields of a model of pydantic or a struct of msgspec; None for any other class."""
    if _is_struct(kind):
        return list(kind.__struct_fields__)
    if _is_model(kind):
        return list(kind.__pydantic_fields__)
    if _is_old_model(kind):
        return list(kind.__fields__)
    return None


def _is_struct(kind: type) -> bool:
    msgspec = sys.modules.get("msgspec")
    return msgspec is not None and issubclass(kind, msgspec.Struct)


def _is_model(kind: type) -> bool:
    # Version 1 has none of its own.
    pydantic = sys.modules.get("pydantic")
    return (
        pydantic is not None
        and hasattr(kind, "__pydantic_fields__")
        and issubclass(kind, pydantic.BaseModel)
    )


def _is_old_model(kind: type) -> bool:
    """A model of pydantic 1, or of the version 1 within pydantic 2."""
    main = sys.modules.get("pydantic.v1.main") or sys.modules.get("pydantic.main")
    return (
        main is not None
        and hasattr(kind, "__fields_set__")
        and not hasattr(kind, "__pydantic_fields__")
        and issubclass(kind, main.BaseModel)
    )


def state_of(value: Any, kind: Any) -> Any:
    """What an instance of such a class is made from again.

    Raises:
        TypeError: when it holds what its class does not name.
    """
    if _is_struct(kind):
        if hasattr(kind, "__post_init__"):
            raise TypeError(f"is a {kind.__qualname__}, whose __post_init__ would run at each read")
        return [getattr(value, name) for name in kind.__struct_fields__]
    fields = dict(value.__dict__)
    if _is_model(kind):
        extra = value.__pydantic_extra__
        private = value.__pydantic_private__
        given = value.__pydantic_fields_set__
    else:
        own = {name: fields.pop(name) for name in list(fields) if name not in kind.__fields__}
        extra = own if kind.__config__.extra == "allow" else None
        fields.update({} if extra is not None else own)
        names = kind.__private_attributes__
        private = {name: getattr(value, name) for name in names if hasattr(value, name)}
        given = value.__fields_set__
    more = [name for name in fields if name not in (field_names(kind) or ())]
    if more:
        raise TypeError(f"is a {kind.__qualname__} with {more[0]!r}, which is none of its fields")
    return (fields, extra, private, set(given))


def restored(kind: Any, state: Any) -> Any:
    """What ``state_of`` took apart.

    Raises:
        ValueError: when the class has other fields now.
    """
    if _is_struct(kind):
        return _restored_struct(kind, state)
    fields, extra, private, given = state
    for part in (fields, extra, private):
        _parts.exact(dict, {} if part is None else part)
    may_add = (
        kind.model_config.get("extra") if _is_model(kind) else kind.__config__.extra
    ) == "allow"
    names = set(field_names(kind) or ())
    is_same = (
        set(fields) <= names
        and set(private or ()) <= set(kind.__private_attributes__)
        and (not extra or may_add)
        and _parts.exact(set, given) <= names | set(extra or ())
    )
    if not is_same:
        raise ValueError(f"{kind.__qualname__} has other fields now")
    value = object.__new__(kind)
    put = object.__setattr__
    if _is_model(kind):
        put(value, "__dict__", fields)
        put(value, "__pydantic_extra__", extra)
        put(value, "__pydantic_private__", private)
        put(value, "__pydantic_fields_set__", given)
        return value
    put(value, "__dict__", {**fields, **(extra or {})})
    put(value, "__fields_set__", given)
    for name, attribute in private.items():
        put(value, name, attribute)
    return value


def _restored_struct(kind: Any, state: Any) -> Any:
    names = kind.__struct_fields__
    if len(state) != len(names) or hasattr(kind, "__post_init__"):
        raise ValueError(f"{kind.__qualname__} has other fields now")
    # Nothing but the class's own constructor makes one. It runs no code but `__post_init__`, and
    # no default, since each field is given.
    return kind(**dict(zip(names, state, strict=True)))
