"""What a type checker knows of the calls. Never run: `test_types.py` has it checked."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Iterator
from concurrent.futures import Future

from models import Author, Book
from typing_extensions import assert_type

from tidemark import AsyncClient, Client, Coordinates, Found, Page, Row, Written


def waits(client: Client, book: Book) -> None:
    assert_type(client.table("books").get("x"), Row | None)
    assert_type(client.table(Book).get("x"), Book | None)
    assert_type(client.table(Book).get_many(["x"]), Found[Book])
    assert_type(client.table(Book).page(), Page[Book])
    assert_type(client.table(Book).each(), Iterator[Book])
    assert_type(client.table(Book).create(book), Written)
    assert_type(client.table(Book).submit.create(book), Future[Written])
    assert_type(client.table(Book).submit.get("x"), Future[Book | None])
    assert_type(Author.by_mail(client, "x"), Author | None)
    assert_type(Author.by_mail.many(client, ["x"]), Found[Author])
    assert_type(Author.by_mail.many(client, ["x"], at=Coordinates(valid_at=1)), Found[Author])
    assert_type(client.table(Book).end("x", "2100-01-01", meta={"who": "ann"}), Written)
    assert_type(client.table(Book).submit.extend("x"), Future[Written])
    assert_type(book.coordinates, Coordinates | None)
    assert_type(Book.by_title(client, "x"), Iterator[Book])
    assert_type(Book.by_author(client, "x"), Iterator[Book])
    assert_type(Book.by_author.follow(client, book), Author | None)


async def awaits(client: AsyncClient, book: Book) -> None:
    assert_type(await client.table("books").get("x"), Row | None)
    assert_type(await client.table(Book).get("x"), Book | None)
    assert_type(client.table(Book).each(), AsyncIterator[Book])
    assert_type(await client.table(Book).create(book), Written)
    assert_type(client.table(Book).submit.create(book), asyncio.Future[Written])
    assert_type(Author.by_mail(client, "x"), Awaitable[Author | None])
    assert_type(Book.by_title(client, "x"), AsyncIterator[Book])
    assert_type(await Book.by_author.follow(client, book), Author | None)


def is_refused(client: Client, book: Book) -> None:
    client.table(Book).create(5, "x")  # type: ignore[arg-type]
    client.table(Book).get(5)  # type: ignore[arg-type]
    Book.by_none(client, "x")  # type: ignore[attr-defined]
    Book.by_author(client, book)  # type: ignore[call-overload]
