"""Relationships through the strict models."""

from __future__ import annotations

import pytest
from appwrite.enums.relation_mutate import RelationMutate
from appwrite.enums.relationship_type import RelationshipType
from appwrite.query import Query
from appwrite.services.databases import Databases
from appwrite.services.tables_db import TablesDB
from server import Server, check_refused

DB = "relationships"
BOOKS = "books"
AUTHORS = "authors"


@pytest.fixture(scope="module", autouse=True)
def tables(db: TablesDB) -> None:
    db.create(DB, "Relationships")
    columns = [{"key": "name", "type": "varchar", "size": 50, "required": False}]
    for table in (BOOKS, AUTHORS):
        db.create_table(DB, table, table, columns=columns)
    made = db.create_relationship_column(
        DB,
        AUTHORS,
        BOOKS,
        RelationshipType.ONETOMANY,
        two_way=True,
        key="books",
        two_way_key="author",
        on_delete=RelationMutate.RESTRICT,
    )
    assert (made.key, made.relatedtable, made.side) == ("books", BOOKS, "parent")
    books = [{"$id": "b1", "name": "One"}, {"name": "Two"}]
    db.create_row(DB, AUTHORS, "ada", {"name": "Ada", "books": books})


def test_both_ends_are_shown(db: TablesDB) -> None:
    column = db.get_column(DB, BOOKS, "author")
    assert (column.relationtype, column.twoway, column.twowaykey) == ("oneToMany", True, "books")
    assert db.get_table(DB, BOOKS).columns


def test_related_rows_come_when_selected(db: TablesDB) -> None:
    plain = db.get_row(DB, AUTHORS, "ada").data
    assert "books" not in plain and plain["name"] == "Ada"
    whole = db.get_row(DB, AUTHORS, "ada", [Query.select(["*", "books.*"])]).data
    assert sorted(book["name"] for book in whole["books"]) == ["One", "Two"]
    queries = [Query.select(["name", "author.name"]), Query.equal("author", "ada")]
    listed = db.list_rows(DB, BOOKS, queries)
    assert [row.data["author"]["name"] for row in listed.rows] == ["Ada", "Ada"]


def test_links_and_deletions(db: TablesDB, server: Server) -> None:
    db.create_row(DB, BOOKS, "b3", {"name": "Three", "author": "ada"})
    check_refused(
        lambda: db.update_row(DB, BOOKS, "b3", {"author": "nobody"}),
        400,
        "relationship_value_invalid",
    )
    check_refused(lambda: db.delete_row(DB, AUTHORS, "ada"), 403, "row_delete_restricted")
    changed = db.update_relationship_column(DB, AUTHORS, "books", RelationMutate.SETNULL)
    assert changed.ondelete == "setNull"
    db.delete_row(DB, AUTHORS, "ada")
    row = db.get_row(DB, BOOKS, "b3", [Query.select(["*", "author.*"])]).data
    assert (row["name"], row["author"]) == ("Three", None)


def test_the_older_family(db: TablesDB, server: Server) -> None:
    old = Databases(server.tables().client)
    attribute = old.update_relationship_attribute(DB, BOOKS, "author", RelationMutate.CASCADE)
    assert (attribute.relatedcollection, attribute.ondelete) == (AUTHORS, "cascade")
    db.delete_column(DB, AUTHORS, "books")
    check_refused(lambda: db.get_column(DB, BOOKS, "author"), 404, "column_not_found")
