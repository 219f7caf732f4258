"""The client that waits."""

from __future__ import annotations

import threading
import time
from collections.abc import Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from types import TracebackType
from typing import Any, TypeVar, overload

import httpx

from ._call import Answer, Call, raw
from ._error import Closed
from ._exchange import Happened, Pause, Retry, Session, Step, Steps
from ._gather import Lane, Pending
from ._model import Model, ModelCodec
from ._operations import Committed, Operations, Reading, reads
from ._paging import now
from ._row import Row, RowCodec
from ._schema import database_call, table_calls
from ._table import Table
from ._table_calls import TableCalls
from ._time import Coordinates, Instant
from ._undo import Undone, undo

T = TypeVar("T")
M = TypeVar("M", bound=Model)


class Client:
    """One server, one project, one caller. May be shared by threads.

    Args:
        endpoint: with the version, as `http://127.0.0.1:8280/v1`.
        key: an API key; without one the caller is a guest.
        database: where tables are, unless they say otherwise.
        mark: reads show the commit of this mark and all before it. Hand on the `mark` of another
            client and this one sees what that one has written.
        timeout_s: for each attempt, to connect and between bytes.
        requests_max: reads that were submitted and are under way at the same time. Submitted
            writes are always one request at a time, because they keep their order.
        pending_max: calls submitted and not done yet. Beyond that `submit` waits.
        transport: replaces the network, in tests.
    """

    def __init__(
        self,
        endpoint: str,
        *,
        project: str,
        key: str | None = None,
        database: str = "main",
        mark: int = 0,
        retry: Retry = Retry(),
        timeout_s: float = 30.0,
        requests_max: int = 4,
        pending_max: int = 10_000,
        transport: httpx.BaseTransport | None = None,
    ) -> None:
        self.database = database
        self._session = Session(endpoint, project, key, mark, retry)
        self._http = httpx.Client(timeout=timeout_s, transport=transport)
        self._pending: Pending[Future[Any]] = Pending(requests_max, pending_max)
        self._changed = threading.Condition()
        self._threads = ThreadPoolExecutor(requests_max + 1, "tidemark")
        self._is_closed = False

    @property
    def mark(self) -> int:
        """The highest mark of a commit seen so far; reads show it and all before it."""
        return self._session.mark

    @overload
    def table(self, of: str, *, database: str | None = None) -> Table[Row]: ...
    @overload
    def table(self, of: type[M], *, database: str | None = None) -> Table[M]: ...
    def table(self, of: str | type[Model], *, database: str | None = None) -> Table[Any]:
        """A table by its id, or that of a model. Asks nothing of the server."""
        database = database or self.database
        if isinstance(of, str):
            return Table(self, TableCalls(database, of, RowCodec()))
        return Table(self, TableCalls(database, of.table_id(), ModelCodec(of)))

    def create_database(self, *, exist_ok: bool = False) -> None:
        """Makes the client's database."""
        calls = [database_call(self.database)]
        self._drive(self._session.make(calls, exist_ok, self._http.build_request))

    def create_table(
        self,
        model: type[Model],
        *,
        permissions: Sequence[str] = (),
        row_security: bool = False,
        exist_ok: bool = False,
    ) -> None:
        """Makes a model's table with its columns and indexes, and declares its references.

        Only API keys may use it until permissions say otherwise, as `read("any")` does. With
        `exist_ok` a table that is there is left as it is.
        """
        calls = table_calls(model, self.database, permissions, row_security)
        self._drive(self._session.make(calls, exist_ok, self._http.build_request))

    def now(self, database: str | None = None) -> Coordinates:
        """Pins now: reads at these coordinates give the same answer for ever."""
        return self.run(now(database or self.database))

    def commit(self, operations: Operations, *, database: str | None = None) -> Committed:
        """Commits the operations at one mark, or none of them."""
        return self.run(operations.call(database or self.database))

    def undo(
        self,
        after: Instant,
        *,
        until: Instant | None = None,
        user: str | None = None,
        with_meta: Mapping[str, Any] | None = None,
        dry_run: bool = False,
        meta: Mapping[str, Any] | None = None,
        database: str | None = None,
    ) -> Undone:
        """Makes rows again what they were before certain commits, in one commit or not at all.

        Args:
            after: commits after this instant, up to `until` or now.
            user: of this author, as `"key:ID"`.
            with_meta: with these members of their metadata. At least one of both is needed.
            dry_run: nothing is written, and what would be refused is refused.
            meta: kept with the commit of the undo itself.

        Raises:
            Conflict: others have changed one of the rows since; the message names them.
        """
        call = undo(
            database or self.database, after, until, user, with_meta, dry_run, meta
        )
        return self.run(call)

    def read(self, kind: str, *, database: str | None = None, **members: Any) -> Reading:
        """One read of the server's own kinds: history, diff, timeline and the like."""
        return self.reads([{"kind": kind, **members}], database=database)[0]

    def reads(
        self, asked: Sequence[Mapping[str, Any]], *, database: str | None = None
    ) -> list[Reading]:
        """Up to 100 of them in one request."""
        return self.run(reads(database or self.database, asked))

    def request(
        self, method: str, path: str, body: Any = None, *, meta: Mapping[str, Any] | None = None
    ) -> Any:
        """Any other route, as JSON: databases, tables, columns, status.

        It is sent again when the method is safe to repeat, or nothing was sent. A route that
        commits writes of rows keeps `meta` with the commit.
        """
        return self.run(raw(method, path, body, meta))

    def run(self, call: Call[T]) -> T:
        """Runs a call and waits for its answer."""
        return self._drive(self._session.exchange(call, self._http.build_request))

    def submit(self, call: Call[T]) -> Future[T]:
        """Runs a call without waiting for its answer.

        Raises:
            TypeError, ValueError: for content that JSON cannot hold.
            Closed: after `close`.
        """
        _ = call.content
        future: Future[T] = Future()
        with self._changed:
            self._changed.wait_for(lambda: self._is_closed or not self._pending.is_full)
            if self._is_closed:
                raise Closed("the client has been closed")
            lane = self._pending.put(call, future)
            if lane is not None:
                self._threads.submit(self._drain, lane)
        return future

    def flush(self) -> None:
        """Waits until everything that was submitted is done."""
        with self._changed:
            self._changed.wait_for(lambda: self._pending.count == 0)

    def close(self) -> None:
        """Waits until everything that was submitted is done, and closes the connections."""
        with self._changed:
            self._is_closed = True
            self._changed.notify_all()
        self._threads.shutdown(wait=True)
        self._http.close()

    def __enter__(self) -> Client:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()

    def _drain(self, lane: Lane[Future[Any]]) -> None:
        while True:
            with self._changed:
                if not lane.waiting:
                    lane.requests -= 1
                    return
                taken = lane.take()
            self._settle([one for one in taken if one[1].set_running_or_notify_cancel()])
            with self._changed:
                self._pending.count -= len(taken)
                self._changed.notify_all()

    def _settle(self, taken: list[tuple[Call[Any], Future[Any]]]) -> None:
        if not taken:
            return
        calls = [call for call, _ in taken]
        try:
            outcomes = self._drive(self._session.settle(calls, self._http.build_request))
        except Exception as error:  # Every waiting call gets it, whatever it is.
            outcomes = [error] * len(taken)
        for (_, future), outcome in zip(taken, outcomes):
            if isinstance(outcome, Exception):
                future.set_exception(outcome)
            else:
                future.set_result(outcome)

    def _drive(self, steps: Steps[T]) -> T:
        happened: Happened = None
        while True:
            try:
                step = steps.send(happened)
            except StopIteration as end:
                value: T = end.value
                return value
            happened = self._do(step)

    def _do(self, step: Step) -> Happened:
        if isinstance(step, Pause):
            time.sleep(step.seconds)
            return None
        if self._http.is_closed:
            raise Closed("the client has been closed")
        try:
            response = self._http.send(step)
        except httpx.TransportError as error:
            return error
        return Answer(response.status_code, response.headers, response.content)
