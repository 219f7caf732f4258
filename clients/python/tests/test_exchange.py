"""Sending again: what is repeated, with which key, and when it ends. The network is played."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import httpx
import pytest
from server import Server

from tidemark import ApiError, Client, NoAnswer, Retry, Unavailable

QUICK = Retry(limit_s=10, pause_s=0.001, pause_s_max=0.002)
WRITTEN = httpx.Response(200, json={"results": [{"mark": 7}]})
ROW = httpx.Response(200, json={"$id": "a", "n": 1}, headers={"x-tidemark-mark": "9"})
BUSY = httpx.Response(503, json={"code": 503, "type": "general_service_unavailable"})

Event = httpx.Response | type[httpx.TransportError]


def client(events: list[Event], retry: Retry = QUICK) -> tuple[Client, list[httpx.Request]]:
    """A client whose requests meet these answers and failures, one after the other."""
    sent: list[httpx.Request] = []
    coming: Iterator[Event] = iter(events)

    def answer(request: httpx.Request) -> httpx.Response:
        sent.append(request)
        event = next(coming)
        if isinstance(event, httpx.Response):
            return event
        raise event("played")

    transport = httpx.MockTransport(answer)
    return Client("http://x/v1", project="p", key="k", retry=retry, transport=transport), sent


@pytest.mark.parametrize(
    "events",
    [[WRITTEN], [httpx.ReadError, WRITTEN], [BUSY, httpx.ConnectError, httpx.ReadTimeout, WRITTEN]],
)
def test_a_write_is_repeated_under_one_key(events: list[Event]) -> None:
    it, sent = client(events)
    assert it.table("t").create({"n": 1}).mark == 7
    assert len(sent) == len(events)
    assert len({request.headers["idempotency-key"] for request in sent}) == 1
    assert len({request.content for request in sent}) == 1
    assert it.mark == 7


def test_two_writes_have_two_keys() -> None:
    it, sent = client([WRITTEN, WRITTEN])
    for _ in range(2):
        it.table("t").create({"n": 1})
    assert sent[0].headers["idempotency-key"] != sent[1].headers["idempotency-key"]


def test_a_read_names_the_highest_mark_seen() -> None:
    cached = httpx.Response(
        200, json={"total": 0, "rows": []}, headers={"x-tidemark-cache": "hit; mark=5; age=0"}
    )
    it, sent = client([ROW, WRITTEN, cached, httpx.ReadError, ROW])
    table = it.table("t")
    table.get("a")
    table.create({"n": 1})
    table.page()
    table.get("a")
    named = [request.headers.get("x-tidemark-min-mark") for request in sent]
    assert named == [None, None, "9", "9", "9"]
    assert it.mark == 9


@pytest.mark.parametrize(
    ("failure", "requests", "was_sent"),
    [(httpx.ReadError, 1, True), (httpx.ConnectError, 2, False), (BUSY, 2, False)],
)
def test_what_has_no_key_is_repeated_only_if_it_had_no_effect(
    failure: Event, requests: int, was_sent: bool
) -> None:
    it, sent = client([failure, httpx.Response(201, json={})])
    if was_sent:
        with pytest.raises(NoAnswer) as lost:
            it.request("POST", "/tablesdb", {"databaseId": "d"})
        assert lost.value.sent
    else:
        it.request("POST", "/tablesdb", {"databaseId": "d"})
    assert len(sent) == requests
    assert "idempotency-key" not in sent[0].headers


@pytest.mark.parametrize(
    ("event", "error"),
    [(BUSY, Unavailable), (httpx.ConnectError, NoAnswer), (httpx.ReadTimeout, NoAnswer)],
)
def test_it_ends_at_the_limit(event: Event, error: type[Exception]) -> None:
    it, sent = client([event], Retry(limit_s=0))
    with pytest.raises(error) as caught:
        it.table("t").get("a")
    assert len(sent) == 1
    if isinstance(caught.value, NoAnswer):
        assert caught.value.sent == (event is httpx.ReadTimeout)


def test_what_is_no_error_of_the_server_is_named_by_its_status() -> None:
    it, _ = client([httpx.Response(502, text="<html>proxy</html>")])
    with pytest.raises(ApiError) as caught:
        it.table("t").get("a")
    assert (caught.value.code, caught.value.type) == (502, "unknown")


class Losing(httpx.HTTPTransport):
    """Delivers each request, and loses the answer of the first that `is_chosen`."""

    def __init__(self, is_chosen: Callable[[httpx.Request], bool]) -> None:
        super().__init__()
        self.is_chosen = is_chosen
        self.lost = 0

    def handle_request(self, request: httpx.Request) -> httpx.Response:
        response = super().handle_request(request)
        if self.lost == 0 and self.is_chosen(request):
            self.lost += 1
            response.read()
            response.close()
            raise httpx.ReadError("played", request=request)
        return response


def test_a_write_whose_answer_was_lost_has_its_effect_once(server: Server) -> None:
    losing = Losing(lambda request: request.url.path.endswith("/batch/writes"))
    with server.client(database="lost", transport=losing, retry=QUICK) as it:
        it.create_database()
        columns = [{"key": "n", "type": "integer", "default": 0}]
        body = {"tableId": "t", "name": "T", "columns": columns}
        it.request("POST", "/tablesdb/lost/tables", body)
        table = it.table("t")
        made = table.create({"n": 1}, "a")
        assert losing.lost == 1 and made.mark == it.mark
        losing.lost = 0
        counted = table.increment("a", "n", 5)
        row = table.get("a")
        assert losing.lost == 1 and row is not None and row["n"] == 6
        assert counted.mark == it.mark


def test_a_client_outlives_a_restart_of_the_server() -> None:
    server = Server.start()
    try:
        with server.client(database="main") as it:
            it.create_database()
            columns = [{"key": "n", "type": "integer"}]
            body = {"tableId": "t", "name": "T", "columns": columns}
            it.request("POST", "/tablesdb/main/tables", body)
            it.table("t").upsert({"n": 1}, "a")
            before = it.mark
            server.stop()
            future = it.table("t").submit.upsert({"n": 2}, "b")
            server = server.serve_again()
            assert future.result(30).mark is not None
            assert it.table("t").get("a") is not None
            assert it.mark > before
    finally:
        server.close()
