"""The entries of one function in the tiers below memory.

The native side runs the body once for each miss in memory. What it runs here asks the tiers first,
and stores what the body gives. A failing tier never reaches the caller.
"""

import contextvars
import functools
import math
import threading
import time
from collections.abc import Callable, Iterable
from typing import Any

from tidemark_cache import (
    _async,
    _functions,
    _listed,
    _listening,
    _loop_reads,
    _namespaces,
    _native,
    _recent,
    _refresh,
    _streams,
    _tags,
    _tiers,
    _waiting,
)
from tidemark_cache._codec import Codec
from tidemark_cache._reading import Reading, ReadOptions

#: An invalidation by one process counts for all others after this time at the latest: so long an
#: answer of a tier, or one that no tier has, is handed out from memory.
STALE_S = 3.0

#: Tags of one call, each of which costs a read of the tier.
_TAGS_MAX = 64
#: After a refresh began, the next one of its entry begins no sooner in this process.
_RETRY_S = 10.0
#: Entries whose refreshes are remembered for that.
_CLAIMS_MAX = 10_000
#: Failures of one kind are logged this often.
_LOG_S = 60.0

#: What memory has of a function whose freshness is a matter of its tiers.
OF_MEMORY: dict[str, Any] = {
    "policy": _native.lifetime_in_memory,
    "refresh_share": None,
    "stale_us": 0,
    "error_us": 0,
}
#: What ``_native.decide`` takes: a value that a tier has, until when memory may have it, whether it
#: goes to its caller alone, the run of the stream before it was read, and the end of its lifetime.
_Answer = tuple[Any, float, bool, int, float]


class BackedFunction:
    """The entries of one function in its tiers."""

    def __init__(
        self, function: Any, config: Any, settings: dict[str, Any], is_async: bool
    ) -> None:
        self.function = function
        self.cached: Any = None
        self.hits = 0
        self.failures = 0
        self.rejected = 0
        self.stale_hits = 0
        self.refreshes = 0
        self.refresh_failures = 0
        #: The tiers and how they are used; functions that agree in it share a stack.
        self.rules = (
            _tiers.backends_of(config.backend),
            _tiers.breaker_of(config.circuit_breaker),
            _tiers.pressure_of(config.backpressure),
        )
        self._is_behind: bool = config.write_behind
        self._stack: _native.StackOfTiers | None = None
        self._reader: _native.TierReader | None = None
        self._codec = Codec(function)
        self._policy: Callable[[Any], Any] | None = settings["policy"]
        self._ttl_s: float | None = config.ttl_s
        self._jitter: float = config.jitter
        freshness = {name: settings[name] for name in ("stale_us", "error_us")}
        #: So long an entry is kept past its lifetime, and so long of that it answers at once.
        self._kept_ms = max(freshness.values()) // 1_000
        stale_ms = freshness["stale_us"] // 1_000
        self._refresh_share: float | None = settings["refresh_share"]
        limit_ms = None if config.lease == "run" else round(settings["flight_wait"] * 1_000)
        least_ms = self._kept_ms - stale_ms
        # With a share, each answer is looked at once more: it may be due.
        is_usual = self._refresh_share is None
        serves_old = config.lease == "stale"
        options = ReadOptions(False, least_ms, limit_ms, serves_old=serves_old, is_usual=is_usual)
        self._sync_options = options
        self._async_options = self._sync_options._replace(blocks=False)
        self._is_async = is_async
        #: Whether a tier may take longer than a loop should wait.
        self._is_slow = any(not isinstance(one, _tiers.FileBackend) for one in self.rules[0])
        #: The tiers whose notices make memory forget.
        self._notifying = _tiers.with_notices(self.rules[0])
        #: By which a notice of one call is known. For a file alone it would cost each call more
        #: than it costs to read the other calls again.
        self._recent = _recent.RecentCalls(STALE_S) if self._notifying and self._is_slow else None
        self._listeners: _listening.Listeners | None = None
        #: The tier whose stream lets memory keep answers. Where a refresh is due by what the tier
        #: says, memory has to ask it.
        self._streaming = _streams.suited(self.rules[0]) if is_usual else None
        #: So long memory holds what it may not hand out unless the stream goes on.
        self.renewable_us = _streams.HELD_US if self._streaming else 0
        #: What a loop reads itself: hits of the nearest tier that need nothing more.
        reads_in_loop = is_async and is_usual and config.result_tags is None
        self._in_loop = _loop_reads.suited(self.rules[0][0]) if reads_in_loop else None
        self._loop_reads: _loop_reads.LoopReads | None = None
        # The thread that holds it may come again, by what an object runs at its end.
        self._lock = threading.RLock()
        self._claimed: dict[bytes, float] = {}
        self._own_tags_of: Callable[[Any], Iterable[str]] | None = config.result_tags
        self._identity = _functions.identity_of(function, config, self._kept_ms)
        #: What its keys begin with, if its entries are to be listed.
        self._start = _listed.start_of(self._identity) if config.keep_arguments else b""
        self._of_calls = self._identity + self._start
        self._tags_of: Callable[..., Iterable[str]] | None = settings["tags_of"]
        self._of_namespace = _namespaces.names_of(config.namespace)
        self._names = self._identity + self._of_namespace + self._names_of(settings["tags"])
        self._logged: dict[str, float] = {}
        _functions.all_of_process.add(self)

    def begin_process(self) -> None:
        """In the child of a fork: another thread may have held its locks."""
        self._lock = threading.RLock()
        if self._recent is not None:
            self._recent = _recent.RecentCalls(STALE_S)

    def _listen(self) -> None:
        self._listeners = _listening.listeners
        if self._streaming:
            _streams.renew(self.cached, self._streaming, STALE_S)
        for backend in self._notifying:
            self._listeners.start(backend, _functions.MemoryListener())

    def tidy(self) -> None:
        """Some seconds have passed."""
        if self._recent is not None:
            self._recent.prune()

    def body(self, is_async: bool) -> Any:
        """What the native side runs in the place of the function."""
        function = self.function
        if is_async:

            async def look_up_async(*args: Any, **kwargs: Any) -> Any:
                apart = _async.in_thread if self._is_slow else _async.at_once
                call = (args, kwargs)
                options = self._options_now(False)
                try:
                    if self._in_loop is not None and options.is_usual:
                        answer = await self._look_up_in_loop(self._in_loop, args, kwargs)
                        if answer is not None:
                            _native.decide(*answer)
                            return answer[0]
                    reading = await apart(self._look_up, args, kwargs, options)
                    if isinstance(reading, tuple):
                        _native.decide(*reading)
                        return reading[0]
                    while reading.wait_s and await _waiting.pause(reading.call, reading.wait_s):
                        await apart(self._go_on, reading)
                except BaseException:
                    self._given_up(args, kwargs)
                    raise
                if reading.found is not None:
                    return self._answer(reading, call)
                if reading.is_elsewhere:
                    return self._old_answer(reading)
                try:
                    value = await function(*args, **kwargs)
                except BaseException as error:
                    return self._fallen_back(reading, error)
                _native.decide(value, *await apart(self._kept_until, reading, value))
                return value

            return functools.wraps(function)(look_up_async)

        def look_up(*args: Any, **kwargs: Any) -> Any:
            reading = self._look_up(args, kwargs, self._options_now(True))
            if isinstance(reading, tuple):
                _native.decide(*reading)
                return reading[0]
            if reading.found is not None:
                return self._answer(reading, (args, kwargs))
            if reading.is_elsewhere:
                return self._old_answer(reading)
            try:
                value = function(*args, **kwargs)
            except BaseException as error:
                return self._fallen_back(reading, error)
            self._write(reading, value)
            return value

        return functools.wraps(function)(look_up)

    def _fallen_back(self, reading: Reading, error: BaseException) -> Any:
        """The old value, if one may answer for a body that failed; others need not wait for it."""
        if self._is_slow and self._is_async:
            # Not on the loop, and not to be awaited by a call that may have been cancelled.
            _refresh.submit(self, lambda: self._end(reading))
        else:
            self._end(reading)
        if reading.old is None or not isinstance(error, Exception):
            raise error
        return self._old_answer(reading)

    def _old_answer(self, reading: Reading) -> Any:
        """The old value, which memory does not get."""
        assert reading.old is not None
        self._no_longer(reading)
        self.hits += 1
        self.stale_hits += 1
        _native.decide(reading.old[0], 0.0)
        return reading.old[0]

    def _end(self, reading: Reading) -> None:
        self._no_longer(reading)
        if reading.call is not None:
            self._opened().end(reading.call)

    def _no_longer(self, reading: Reading) -> None:
        """The call is not under way any more, and memory may have its answer."""
        if self._recent is not None and reading.key is not None:
            self._recent.end(reading.digest, reading.key)

    def _given_up(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
        """Cancelled: its arguments are kept for no invalidation any more."""
        key = _native.CallKey.of(self.cached, args, kwargs)
        if self._recent is not None and key is not None:
            self._recent.end(key.digest(self._of_calls), key)

    def _opened(self) -> _native.StackOfTiers:
        # Found once: what a path means depends on the environment and the working folder.
        stack = self._stack
        if stack is None:
            stack = self._stack = _tiers.stack_of(*self.rules, STALE_S)
        return stack

    def _names_of(self, tags: Iterable[str]) -> bytes:
        # As a set, like those in memory: who names a tag twice means it once.
        if isinstance(tags, str):
            raise TypeError(f"tags must be several texts, not one: [{tags!r}]")
        different = sorted(set(map(_tags.checked, tags)))
        if len(different) > _TAGS_MAX:
            raise ValueError(f"a call may have {_TAGS_MAX} tags in a backend, not {len(different)}")
        return b"".join(map(_tags.name_of, different))

    def _names_for(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> bytes:
        """What the entries of this call depend on: to forget it is to forget them."""
        if self._tags_of is None:
            return self._names
        of_call = self._names_of(self._tags_of(*args, **kwargs))
        return self._identity + self._of_namespace + of_call

    def _content(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> bytes | None:
        key = _native.CallKey.of(self.cached, args, kwargs)
        return None if key is None else key.canonical()

    def _note_of(self, key: _native.CallKey | None) -> bytes:
        """What stands before the value of a call in the tiers."""
        if not self._start or key is None:
            return b""
        return _listed.note_of(key, self._codec)

    def _options_now(self, blocks: bool) -> ReadOptions:
        if _tiers.forced.get():
            # For this call, and not for those that its body makes.
            _tiers.forced.set(False)
            return ReadOptions(is_forced=True)
        return self._sync_options if blocks else self._async_options

    def _look_up(
        self, args: tuple[Any, ...], kwargs: dict[str, Any], options: ReadOptions
    ) -> Reading | _Answer:
        """What the tiers say; with usual options the answer itself, if there is nothing to do."""
        key = _native.CallKey.of(self.cached, args, kwargs)
        if key is None:
            return Reading(options)
        # An argument without canonical bytes is the caller's error, and raised.
        digest = key.digest(self._of_calls)
        names = self._names if self._tags_of is None else self._names_for(args, kwargs)
        if self._notifying and self._listeners is not _listening.listeners:
            self._listen()
        if self._recent is not None:
            self._recent.begin(digest, key)
        if not options.is_usual:
            return self._read_all(key, digest, names, options)
        reader = self._reader
        began_s = time.monotonic()
        try:
            if reader is None:
                reader = self._new_reader()
            answer = reader.answer(digest, names, options.blocks)
        except Exception as error:
            self._failed(*_tiers.failure_of(error))
            return Reading(options, key, digest)
        if len(answer) == 5:
            self.hits += 1
            if self._recent is not None:
                self._recent.end(digest, key)
            return answer
        reading = Reading(options, key, digest)
        reading.read_s = began_s
        self._take_all(reading, answer)
        return reading

    async def _look_up_in_loop(
        self, nearest: _tiers.RedisBackend, args: tuple[Any, ...], kwargs: dict[str, Any]
    ) -> _Answer | None:
        """The answer, if it is a hit that the loop itself can read."""
        reads = self._loop_reads
        reads = self._loop_reads = _loop_reads.of(nearest, reads)
        if reads is None:
            return None
        if not reads.is_open:
            reads.open()
            return None
        key = _native.CallKey.of(self.cached, args, kwargs)
        if key is None:
            return None
        digest = key.digest(self._of_calls)
        names = self._names if self._tags_of is None else self._names_for(args, kwargs)
        if self._notifying and self._listeners is not _listening.listeners:
            self._listen()
        if self._recent is not None:
            self._recent.begin(digest, key)
        try:
            future = reads.ask(self._reader or self._new_reader(), digest, names)
        except Exception as error:
            self._failed(*_tiers.failure_of(error))
            return None
        answer: Any = None if future is None else await future
        if answer is None:
            return None
        if len(answer) == 2:
            self._failed(*answer)
            return None
        self.hits += 1
        if self._recent is not None:
            self._recent.end(digest, key)
        found: _Answer = answer
        return found

    def _new_reader(self) -> _native.TierReader:
        self._reader = _native.TierReader(
            self._opened(),
            self._codec,
            self._sync_options.limit_ms,
            self._sync_options.least_ms,
            self._kept_ms,
            STALE_S,
            self._own_tags_of is not None,
            self._sync_options.serves_old,
        )
        return self._reader

    def _read(
        self, args: tuple[Any, ...], kwargs: dict[str, Any], options: ReadOptions
    ) -> Reading:
        """As ``_look_up``, with options that are not usual."""
        reading = self._look_up(args, kwargs, options)
        assert isinstance(reading, Reading)
        return reading

    def _read_all(
        self, key: _native.CallKey, digest: bytes, names: bytes, options: ReadOptions
    ) -> Reading:
        reading = Reading(options, key, digest)
        try:
            answer = self._opened().read(
                digest,
                names,
                self._codec,
                options.is_forced,
                options.least_ms,
                options.limit_ms,
                options.leaves,
                options.blocks,
                self._own_tags_of is not None,
                options.serves_old,
            )
        except Exception as error:
            self._failed(*_tiers.failure_of(error))
            return reading
        self._take_all(reading, answer)
        return reading

    def _take_all(
        self,
        reading: Reading,
        answer: "tuple[_native.FoundValue | None, _native.FoundValue | None, int, "
        "_native.StackedCall]",
    ) -> None:
        found, old, next_ms, reading.call = answer
        reading.stream_run = reading.call.stream_run
        self._take(reading, found, old, next_ms)
        # If the body runs, it runs now.
        reading.begin_s = time.monotonic()

    def _go_on(self, reading: Reading) -> None:
        assert reading.call is not None
        reading.wait_s = 0.0
        reading.read_s = time.monotonic()
        try:
            found, old, next_ms = self._opened().go_on(
                reading.call, self._codec, reading.options.least_ms, reading.options.serves_old
            )
        except Exception as error:
            self._failed(*_tiers.failure_of(error))
            return
        self._take(reading, found, old, next_ms)
        reading.begin_s = time.monotonic()

    def _take(
        self,
        reading: Reading,
        found: "_native.FoundValue | None",
        old: "_native.FoundValue | None",
        next_ms: int,
    ) -> None:
        assert reading.call is not None
        self._count(reading.call.troubles())
        if old is not None:
            reading.old = (old[0],)
        if found is None:
            reading.wait_s = max(0, next_ms) / 1_000
            reading.is_elsewhere = next_ms == 0
            return
        value, left_ms, age_ms, narrow_age_ms = found
        reading.found = (value,)
        reading.call = None
        if not reading.options.is_counted:
            return
        self.hits += 1
        # Memory may have it for what a file next to a server has left of its span.
        reading.memory_s = STALE_S - narrow_age_ms / 1_000
        if left_ms is None:
            return
        fresh_ms = left_ms - self._kept_ms
        # What is past its lifetime is in no memory.
        reading.fresh_s = max(0, fresh_ms) / 1_000
        reading.memory_s = min(reading.memory_s, reading.fresh_s)
        self.stale_hits += fresh_ms <= 0
        if fresh_ms <= 0 or self._is_due(age_ms, fresh_ms):
            # One that another process stores from now on has its age more: half of that tells it
            # from this one, whose time left is known to some milliseconds only.
            reading.due_ms = left_ms + age_ms // 2

    def _answer(self, reading: Reading, call: tuple[tuple[Any, ...], dict[str, Any]]) -> Any:
        """What was found; on the caller's thread, by which memory knows its lifetime."""
        assert reading.found is not None
        if reading.due_ms is not None:
            self._refresh_later(call, reading.due_ms)
        self._no_longer(reading)
        until_s = reading.read_s + min(STALE_S, reading.memory_s)
        fresh_until_s = reading.read_s + reading.fresh_s
        _native.decide(reading.found[0], until_s, False, reading.stream_run, fresh_until_s)
        return reading.found[0]

    def _is_due(self, age_ms: int, fresh_ms: int) -> bool:
        if self._refresh_share is None:
            return False
        from random import random

        # A tenth earlier or later, so that entries of one moment are not all due in one.
        share = self._refresh_share * (0.9 + 0.2 * random())
        return age_ms >= share * (age_ms + fresh_ms)

    def _refresh_later(
        self, call: tuple[tuple[Any, ...], dict[str, Any]], least_ms: int
    ) -> None:
        """Has the body run in the background, unless a process does so already."""
        content = self._content(*call)
        now_s = time.monotonic()
        with self._lock:
            if content is None or self._claimed.get(content, now_s) > now_s:
                return
            if len(self._claimed) >= _CLAIMS_MAX:
                self._claimed.clear()
            self._claimed[content] = now_s + _RETRY_S
        # Only one that is fresher than what was found is as good as running the body.
        options = ReadOptions(least_ms=least_ms, leaves=True, is_counted=False)
        if self._is_async:
            _refresh.start(self, lambda: self._refreshed_async(call, options))
            return
        args, kwargs = _refresh.private(call)

        def refresh() -> None:
            reading = self._read(args, kwargs, options)
            if reading.found is not None or reading.is_elsewhere:
                self._no_longer(reading)
                return
            try:
                self._kept_until(reading, self.function(*args, **kwargs))
                self.refreshes += 1
            except Exception as error:
                self._refresh_failed(error)
            finally:
                self._end(reading)

        context = contextvars.copy_context()
        _refresh.submit(self, lambda: context.run(refresh))

    async def _refreshed_async(
        self, call: tuple[tuple[Any, ...], dict[str, Any]], options: ReadOptions
    ) -> None:
        apart = _async.in_thread if self._is_slow else _async.at_once
        reading = await apart(self._read, *call, options)
        if reading.found is not None or reading.is_elsewhere:
            self._no_longer(reading)
            return
        try:
            value = await self.function(*call[0], **call[1])
            await apart(self._kept_until, reading, value)
            self.refreshes += 1
        except Exception as error:
            await apart(self._end, reading)
            self._refresh_failed(error)

    def _refresh_failed(self, error: Exception) -> None:
        # The old value goes on serving; no call waits for this one.
        self.refresh_failures += 1
        import logging

        name = self.function.__qualname__
        logging.getLogger("tidemark_cache").debug("refresh of %s failed: %r", name, error)

    def _write(self, reading: Reading, value: Any) -> None:
        _native.decide(value, *self._kept_until(reading, value))

    def _kept_until(self, reading: Reading, value: Any) -> tuple[float, bool, int, float]:
        """Stores the value; what ``_native.decide`` takes besides it."""
        try:
            lifetime_s = self._lifetime(value)
            if lifetime_s == 0:
                return 0.0, False, 0, 0.0
            # What no tier has that invalidations reach is as old as the run of its body.
            until_s = reading.begin_s + STALE_S
            now_s = time.monotonic()
            if reading.call is not None:
                is_kept = self._store(reading, reading.call, value, lifetime_s)
                if is_kept is not None:
                    # Nothing had been forgotten since, or else it is wrong for later callers.
                    until_s = now_s + STALE_S if is_kept else 0.0
                if reading.options.is_forced:
                    called = self._names_of_call(reading.digest)
                    _functions.forget_twins(self, _listening.CALL, called)
            fresh_until_s = math.inf if lifetime_s is None else now_s + lifetime_s
            return min(until_s, fresh_until_s), False, reading.stream_run, fresh_until_s
        finally:
            # Gives back the lease of a call that has stored nothing.
            self._end(reading)

    def _store(
        self, reading: Reading, call: _native.StackedCall, value: Any, lifetime_s: float | None
    ) -> bool | None:
        """Whether it was stored; None if no tier that invalidations reach has it, or not yet."""
        lifetime_ms = self._lifetime_ms(lifetime_s)
        # A mistake in it is the caller's error, and raised.
        tags = b"" if self._own_tags_of is None else self._names_of(self._own_tags_of(value))
        # By hand, in the place of one that others may have in memory.
        notice = self._notice_of(reading.digest) if reading.options.is_forced else b""
        note = self._note_of(reading.key)
        try:
            if self._is_behind:
                # Encoded now: the value is its caller's, who may change it.
                frame = note + self._opened().frame(value, self._codec)
                # The lease goes with the call, to be given back when the value is there.
                reading.call = None
                return self._store_later(call, frame, lifetime_ms, tags, notice)
            notes = (note, notice)
            is_kept = self._opened().store(call, value, self._codec, lifetime_ms, tags, notes)
        except TypeError as error:
            raise TypeError(f"{self.function.__qualname__}: {error}") from None
        except Exception as error:
            self._failed(*_tiers.failure_of(error))
            return None
        self._count(call.troubles())
        return is_kept

    def _store_later(
        self,
        call: _native.StackedCall,
        frame: bytes,
        lifetime_ms: int | None,
        tags: bytes,
        notice: bytes,
    ) -> bool | None:
        def store() -> bool | None:
            try:
                is_kept = self._opened().store_frame(call, frame, lifetime_ms, tags, notice)
            except Exception as error:
                self._failed(*_tiers.failure_of(error))
                return None
            self._count(call.troubles())
            return is_kept

        # Where too many wait already, the caller is slowed down to what the tier can take.
        return None if _refresh.submit(self, store) else store()

    def _lifetime_ms(self, lifetime_s: float | None) -> int | None:
        """What tiers are given, old age included."""
        return None if lifetime_s is None else max(1, round(lifetime_s * 1_000)) + self._kept_ms

    def _lifetime(self, value: Any) -> float | None:
        """Seconds, 0 not to store it, None for no end."""
        lifetime_s = self._ttl_s
        if self._policy is not None:
            of_value = self._policy(value)
            if of_value is not None:
                lifetime_s = None if of_value == math.inf else float(of_value)
        if lifetime_s is None:
            return None
        if not self._jitter:
            return lifetime_s
        from random import random

        return lifetime_s * (1 - self._jitter * random())

    def put(
        self,
        key: _native.CallKey,
        args: tuple[Any, ...],
        kwargs: dict[str, Any],
        value: Any,
    ) -> None:
        """Stores a value that no body has given."""
        if self._is_behind:
            self._write(self._read(args, kwargs, ReadOptions(is_forced=True)), value)
            return
        digest = key.digest(self._of_calls)
        names = self._names if self._tags_of is None else self._names_for(args, kwargs)
        if self._notifying and self._listeners is not _listening.listeners:
            self._listen()
        if self._recent is not None:
            self._recent.begin(digest, key)
        try:
            until_s = self._put(digest, names, value, self._note_of(key))
        finally:
            if self._recent is not None:
                self._recent.end(digest, key)
        _functions.forget_twins(self, _listening.CALL, self._names_of_call(digest))
        # Without a run of the stream: no run of a body stands for this value, which a notice that
        # comes now could detach.
        _native.decide(value, until_s)

    def _put(self, digest: bytes, names: bytes, value: Any, note: bytes) -> float:
        """Until when memory may have the value."""
        lifetime_s = self._lifetime(value)
        if lifetime_s == 0:
            return 0.0
        now_s = time.monotonic()
        tags = None if self._own_tags_of is None else self._names_of(self._own_tags_of(value))
        is_kept = None
        try:
            lifetime_ms, notice = self._lifetime_ms(lifetime_s), self._notice_of(digest)
            is_kept, troubles = self._opened().put(
                digest, names, value, self._codec, lifetime_ms, tags, (note, notice)
            )
            self._count(troubles)
        except TypeError as error:
            raise TypeError(f"{self.function.__qualname__}: {error}") from None
        except Exception as error:
            self._failed(*_tiers.failure_of(error))
        if is_kept is False:
            return 0.0
        return now_s + (STALE_S if lifetime_s is None else min(STALE_S, lifetime_s))

    def deletion(
        self, args: tuple[Any, ...], kwargs: dict[str, Any]
    ) -> Callable[[], bool | None]:
        """What deletes the entry of a call and says whether there was one; None if a tier failed,
        which may still have it."""
        key = _native.CallKey.of(self.cached, args, kwargs)
        digest = None if key is None else key.digest(self._of_calls)
        names = self._names_for(args, kwargs)

        def delete() -> bool | None:
            if digest is None:
                return False
            try:
                notice = self._notice_of(digest)
                was_there, failures = self._opened().delete(digest, names, notice)
            except Exception as error:
                was_there, failures = False, [_tiers.failure_of(error)]
            called = self._names_of_call(digest)
            _functions.forget_twins(self, _listening.CALL, called)
            if not self._are_none(failures):
                return None
            self._announce(_listening.CALL, called)
            return was_there

        return delete

    def clear(self) -> bool:
        """Forgets every entry of the function; whether each tier did it."""
        return self.forget(self._identity, False)

    def forget(self, names: bytes, are_tags: bool) -> bool:
        """Forgets every entry under one of these; whether each tier did it."""
        kind = _listening.TAGS if are_tags else _listening.FUNCTIONS
        try:
            failures = self._opened().forget(names, are_tags, _listening.head_of(kind))
        except Exception as error:
            failures = [_tiers.failure_of(error)]
        if not are_tags:
            _functions.forget_twins(self, kind, names)
        if not self._are_none(failures):
            return False
        self._announce(kind, names)
        return True

    def _notice_of(self, digest: bytes) -> bytes:
        """Tells others to forget this call."""
        return _listening.head_of(_listening.CALL) + self._names_of_call(digest)

    def _names_of_call(self, digest: bytes) -> bytes:
        return self._identity + digest[len(self._start) :]

    def _announce(self, kind: bytes, names: bytes) -> None:
        """By the files. A server has announced it already, in the step that invalidated."""
        for backend in self._notifying:
            if isinstance(backend, _tiers.FileBackend):
                _listening.announce(backend, kind, names)

    def on_invalidation(self, kind: bytes, names: list[bytes]) -> None:
        """Forgets in memory what another process has invalidated."""
        if kind != _listening.CALL:
            if self._depends_on(kind, names):
                self.cached._forget_in_memory()
        elif names[0] == self._identity:
            self._forget_called(names[1])

    def _forget_called(self, digest: bytes) -> None:
        recent = self._recent
        losses = 0 if recent is None else recent.losses
        keys = None if recent is None else recent.keys(self._start + digest)
        if keys is None:
            self.cached._forget_in_memory()
            if recent is not None:
                recent.forgotten_losses = losses
        for key in keys or ():
            self.cached._forget_call(key)

    def is_under(self, names: bytes) -> bool:
        """Whether each of its entries depends on one of these."""
        return self._depends_on(_listening.FUNCTIONS, _listening.names_in(names))

    def _depends_on(self, kind: bytes, names: list[bytes]) -> bool:
        if kind == _listening.TAGS and (self._tags_of or self._own_tags_of):
            # Which tags its answers in memory have is not known.
            return True
        return not set(_listening.names_in(self._names)).isdisjoint(names)

    def stream(self) -> str | None:
        """How memory follows the stream of the tier; None if it does not by what it is."""
        return _streams.state(self._streaming, STALE_S) if self._streaming else None

    def states(self) -> dict[str, str]:
        """Of each tier ``healthy``, or why it cannot be used."""
        try:
            states = self._opened().states()
        except Exception as error:
            states = [_tiers.failure_of(error)[1]] * len(self.rules[0])
        names = _tiers.names_of(self.rules[0])
        return {
            name: "healthy" if why is None else f"degraded: {why}"
            for name, why in zip(names, states, strict=True)
        }

    def _count(self, troubles: "_native.Troubles | None") -> None:
        if troubles is not None:
            self.rejected += troubles[0]
            self._are_none(troubles[1])

    def _are_none(self, failures: list[tuple[str, str]]) -> bool:
        for kind, text in failures:
            self._failed(kind, text)
        return not failures

    def _failed(self, kind: str, text: str) -> None:
        self.failures += 1
        now_s = time.monotonic()
        if now_s - self._logged.get(kind, -_LOG_S) < _LOG_S:
            return
        self._logged[kind] = now_s
        import logging

        log = logging.getLogger("tidemark_cache")
        log.warning("a tier of %s failed (%s): %s", self.function.__qualname__, kind, text)
