"""Instants, coordinates and periods, and how they are written on the wire."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta, timezone
from typing import Any, Union

Instant = Union[int, str, datetime]
"""Microseconds since 1970, a date and time as text, or a `datetime` that knows its zone.
`"min"` is the beginning of time."""


def instant(value: Instant) -> int | str:
    """As the wire has it.

    Raises:
        ValueError: for a `datetime` without a zone, because it names no instant.
    """
    if not isinstance(value, datetime):
        return value
    if value.tzinfo is None:
        raise ValueError(f"a datetime without a zone names no instant: {value!r}")
    return value.astimezone(timezone.utc).isoformat()


_EPOCH = datetime(1970, 1, 1, tzinfo=timezone.utc)


def to_datetime(value: Instant) -> datetime:
    """The instant as a `datetime` of UTC.

    Raises:
        ValueError: for `"min"`, the year 0000, and what is no instant.
    """
    if isinstance(value, int):
        try:
            return _EPOCH + timedelta(microseconds=value)
        except OverflowError as error:
            raise ValueError(f"no datetime lies at {value} microseconds") from error
    if isinstance(value, str):
        # `fromisoformat` knows `Z` from Python 3.11 on.
        value = datetime.fromisoformat(value.replace("Z", "+00:00"))
        if value.tzinfo is None:
            value = value.replace(tzinfo=timezone.utc)
    return value.astimezone(timezone.utc)


def mark_of(value: int | str) -> int:
    """A mark, which the server writes as microseconds or as a text."""
    if isinstance(value, int):
        return value
    return (to_datetime(value) - _EPOCH) // timedelta(microseconds=1)


def plain(value: object) -> Any:
    """What JSON has no word for; given to `json.dumps` as its `default`."""
    if isinstance(value, datetime):
        return instant(value)
    raise TypeError(f"{type(value).__name__} cannot be stored")


@dataclass(frozen=True)
class Coordinates:
    """The point a read looks through: what was known at `as_of` about `valid_at`.

    Without `valid_at` the server takes what was valid at `as_of`, and without `as_of` what is known
    now. The answer of a read at an `as_of` that has passed never changes.

    Raises:
        ValueError: without either, because that is now, which a read without coordinates shows.
    """

    as_of: Instant | None = None
    valid_at: Instant | None = None

    def __post_init__(self) -> None:
        if self.as_of is None and self.valid_at is None:
            raise ValueError("coordinates name as_of, valid_at or both")

    def members(self) -> dict[str, int | str]:
        """As members of an element of a batch of reads."""
        named = {"asOf": self.as_of, "validAt": self.valid_at}
        return {name: instant(value) for name, value in named.items() if value is not None}


@dataclass(frozen=True)
class ReadAt:
    """Where a row was read, and where what was read stands on both time axes."""

    coordinates: Coordinates | None = None
    """What the read named; None for a read of now."""
    mark: int | None = None
    """The commit that the answer is true for; None for what was not read."""
    valid_from: Instant | None = None
    """This and what follows are there if the read named a time: as the server wrote them,
    `to_datetime` reads them. `"min"` is the beginning of time."""
    valid_to: Instant | None = None
    """The first instant at which the row is not valid; None for no end."""
    system_from: Instant | None = None
    """Known as exactly this since then."""
    system_to: Instant | None = None
    """Replaced then; None if it is not, and where the read did not ask for `versions`."""
    version: str | None = None
    """The name of this version, for `cursor_after`; None if the read named no time."""


def read_at(
    members: Mapping[str, Any], coordinates: Coordinates | None, mark: int | None
) -> ReadAt:
    """Where a row stands, from the members that the server sent."""
    return ReadAt(
        coordinates,
        mark,
        members.get("$validFrom"),
        members.get("$validTo"),
        members.get("$systemFrom"),
        members.get("$systemTo"),
        members.get("$version"),
    )


@dataclass(frozen=True)
class Period:
    """The valid time a write is for: from `valid_from` up to, and without, `valid_to`.

    None for `valid_from` is the commit's own time. None for `valid_to` is no end, and writes over
    whatever was scheduled; `"next"` stops where the row's next scheduled change begins.
    """

    valid_from: Instant | None = None
    valid_to: Instant | None = None

    def members(self, valid_from: str, valid_to: str) -> dict[str, int | str]:
        """As members of these names; what is None is left out."""
        named = {valid_from: self.valid_from, valid_to: self.valid_to}
        return {name: instant(value) for name, value in named.items() if value is not None}
