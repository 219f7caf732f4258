"""Models: their tables, their rows, and their lookups."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime, timezone
from typing import Any

import pytest
from models import Author, Book
from server import Server

from tidemark import Client, Conflict, Denied, Invalid, Model, Operations, TidemarkError, index


@pytest.fixture(scope="module")
def shelves(server: Server) -> str:
    with server.client(database="shelves") as client:
        client.create_database()
        for _ in range(2):
            client.create_table(Author, exist_ok=True)
            client.create_table(Book, exist_ok=True)
        with pytest.raises(Conflict) as there:
            client.create_table(Book)
        assert there.value.type == "table_already_exists"
    return "shelves"


@pytest.fixture
def client(server: Server, shelves: str) -> Iterator[Client]:
    with server.client(database=shelves) as client:
        client.request("DELETE", f"/tablesdb/{shelves}/tables/books/rows")
        client.request("DELETE", f"/tablesdb/{shelves}/tables/authors/rows")
        yield client


def test_the_table_is_as_the_model_declares_it(client: Client, shelves: str) -> None:
    made = client.request("GET", f"/tablesdb/{shelves}/tables/books")
    columns = {each["key"]: each for each in made["columns"]}
    shown = {key: (each["type"], each["required"], each["array"]) for key, each in columns.items()}
    assert shown == {
        "title": ("varchar", True, False),
        "author": ("varchar", False, False),
        "shelf": ("varchar", True, False),
        "slot": ("integer", True, False),
        "price": ("double", False, False),
        "printed": ("datetime", False, False),
        "is_lent": ("boolean", True, False),
        "tags": ("varchar", True, True),
    }
    assert (columns["title"]["size"], columns["author"]["size"]) == (200, 255)
    indexes = {each["key"]: (each["type"], each["columns"]) for each in made["indexes"]}
    assert indexes == {
        "by_place": ("unique", ["shelf", "slot"]),
        "by_title": ("key", ["title"]),
        "by_author": ("key", ["author"]),
    }


def test_rows_come_back_as_they_were_written(client: Client) -> None:
    client.table(Author).create(Author(id="ann", name="Ann", mail="ann@example.com"))
    printed = datetime(2020, 5, 6, 7, 8, 9, 123000, tzinfo=timezone.utc)
    book = Book("Dune", "ann", "A", 1, 9.5, printed, True, ["sand", "spice"])
    books = client.table(Book)
    books.create(book)
    assert books.get(book.id) == book
    assert books.page().rows == [book]
    assert books.get_many([book.id, "none"]) == [book, None]
    assert books.submit.get(book.id).result(20) == book
    book.tags, book.price = [], None
    books.upsert(book)
    assert books.get(book.id) == book


def test_lookups(client: Client) -> None:
    for name in ("ann", "bob"):
        client.table(Author).create(Author(id=name, name=name, mail=f"{name}@example.com"))
    books = [Book(f"t{n % 2}", "ann" if n < 3 else "bob", "A", n) for n in range(5)]
    client.table(Book).create_many(books)
    ann = Author.by_mail(client, "ann@example.com")
    assert ann is not None and ann.id == "ann"
    assert Author.by_mail(client, "none@example.com") is None
    assert [one and one.id for one in Author.by_mail.many(client, ["bob@example.com", "x"])] == [
        "bob",
        None,
    ]
    assert Book.by_place(client, "A", 3) == books[3]
    assert Book.by_place.many(client, [("A", 4), ("B", 4)]) == [books[4], None]
    assert [book.slot for book in Book.by_title(client, "t1")] == [1, 3]
    assert [book.slot for book in Book.by_author(client, ann)] == [0, 1, 2]
    assert [book.slot for book in Book.by_author(client, "bob")] == [3, 4]
    assert Book.by_author.follow(client, books[0]) == ann
    assert Book.by_author.follow(client, Book("anonymous")) is None
    with pytest.raises(TypeError, match="shelf, slot"):
        Book.by_place(client, "A")


def test_a_reference_is_followed_at_the_coordinates_of_its_row(client: Client) -> None:
    client.table(Author).create(Author(id="ann", name="Ann", mail="old@example.com"))
    client.table(Book).create(Book("Dune", "ann"))
    then = client.now()
    client.table(Author).update("ann", {"mail": "new@example.com"})
    for at, mail in ((then, "old@example.com"), (None, "new@example.com")):
        book = Book.by_place(client, "", 0, at=at)
        assert book is not None and book.coordinates == at
        author = Book.by_author.follow(client, book)
        assert author is not None and author.mail == mail
    assert Author.by_mail(client, "old@example.com") is None
    assert Author.by_mail(client, "old@example.com", at=then) is not None


def test_a_reference_holds_over_valid_time(client: Client) -> None:
    books = client.table(Book)
    with pytest.raises(Conflict) as dangling:
        books.create(Book("Dune", "nobody"))
    client.table(Author).create(Author(id="ann", name="Ann", mail="a"))
    books.create(Book("Dune", "ann"))
    with pytest.raises(Conflict) as needed:
        client.commit(Operations().delete("authors", "ann"))
    assert {dangling.value.type, needed.value.type} <= {"ref_violation"}


def test_a_unique_value_is_refused_twice(client: Client) -> None:
    client.table(Author).create(Author("Ann", "same"))
    with pytest.raises(Conflict) as caught:
        client.table(Author).create(Author("Bob", "same"))
    assert caught.value.type == "row_unique_constraint_violation"
    with pytest.raises(Invalid):
        client.table(Author).create(Author("x" * 101, "long"))


def test_guests_read_what_they_may(server: Server) -> None:
    with server.client(database="guests") as client:
        client.create_database()
        client.create_table(Author, permissions=['read("any")'])
        ann = Author("Ann", "a")
        client.table(Author).create(ann)
    with server.client(database="guests", key=None) as guest:
        authors = guest.table(Author)
        assert authors.get(ann.id) == Author.by_mail(guest, "a") == ann
        # Its pages are as of one mark, which guests may name where the owner lets them.
        with pytest.raises(Denied, match="option `past`"):
            list(authors.each())
        with server.client(database="guests") as owner:
            options = "/tidemark/databases/guests/tables/authors/options"
            owner.request("PATCH", options, {"past": "now"})
        assert list(authors.each()) == [ann]
        assert authors.get_many([ann.id]) == [ann]
        with pytest.raises(Denied):
            authors.create(Author("Bob", "b"))


def test_lookups_are_awaited(server: Server, client: Client, shelves: str) -> None:
    client.table(Author).create(Author(id="ann", name="Ann", mail="a"))
    client.table(Book).create_many(Book("t", "ann", "A", n) for n in range(3))

    async def session() -> None:
        async with server.async_client(database=shelves) as other:
            ann = await Author.by_mail(other, "a")
            assert ann is not None
            assert await Author.by_mail.many(other, ["none", "a"]) == [None, ann]
            assert [book.slot async for book in Book.by_author(other, ann)] == [0, 1, 2]
            assert [book.slot async for book in Book.by_title(other, "t")] == [0, 1, 2]
            book = await Book.by_place(other, "A", 2)
            assert book is not None
            assert await Book.by_author.follow(other, book) == ann
            assert await Book.by_author.follow(other, Book("x")) is None
            await other.create_table(Book, exist_ok=True)
            with pytest.raises(Conflict):
                await other.create_database()

    asyncio.run(session())


def declare_without_table() -> None:
    @dataclass
    class Nameless(Model):
        n: int

    Nameless.table_id()


def declare_without_decorator() -> None:
    class Bare(Model, table="bare"):
        n: int

    Bare.table_id()


def use(model: type[Any]) -> None:
    with Client("http://127.0.0.1:1/v1", project="p") as client:
        client.create_table(model)


def declare_a_type_that_is_no_columns() -> None:
    @dataclass
    class Wrong(Model, table="wrong"):
        n: complex

    use(Wrong)


def declare_an_index_of_nothing() -> None:
    @dataclass
    class Wrong(Model, table="wrong"):
        n: int
        by_m = index("m")

    use(Wrong)


@pytest.mark.parametrize(
    ("declare", "text"),
    [
        (declare_without_table, "names no table"),
        (declare_without_decorator, "is no dataclass"),
        (declare_a_type_that_is_no_columns, "a column is"),
        (declare_an_index_of_nothing, "no column 'm'"),
        (index, "needs a column"),
    ],
)
def test_what_is_no_model_says_why(declare: Any, text: str) -> None:
    with pytest.raises(TypeError, match=text):
        declare()


def test_a_time_without_a_zone_is_refused() -> None:
    with Client("http://127.0.0.1:1/v1", project="p") as client:
        with pytest.raises(ValueError, match="zone"):
            client.table(Book).create(Book("t", printed=datetime(2020, 1, 1)))
    assert not issubclass(ValueError, TidemarkError)
