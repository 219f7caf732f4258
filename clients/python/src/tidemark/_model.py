"""Rows as dataclasses that declare their table.

    @dataclass
    class Author(Model, table="authors"):
        name: Annotated[str, Size(100)]
        mail: str
        by_mail = unique("mail")

    @dataclass
    class Book(Model, table="books"):
        title: Annotated[str, Size(200)]
        author: str
        year: int | None = None
        by_year = index("year")
        by_author = reference("author", Author)

    Author.by_mail(client, "ann@example.com")      # Author | None
    Book.by_year(client, 1951)                     # Iterator[Book]
    Book.by_author(client, "ann")                  # Iterator[Book]
    Book.by_author.follow(client, book)            # Author | None, where `book` was read

With an `AsyncClient` the same calls are awaited, or iterated by `async for`.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, ClassVar

from . import _schema
from ._lookup import Lookup
from ._row import new_id
from ._time import Coordinates, ReadAt, read_at


_RESERVED = {"coordinates", "read_at"}
"""Members of every model that are no columns."""


@dataclass
class Model:
    """What models inherit from. The columns are the dataclass's fields."""

    id: str = field(default_factory=new_id, kw_only=True)
    read_at: ReadAt = field(
        default=ReadAt(), init=False, repr=False, compare=False, kw_only=True
    )
    """Where it was read, and where it stands on both time axes."""

    _table: ClassVar[str] = ""

    def __init_subclass__(cls, table: str = "", **rest: Any) -> None:
        super().__init_subclass__(**rest)
        if table:
            cls._table = table
        taken = _RESERVED & set(cls.__dict__.get("__annotations__", {}))
        if taken:
            named = ", ".join(sorted(taken))
            raise TypeError(f"{cls.__name__}.{named}: the name says where a row was read")

    @property
    def coordinates(self) -> Coordinates | None:
        """What its read named; None for now, and for what was not read."""
        return self.read_at.coordinates

    @classmethod
    def table_id(cls) -> str:
        """The table that the class declares.

        Raises:
            TypeError: if it declares none, or is no dataclass.
        """
        if not cls._table:
            raise TypeError(f"{cls.__name__} names no table; add table=… behind Model")
        if "__dataclass_fields__" not in cls.__dict__:
            raise TypeError(f"{cls.__name__} is no dataclass; write @dataclass above it")
        return cls._table

    @classmethod
    def column_fields(cls) -> list[dataclasses.Field[Any]]:
        """The fields that are columns."""
        own = {each.name for each in dataclasses.fields(Model)}
        return [each for each in dataclasses.fields(cls) if each.name not in own]

    @classmethod
    def lookups(cls) -> list[Lookup]:
        """The indexes that the class and those above it declare."""
        found: dict[str, Lookup] = {}
        for above in reversed(cls.__mro__):
            found.update({k: v for k, v in vars(above).items() if isinstance(v, Lookup)})
        return list(found.values())


class ModelCodec:
    """Writes and reads the rows of one model."""

    def __init__(self, model: type[Any]) -> None:
        self._model = model
        self._columns = _schema.columns(model)

    def encode(self, content: Any, id: str | None) -> tuple[str, dict[str, Any]]:
        if isinstance(content, Model):
            values = {name: getattr(content, name) for name in self._columns}
            return id or content.id, values
        return id or new_id(), dict(content)

    def decode(
        self, members: Mapping[str, Any], at: Coordinates | None, mark: int | None
    ) -> Any:
        """An object, made as `__init__` would; columns that `select` left out get the default."""
        values = {
            name: column.read(members[name])
            for name, column in self._columns.items()
            if name in members
        }
        row = self._model(id=members.get("$id", ""), **values)
        # Models may be frozen.
        object.__setattr__(row, "read_at", read_at(members, at, mark))
        return row
