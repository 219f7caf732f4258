"""What a call wants of its tiers, and what they have said so far."""

import math
import time
from typing import Any, NamedTuple

from tidemark_cache import _native


class Reading:
    """What the tiers said before the body runs."""

    __slots__ = (
        "begin_s",
        "call",
        "digest",
        "fresh_s",
        "due_ms",
        "found",
        "is_elsewhere",
        "key",
        "memory_s",
        "old",
        "read_s",
        "stream_run",
        "wait_s",
        "options",
    )

    def __init__(
        self, options: "ReadOptions", key: _native.CallKey | None = None, digest: bytes = b""
    ) -> None:
        self.options = options
        self.begin_s = time.monotonic()
        #: When the tiers were read last.
        self.read_s = self.begin_s
        #: The value in a tuple, or None.
        self.found: tuple[Any] | None = None
        #: So long memory may have what was found.
        self.memory_s = math.inf
        #: How much of its lifetime is left to it.
        self.fresh_s = math.inf
        #: The run of the stream before the tiers were read; 0 for none.
        self.stream_run = 0
        #: What was found is to be refreshed: a fresher one has more milliseconds left.
        self.due_ms: int | None = None
        #: As `found`, past its lifetime: the answer if the body fails.
        self.old: tuple[Any] | None = None
        #: The call, and what stands for it in the tiers; None if it cannot be bound.
        self.key = key
        self.digest = digest
        #: With what a value is stored; None if no tier can be used for this call.
        self.call: _native.StackedCall | None = None
        #: Not 0: another process computes the value, and this call looks again after that time.
        self.wait_s = 0.0
        #: Another process computes the value, and this call is not to wait.
        self.is_elsewhere = False


class ReadOptions(NamedTuple):
    """How a call asks the tiers."""

    #: Run the body whatever they hold.
    is_forced: bool = False
    #: A value with no more milliseconds left does not answer.
    least_ms: int = 0
    #: How long to wait for another process that runs the body; None not to wait.
    limit_ms: int | None = None
    #: Leave the value to another process that runs the body.
    leaves: bool = False
    #: As that, while there is an old value to answer with.
    serves_old: bool = False
    #: Wait on this thread.
    blocks: bool = True
    #: Whether to count a hit, and have it refreshed if it is due.
    is_counted: bool = True
    #: As the calls of the function itself, of which most find an answer that needs nothing more.
    is_usual: bool = False
