"""The client that is awaited."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from types import TracebackType
from typing import Any, TypeVar, overload

import httpx

from ._call import Answer, Call, raw
from ._error import Closed, TooManyPending
from ._exchange import Happened, Pause, Retry, Session, Step, Steps
from ._gather import Lane, Pending
from ._model import Model, ModelCodec
from ._operations import Committed, Operations, Reading, reads
from ._paging import now
from ._row import Row, RowCodec
from ._schema import database_call, table_calls
from ._table import AsyncTable
from ._table_calls import TableCalls
from ._time import Coordinates, Instant
from ._undo import Undone, undo

T = TypeVar("T")
M = TypeVar("M", bound=Model)


class AsyncClient:
    """As `Client`, to be awaited; it belongs to one event loop.

    Beyond `pending_max` submitted calls, `submit` raises `TooManyPending`.
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
        transport: httpx.AsyncBaseTransport | None = None,
    ) -> None:
        self.database = database
        self._session = Session(endpoint, project, key, mark, retry)
        self._http = httpx.AsyncClient(timeout=timeout_s, transport=transport)
        self._pending: Pending[asyncio.Future[Any]] = Pending(requests_max, pending_max)
        self._tasks: set[asyncio.Task[None]] = set()
        self._is_closed = False

    @property
    def mark(self) -> int:
        """The highest mark of a commit seen so far; reads show it and all before it."""
        return self._session.mark

    @overload
    def table(self, of: str, *, database: str | None = None) -> AsyncTable[Row]: ...
    @overload
    def table(self, of: type[M], *, database: str | None = None) -> AsyncTable[M]: ...
    def table(self, of: str | type[Model], *, database: str | None = None) -> AsyncTable[Any]:
        """A table by its id, or that of a model. Asks nothing of the server."""
        database = database or self.database
        if isinstance(of, str):
            return AsyncTable(self, TableCalls(database, of, RowCodec()))
        return AsyncTable(self, TableCalls(database, of.table_id(), ModelCodec(of)))

    async def create_database(self, *, exist_ok: bool = False) -> None:
        """Makes the client's database."""
        calls = [database_call(self.database)]
        await self._drive(self._session.make(calls, exist_ok, self._http.build_request))

    async def create_table(
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
        await self._drive(self._session.make(calls, exist_ok, self._http.build_request))

    async def now(self, database: str | None = None) -> Coordinates:
        """Pins now: reads at these coordinates give the same answer for ever."""
        return await self.run(now(database or self.database))

    async def commit(self, operations: Operations, *, database: str | None = None) -> Committed:
        """Commits the operations at one mark, or none of them."""
        return await self.run(operations.call(database or self.database))

    async def undo(
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
        return await self.run(call)

    async def read(self, kind: str, *, database: str | None = None, **members: Any) -> Reading:
        """One read of the server's own kinds: history, diff, timeline and the like."""
        return (await self.reads([{"kind": kind, **members}], database=database))[0]

    async def reads(
        self, asked: Sequence[Mapping[str, Any]], *, database: str | None = None
    ) -> list[Reading]:
        """Up to 100 of them in one request."""
        return await self.run(reads(database or self.database, asked))

    async def request(
        self, method: str, path: str, body: Any = None, *, meta: Mapping[str, Any] | None = None
    ) -> Any:
        """Any other route, as JSON: databases, tables, columns, status.

        It is sent again when the method is safe to repeat, or nothing was sent. A route that
        commits writes of rows keeps `meta` with the commit.
        """
        return await self.run(raw(method, path, body, meta))

    async def run(self, call: Call[T]) -> T:
        """Runs a call and waits for its answer."""
        return await self._drive(self._session.exchange(call, self._http.build_request))

    def submit(self, call: Call[T]) -> asyncio.Future[T]:
        """Runs a call, whether or not the future is awaited.

        Raises:
            TypeError, ValueError: for content that JSON cannot hold.
            TooManyPending: beyond `pending_max` calls that are not done.
            Closed: after `close`.
        """
        _ = call.content
        if self._is_closed:
            raise Closed("the client has been closed")
        if self._pending.is_full:
            raise TooManyPending(f"{self._pending.count} calls wait; await some of them first")
        loop = asyncio.get_running_loop()
        future: asyncio.Future[T] = loop.create_future()
        lane = self._pending.put(call, future)
        if lane is not None:
            task = loop.create_task(self._drain(lane))
            self._tasks.add(task)
            task.add_done_callback(self._tasks.discard)
        return future

    async def flush(self) -> None:
        """Waits until everything that was submitted is done."""
        while self._tasks:
            await asyncio.wait(self._tasks)

    async def close(self) -> None:
        """Waits until everything that was submitted is done, and closes the connections."""
        self._is_closed = True
        await self.flush()
        await self._http.aclose()

    async def __aenter__(self) -> AsyncClient:
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        await self.close()

    async def _drain(self, lane: Lane[asyncio.Future[Any]]) -> None:
        while lane.waiting:
            taken = lane.take()
            try:
                await self._settle([one for one in taken if not one[1].cancelled()])
            finally:
                self._pending.count -= len(taken)
        lane.requests -= 1

    async def _settle(self, taken: list[tuple[Call[Any], asyncio.Future[Any]]]) -> None:
        if not taken:
            return
        calls = [call for call, _ in taken]
        try:
            outcomes = await self._drive(self._session.settle(calls, self._http.build_request))
        except Exception as error:  # Every waiting call gets it, whatever it is.
            outcomes = [error] * len(taken)
        for (_, future), outcome in zip(taken, outcomes):
            if future.cancelled():
                continue
            if isinstance(outcome, Exception):
                future.set_exception(outcome)
            else:
                future.set_result(outcome)

    async def _drive(self, steps: Steps[T]) -> T:
        happened: Happened = None
        while True:
            try:
                step = steps.send(happened)
            except StopIteration as end:
                value: T = end.value
                return value
            happened = await self._do(step)

    async def _do(self, step: Step) -> Happened:
        if isinstance(step, Pause):
            await asyncio.sleep(step.seconds)
            return None
        if self._http.is_closed:
            raise Closed("the client has been closed")
        try:
            response = await self._http.send(step)
        except httpx.TransportError as error:
            return error
        return Answer(response.status_code, response.headers, response.content)
