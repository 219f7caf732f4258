"""The calls of one table, run in four ways: now or submitted, by either client."""

from __future__ import annotations

import asyncio
import functools
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from concurrent.futures import Future
from typing import TYPE_CHECKING, Concatenate, Generic, ParamSpec, TypeVar

from ._call import Call
from ._paging import Paging
from ._table_calls import TableCalls
from ._time import Coordinates

if TYPE_CHECKING:
    from ._async_client import AsyncClient
    from ._client import Client

P = ParamSpec("P")
R = TypeVar("R")
T = TypeVar("T")


def _run(
    describe: Callable[Concatenate[TableCalls[R], P], Call[T]],
) -> Callable[Concatenate[Table[R], P], T]:
    @functools.wraps(describe)
    def run(self: Table[R], /, *args: P.args, **kwargs: P.kwargs) -> T:
        return self.client.run(describe(self.calls, *args, **kwargs))

    return run


def _submit(
    describe: Callable[Concatenate[TableCalls[R], P], Call[T]],
) -> Callable[Concatenate[Submit[R], P], Future[T]]:
    @functools.wraps(describe)
    def submit(self: Submit[R], /, *args: P.args, **kwargs: P.kwargs) -> Future[T]:
        return self.client.submit(describe(self.calls, *args, **kwargs))

    return submit


def _await(
    describe: Callable[Concatenate[TableCalls[R], P], Call[T]],
) -> Callable[Concatenate[AsyncTable[R], P], Awaitable[T]]:
    @functools.wraps(describe)
    def run(self: AsyncTable[R], /, *args: P.args, **kwargs: P.kwargs) -> Awaitable[T]:
        return self.client.run(describe(self.calls, *args, **kwargs))

    return run


def _submit_async(
    describe: Callable[Concatenate[TableCalls[R], P], Call[T]],
) -> Callable[Concatenate[AsyncSubmit[R], P], asyncio.Future[T]]:
    @functools.wraps(describe)
    def submit(self: AsyncSubmit[R], /, *args: P.args, **kwargs: P.kwargs) -> asyncio.Future[T]:
        return self.client.submit(describe(self.calls, *args, **kwargs))

    return submit


class Table(Generic[R]):
    """A table, each call of which waits for its answer."""

    def __init__(self, client: Client, calls: TableCalls[R]) -> None:
        self.client = client
        self.calls = calls

    @property
    def submit(self) -> Submit[R]:
        """The same calls, without waiting."""
        return Submit(self.client, self.calls)

    def each(
        self, *queries: str, at: Coordinates | None = None, page_size: int = 100
    ) -> Iterator[R]:
        """Every row that matches, fetched page by page at the coordinates of the first page:
        whatever others write meanwhile, no row is missed and none comes twice."""
        paging = Paging(self.calls, queries, at, page_size)
        if not paging.is_pinned:
            paging.pin(self.client.now(self.calls.database))
        while paging.is_open:
            yield from paging.take(self.client.run(paging.call()))

    def get_if(self, id: str | None, *, at: Coordinates | None = None) -> R | None:
        """As `get`; None for no id."""
        return None if id is None else self.get(id, at=at)

    get = _run(TableCalls.get)
    get_many = _run(TableCalls.get_many)
    get_by = _run(TableCalls.get_by)
    page = _run(TableCalls.page)
    first = _run(TableCalls.first)
    create = _run(TableCalls.create)
    create_many = _run(TableCalls.create_many)
    upsert = _run(TableCalls.upsert)
    upsert_many = _run(TableCalls.upsert_many)
    update = _run(TableCalls.update)
    delete = _run(TableCalls.delete)
    end = _run(TableCalls.end)
    extend = _run(TableCalls.extend)
    move_start = _run(TableCalls.move_start)
    increment = _run(TableCalls.increment)


class AsyncTable(Generic[R]):
    """A table, each call of which is awaited."""

    def __init__(self, client: AsyncClient, calls: TableCalls[R]) -> None:
        self.client = client
        self.calls = calls

    @property
    def submit(self) -> AsyncSubmit[R]:
        """The same calls, sent whether or not they are awaited."""
        return AsyncSubmit(self.client, self.calls)

    async def each(
        self, *queries: str, at: Coordinates | None = None, page_size: int = 100
    ) -> AsyncIterator[R]:
        """As `Table.each`."""
        paging = Paging(self.calls, queries, at, page_size)
        if not paging.is_pinned:
            paging.pin(await self.client.now(self.calls.database))
        while paging.is_open:
            for row in paging.take(await self.client.run(paging.call())):
                yield row

    async def get_if(self, id: str | None, *, at: Coordinates | None = None) -> R | None:
        """As `get`; None for no id."""
        return None if id is None else await self.get(id, at=at)

    get = _await(TableCalls.get)
    get_many = _await(TableCalls.get_many)
    get_by = _await(TableCalls.get_by)
    page = _await(TableCalls.page)
    first = _await(TableCalls.first)
    create = _await(TableCalls.create)
    create_many = _await(TableCalls.create_many)
    upsert = _await(TableCalls.upsert)
    upsert_many = _await(TableCalls.upsert_many)
    update = _await(TableCalls.update)
    delete = _await(TableCalls.delete)
    end = _await(TableCalls.end)
    extend = _await(TableCalls.extend)
    move_start = _await(TableCalls.move_start)
    increment = _await(TableCalls.increment)


class Submit(Generic[R]):
    """A table, each call of which gives a future. Calls that wait at the same time share
    requests; writes take effect in the order in which they were submitted."""

    def __init__(self, client: Client, calls: TableCalls[R]) -> None:
        self.client = client
        self.calls = calls

    get = _submit(TableCalls.get)
    get_many = _submit(TableCalls.get_many)
    get_by = _submit(TableCalls.get_by)
    page = _submit(TableCalls.page)
    first = _submit(TableCalls.first)
    create = _submit(TableCalls.create)
    create_many = _submit(TableCalls.create_many)
    upsert = _submit(TableCalls.upsert)
    upsert_many = _submit(TableCalls.upsert_many)
    update = _submit(TableCalls.update)
    delete = _submit(TableCalls.delete)
    end = _submit(TableCalls.end)
    extend = _submit(TableCalls.extend)
    move_start = _submit(TableCalls.move_start)
    increment = _submit(TableCalls.increment)


class AsyncSubmit(Generic[R]):
    """As `Submit`, with the futures of the running event loop."""

    def __init__(self, client: AsyncClient, calls: TableCalls[R]) -> None:
        self.client = client
        self.calls = calls

    get = _submit_async(TableCalls.get)
    get_many = _submit_async(TableCalls.get_many)
    get_by = _submit_async(TableCalls.get_by)
    page = _submit_async(TableCalls.page)
    first = _submit_async(TableCalls.first)
    create = _submit_async(TableCalls.create)
    create_many = _submit_async(TableCalls.create_many)
    upsert = _submit_async(TableCalls.upsert)
    upsert_many = _submit_async(TableCalls.upsert_many)
    update = _submit_async(TableCalls.update)
    delete = _submit_async(TableCalls.delete)
    end = _submit_async(TableCalls.end)
    extend = _submit_async(TableCalls.extend)
    move_start = _submit_async(TableCalls.move_start)
    increment = _submit_async(TableCalls.increment)
