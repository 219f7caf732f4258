"""Calls that are submitted: futures, shared requests, order, limits."""

from __future__ import annotations

import asyncio
import json
import threading
from collections.abc import Iterator

import httpx
import pytest
from server import Server

from tidemark import AsyncClient, Client, Closed, Conflict, Invalid, TooManyPending, query


class Counting(httpx.HTTPTransport):
    """Counts requests, and holds the first one back until it is let go."""

    def __init__(self) -> None:
        super().__init__()
        self.paths: list[str] = []
        self.go_on = threading.Event()

    def handle_request(self, request: httpx.Request) -> httpx.Response:
        self.paths.append(request.url.path.rsplit("/", 1)[-1])
        assert self.go_on.wait(20)
        return super().handle_request(request)


@pytest.fixture
def counting() -> Counting:
    return Counting()


@pytest.fixture
def held(
    server: Server, client: Client, database: str, counting: Counting
) -> Iterator[Client]:
    """A client of one request at a time, whose first request waits."""
    with server.client(database=database, transport=counting, requests_max=1) as held:
        yield held
        counting.go_on.set()


def test_writes_that_wait_share_a_request_in_their_order(held: Client, counting: Counting) -> None:
    submit = held.table("books").submit
    futures = [submit.create({"title": "first"}, "r")]
    futures += [submit.update("r", {"year": year}) for year in range(50)]
    futures += [submit.create({"title": f"t{n}"}) for n in range(50)]
    counting.go_on.set()
    marks = [future.result(20).mark for future in futures]
    assert None not in marks and marks == sorted(set(marks), key=lambda mark: mark or 0)
    assert counting.paths[:2] == ["writes", "writes"] and len(counting.paths) <= 3
    row = held.table("books").get("r")
    assert row is not None and row["year"] == 49


def test_reads_that_wait_share_a_request(
    held: Client, counting: Counting, client: Client
) -> None:
    for n in range(5):
        client.table("books").create({"title": f"t{n}"}, f"r{n}")
    submit = held.table("books").submit
    futures = [submit.get(id) for id in ["r0", "r1", "none", "r2", "r3"]]
    counting.go_on.set()
    found = [future.result(20) for future in futures]
    assert [row and row["title"] for row in found] == ["t0", "t1", None, "t2", "t3"]
    assert len(counting.paths) <= 3 and counting.paths[-1] == "reads"


def test_a_refused_write_leaves_those_beside_it_alone(held: Client, counting: Counting) -> None:
    submit = held.table("books").submit
    first = submit.create({"title": "a"}, "a")
    clash = submit.create({"title": "b"}, "a")
    second = submit.create({"title": "c"}, "c")
    counting.go_on.set()
    assert first.result(20).id == "a" and second.result(20).id == "c"
    with pytest.raises(Conflict):
        clash.result(20)


def test_a_write_that_no_request_may_hold_leaves_those_beside_it_alone(
    held: Client, counting: Counting
) -> None:
    submit = held.table("books").submit
    first = submit.create({"title": "a"}, "a")
    wrong = submit.create({"title": "b"}, "no id, as it has spaces and signs!")
    second = submit.create({"title": "c"}, "c")
    counting.go_on.set()
    assert first.result(20).id == "a" and second.result(20).id == "c"
    with pytest.raises(Invalid):
        wrong.result(20)


def test_content_that_json_cannot_hold_is_refused_at_once(client: Client) -> None:
    with pytest.raises(TypeError):
        client.table("books").submit.create({"title": object()})


def test_submitting_waits_while_too_much_is_pending(
    server: Server, client: Client, database: str, counting: Counting
) -> None:
    with server.client(database=database, transport=counting, pending_max=2) as few:
        submit = few.table("books").submit
        for n in range(2):
            submit.create({"title": f"t{n}"})
        third: list[str] = []
        waiting = threading.Thread(
            target=lambda: third.append(submit.create({"title": "t3"}).result(20).id)
        )
        waiting.start()
        assert not third
        counting.go_on.set()
        waiting.join(20)
        assert len(third) == 1
        few.flush()
    assert len(client.table("books").page().rows) == 3


def test_closing_finishes_what_was_submitted(
    server: Server, client: Client, database: str
) -> None:
    closing = server.client(database=database)
    futures = [closing.table("books").submit.create({"title": f"t{n}"}) for n in range(100)]
    closing.close()
    assert all(future.done() for future in futures)
    with pytest.raises(Closed):
        closing.table("books").submit.get("x")
    with pytest.raises(Closed):
        closing.table("books").get("x")
    assert client.table("books").page(total=True).total == 100


def test_a_client_that_is_awaited_does_the_same(
    server: Server, client: Client, database: str
) -> None:
    async def session() -> None:
        sent: list[int] = []

        async def count(request: httpx.Request) -> None:
            body = json.loads(request.content or b"{}")
            sent.append(len(body.get("operations", [])))

        async with server.async_client(database=database) as other:
            assert isinstance(other, AsyncClient)
            other._http.event_hooks["request"].append(count)
            books = other.table("books")
            futures = [books.submit.create({"title": f"t{n}", "year": n}) for n in range(30)]
            clash = books.submit.create({"title": "t0"})
            written = await asyncio.gather(*futures)
            assert [each.mark for each in written] == sorted(each.mark or 0 for each in written)
            with pytest.raises(Conflict):
                await clash
            assert sent == [31]
            read = await asyncio.gather(*(books.submit.get(each.id) for each in written))
            assert [row and row["year"] for row in read] == list(range(30))
            assert len(sent) == 2
            shown = [row["year"] async for row in books.each(query.less("year", 7), page_size=3)]
            assert shown == list(range(7))
            assert await books.get("none") is None
            await books.create({"title": "mine"}, "mine")
            assert other.mark > max(each.mark or 0 for each in written)
        with pytest.raises(Closed):
            books.submit.get("x")

    asyncio.run(session())


def test_an_awaited_client_refuses_what_is_too_much(
    server: Server, client: Client, database: str
) -> None:
    async def session() -> None:
        async with server.async_client(database=database, pending_max=2) as few:
            submit = few.table("books").submit
            kept = [submit.create({"title": f"t{n}"}) for n in range(2)]
            with pytest.raises(TooManyPending):
                submit.create({"title": "t3"})
            await asyncio.gather(*kept)
            await submit.create({"title": "t3"})

    asyncio.run(session())
