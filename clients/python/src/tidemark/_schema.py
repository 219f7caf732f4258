"""From a model's annotations to columns, and the calls that make its table."""

from __future__ import annotations

import types
import typing
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Union
from weakref import WeakKeyDictionary

from ._call import Call, Nature, path

if typing.TYPE_CHECKING:
    from ._model import Model

SIZE_DEFAULT = 255
"""Of texts without a `Size`, in characters: such columns can be indexed (at most 768)."""

_KINDS = {int: "integer", float: "double", bool: "boolean", datetime: "datetime"}


@dataclass(frozen=True)
class Size:
    """The longest text that a column takes, in characters: `Annotated[str, Size(2000)]`."""

    chars: int


@dataclass(frozen=True)
class Column:
    """One column, as it is declared and read."""

    definition: dict[str, Any]
    read: Callable[[Any], Any]


def _same(value: Any) -> Any:
    return value


def _time(value: str | None) -> datetime | None:
    # `fromisoformat` knows `Z` from Python 3.11 on.
    return None if value is None else datetime.fromisoformat(value.replace("Z", "+00:00"))


def _times(values: list[str]) -> list[datetime | None]:
    return [_time(value) for value in values]


_known: WeakKeyDictionary[type[Any], dict[str, Column]] = WeakKeyDictionary()


def columns(model: type[Model]) -> dict[str, Column]:
    """The columns of a model, by name.

    Raises:
        TypeError: for an annotation that is no column's type.
    """
    found = _known.get(model)
    if found is None:
        hints = typing.get_type_hints(model, include_extras=True)
        names = [each.name for each in model.column_fields()]
        found = _known[model] = {name: _column(model, name, hints[name]) for name in names}
    return found


def _column(model: type[Model], name: str, hint: Any) -> Column:
    size = SIZE_DEFAULT
    definition: dict[str, Any] = {"key": name, "required": True}
    while True:
        origin, inner = typing.get_origin(hint), typing.get_args(hint)
        if origin is typing.Annotated:
            size = next((note.chars for note in inner[1:] if isinstance(note, Size)), size)
            hint = inner[0]
        elif origin in (Union, types.UnionType) and len(inner) == 2 and type(None) in inner:
            definition["required"] = False
            hint = inner[0] if inner[1] is type(None) else inner[1]
        elif origin is list and "array" not in definition:
            definition["array"] = True
            hint = inner[0]
        else:
            break
    if hint is str:
        definition.update(type="varchar", size=size)
    elif hint in _KINDS:
        definition["type"] = _KINDS[hint]
    else:
        raise TypeError(
            f"{model.__name__}.{name}: a column is a str, int, float, bool or datetime, a list of "
            f"these, or one of these or None; not {hint!r}"
        )
    read: Callable[[Any], Any] = _same
    if hint is datetime:
        read = _times if "array" in definition else _time
    return Column(definition, read)


def table_calls(
    model: type[Model], database: str, permissions: Sequence[str], row_security: bool
) -> list[Call[None]]:
    """What makes the table with its indexes, and then declares its references, if it has any.

    Raises:
        TypeError: for an index over something that is no column.
    """
    table = model.table_id()
    known = columns(model)
    indexes, references = [], []
    for lookup in model.lookups():
        for name in lookup.columns:
            if name not in known:
                raise TypeError(f"{model.__name__}.{lookup.key}: there is no column {name!r}")
        kind = "unique" if lookup.is_unique else "key"
        indexes.append({"key": lookup.key, "type": kind, "attributes": list(lookup.columns)})
        if lookup.target is not None:
            target = lookup.target.table_id()
            references.append({"column": lookup.columns[0], "table": target})
    body = {
        "tableId": table,
        "name": table,
        "columns": [column.definition for column in known.values()],
        "indexes": indexes,
        "permissions": list(permissions),
        "rowSecurity": row_security,
    }
    calls = [_once("POST", path("tablesdb", database, "tables"), body)]
    if references:
        place = path("tidemark", "databases", database, "tables", table, "constraints")
        calls.append(_once("PUT", place, {"unique": [], "refs": references}))
    return calls


def database_call(database: str) -> Call[None]:
    """What makes a database."""
    return _once("POST", path("tablesdb"), {"databaseId": database, "name": database})


def _once(method: str, place: str, body: Any) -> Call[None]:
    return Call(method, place, lambda *_: None, body=body, nature=Nature.ONCE)
