"""Invalidations that ask a predicate about the arguments of each entry in the tiers.

A function that keeps arguments has entries that tiers list: their keys begin with what stands for
the function, and their values with a note of the arguments. What would take too long, or fails,
has the whole function forgotten instead: an answer too few is never wrong.
"""

import functools
import time
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, TypeVar

from tidemark_cache import _functions, _listening, _native

if TYPE_CHECKING:
    from tidemark_cache._backed import BackedFunction
    from tidemark_cache._codec import Codec

_T = TypeVar("_T")

#: Bytes of the identity of a function that its keys begin with.
_START_BYTES = 16
#: Of what stands behind it for a call.
_CALL_BYTES = 32
#: Of the note of one call. Longer ones are not kept, and their calls always forgotten.
_ARGUMENTS_MAX = 1_000
#: Seconds after which the whole function is forgotten: one slice is some milliseconds.
_WALK_S = 30.0
#: Calls that are remembered before their entries are deleted. With more, the whole function is
#: forgotten.
_MEANT_MAX = 100_000
#: Entries of these calls, of which each may have had other tags at other times.
_KEYS_MAX = 1_000_000
#: Of which a key has the arguments as they are, and not as bytes.
_PLAIN = (int, str, bytes, float, bool, type(None))
#: So often what finds a part of a file locked is tried again.
_TRIES = 10


def start_of(identity: bytes) -> bytes:
    """What the keys of a function begin with that keeps arguments."""
    return identity[:_START_BYTES]


def note_of(key: _native.CallKey, codec: "Codec") -> bytes:
    """What stands before the value of a call."""
    arguments = key.plain_arguments()
    kept = b"" if arguments is None else _native.dumps(arguments, codec)
    if len(kept) > _ARGUMENTS_MAX:
        kept = b""
    return len(kept).to_bytes(2, "little") + kept


def forget_where(backed: "BackedFunction", predicate: Callable[..., Any]) -> tuple[int, bool]:
    """Forgets the entries whose arguments the predicate picks: of how many calls, and whether each
    tier did it."""
    try:
        count = ListedEntries(backed).delete_where(predicate)
    except TooMuchError as error:
        backed._failed("listing", f"all its entries are forgotten: {error}")
        return 0, backed.clear()
    # Which of its answers others have in memory is not known here.
    _functions.forget_twins(backed, _listening.FUNCTIONS, backed._identity)
    backed._announce(_listening.FUNCTIONS, backed._identity)
    return count, True


def _again(act: Callable[[], _T]) -> _T:
    """Tries it again where another process has locked a part of the file for too long."""
    for _ in range(_TRIES):
        try:
            return act()
        except _native.TierFailure as failure:
            if failure.args[0] != "busy":
                raise
    return act()


class TooMuchError(Exception):
    """Why the whole function is to be forgotten."""


class ListedEntries:
    """The entries of one function in its tiers, the nearest first."""

    def __init__(self, backed: "BackedFunction") -> None:
        self._stack = backed._opened()
        self._tiers = len(backed.rules[0])
        self._start = start_of(backed._identity)
        self._notice = _listening.head_of(_listening.FUNCTIONS) + backed._identity
        self._own_tags = backed._own_tags_of is not None
        self._codec = backed._codec
        self._parameters: int = backed.cached._parameters
        self._end_s = time.monotonic() + _WALK_S

    def delete_where(self, predicate: Callable[..., Any]) -> int:
        """Deletes those that the predicate picks; of how many calls.

        Raises:
            TooMuchError: if some may be left.
            Exception: what the predicate raises; nothing is deleted then.
        """
        try:
            self._forget_guard()
            meant: set[bytes] = set()
            for tier in reversed(range(self._tiers)):
                keys = self._listed(tier, lambda kept, _: self._is_meant(kept, predicate), meant)
                if tier == self._tiers - 1:
                    farthest = keys
            # The farthest first: until it has no such entry, nearer tiers may be filled from it,
            # also behind what was just listed.
            self._delete(self._tiers - 1, farthest)
            for tier in reversed(range(self._tiers - 1)):
                self._forget_guard()
                left = self._listed(
                    tier, lambda kept, call: self._is_left(kept, call, predicate, meant), meant
                )
                self._delete(tier, left)
            # When all are gone: who has one of them in memory must not keep it.
            self._forget_guard(self._notice)
        except _native.TierFailure as failure:
            raise TooMuchError(failure.args[-1]) from None
        return len(meant)

    def _forget_guard(self, notice: bytes = b"") -> None:
        failures = _native.forget_guard(self._stack, self._start, notice)
        if failures:
            raise TooMuchError(failures[0][1])

    def _delete(self, tier: int, keys: list[bytes]) -> None:
        _again(lambda: _native.delete_entries(self._stack, tier, keys))

    def _listed(
        self, tier: int, is_meant: Callable[[bytes, bytes], bool], meant: set[bytes]
    ) -> list[bytes]:
        """The keys of a tier that are meant; their calls are among those from then on."""
        keys: list[bytes] = []
        cursor: int | None = 0
        while cursor is not None:
            if time.monotonic() > self._end_s:
                raise TooMuchError(f"to list the entries takes more than {_WALK_S:.0f} seconds")
            entries, cursor = _again(functools.partial(self._slice, tier, cursor))
            for key, kept in entries:
                # What stands for the call is the same in every tier.
                call = key[_START_BYTES : _START_BYTES + _CALL_BYTES]
                if is_meant(kept, call):
                    keys.append(key)
                    meant.add(call)
            if len(meant) > _MEANT_MAX:
                raise TooMuchError(f"more than {_MEANT_MAX} calls are meant")
            if len(keys) > _KEYS_MAX:
                raise TooMuchError(f"more than {_KEYS_MAX} entries are meant")
        return keys

    def _slice(self, tier: int, cursor: int) -> tuple[list[tuple[bytes, bytes]], int | None]:
        return _native.list_entries(self._stack, tier, self._start, self._own_tags, cursor)

    def _is_meant(self, kept: bytes, predicate: Callable[..., Any]) -> bool:
        arguments = self._arguments(kept) if kept else None
        return arguments is None or bool(predicate(*arguments))

    def _is_left(
        self, kept: bytes, call: bytes, predicate: Callable[..., Any], meant: set[bytes]
    ) -> bool:
        """Whether an entry of a nearer tier is to go now. It may have come there behind what was
        listed, from a tier that has lost it since: then the predicate has not seen it. Some are
        gone by now, so one for which it raises is forgotten."""
        try:
            return call in meant or self._is_meant(kept, predicate)
        except Exception:
            return True

    def _arguments(self, kept: bytes) -> tuple[Any, ...] | None:
        """What was kept; None for what can be the arguments of no call: damaged bytes, those of
        another version, of a function of this name that has other parameters, or of a program
        that is none of ours. A predicate could make nothing of them but an error."""
        try:
            arguments = _native.loads(kept, self._codec)
        except Exception:
            return None
        if type(arguments) is not tuple or len(arguments) != self._parameters:
            return None
        return arguments if all(type(one) in _PLAIN for one in arguments) else None
