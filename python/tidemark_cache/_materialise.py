"""Lists in the place of iterators, which their first reader would use up: ``materialise=True``."""

import functools
import inspect
import io
from collections.abc import AsyncIterator, Callable, Iterator
from typing import Any


def materialised(function: Any) -> Callable[..., Any]:
    """The function, with a list in the place of an iterator that it returns."""
    if inspect.isasyncgenfunction(function):

        @functools.wraps(function)
        async def of_async_generator(*args: Any, **kwargs: Any) -> Any:
            return [item async for item in function(*args, **kwargs)]

        return of_async_generator
    if inspect.iscoroutinefunction(function):

        @functools.wraps(function)
        async def of_coroutine(*args: Any, **kwargs: Any) -> Any:
            value = await function(*args, **kwargs)
            if isinstance(value, AsyncIterator):
                return [item async for item in value]
            return _list(value)

        return of_coroutine

    @functools.wraps(function)
    def of_function(*args: Any, **kwargs: Any) -> Any:
        return _list(function(*args, **kwargs))

    return of_function


def _list(value: Any) -> Any:
    if isinstance(value, AsyncIterator):
        raise TypeError(
            "the function is no async function and returns an async iterator, which only an async "
            "one can make a list of"
        )
    # A file would stay open.
    is_iterator = isinstance(value, Iterator) and not isinstance(value, io.IOBase)
    return list(value) if is_iterator else value
