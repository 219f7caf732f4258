"""Calls that were submitted and wait, and which of them share a request."""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from typing import Any, Generic, TypeVar

from ._call import OPERATIONS_MAX, Call, Nature, Outcome, ReadPart, WritePart
from ._call import join_reads, join_writes

F = TypeVar("F")
"""What waits for the outcome: a future of the client's kind."""

_BYTES_MAX = 4 * 1024 * 1024
"""Of the contents that share a request: a fifth of what a server takes by default."""


class Lane(Generic[F]):
    """Calls in the order in which they were submitted.

    Reads and writes have a lane each. Of the lane of writes one request is under way at a time,
    so that they take effect in their order; of the lane of reads, `requests_max`. What is
    submitted meanwhile shares the next request: the longer the server takes, the more do.
    """

    def __init__(self, requests_max: int) -> None:
        self.requests_max = requests_max
        self.requests = 0
        """Under way."""
        self.waiting: deque[tuple[Call[Any], F]] = deque()

    def take(self) -> list[tuple[Call[Any], F]]:
        """The calls of the next request, at least one."""
        taken = [self.waiting.popleft()]
        part = taken[0][0].part
        if part is None:
            return taken
        size = _size(taken[0][0])
        while self.waiting and len(taken) < OPERATIONS_MAX:
            call = self.waiting[0][0]
            size += _size(call)
            other = call.part
            if type(other) is not type(part) or size > _BYTES_MAX:
                break
            if other is None or other.database != part.database:
                break
            if isinstance(other, WritePart) and isinstance(part, WritePart):
                # One request carries the metadata of all commits that it makes.
                if other.meta != part.meta:
                    break
            taken.append(self.waiting.popleft())
        return taken


class Pending(Generic[F]):
    """What one client has submitted and is not done."""

    def __init__(self, requests_max: int, pending_max: int) -> None:
        if requests_max < 1 or pending_max < 1:
            raise ValueError(f"limits must be above zero: {requests_max=}, {pending_max=}")
        self.count = 0
        self._count_max = pending_max
        self._reads: Lane[F] = Lane(requests_max)
        self._writes: Lane[F] = Lane(1)

    @property
    def is_full(self) -> bool:
        return self.count >= self._count_max

    def put(self, call: Call[Any], future: F) -> Lane[F] | None:
        """Adds a call; the lane, if its emptying must begin."""
        lane = self._reads if call.nature is Nature.READ else self._writes
        self.count += 1
        lane.waiting.append((call, future))
        if lane.requests == lane.requests_max:
            return None
        lane.requests += 1
        return lane


def _size(call: Call[Any]) -> int:
    return len(call.content or call.path)


def joined(calls: Sequence[Call[Any]]) -> Call[list[Outcome[Any]]] | None:
    """One request for all of them; None for a single call, which is sent as it is."""
    if len(calls) == 1:
        return None
    parts = [call.part for call in calls]
    writes = [part for part in parts if isinstance(part, WritePart)]
    if writes:
        return join_writes(writes)
    return join_reads([part for part in parts if isinstance(part, ReadPart)])
