"""How a call becomes requests: marks, keys, and sending again.

`Session.exchange` is a generator: it yields what is to be sent or how long to pause, and takes
what became of it. The two clients drive the same generator; they differ in how they wait.
"""

from __future__ import annotations

import random
import threading
import time
from collections.abc import Callable, Generator, Iterable, Sequence
from dataclasses import dataclass
from typing import Any, TypeVar, Union

import httpx

from ._call import Answer, Call, Nature
from ._error import Conflict, Invalid, NoAnswer, TidemarkError
from ._gather import joined

T = TypeVar("T")

_NOT_SENT = (httpx.ConnectError, httpx.ConnectTimeout, httpx.PoolTimeout)
"""Failures before the first byte of a request has left."""
_NOT_NOW = frozenset({429, 503})
"""The server did nothing; the same request may succeed later."""


@dataclass(frozen=True)
class Pause:
    """Nothing is to be done for so long."""

    seconds: float


Step = Union[httpx.Request, Pause]
Happened = Union[Answer, httpx.TransportError, None]
Steps = Generator[Step, Happened, T]


@dataclass(frozen=True)
class Retry:
    """How a call is sent again after a lost connection or a "not now"."""

    limit_s: float = 15.0
    """No attempt begins later than so many seconds after the first; 0 sends once."""
    pause_s: float = 0.05
    """Before the second attempt. Doubles with each, and a random half of it is left out, so that
    clients which lost the same server do not come back together."""
    pause_s_max: float = 2.0


class Session:
    """What every request of one client shares."""

    def __init__(
        self, endpoint: str, project: str, key: str | None, mark: int, retry: Retry
    ) -> None:
        self.endpoint = endpoint.rstrip("/")
        self._headers = {"x-appwrite-project": project, "content-type": "application/json"}
        if key is not None:
            self._headers["x-appwrite-key"] = key
        self._retry = retry
        self._mark = mark
        self._lock = threading.Lock()

    @property
    def mark(self) -> int:
        """The highest mark of a commit that an answer has named."""
        return self._mark

    def saw(self, marks: Iterable[int]) -> None:
        """Raises the mark to the highest of these."""
        highest = max(marks, default=0)
        if highest > self._mark:
            with self._lock:
                self._mark = max(self._mark, highest)

    def exchange(self, call: Call[T], build: Callable[..., httpx.Request]) -> Steps[T]:
        """Sends `call` until it is answered, as its nature allows.

        Raises:
            ApiError: the server refused.
            NoAnswer: no answer came.
        """
        content = call.content
        began = time.monotonic()
        pause_s = self._retry.pause_s
        while True:
            happened = yield self._request(call, content, build)
            if isinstance(happened, Answer):
                # The code of a batch's success may hide a refused part, which `parse` finds.
                again = happened.status in _NOT_NOW
            else:
                again = call.nature is not Nature.ONCE or isinstance(happened, _NOT_SENT)
            wait_s = pause_s * random.uniform(0.5, 1.0)
            late = time.monotonic() + wait_s - began > self._retry.limit_s
            if again and not late:
                yield Pause(wait_s)
                pause_s = min(2 * pause_s, self._retry.pause_s_max)
                continue
            if not isinstance(happened, Answer):
                sent = not isinstance(happened, _NOT_SENT)
                raise NoAnswer(f"{call.method} {call.path}: {happened!r}", sent=sent) from happened
            self.saw(happened.marks())
            if happened.status < 300:
                self.saw(call.marks(happened.json))
            return call.read(happened)

    def make(
        self, calls: Sequence[Call[None]], exist_ok: bool, build: Callable[..., httpx.Request]
    ) -> Steps[None]:
        """Sends calls that make something, one after the other."""
        for call in calls:
            try:
                yield from self.exchange(call, build)
            except Conflict as error:
                if not exist_ok or not error.type.endswith("_already_exists"):
                    raise

    def settle(
        self, calls: Sequence[Call[Any]], build: Callable[..., httpx.Request]
    ) -> Steps[list[Any]]:
        """Sends calls that were submitted, in one request if there are several; their values or
        errors in their order."""
        together = joined(calls)
        if together is not None:
            try:
                return (yield from self.exchange(together, build))
            except Invalid:
                pass  # Refused before anything was done; only one of them may be to blame.
            except TidemarkError as error:
                return [error] * len(calls)
        outcomes: list[Any] = []
        for call in calls:
            try:
                outcomes.append((yield from self.exchange(call, build)))
            except TidemarkError as error:
                outcomes.append(error)
        return outcomes

    def _request(
        self, call: Call[Any], content: bytes | None, build: Callable[..., httpx.Request]
    ) -> httpx.Request:
        headers = dict(self._headers)
        if call.nature is Nature.KEYED:
            headers["idempotency-key"] = call.key
        elif call.nature is Nature.READ and self._mark:
            headers["x-tidemark-min-mark"] = str(self._mark)
        if call.meta is not None:
            headers["x-tidemark-meta"] = call.meta
        url = self.endpoint + call.path
        return build(
            call.method, url, params=list(call.params) or None, content=content, headers=headers
        )
