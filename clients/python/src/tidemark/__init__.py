"""Tidemark: rows on two time axes, through one small client.

    with Client("http://127.0.0.1:8280/v1", project="shop", key="…") as client:
        books = client.table("books")
        books.create({"title": "Dune"}, id="dune")
        print(books.get("dune"))
"""

from typing import TYPE_CHECKING, Any

from . import query
from ._async_client import AsyncClient
from ._client import Client
from ._error import (
    ApiError,
    Closed,
    Conflict,
    Denied,
    Invalid,
    NoAnswer,
    NotFound,
    TidemarkError,
    TooManyPending,
    Unavailable,
)
from ._exchange import Retry
from ._lookup import index, reference, unique
from ._model import Model
from ._operations import Committed, Operations, Reading
from ._row import Found, Page, Row, Written, new_id
from ._schema import Size
from ._table import AsyncSubmit, AsyncTable, Submit, Table
from ._time import Coordinates, Instant, Period, ReadAt, to_datetime
from ._undo import Undone, UndoneChange, UndoneRow

__all__ = [
    "ApiError",
    "AsyncClient",
    "AsyncSubmit",
    "AsyncTable",
    "Client",
    "Closed",
    "Committed",
    "Conflict",
    "Coordinates",
    "Denied",
    "Found",
    "Instant",
    "Invalid",
    "Model",
    "NoAnswer",
    "NotFound",
    "Operations",
    "Page",
    "Period",
    "ReadAt",
    "Reading",
    "Retry",
    "Row",
    "Size",
    "Submit",
    "Table",
    "TidemarkError",
    "TooManyPending",
    "Unavailable",
    "Undone",
    "UndoneChange",
    "UndoneRow",
    "Written",
    "index",
    "new_id",
    "query",
    "reference",
    "to_datetime",
    "unique",
]

if TYPE_CHECKING:
    from tidemark_cache import cache as cache  # type: ignore[import-not-found,unused-ignore]
else:

    def __getattr__(name: str) -> Any:
        """`cache`, from a package of its own that need not be installed."""
        if name != "cache":
            raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
        try:
            from tidemark_cache import cache
        except ImportError as error:
            raise ImportError("tidemark.cache needs `pip install 'tidemark[cache]'`") from error
        return cache
