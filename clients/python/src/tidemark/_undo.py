"""Undoing commits: which, and what rows become."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from ._call import Call, Nature, meta_text, path
from ._time import Instant, instant, mark_of


@dataclass(frozen=True)
class UndoneChange:
    """What a row becomes again over a period of valid time."""

    valid_from: int | str
    valid_to: int | str | None
    data: dict[str, Any] | None
    """None: the row is absent there."""


@dataclass(frozen=True)
class UndoneRow:
    """How one row is undone."""

    table: str
    id: str
    changes: list[UndoneChange]
    permissions: list[str] | None
    """Those that it gets again; None where they stay."""


@dataclass(frozen=True)
class Undone:
    """What an undo did, or would do."""

    mark: int | None
    """Its commit; None where nothing was written."""
    commits: int
    """How many commits were found."""
    rows: list[UndoneRow]


def undo(
    database: str,
    after: Instant,
    until: Instant | None,
    user: str | None,
    with_meta: Mapping[str, Any] | None,
    dry_run: bool,
    meta: Mapping[str, Any] | None,
) -> Call[Undone]:
    """Makes rows again what they were before the commits that are named."""
    body: dict[str, Any] = {"after": instant(after), "dryRun": dry_run}
    if until is not None:
        body["until"] = instant(until)
    if user is not None:
        body["user"] = user
    if with_meta is not None:
        body["meta"] = dict(with_meta)
    return Call(
        "POST",
        path("tidemark", "databases", database, "undo"),
        lambda answer, _: Undone(_mark(answer), answer["commits"], _rows(answer["rows"])),
        body=body,
        nature=Nature.KEYED,
        marks=lambda answer: [mark for mark in [_mark(answer)] if mark is not None],
        meta=meta_text(meta),
    )


def _mark(answer: Any) -> int | None:
    at = answer["$systemFrom"]
    return None if at is None else mark_of(at)


def _rows(rows: Any) -> list[UndoneRow]:
    def change(sent: Any) -> UndoneChange:
        return UndoneChange(sent["$validFrom"], sent["$validTo"], sent["data"])

    return [
        UndoneRow(
            row["tableId"],
            row["rowId"],
            [change(sent) for sent in row["changes"]],
            row["$permissions"],
        )
        for row in rows
    ]
