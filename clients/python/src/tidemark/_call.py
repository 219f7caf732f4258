"""Requests before they are sent: one call, how it may be repeated, how it may be shared."""

from __future__ import annotations

import enum
import json
import re
import uuid
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, Generic, TypeVar, Union
from urllib.parse import quote

from ._error import ApiError, refusal
from ._time import mark_of, plain

T = TypeVar("T")

OPERATIONS_MAX = 1_000
"""Most operations, and most rows read, of one request (the server's page of batches)."""

META_BYTES_MAX = 1_024
"""Most metadata of a commit that a header takes (the server's page of HTTP)."""

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
    meta: str | None = None
    """Metadata of its commit; only writes with the same share a request."""


@dataclass(frozen=True)
class ReadPart(Generic[T]):
    """The read of one row by its id, which may stand in one request with others."""

    database: str
    table: str
    id: str
    parse: Callable[[Any, int | None], T]
    """From the row, or None, and the mark of the answer."""


@dataclass(frozen=True)
class Call(Generic[T]):
    """One request before it is sent, and how to read the answer."""

    method: str
    path: str
    """Behind the endpoint."""
    parse: Callable[[Any, int | None], T]
    """From the body of a success, and the mark that its headers name."""
    body: Any = None
    params: Sequence[tuple[str, str]] = ()
    nature: Nature = Nature.READ
    marks: Callable[[Any], Iterable[int]] = lambda _: ()
    """The marks of commits that the body names."""
    absent: Callable[[ApiError], bool] = lambda _: False
    """Refusals that mean "there is none": they are parsed as None."""
    part: WritePart[T] | ReadPart[T] | None = None
    meta: str | None = None
    """Metadata that the commit keeps, as a header holds it."""
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
        mark = max(answer.marks(), default=None)
        if 200 <= answer.status < 300:
            return self.parse(answer.json, mark)
        error = refusal(answer.json, answer.status, answer.headers.get("x-request-id"))
        if self.absent(error):
            return self.parse(None, mark)
        raise error


def meta_text(meta: Mapping[str, Any] | None) -> str | None:
    """Metadata of a commit as a header holds it: a JSON object in ASCII.

    Raises:
        TypeError: for what is no mapping, or holds what JSON cannot.
        ValueError: for more than the header takes.
    """
    if meta is None:
        return None
    if not isinstance(meta, Mapping):
        raise TypeError(f"metadata is a mapping of names to values, not {type(meta).__name__}")
    text = json.dumps(dict(meta), default=plain, separators=(",", ":"), allow_nan=False)
    text = text.replace("\x7f", "\\u007f")  # The one that JSON leaves and no header takes.
    if len(text) > META_BYTES_MAX:
        raise ValueError(f"metadata has {len(text)} bytes as JSON; at most {META_BYTES_MAX} fit")
    return text


def path(*segments: str) -> str:
    """A path of these segments, whatever letters they hold."""
    return "/" + "/".join(quote(segment, safe="") for segment in segments)


def written_marks(body: Any) -> list[int]:
    """The marks in the answer of a batch of writes."""
    marks = (result.get("mark") for result in body["results"])
    return [mark_of(mark) for mark in marks if mark is not None]


def item(result: Any) -> Any:
    """One result of a batch.

    Raises:
        ApiError: if it was refused.
    """
    if "error" in result:
        raise refusal(result["error"], 500)
    return result


def write_batch(
    database: str,
    operations: list[dict[str, Any]],
    parse: Callable[[Any], T],
    *,
    atomic: bool,
    meta: str | None,
    part: WritePart[T] | None = None,
) -> Call[T]:
    """Operations in one request; `parse` gets the list of their results."""
    return Call(
        "POST",
        path("tidemark", "databases", database, "batch", "writes"),
        lambda body, _: parse(body["results"]),
        body={"operations": operations, "atomic": atomic},
        nature=Nature.KEYED,
        marks=written_marks,
        meta=meta,
        part=part,
    )


def read_batch(
    database: str, reads: list[dict[str, Any]], parse: Callable[[Any, int], T]
) -> Call[T]:
    """Reads in one request; `parse` gets the list of their results, and the mark of those as of
    now."""
    return Call(
        "POST",
        path("tidemark", "databases", database, "batch", "reads"),
        lambda body, _: parse(body["results"], mark_of(body["mark"])),
        body={"reads": reads},
        marks=lambda body: [mark_of(body["mark"])],
    )


def outcome(parse: Callable[..., T], *result: Any) -> Outcome[T]:
    """One result of a batch, a refusal as a value."""
    try:
        return parse(*result)
    except ApiError as error:
        return error


def join_writes(parts: Sequence[WritePart[Any]]) -> Call[list[Outcome[Any]]]:
    """One request for writes of one database, each on its own, in their order."""

    def parse(results: Any) -> list[Outcome[Any]]:
        return [outcome(part.parse, result) for part, result in zip(parts, results)]

    operations = [part.operation for part in parts]
    meta = parts[0].meta
    return write_batch(parts[0].database, operations, parse, atomic=False, meta=meta)


def join_reads(parts: Sequence[ReadPart[Any]]) -> Call[list[Outcome[Any]]]:
    """One request for rows of one database."""
    tables: dict[str, list[str]] = {}
    places = []
    for part in parts:
        ids = tables.setdefault(part.table, [])
        places.append((part.table, len(ids)))
        ids.append(part.id)
    order = {table: place for place, table in enumerate(tables)}

    def one(part: ReadPart[Any], place: tuple[str, int], results: Any, mark: int) -> Any:
        table, row = place
        return part.parse(item(results[order[table]])["rows"][row], mark)

    def parse(results: Any, mark: int) -> list[Outcome[Any]]:
        return [
            outcome(one, part, place, results, mark) for part, place in zip(parts, places)
        ]

    reads = [{"tableId": table, "ids": ids} for table, ids in tables.items()]
    return read_batch(parts[0].database, reads, parse)


_READS = frozenset({"GET", "HEAD"})


def raw(
    method: str, path: str, body: Any = None, meta: Mapping[str, Any] | None = None
) -> Call[Any]:
    """Any route, by its path behind the endpoint."""
    nature = Nature.READ if method in _READS else Nature.ONCE
    text = meta_text(meta)
    return Call(method, path, lambda answer, _: answer, body=body, nature=nature, meta=text)
