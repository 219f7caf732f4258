"""Operations over valid time, collected for one commit; and what reads of history answer."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from ._call import Call, Nature, path
from ._time import Instant, Period, instant, mark_of

NO_PERIOD = Period()


@dataclass(frozen=True)
class Committed:
    """Operations that were committed."""

    mark: int
    affected: list[bool]
    """For each operation, whether it changed something."""


@dataclass
class Operations:
    """Operations that are committed together, at one mark or not at all.

    Each method adds one and returns the same object. Later operations see earlier ones.
    """

    meta: Any = None
    """Kept with the commit: who, why, which request."""
    listed: list[dict[str, Any]] = field(default_factory=list)

    def _add(self, op: str, table: str, id: str, period: Period, **members: Any) -> Operations:
        span = period.members("valid_from", "valid_to")
        self.listed.append({"op": op, "table": table, "id": id, **span, **members})
        return self

    def insert(
        self, table: str, id: str, content: Mapping[str, Any], period: Period = NO_PERIOD
    ) -> Operations:
        """The row gets the content; refused if it is there at any instant of the period."""
        return self._add("insert", table, id, period, doc=dict(content))

    def put(
        self, table: str, id: str, content: Mapping[str, Any], period: Period = NO_PERIOD
    ) -> Operations:
        """The row has exactly this content."""
        return self._add("put", table, id, period, doc=dict(content))

    def patch(
        self, table: str, id: str, changes: Mapping[str, Any], period: Period = NO_PERIOD
    ) -> Operations:
        """Merges into every piece, and makes the row in the gaps."""
        return self._add("patch", table, id, period, doc=dict(changes))

    def update(
        self, table: str, id: str, changes: Mapping[str, Any], period: Period = NO_PERIOD
    ) -> Operations:
        """Merges where the row is; elsewhere nothing."""
        return self._add("update", table, id, period, doc=dict(changes))

    def delete(self, table: str, id: str, period: Period = NO_PERIOD) -> Operations:
        """The row is absent."""
        return self._add("delete", table, id, period)

    def erase(self, table: str, id: str) -> Operations:
        """Every version at every system time disappears."""
        return self._add("erase", table, id, NO_PERIOD)

    def require_exists(
        self, table: str, id: str, exists: bool = True, at: Instant | None = None
    ) -> Operations:
        """Refuses the commit unless the row is there, or is not."""
        return self._add("assert", table, id, NO_PERIOD, exists=exists, **_at(at))

    def require_equals(
        self, table: str, id: str, columns: Mapping[str, Any], at: Instant | None = None
    ) -> Operations:
        """Refuses the commit unless the columns have these values."""
        return self._add("assert", table, id, NO_PERIOD, equals=dict(columns), **_at(at))

    def require_unchanged(self, table: str, id: str, since: int) -> Operations:
        """Refuses the commit if anything of the row changed after this mark."""
        return self._add("assert", table, id, NO_PERIOD, unchanged_since=since)

    def call(self, database: str) -> Call[Committed]:
        def parse(body: Any, _: int | None) -> Committed:
            return Committed(mark_of(body["tt"]), [row["affected"] != 0 for row in body["rows"]])

        body: dict[str, Any] = {"ops": self.listed}
        if self.meta is not None:
            body["meta"] = self.meta
        return Call(
            "POST",
            path("tidemark", "databases", database, "transactions"),
            parse,
            body=body,
            nature=Nature.KEYED,
            marks=lambda answer: [mark_of(answer["tt"])],
        )


def _at(at: Instant | None) -> dict[str, Any]:
    return {} if at is None else {"vt": instant(at)}


@dataclass(frozen=True)
class Reading:
    """What a read of the server's own kinds answers."""

    rows: Any
    """Its shape depends on the kind: the server's page on time says which."""
    valid_at: int | str
    as_of: int | str
    """Giving `valid_at` and `as_of` back as `vt` and `tt` repeats the answer for ever."""
    stable_until: int | str | None
    """The next instant at which the answer changes without a write."""
    erased: bool = False
    """Rows that it may have shown once are erased since."""


def reads(database: str, asked: Sequence[Mapping[str, Any]]) -> Call[list[Reading]]:
    """Up to 100 reads of the server's own kinds in one request."""

    def one(answer: Any) -> Reading:
        return Reading(
            answer["rows"],
            answer["vt"],
            answer["tt"],
            answer["stableUntil"],
            answer.get("erased", False),
        )

    return Call(
        "POST",
        path("tidemark", "databases", database, "reads"),
        lambda body, _: [one(answer) for answer in body["answers"]],
        body={"reads": [dict(read) for read in asked]},
    )
