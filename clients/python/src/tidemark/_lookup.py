"""Declarations of indexes that are lookups at the same time.

A declaration stands in the body of a model. Read from the class it is a function of a client and
the values looked for; what it gives depends on the client: an answer, or something to await.
"""

from __future__ import annotations

import re
from collections.abc import AsyncIterator, Awaitable, Iterator, Sequence
from typing import TYPE_CHECKING, Any, Generic, TypeVar, overload

from . import query
from ._row import Found
from ._time import Coordinates

if TYPE_CHECKING:
    from ._async_client import AsyncClient
    from ._client import Client
    from ._model import Model

M = TypeVar("M", bound="Model")
N = TypeVar("N", bound="Model")


_WORD = re.compile(r"(?<=[a-z0-9])(?=[A-Z])|(?<=[A-Z])(?=[A-Z][a-z])")
"""Where a word begins inside a name."""


def snake_case(name: str) -> str:
    """`by_isbn` for `by_isbn`, `byISBN` and `ByISBN`."""
    return _WORD.sub("_", name).lower()


class Lookup:
    """An index that a model declares. Its name is the attribute's in snake case, as in the client
    for Go, unless `name` says otherwise."""

    key = ""
    is_unique = False
    target: type[Model] | None = None

    def __init__(self, *columns: str, name: str | None = None) -> None:
        if not columns:
            raise TypeError("an index needs a column")
        self.columns = columns
        self._name = name

    def __set_name__(self, owner: type, name: str) -> None:
        self.key = self._name or snake_case(name)

    def equalities(self, values: Sequence[Any]) -> list[str]:
        """The queries that look for these values.

        Raises:
            TypeError: for more or fewer values than columns.
        """
        if len(values) != len(self.columns):
            raise TypeError(f"{self.key} looks up by {', '.join(self.columns)}; got {values!r}")
        return [query.equal(name, value) for name, value in zip(self.columns, values)]


class unique(Lookup):  # noqa: N801 -- It is read as a word of the declaration.
    """No two rows have the same values in these columns, at any instant."""

    is_unique = True

    def __get__(self, row: object, owner: type[M]) -> UniqueLookup[M]:
        return UniqueLookup(self, owner)


class index(Lookup):  # noqa: N801
    """Rows are found by the values of these columns."""

    def __get__(self, row: object, owner: type[M]) -> IndexLookup[M]:
        return IndexLookup(self, owner)


class reference(Lookup, Generic[N]):  # noqa: N801
    """The column holds the id of a row of another model, which is there at every instant at which
    this row is; None refers to nothing."""

    def __init__(self, column: str, target: type[N], *, name: str | None = None) -> None:
        super().__init__(column, name=name)
        self.target = target
        self._model = target

    def __get__(self, row: object, owner: type[M]) -> ReferenceLookup[M, N]:
        return ReferenceLookup(self, owner, self._model)


class UniqueLookup(Generic[M]):
    """The row with these values, or None."""

    def __init__(self, lookup: Lookup, model: type[M]) -> None:
        self._lookup = lookup
        self._model = model

    @overload
    def __call__(
        self, client: Client, *values: Any, at: Coordinates | None = None
    ) -> M | None: ...
    @overload
    def __call__(
        self, client: AsyncClient, *values: Any, at: Coordinates | None = None
    ) -> Awaitable[M | None]: ...
    def __call__(self, client: Any, *values: Any, at: Coordinates | None = None) -> Any:
        return client.table(self._model).first(*self._lookup.equalities(values), at=at)

    @overload
    def many(
        self, client: Client, keys: Sequence[Any], *, at: Coordinates | None = None
    ) -> Found[M]: ...
    @overload
    def many(
        self, client: AsyncClient, keys: Sequence[Any], *, at: Coordinates | None = None
    ) -> Awaitable[Found[M]]: ...
    def many(
        self, client: Any, keys: Sequence[Any], *, at: Coordinates | None = None
    ) -> Any:
        """The rows with these keys, at most 1,000, in their order and as of one commit."""
        return client.table(self._model).get_by(self._lookup.key, keys, at=at)


class IndexLookup(Generic[M]):
    """Every row with these values, page by page at pinned coordinates."""

    def __init__(self, lookup: Lookup, model: type[M]) -> None:
        self._lookup = lookup
        self._model = model

    @overload
    def __call__(
        self, client: Client, *values: Any, at: Coordinates | None = None
    ) -> Iterator[M]: ...
    @overload
    def __call__(
        self, client: AsyncClient, *values: Any, at: Coordinates | None = None
    ) -> AsyncIterator[M]: ...
    def __call__(self, client: Any, *values: Any, at: Coordinates | None = None) -> Any:
        return client.table(self._model).each(*self._lookup.equalities(values), at=at)


class ReferenceLookup(Generic[M, N]):
    """Every row that refers to this one, page by page at pinned coordinates."""

    def __init__(self, lookup: Lookup, model: type[M], target: type[N]) -> None:
        self._lookup = lookup
        self._model = model
        self._target = target

    @overload
    def __call__(
        self, client: Client, target: N | str, *, at: Coordinates | None = None
    ) -> Iterator[M]: ...
    @overload
    def __call__(
        self, client: AsyncClient, target: N | str, *, at: Coordinates | None = None
    ) -> AsyncIterator[M]: ...
    def __call__(self, client: Any, target: N | str, *, at: Coordinates | None = None) -> Any:
        id = target if isinstance(target, str) else target.id
        return client.table(self._model).each(*self._lookup.equalities([id]), at=at)

    @overload
    def follow(self, client: Client, row: M) -> N | None: ...
    @overload
    def follow(self, client: AsyncClient, row: M) -> Awaitable[N | None]: ...
    def follow(self, client: Any, row: M) -> Any:
        """The row that `row` refers to, at the coordinates at which `row` was read."""
        id = getattr(row, self._lookup.columns[0])
        # Without an id neither kind of client sends a request.
        return client.table(self._target).get_if(id, at=row.coordinates)
