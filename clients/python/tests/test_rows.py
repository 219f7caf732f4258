"""Rows of a table without a model, against the real server."""

from __future__ import annotations

import pytest
from server import Server

from tidemark import (
    ApiError,
    Client,
    Conflict,
    Coordinates,
    Denied,
    Invalid,
    NotFound,
    Operations,
    Period,
    query,
)


def test_a_row_is_written_read_changed_and_deleted(client: Client) -> None:
    books = client.table("books")
    made = books.create({"title": "Dune", "year": 1965}, "dune")
    assert made.id == "dune" and made.mark is not None
    row = books.get("dune")
    assert row is not None and row.values == {"title": "Dune", "year": 1965}
    assert (row.id, row["year"]) == ("dune", 1965)
    assert books.update("dune", {"year": 1966}).mark == client.mark
    assert books.update("dune", {"year": 1966}).mark is None
    books.increment("dune", "year", 4)
    books.increment("dune", "year", -1)
    books.upsert({"title": "Emma"}, "emma")
    found = books.get("dune")
    assert found is not None and found["year"] == 1969
    books.delete("dune")
    assert books.get("dune") is None
    assert [row.id for row in books.page(query.order_asc("title")).rows] == ["emma"]


def test_a_row_without_an_id_gets_one(client: Client) -> None:
    books = client.table("books")
    made = books.create({"title": "Dune"})
    assert len(made.id) == 32
    assert books.get(made.id) is not None


def test_refusals_are_typed(client: Client, server: Server, database: str) -> None:
    books = client.table("books")
    books.create({"title": "Dune"}, "dune")
    cases: list[tuple[type[ApiError], int, str, str, dict[str, object]]] = [
        (Conflict, 409, "row_already_exists", "dune", {"title": "Emma"}),
        (Conflict, 409, "row_unique_constraint_violation", "x", {"title": "Dune"}),
        (Invalid, 400, "row_invalid_structure", "x", {"title": 5}),
    ]
    for kind, code, name, id, content in cases:
        with pytest.raises(kind) as caught:
            books.create(content, id)
        assert (caught.value.code, caught.value.type) == (code, name)
        assert caught.value.message
    with pytest.raises(NotFound) as absent:
        books.update("none", {"year": 1})
    assert absent.value.type == "row_not_found"
    with pytest.raises(NotFound) as no_table:
        client.table("none").get("x")
    assert no_table.value.type == "table_not_found" and no_table.value.request_id
    with server.client(key=None, database=database) as guest, pytest.raises(Denied):
        guest.table("books").create({"title": "x"})


def test_many_rows_in_one_request(client: Client) -> None:
    books = client.table("books")
    made = books.create_many({"title": f"t{n}", "year": n} for n in range(20))
    assert {each.mark for each in made} == {client.mark}
    asked = [made[3].id, "none", made[1].id]
    found = books.get_many(asked)
    assert [row and row["year"] for row in found] == [3, None, 1]
    by_key = books.get_by("by_title", ["t7", ("t2",), "none"])
    assert [row and row["year"] for row in by_key] == [7, 2, None]
    with pytest.raises(Conflict):
        books.create_many([{"title": "new"}, {"title": "t0"}])
    assert books.first(query.equal("title", "new")) is None
    again = books.upsert_many([books.page(query.limit(1)).rows[0], {"title": "new"}])
    assert [each.mark for each in again] == [client.mark, client.mark]


def test_a_page_has_its_total_when_asked(client: Client) -> None:
    books = client.table("books")
    books.create_many({"title": f"t{n}", "year": n} for n in range(9))
    page = books.page(query.less("year", 5), query.limit(2), total=True)
    assert (page.total, [row["year"] for row in page.rows]) == (5, [0, 1])


def test_an_iteration_shows_what_was_there_at_its_first_page(client: Client) -> None:
    books = client.table("books")
    books.create_many({"title": f"t{n:02}", "year": n} for n in range(10))
    seen = []
    for row in books.each(query.order_asc("title"), page_size=3):
        seen.append(row["year"])
        if len(seen) == 1:
            last = books.first(query.order_desc("title"))
            assert last is not None
            books.update(last.id, {"year": 99})
            books.create({"title": "t05b", "year": 5})
    assert seen == list(range(10))
    assert len(list(books.each(page_size=11))) == 11
    assert [row["year"] for row in books.each(query.greater("year", 50))] == [99]


def test_an_iteration_over_versions_shows_each_once(client: Client) -> None:
    books = client.table("books")
    books.create({"title": "t", "year": 0}, "v")
    for year in range(1, 6):
        books.update("v", {"year": year})
    rows = list(books.each(query.equal("$id", "v"), query.versions(), page_size=2))
    assert len({row["$version"] for row in rows}) == len(rows) == 11
    assert {row["year"] for row in rows} == set(range(6))


def test_an_iteration_pages_by_itself(client: Client) -> None:
    books = client.table("books")
    for wrong in (query.limit(1), query.offset(1), query.cursor_after("x")):
        with pytest.raises(ValueError, match="leave out"):
            next(books.each(wrong))
    books.create_many({"title": f"t{n}"} for n in range(3))
    with pytest.raises(ValueError, match=r"\$id"):
        list(books.each(query.select("title"), page_size=2))


def test_reads_at_coordinates_never_change(client: Client) -> None:
    books = client.table("books")
    books.create({"title": "old"}, "b")
    then = client.now()
    books.update("b", {"title": "new"})
    books.create({"title": "later"}, "c")
    for _ in range(2):
        row = books.get("b", at=then)
        assert row is not None and row["title"] == "old" and row.coordinates == then
        assert books.get("c", at=then) is None
        assert [row["title"] for row in books.page(at=then).rows] == ["old"]
        assert [row["title"] for row in books.each(at=then)] == ["old"]
    with pytest.raises(Invalid) as future:
        books.get("b", at=Coordinates("2100-01-01"))
    assert future.value.type == "future_tt"


def test_writes_over_periods(client: Client) -> None:
    books = client.table("books")
    spring, autumn = "2026-03-01T00:00:00Z", "2026-09-01T00:00:00Z"
    books.create({"title": "p", "year": 1}, "p", period=Period("2026-01-01"))
    books.update("p", {"year": 2}, period=Period(spring, autumn))
    books.upsert({"year": 3}, "p", period=Period(autumn))
    now = client.now()

    def year(when: str) -> object:
        row = books.get("p", at=Coordinates(now.as_of, when))
        return row and row["year"]

    shown = [year(when) for when in ("2025-06-01", "2026-02-01", "2026-06-01", "2026-10-01")]
    assert shown == [None, 1, 2, 3]
    done = books.delete("p", period=Period(autumn, "next"))
    assert done.mark == client.mark
    assert books.get("p", at=Coordinates(client.now().as_of, "2026-10-01")) is None
    with pytest.raises(Invalid) as empty:
        books.update("p", {"year": 4}, period=Period(autumn, spring))
    assert empty.value.type == "invalid_range"
    with pytest.raises(Conflict) as there:
        books.create({"title": "q"}, "p", period=Period(spring))
    assert there.value.type == "row_already_exists"


def test_operations_are_committed_at_one_mark(client: Client) -> None:
    books = client.table("books")
    books.create({"title": "a", "year": 1}, "a")
    operations = (
        Operations(meta={"user": "ann"})
        .require_exists("books", "a")
        .require_equals("books", "a", {"year": 1})
        .require_unchanged("books", "a", client.mark)
        .insert("books", "b", {"title": "b"})
        .put("books", "a", {"title": "aa"})
        .patch("books", "c", {"title": "c"})
        .update("books", "none", {"year": 5})
        .delete("books", "none")
    )
    done = client.commit(operations)
    assert done.mark == client.mark
    assert done.affected == [False, False, False, True, True, True, False, False]
    assert [row and row["title"] for row in books.get_many(["a", "b", "c"])] == ["aa", "b", "c"]
    record = client.read("tx", tt=done.mark).rows
    assert record["meta"] == {"user": "ann"}
    with pytest.raises(Conflict) as refused:
        client.commit(Operations().require_exists("books", "a", False).delete("books", "b"))
    assert refused.value.type == "assert_failed"
    assert books.get("b") is not None


def test_history_and_erasure(client: Client) -> None:
    books = client.table("books")
    books.create({"title": "h", "year": 1}, "h")
    books.update("h", {"year": 2})
    history = client.read("history", table="books", id="h", axis="valid")
    assert [piece["doc"]["year"] for piece in history.rows] == [1, 2]
    again = client.read(
        "history", table="books", id="h", axis="valid", vt=history.valid_at, tt=history.as_of
    )
    assert again == history
    client.commit(Operations().erase("books", "h"))
    both = [{"kind": "history", "table": "books", "id": "h", "axis": axis} for axis in ("both",)]
    assert [reading.rows for reading in client.reads(both)] == [[]]


def test_a_client_that_is_told_a_mark_reads_nothing_older(
    client: Client, server: Server, database: str
) -> None:
    written = client.table("books").create({"title": "m"}, "m")
    assert written.mark is not None
    with server.client(database=database, mark=written.mark) as other:
        assert other.table("books").get("m") is not None
        assert other.mark >= written.mark
