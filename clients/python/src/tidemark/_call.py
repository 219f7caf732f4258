"""What is asked of the server: one call, how it may be repeated, how it may be shared."""

from __future__ import annotations

import enum
import json
import re
import uuid
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from functools import cached_property, partial
from typing import Any, Generic, TypeVar, Union
from urllib.parse import quote

from ._error import ApiError, refusal
from ._time import plain

T = TypeVar("T")

OPERATIONS_MAX = 1_000
"""Most operations, and most rows read, of one request (the server's page of batches)."""

_MARK = re.compile(r"\bmark=(\d+)")


class Nature(enum.Enum):
    """What sending a call twice would do."""

    READ = "read"
    """Changes nothing: repeated whenever no answer came."""
    KEYED = "keyed"
    """Carries a key, by which the server knows it again: repeated with that key."""
    ONCE = "once"
    """Repeated only while it cannot have reached the server."""


@dataclass(frozen=True)
class Answer:
    """What the server sent back."""

    status: int
    headers: Any
    content: bytes

    @cached_property
    def json(self) -> Any:
        """The body; None if there is none or it is no JSON."""
        try:
            return json.loads(self.content) if self.content else None
        except ValueError:
            return None

    def marks(self) -> Iterable[int]:
        """The marks that the headers name: the answer is true for them."""
        stated = self.headers.get("x-tidemark-mark")
        if stated is not None and stated.isdigit():
            yield int(stated)
        cached = _MARK.search(self.headers.get("x-tidemark-cache", ""))
        if cached:
            yield int(cached[1])


Outcome = Union[T, ApiError]


@dataclass(frozen=True)
class WritePart(Generic[T]):
    """A write that may stand in one request with others."""

    database: str
    operation: dict[str, Any]
    parse: Callable[[Any], T]


@dataclass(frozen=True)
class ReadPart(Generic[T]):
    """The read of one row by its id, which may stand in one request with others."""

    database: str
    table: str
    id: str
    parse: Callable[[Any], T]


@dataclass(frozen=True)
class Call(Generic[T]):
    """One thing asked of the server, and how to read the answer."""

    method: str
    path: str
    """Behind the endpoint."""
    parse: Callable[[Any], T]
    """From the body of a success."""
    body: Any = None
    params: Sequence[tuple[str, str]] = ()
    nature: Nature = Nature.READ
    marks: Callable[[Any], Iterable[int]] = lambda _: ()
    """The marks of commits that the body names."""
    absent: Callable[[ApiError], bool] = lambda _: False
    """Refusals that mean "there is none": they are parsed as None."""
    part: WritePart[T] | ReadPart[T] | None = None
    key: str = field(default_factory=lambda: uuid.uuid4().hex)
    """Names the request, if it is [`Nature.KEYED`], however often it is sent."""

    @cached_property
    def content(self) -> bytes | None:
        """The body as sent.

        Raises:
            TypeError, ValueError: for a value that JSON cannot hold.
        """
        if self.body is None:
            return None
        return json.dumps(self.body, default=plain, separators=(",", ":")).encode()

    def read(self, answer: Answer) -> T:
        """The answer's meaning.

        Raises:
            ApiError: if it is a refusal.
        """
        if 200 <= answer.status < 300:
            return self.parse(answer.json)
        error = refusal(answer.json, answer.status, answer.headers.get("x-request-id"))
        if self.absent(error):
            return self.parse(None)
        raise error


def path(*segments: str) -> str:
    """A path of these segments, whatever letters they hold."""
    return "/" + "/".join(quote(segment, safe="") for segment in segments)


def written_marks(body: Any) -> list[int]:
    """The marks in the answer of a batch of writes."""
    marks = (result.get("mark") for result in body["results"])
    return [mark for mark in marks if mark is not None]


def item(result: Any) -> Any:
    """One result of a batch.

    Raises:
        ApiError: if it was refused.
    """
    if "error" in result:
        raise refusal(result["error"], 500)
    return result


def write_batch(
    database: str, operations: list[dict[str, Any]], parse: Callable[[Any], T], *, atomic: bool
) -> Call[T]:
    """Operations in one request; `parse` gets the list of their results."""
    return Call(
        "POST",
        path("tidemark", "databases", database, "batch", "writes"),
        lambda body: parse(body["results"]),
        body={"operations": operations, "atomic": atomic},
        nature=Nature.KEYED,
        marks=written_marks,
    )


def read_batch(
    database: str, reads: list[dict[str, Any]], parse: Callable[[Any], T]
) -> Call[T]:
    """Reads in one request; `parse` gets the list of their results."""
    return Call(
        "POST",
        path("tidemark", "databases", database, "batch", "reads"),
        lambda body: parse(body["results"]),
        body={"reads": reads},
        marks=lambda body: [body["mark"]],
    )


def outcome(parse: Callable[[Any], T], result: Any) -> Outcome[T]:
    """One result of a batch, a refusal as a value."""
    try:
        return parse(result)
    except ApiError as error:
        return error


def join_writes(parts: Sequence[WritePart[Any]]) -> Call[list[Outcome[Any]]]:
    """One request for writes of one database, each on its own, in their order."""

    def parse(results: Any) -> list[Outcome[Any]]:
        return [outcome(part.parse, result) for part, result in zip(parts, results)]

    operations = [part.operation for part in parts]
    return write_batch(parts[0].database, operations, parse, atomic=False)


def join_reads(parts: Sequence[ReadPart[Any]]) -> Call[list[Outcome[Any]]]:
    """One request for rows of one database."""
    tables: dict[str, list[str]] = {}
    places = []
    for part in parts:
        ids = tables.setdefault(part.table, [])
        places.append((part.table, len(ids)))
        ids.append(part.id)
    order = {table: place for place, table in enumerate(tables)}

    def one(part: ReadPart[Any], place: tuple[str, int], results: Any) -> Any:
        table, row = place
        return part.parse(item(results[order[table]])["rows"][row])

    def parse(results: Any) -> list[Outcome[Any]]:
        return [
            outcome(partial(one, part, place), results) for part, place in zip(parts, places)
        ]

    reads = [{"tableId": table, "ids": ids} for table, ids in tables.items()]
    return read_batch(parts[0].database, reads, parse)


_READS = frozenset({"GET", "HEAD"})


def raw(method: str, path: str, body: Any = None) -> Call[Any]:
    """Any route, by its path behind the endpoint."""
    nature = Nature.READ if method in _READS else Nature.ONCE
    return Call(method, path, lambda answer: answer, body=body, nature=nature)
