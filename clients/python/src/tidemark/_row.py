"""Rows as they are read, and how content is taken apart for writing."""

from __future__ import annotations

import uuid
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Generic, List, Optional, Protocol, TypeVar

from ._time import Coordinates, ReadAt, read_at

R = TypeVar("R")
R_co = TypeVar("R_co", covariant=True)


def new_id() -> str:
    """An id for a row, of 32 hexadecimal digits.

    Made here and not by the server, so that a creation whose answer is lost can be sent again.
    """
    return uuid.uuid4().hex


class Row:
    """A row of a table without a model."""

    def __init__(self, members: Mapping[str, Any], at: ReadAt = ReadAt()) -> None:
        self.members = members
        """As the server sent it: columns, and what begins with `$`."""
        self.read_at = at
        """Where it was read, and where it stands on both time axes."""

    @property
    def coordinates(self) -> Coordinates | None:
        """What its read named; None for now."""
        return self.read_at.coordinates

    @property
    def id(self) -> str:
        """Empty if `select` left it out."""
        return str(self.members.get("$id", ""))

    @property
    def values(self) -> dict[str, Any]:
        """The table's own columns."""
        return {key: value for key, value in self.members.items() if not key.startswith("$")}

    def __getitem__(self, column: str) -> Any:
        return self.members[column]

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Row) and self.members == other.members

    __hash__ = None  # type: ignore[assignment]  # It holds lists.

    def __repr__(self) -> str:
        return f"Row({self.members!r})"


class Codec(Protocol[R_co]):
    """How content of one kind is written and read."""

    def encode(self, content: Any, id: str | None) -> tuple[str, dict[str, Any]]:
        """The id, and the columns."""
        ...

    def decode(
        self, members: Mapping[str, Any], at: Coordinates | None, mark: int | None
    ) -> R_co: ...


class RowCodec:
    """For tables without a model: content is a mapping of columns."""

    def encode(self, content: Any, id: str | None) -> tuple[str, dict[str, Any]]:
        if isinstance(content, Row):
            return id or content.id, content.values
        return id or new_id(), dict(content)

    def decode(
        self, members: Mapping[str, Any], at: Coordinates | None, mark: int | None
    ) -> Row:
        return Row(members, read_at(members, at, mark))


class Found(List[Optional[R]]):
    """Rows in the order in which they were asked for; None for each that is not there."""


@dataclass(frozen=True)
class Page(Generic[R]):
    """One slice of a list."""

    rows: list[R]
    total: int
    """How many rows match, up to the server's cap; 0 if it was not asked for."""
    last: str | None
    """The cursor behind the last row: its id, or its version in lists of versions."""


@dataclass(frozen=True)
class Written:
    """A write that was done."""

    id: str
    mark: int | None
    """The commit's mark; None if the row was like that already."""
