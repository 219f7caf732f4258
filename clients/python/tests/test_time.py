"""Rows over time: periods, coordinates, the acts on ends, and metadata of commits."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from datetime import datetime, timezone
from typing import Any

import pytest
from server import Server

from tidemark import (
    Client,
    Conflict,
    Coordinates,
    Invalid,
    Model,
    NotFound,
    Operations,
    Period,
    ReadAt,
    index,
    query,
    to_datetime,
    unique,
)
from tidemark._lookup import snake_case
from tidemark._time import mark_of

MARCH, MAY, JULY = (datetime(2026, month, 1, tzinfo=timezone.utc) for month in (3, 5, 7))


@dataclass
class Volume(Model, table="volumes"):
    title: str
    year: int = 0
    byTitle = unique("title")
    by_year = index("year", name="years")


@pytest.fixture(scope="module")
def volumes(server: Server, database: str) -> None:
    with server.client(database=database) as client:
        client.create_table(Volume)


def years(client: Client, *queries: str) -> list[int]:
    """Of the row `c`: deleted rows of other tests are in the table's past."""
    page = client.table("books").page(query.equal("$id", "c"), *queries)
    return [row["year"] for row in page.rows]


def test_a_row_says_where_it_stands(client: Client) -> None:
    books = client.table("books")
    books.create({"title": "t", "year": 1}, "b", period=Period(MARCH, JULY))
    known = books.update("b", {"year": 2}, period=Period(MAY, JULY)).mark
    spring = books.get("b", at=Coordinates(valid_at="2026-04-01"))
    assert spring is not None and spring["year"] == 1
    at = spring.read_at
    assert at.valid_from is not None and at.valid_to is not None and at.system_from is not None
    assert (to_datetime(at.valid_from), to_datetime(at.valid_to)) == (MARCH, MAY)
    assert known is not None and at.mark is not None and at.mark >= known
    assert at.system_to is None and mark_of(str(at.system_from)) <= known
    assert at.coordinates == spring.coordinates == Coordinates(valid_at="2026-04-01")
    assert at.version is not None and at.version.startswith("b@")
    now = books.get("b")
    assert now is None
    books.create({"title": "n"}, "n")
    for row in (books.get("n"), books.submit.get("n").result(20), books.get_many(["n"])[0]):
        assert row is not None
        assert row.read_at == ReadAt(mark=client.mark) and row.coordinates is None


def test_times_named_by_queries_are_coordinates(client: Client) -> None:
    books = client.table("books")
    books.create({"title": "q", "year": 1}, "q", period=Period(MARCH))
    then = client.now()
    assert isinstance(then.as_of, int)
    queries = [query.as_of(then.as_of), query.valid_at(MAY)]
    row = books.first(query.equal("$id", "q"), *queries)
    assert row is not None
    assert row.coordinates == Coordinates(then.as_of, "2026-05-01T00:00:00+00:00")
    for found in books.each(at=Coordinates(valid_at=MAY)):
        pinned = found.coordinates
        assert pinned is not None and pinned.as_of is not None and pinned.valid_at == MAY
        assert found.read_at.valid_from is not None
    with pytest.raises(ValueError, match="as_of, valid_at or both"):
        Coordinates()


def test_versions_of_a_model_have_their_periods(client: Client, volumes: None) -> None:
    table = client.table(Volume)
    table.create(Volume("t", 1, id="v"), period=Period(MARCH))
    table.update("v", {"year": 2}, period=Period(MAY))
    versions = list(table.each(query.equal("$id", "v"), query.versions(), page_size=2))
    shown = {
        (each.year, each.read_at.valid_from, each.read_at.valid_to, each.read_at.system_to is None)
        for each in versions
    }
    march, may = ("2026-03-01T00:00:00.000000+00:00", "2026-05-01T00:00:00.000000+00:00")
    assert shown == {
        (1, march, None, False),
        (1, march, may, True),
        (2, may, None, True),
    }
    assert len({each.read_at.version for each in versions}) == 3
    assert Volume("x").read_at == ReadAt()


def test_many_rows_are_read_at_coordinates(client: Client, volumes: None) -> None:
    table = client.table(Volume)
    table.create(Volume("many", 1, id="m"), period=Period(MARCH))
    then = client.now()
    assert then.as_of is not None
    table.update("m", {"year": 2}, period=Period(MARCH))
    april = Coordinates(then.as_of, "2026-04-01T00:00:00Z")
    for found in (
        table.get_many(["m", "none"], at=april),
        table.get_by("by_title", ["many", "none"], at=april),
        Volume.byTitle.many(client, ["many", "none"], at=april),
    ):
        row, none = found
        assert row is not None and row.year == 1 and none is None
        assert row.read_at.valid_from is not None
        where = row.coordinates
        assert where is not None and where.as_of is not None and where.valid_at is not None
        assert to_datetime(where.as_of) == to_datetime(then.as_of)
        assert to_datetime(where.valid_at) == datetime(2026, 4, 1, tzinfo=timezone.utc)
        again = table.get_many(["m"], at=where)[0]
        assert again == row
    only_valid = table.get_many(["m"], at=Coordinates(valid_at=MAY))[0]
    assert only_valid is not None and only_valid.year == 2
    assert table.get_many(["m"], at=Coordinates(valid_at="2026-02-01")) == [None]


def test_the_ends_of_a_row_move(client: Client) -> None:
    books = client.table("books")
    books.create({"title": "contract", "year": 1}, "c", period=Period(MARCH))
    books.end("c", "2100-01-01")
    assert years(client, query.valid_at("2099-12-31")) == [1]
    assert years(client, query.valid_at("2100-01-01")) == []
    books.extend("c", datetime(2101, 1, 1, tzinfo=timezone.utc))
    assert years(client, query.valid_at("2100-12-31")) == [1]
    assert years(client, query.valid_at("2101-01-01")) == []
    books.extend("c")
    assert years(client, query.valid_at("2900-01-01")) == [1]
    books.move_start("c", "2026-01-01")
    assert years(client, query.valid_at("2026-02-01")) == [1]
    books.move_start("c", MAY)
    assert years(client, query.valid_at("2026-04-01")) == []
    books.delete("c", period=Period("2100-01-01", "2101-01-01"))
    assert years(client, query.valid_at("2100-06-01")) == []
    assert years(client, query.valid_at("2101-06-01")) == [1]
    with pytest.raises(Invalid) as empty:
        books.end("c", "2026-01-01")
    assert empty.value.type == "invalid_range"
    with pytest.raises(NotFound):
        books.end("none", "2100-01-01")
    with pytest.raises(NotFound):
        books.update("c", {"year": 2}, period=Period("2000-01-01", "2001-01-01"))
    futures = [books.submit.end("c", f"20{n}-01-01") for n in range(50, 60)]
    assert len({future.result(20).mark for future in futures}) == 10
    assert years(client, query.valid_at("2058-06-01")) == [1]


def test_many_rows_are_written_over_a_period(client: Client) -> None:
    books = client.table("books")
    made = books.create_many([{"title": "a"}, {"title": "b"}], period=Period(MARCH, MAY))
    assert {each.mark for each in made} == {client.mark}
    ids = [each.id for each in made]
    april = books.page(query.equal("$id", *ids), query.valid_at("2026-04-01"))
    assert sorted(row["title"] for row in april.rows) == ["a", "b"]
    assert books.get_many(ids) == [None, None]


def records(client: Client, *marks: int | None) -> list[Any]:
    return [client.read("tx", tt=mark).rows.get("meta") for mark in marks]


def test_every_write_takes_metadata(client: Client, database: str) -> None:
    books = client.table("books")
    why = {"who": "Ann \N{SNOWMAN}\x7f", "why": 'ticket "7"', "n": [1, None]}
    marks = [
        books.create({"title": "a", "year": 1}, "a", meta=why).mark,
        books.update("a", {"year": 2}, meta=why).mark,
        books.upsert({"title": "b"}, "b", meta=why).mark,
        books.increment("a", "year", meta=why).mark,
        books.end("a", "2100-01-01", meta=why).mark,
        books.extend("a", meta=why).mark,
        books.create_many([{"title": "c"}], meta=why)[0].mark,
        books.upsert_many([{"title": "d"}], meta=why)[0].mark,
        books.delete("a", meta=why).mark,
        client.commit(Operations(meta=why).delete("books", "b")).mark,
    ]
    assert records(client, *marks) == [why] * len(marks)
    opened = client.request("POST", "/tablesdb/transactions", {"ttl": 60})["$id"]
    operation = {"action": "create", "databaseId": database, "tableId": "books"}
    staged = {"operations": [{**operation, "rowId": "s", "data": {"title": "s"}}]}
    client.request("POST", f"/tablesdb/transactions/{opened}/operations", staged)
    client.request("PATCH", f"/tablesdb/transactions/{opened}", {"commit": True}, meta=why)
    assert books.get("s") is not None
    feed = client.read("feed", after=marks[-1]).rows
    assert [record["meta"] for record in feed] == [why]


def test_submitted_writes_share_requests_with_their_metadata(client: Client) -> None:
    books = client.table("books")
    futures = [
        books.submit.create({"title": f"t{n}"}, meta={"half": n // 20} if n % 20 else None)
        for n in range(40)
    ]
    marks = [future.result(20).mark for future in futures]
    assert len(set(marks)) == 40
    assert records(client, marks[0], marks[1], marks[20], marks[39]) == [
        None,
        {"half": 0},
        None,
        {"half": 1},
    ]


def test_metadata_that_no_header_takes_is_refused_at_once(client: Client) -> None:
    books = client.table("books")
    cases: list[tuple[Any, type[Exception], str]] = [
        (["x"], TypeError, "mapping of names to values, not list"),
        ({"x": object()}, TypeError, "object cannot be stored"),
        ({"x": float("nan")}, ValueError, "JSON"),
        ({"x": "y" * 1_017}, ValueError, "1025 bytes as JSON; at most 1024"),
    ]
    for meta, kind, why in cases:
        with pytest.raises(kind, match=why):
            books.create({"title": "x"}, "x", meta=meta)
    assert books.create({"title": "x"}, "x", meta={"x": "y" * 1_016}).mark == client.mark


def test_commits_are_undone(client: Client) -> None:
    books = client.table("books")
    books.create({"title": "a", "year": 1}, "a")
    before = client.mark
    books.update("a", {"year": 9}, meta={"run": 7})
    books.create({"title": "b"}, "b", meta={"run": 7})
    tried = client.undo(before, with_meta={"run": 7}, dry_run=True)
    assert (tried.mark, tried.commits) == (None, 2)
    assert books.get("b") is not None
    done = client.undo(before, with_meta={"run": 7}, meta={"why": "nonsense"})
    assert done.rows == tried.rows
    assert [(row.table, row.id, row.permissions) for row in done.rows] == [
        ("books", "a", None),
        ("books", "b", None),
    ]
    changed, made = (row.changes[0] for row in done.rows)
    assert changed.data == {"title": "a", "year": 1} and changed.valid_to is None
    assert made.data is None
    assert done.mark is not None and done.mark == client.mark
    assert records(client, done.mark) == [{"why": "nonsense"}]
    row = books.get("a")
    assert row is not None and row["year"] == 1 and books.get("b") is None
    # Its own commit has changed the rows since.
    with pytest.raises(Conflict, match="books/a"):
        client.undo(before, with_meta={"run": 7})
    with pytest.raises(Conflict, match="books/a"):
        client.undo(before, until=done.mark - 1, with_meta={"run": 7}, dry_run=True)
    nothing = client.undo(done.mark, user="key:nobody")
    assert (nothing.mark, nothing.commits, nothing.rows) == (None, 0, [])


def test_commits_are_undone_in_an_event_loop(server: Server, database: str) -> None:
    async def undone() -> int:
        async with server.async_client(database=database) as client:
            made = await client.table("books").create({"title": "x"}, meta={"run": 8})
            assert made.mark is not None
            done = await client.undo(made.mark - 1, with_meta={"run": 8})
            return len(done.rows)

    assert asyncio.run(undone()) == 1


def test_indexes_have_one_name_in_every_client(client: Client, volumes: None) -> None:
    names = {"by_isbn": "by_isbn", "byISBN": "by_isbn", "ByISBN13": "by_isbn13"}
    names |= {"ByShelfSlot": "by_shelf_slot", "HTTPPort": "http_port"}
    assert {given: snake_case(given) for given in names} == names
    made = client.request("GET", f"/tablesdb/{client.database}/tables/volumes")
    assert [each["key"] for each in made["indexes"]] == ["by_title", "years"]


def test_columns_that_hide_where_a_row_was_read_are_refused() -> None:
    for name in ("read_at", "coordinates"):
        with pytest.raises(TypeError, match="says where a row was read"):
            type("Wrong", (Model,), {"__annotations__": {name: "str"}}, table="wrong")


def test_instants_are_read_in_both_forms() -> None:
    micros = 1_772_323_200_000_001
    texts = ["2026-03-01T00:00:00.000001+00:00", "2026-03-01T01:00:00.000001+01:00"]
    wanted = datetime(2026, 3, 1, 0, 0, 0, 1, tzinfo=timezone.utc)
    forms: list[int | str | datetime] = [micros, *texts, texts[0].replace("+00:00", "Z"), wanted]
    for value in forms:
        assert to_datetime(value) == wanted
        if not isinstance(value, datetime):
            assert mark_of(value) == micros
    assert to_datetime("2026-03-01") == MARCH
    wrongs: list[int | str] = ["min", "0000-01-01", "soon", 10**18, -(10**17)]
    for wrong in wrongs:
        with pytest.raises(ValueError):
            to_datetime(wrong)


def test_acts_are_awaited(server: Server, client: Client, database: str) -> None:
    async def session() -> None:
        async with server.async_client(database=database) as other:
            books = other.table("books")
            await books.create({"title": "t", "year": 1}, "b", meta={"who": "ann"})
            await books.end("b", "2100-01-01")
            await books.extend("b")
            await books.move_start("b", MARCH)
            row = await books.get("b", at=Coordinates(valid_at=MARCH))
            assert row is not None and row.read_at.valid_to is None
            many = await books.get_many(["b"], at=Coordinates(valid_at="2026-02-28"))
            assert many == [None]
            with pytest.raises(Conflict):
                await books.submit.create({"title": "t"}, "b", period=Period(MAY, JULY))

    asyncio.run(session())
