"""Instants, coordinates and periods, and how they are written on the wire."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime, timezone
from typing import Any, Union

Instant = Union[int, str, datetime]
"""Microseconds since 1970, a date and time as text, or a `datetime` that knows its zone.
`"min"` is the beginning of time."""


def instant(value: Instant) -> int | str:
    """As the wire has it.

    Raises:
        ValueError: for a `datetime` without a zone, because nobody could say when it is.
    """
    if not isinstance(value, datetime):
        return value
    if value.tzinfo is None:
        raise ValueError(f"a datetime without a zone names no instant: {value!r}")
    return value.astimezone(timezone.utc).isoformat()


def plain(value: object) -> Any:
    """What JSON has no word for; given to `json.dumps` as its `default`."""
    if isinstance(value, datetime):
        return instant(value)
    raise TypeError(f"{type(value).__name__} cannot be stored")


@dataclass(frozen=True)
class Coordinates:
    """The point a read looks through: what was known at `as_of` about `valid_at`.

    With `valid_at` None, the server takes what was valid at `as_of`. The answer of a read at
    coordinates that have passed never changes.
    """

    as_of: Instant
    valid_at: Instant | None = None


@dataclass(frozen=True)
class Period:
    """The valid time a write is for: from `valid_from` up to, and without, `valid_to`.

    None for `valid_from` is the commit's own time. None for `valid_to` is no end, and writes over
    whatever was scheduled; `"next"` stops where the row's next scheduled change begins.
    """

    valid_from: Instant | None = None
    valid_to: Instant | None = None

    def members(self) -> dict[str, int | str | None]:
        """As members of an operation."""
        members: dict[str, int | str | None] = {}
        if self.valid_from is not None:
            members["valid_from"] = instant(self.valid_from)
        if self.valid_to is not None:
            members["valid_to"] = instant(self.valid_to)
        return members
