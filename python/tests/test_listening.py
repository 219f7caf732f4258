"""Invalidations that reach the memory of other processes, and how old an answer may be."""

import contextlib
import hashlib
import itertools
import os
import pathlib
import random
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from typing import Any

import pytest
from test_redis import Server

from tidemark_cache import (
    RedisBackend,
    _backed,
    _functions,
    _listening,
    _native,
    _recent,
    cache,
    invalidate_namespace,
    invalidate_tags,
)

#: What another process does: it answers each line with what its function gives, from memory for
#: as long as no notice says otherwise.
OTHER = """
import sys
from tidemark_cache import FileBackend, RedisBackend, _backed, cache
_backed.STALE_S = 3_600.0
listens = sys.argv[2] == "listen"
is_file = sys.argv[1] == "file"
backend = FileBackend(listen=listens) if is_file else RedisBackend(sys.argv[1], listen=listens)
runs = []
def made(name, **settings):
    @cache(backend=backend, namespace=name, version=1, **settings)
    def function(number):
        runs.append(number)
        return [number, len(runs)]
    return function
functions = {
    "plain": made("plain"),
    "tagged": made("tagged", tags=["red"]),
    "by call": made("by call", tags=lambda number: [f"number {number}"]),
    "by result": made("by result", result_tags=lambda result: ["blue"]),
}
for line in sys.stdin:
    name, number = line.strip().split("=")
    function = functions[name]
    print(function(int(number)), function.cache_info().l1_hits, flush=True)
"""


@pytest.fixture
def server(tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Server]:
    import weakref

    monkeypatch.setattr(_functions, "all_of_process", weakref.WeakSet())
    server = Server(tmp_path)
    yield server
    server.stop()


class FilePlace:
    """The cache file of this user."""

    url = "file"


@pytest.fixture(params=["redis", "file"])
def place(
    request: pytest.FixtureRequest, tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch
) -> Iterator[Server | FilePlace]:
    import weakref

    monkeypatch.setattr(_functions, "all_of_process", weakref.WeakSet())
    if request.param == "file":
        monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
        yield FilePlace()
        return
    server = Server(tmp_path)
    yield server
    server.stop()


class Other:
    """Another process with the same functions."""

    def __init__(self, place: Server | FilePlace, listens: str = "listen") -> None:
        self.process = subprocess.Popen(
            [sys.executable, "-c", OTHER, place.url, listens],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )

    def call(self, name: str, number: int) -> list[int]:
        assert self.process.stdin is not None and self.process.stdout is not None
        print(f"{name}={number}", file=self.process.stdin, flush=True)
        answer: list[int] = eval(self.process.stdout.readline().rsplit(" ", 1)[0])
        return answer

    def until_other_than(self, name: str, old: list[int]) -> list[int]:
        """Calls until memory has forgotten. It never would without a notice."""
        while (now := self.call(name, old[0])) == old:
            pass
        return now

    def stop(self) -> None:
        self.process.kill()
        self.process.communicate()


@contextlib.contextmanager
def another(place: Server | FilePlace, listens: str = "listen") -> Iterator[Other]:
    other = Other(place, listens)
    try:
        yield other
    finally:
        other.stop()


def here(place: Server | FilePlace, name: str, **settings: Any) -> Any:
    """A function of this process whose entries are those of the other's."""

    @cache(backend=place.url, namespace=name, version=1, **settings)
    def function(number: int) -> list[int]:
        return [number, 0]

    # The other one is defined in `__main__`.
    parts = [name, "__main__", "made.<locals>.function", 1]
    backed = function._backed
    tags = backed._names[32:]
    backed._identity = hashlib.blake2b(repr(parts).encode(), digest_size=32).digest()
    backed._of_calls = backed._identity
    backed._names = backed._identity + tags
    return function


def test_memory_of_another_process_forgets_a_call_and_no_other(place: Server | FilePlace) -> None:
    with another(place) as other:
        function = here(place, "plain")
        first = other.call("plain", 1)
        while True:
            # Until it listens.
            function.invalidate_cache(1)
            if other.call("plain", 1) != first:
                break
        second = other.call("plain", 2)
        first = other.call("plain", 1)
        function.invalidate_cache(1)
        assert other.until_other_than("plain", first)[1] > first[1]
        assert other.call("plain", 2) == second


@pytest.mark.parametrize(
    "name, act",
    [
        ("plain", lambda plain, tagged: plain.cache_clear()),
        ("plain", lambda plain, tagged: invalidate_namespace("plain")),
        ("tagged", lambda plain, tagged: invalidate_tags("red")),
        ("by call", lambda plain, tagged: invalidate_tags("number 1")),
        ("by result", lambda plain, tagged: invalidate_tags("blue")),
        ("by call", lambda plain, tagged: tagged.invalidate_cache(1)),
    ],
)
def test_memory_of_another_process_forgets(place: Server | FilePlace, name: str, act: Any) -> None:
    plain = here(place, "plain")
    tagged = here(place, "by call", tags=lambda number: [f"number {number}"])
    with another(place) as other:
        old = other.call(name, 1)
        for _ in range(3):
            end = time.monotonic() + 30
            act(plain, tagged)
            while (now := other.call(name, 1)) == old:
                # It may not have listened when this was announced.
                assert time.monotonic() < end
                time.sleep(0.05)
                act(plain, tagged)
            old = now


def test_process_that_does_not_listen_forgets_by_time_alone(place: Server | FilePlace) -> None:
    with another(place, "no") as other:
        old = other.call("plain", 1)
        for _ in range(20):
            here(place, "plain").invalidate_cache(1)
            assert other.call("plain", 1) == old


def test_listener_comes_back_after_the_server_and_then_forgets_all(server: Server) -> None:
    with another(server) as other:
        old = other.call("plain", 1)
        for _ in range(2):
            server.stop()
            server.start()
            # What was announced meanwhile it has missed.
            old = other.until_other_than("plain", old)


def test_notices_that_are_none_are_ignored(
    server: Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(_listening.Listeners, "start", lambda *_: None)
    listener = _functions.MemoryListener()
    function = here(server, "plain")
    function(1)
    backend = RedisBackend(server.url)
    own = _listening.listeners.sender
    other = bytes(16)
    wrongs = [b"", b"f", b"f" + other, b"x" + other + bytes(32), b"f" + other + bytes(31)]
    wrongs += [b"f" + other + bytes(65 * 32), b"c" + other + bytes(32), b"f" + own + bytes(32)]
    for wrong in wrongs:
        assert _listening.opened(wrong, own) is None
    rights = [b"f" + other + bytes(32), b"t" + other + bytes(64 * 32), b"c" + other + bytes(64)]
    for right in rights:
        found = _listening.opened(right, own)
        assert found is not None and found[0] == right[:1]
        listener.on_invalidation(backend, *found)
    assert function.cache_contains(1)
    listener.on_invalidation(backend, b"c", [function._backed._identity, bytes(32)])
    assert function.cache_contains(1)
    key = _native.CallKey.of(function, (1,), {}).digest(function._backed._identity)
    listener.on_invalidation(backend, b"c", [function._backed._identity, key])
    assert not function.cache_contains(1)


def test_listener_is_ticked_once_a_second_however_much_it_hears(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    listeners = _listening.Listeners()
    now_s = itertools.count(0, 0.125)

    own = threading.current_thread()

    class Clock:
        @staticmethod
        def monotonic() -> float:
            # Listeners of other tests may still run.
            is_own = threading.current_thread() is own
            return next(now_s) if is_own else time.monotonic()

    class Tier:
        def listen(self, take: Any) -> None:
            # It hears something eight times a second, for ten seconds.
            for _ in range(80):
                assert take(b"")
            listeners.is_over.set()
            assert not take(b"")

    ticks: list[Any] = []

    class Listener:
        def on_tick(self, backend: Any) -> None:
            ticks.append(backend)

    monkeypatch.setattr(_listening, "time", Clock)
    monkeypatch.setattr(_listening._tiers, "noting_tier_of", lambda _: Tier())
    listeners._run("tier", Listener())  # type: ignore[arg-type]
    # The last one as the thread ends.
    assert ticks == ["tier"] * 11


def test_gap_of_one_tier_clears_no_memory_of_others(
    server: Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(_listening.Listeners, "start", lambda *_: None)
    backend, other = RedisBackend(server.url), RedisBackend(server.url, prefix="other")

    def function(number: int) -> int:
        return number

    first, second = (
        cache(function, backend=one, namespace="gap", version=1) for one in (backend, other)
    )
    first(1), second(1)
    listener = _functions.MemoryListener()
    listener.on_gap(other)
    assert first.cache_contains(1) and not second.cache_contains(1)
    listener.on_gap(backend)
    assert not first.cache_contains(1)


class Held:
    """Stands for a call whose answer memory holds, or not."""

    def __init__(self, is_held: bool) -> None:
        self.answer = is_held

    def is_held(self) -> bool:
        return self.answer


def test_recent_calls_are_bounded_and_forgotten_ones_mean_all(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(_recent, "_CALLS_MAX", 4)
    calls: Any = _recent.RecentCalls(3_600.0)
    calls.begin(b"1", "run 1")
    assert calls.keys(b"1") == ["run 1"] and calls.keys(b"2") == []
    calls.end(b"1", "call 1")
    assert calls.keys(b"1") == ["call 1"]
    for number in range(2, 5):
        calls.end(b"%d" % number, number)
    assert calls.keys(b"2") == [2]
    calls.end(b"5", 5)
    # Until memory has forgotten all of them: it may hold one for long.
    assert calls.keys(b"2") is None and calls.keys(b"5") is None
    calls.forgotten_losses = calls.losses
    assert calls.keys(b"2") == [] and calls.keys(b"5") == [5]


def test_recent_calls_are_known_while_memory_holds_them() -> None:
    calls: Any = _recent.RecentCalls(0.0)
    held, gone = Held(True), Held(False)
    calls.end(b"held", held)
    calls.end(b"gone", gone)
    for _ in range(2):
        assert calls.keys(b"held") == [held] and calls.keys(b"gone") == [gone]
        calls.prune()
    for _ in range(4):
        assert calls.keys(b"held") == [held] and calls.keys(b"gone") == []
        calls.prune()
    held.answer = False
    [calls.prune() for _ in range(2)]
    assert calls.keys(b"held") == []


def test_child_of_a_fork_listens_itself(place: Server | FilePlace) -> None:
    program = """
import os, sys, time
from tidemark_cache import _backed, _listening, cache
_backed.STALE_S = 3_600.0
runs = []
@cache(backend=sys.argv[1], namespace="f", version=1)
def function(number):
    runs.append(number)
    return len(runs)
function(1)
reader, writer = os.pipe()
pid = os.fork()
if not pid:
    assert not _listening.listeners.threads
    before = function(2)
    os.write(writer, b"1")
    while function(2) == before:
        time.sleep(0.001)
    os._exit(0)
os.read(reader, 1)
while not os.waitpid(pid, os.WNOHANG)[0]:
    function.invalidate_cache(2)
    time.sleep(0.01)
print("done")
"""
    # From 3.12 the interpreter warns of a fork next to a thread, which is what this is about.
    command = [sys.executable, "-W", "ignore", "-c", program, place.url]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60)
    assert (done.stdout, done.stderr) == ("done\n", "")


def test_interpreter_ends_while_it_listens(place: Server | FilePlace) -> None:
    program = """
import sys
from tidemark_cache import cache
@cache(backend=sys.argv[1], namespace="f", version=1)
def function(number):
    return number
function(1)
"""
    for _ in range(3):
        command = [sys.executable, "-c", program, place.url]
        done = subprocess.run(command, capture_output=True, text=True, timeout=60)
        assert (done.returncode, done.stdout, done.stderr) == (0, "", "")


class Proxy:
    """Passes messages on to a server, and while it is rough, delays, drops or cuts some of each
    ``PERIOD``."""

    #: A prime: what follows a rhythm of its own, as question and answer, meets each fault in turn.
    PERIOD = 97
    DROPPED, CUT, DELAYED = (11,), (23,), (5, 37, 71)

    def __init__(self, target: pathlib.Path, seed: int) -> None:
        self.target = target
        self.chance = random.Random(seed)
        self.is_rough = False
        self.turns = itertools.count()
        #: What it did to messages.
        self.dropped = self.cut = self.delayed = 0
        self.listener = socket.create_server(("127.0.0.1", 0))
        self.url = f"redis://127.0.0.1:{self.listener.getsockname()[1]}"
        threading.Thread(target=self._accept, daemon=True).start()

    def _accept(self) -> None:
        while True:
            try:
                client, _ = self.listener.accept()
            except OSError:
                return
            server = socket.socket(socket.AF_UNIX)
            try:
                server.connect(str(self.target))
            except OSError:
                client.close()
                continue
            for ends in ((client, server), (server, client)):
                threading.Thread(target=self._pass, args=ends, daemon=True).start()

    def _pass(self, source: socket.socket, target: socket.socket) -> None:
        with contextlib.suppress(OSError):
            while piece := source.recv(65_536):
                turn = next(self.turns) % self.PERIOD if self.is_rough else None
                if turn in self.DROPPED:
                    # As if it had never been sent.
                    self.dropped += 1
                    continue
                if turn in self.CUT:
                    self.cut += 1
                    break
                if turn in self.DELAYED:
                    self.delayed += 1
                    time.sleep(self.chance.random() * 0.3)
                target.sendall(piece)
        for end in (source, target):
            with contextlib.suppress(OSError):
                end.shutdown(socket.SHUT_RDWR)


#: A process that reads keys of a source through the cache, and says if an answer was older than an
#: invalidation that it knew of 3 seconds before it called.
READER = """
import mmap, os, random, struct, sys, time
from tidemark_cache import RedisBackend, cache
url, source_path, published_path, end = *sys.argv[1:4], float(sys.argv[4])
def opened(path):
    with open(path, "r+b") as file:
        return mmap.mmap(file.fileno(), 0)
source, published = opened(source_path), opened(published_path)
def at(memory, key):
    return struct.unpack_from("<Q", memory, key * 8)[0]
backend = RedisBackend(url, timeout=0.2, connect_timeout=0.2)
runs = {}
settings = dict(backend=backend, version=1, ttl=60, circuit_breaker=False, flight_wait=1)
@cache(namespace="by tag", tags=lambda key: [f"key {key}"], **settings)
def by_tag(key):
    runs[key] = runs.get(key, 0) + 1
    return at(source, key)
@cache(namespace="by call", **settings)
def by_call(key):
    runs[key] = runs.get(key, 0) + 1
    return at(source, key)
by_call._backed._identity = by_call._backed._of_calls = by_call._backed._names = bytes(32)
keys = len(source) // 8
# What was published, and when this process saw it; and what is so old that each answer has it.
known, least = [[] for _ in range(keys)], [0] * keys
chance = random.Random(os.getpid())
calls = 0
# The clock by which lifetimes are read has steps of 4 ms.
BOUND = 3.0 + 0.01
while time.monotonic() < end:
    key = chance.randrange(keys)
    before = time.monotonic()
    value = (by_tag if key < keys // 2 else by_call)(key)
    calls += 1
    while known[key] and known[key][0][0] < before - BOUND:
        least[key] = known[key].pop(0)[1]
    if value < least[key]:
        print(f"key {key}: {value}, and {least[key]} was published", flush=True)
        sys.exit(1)
    version = at(published, key)
    if not known[key] or known[key][-1][1] < version:
        known[key].append((time.monotonic(), version))
    time.sleep(0.001)
infos = by_tag.cache_info(), by_call.cache_info()
names = ["l1_hits", "l2_hits", "l2_failures", "l1_renewals"]
counts = [sum(getattr(info, name) for info in infos) for name in names]
print(calls, sum(runs.values()), *counts)
"""


def test_no_answer_is_older_than_three_seconds(server: Server, tmp_path: pathlib.Path) -> None:
    is_night = os.environ.get("TIDEMARK_LANE") == "night"
    processes, keys, seconds = (8, 8, 600.0) if is_night else (4, 4, 12.0)
    proxy = Proxy(server.socket, 7)
    files = [tmp_path / "source", tmp_path / "published"]
    for file in files:
        file.write_bytes(bytes(8 * keys))
    end = time.monotonic() + seconds
    command = [sys.executable, "-c", READER, proxy.url, *map(str, files), str(end)]
    readers = [
        subprocess.Popen(command, stdout=subprocess.PIPE, text=True) for _ in range(processes)
    ]
    write_history(server, proxy, files, end)
    outputs = [reader.communicate()[0] for reader in readers]
    assert [reader.returncode for reader in readers] == [0] * processes, outputs
    counts = [list(map(int, output.split())) for output in outputs]
    calls, runs, of_memory, of_tier, failures, renewals = map(sum, zip(*counts, strict=True))
    # Without answers of memory and of the tier, some of them kept by the stream, and failures of
    # the network, nothing was shown.
    assert min(of_memory, of_tier, failures, renewals) > 0 and runs < calls, counts
    for count in counts:
        assert count[0] > 0 and count[2] + count[3] > 0, counts
    assert min(proxy.dropped, proxy.cut, proxy.delayed) > 0, next(proxy.turns)


def write_history(server: Server, proxy: Proxy, files: list[pathlib.Path], end: float) -> None:
    """Changes the source, invalidates, and publishes what every later answer must have, while the
    network fails and the server is cleared, loses keys and is started again empty, by turns."""
    import mmap
    import struct

    memories = []
    for file in files:
        with file.open("r+b") as opened:
            memories.append(mmap.mmap(opened.fileno(), 0))
    source, published = memories
    keys = len(source) // 8
    chance = random.Random(1)

    @cache(backend=RedisBackend(server.url), namespace="writer", version=1)
    def function(key: int) -> int:
        return key

    backed = function._backed
    backed._identity = backed._of_calls = backed._names = bytes(32)
    version, is_up, turn = 0, True, 0
    while time.monotonic() < end:
        turn += 1
        version += 1
        # Half of the keys change rarely, so that memory keeps some of their answers for long.
        is_rare = turn % 100 == 0
        key = chance.randrange(keys // 2) + (keys // 2 if is_rare else 0)
        struct.pack_into("<Q", source, key * 8, version)
        delete = function._backed.deletion((key,), {})
        if delete() is not None if is_rare else invalidate_tags(f"key {key}"):
            struct.pack_into("<Q", published, key * 8, version)
        # For some seconds all goes well, and then the other way about.
        is_calm = turn // 250 % 2 == 1
        proxy.is_rough = not is_calm and turn % 40 > 20
        if turn % 60 == 30 and not is_calm:
            command(server, "FLUSHALL")
        if turn % 60 == 45 and not is_calm:
            lose_some(server, chance)
        if turn % 200 == 150 and not is_calm:
            server.stop()
            is_up = False
        if turn % 200 == 170 and not is_up:
            server.start()
            is_up = True
        time.sleep(0.02)
    if not is_up:
        server.start()


def command(server: Server, *words: str) -> str:
    client = ["redis-cli", "-s", str(server.socket), *words]
    return subprocess.run(client, capture_output=True, text=True).stdout


def lose_some(server: Server, chance: random.Random) -> None:
    """As a server that is short of memory does: tokens, entries and placeholders."""
    names = command(server, "KEYS", "*").split()
    for name in chance.sample(names, len(names) // 3):
        command(server, "DEL", name)


def test_origin_is_spared_while_redis_is_down(server: Server) -> None:
    runs: dict[int, int] = {1: 0, 2: 0, 3: 0}
    calls: list[int] = []

    @cache(backend=RedisBackend(server.url), namespace="down", version=1, ttl=60)
    def function(number: int) -> int:
        runs[number] += 1
        return number

    def ask() -> None:
        count = 0
        while time.monotonic() < end:
            for number in runs:
                assert function(number) == number
                count += 1
        calls.append(count)

    for number in runs:
        function(number)
    server.stop()
    seconds = 60.0 if os.environ.get("TIDEMARK_LANE") == "night" else 7.0
    begin = time.monotonic()
    end = begin + seconds
    threads = [threading.Thread(target=ask) for _ in range(4)]
    [thread.start() for thread in threads]
    [thread.join() for thread in threads]
    # The first of them before the server was down, and one at once. By a clock with steps of 4 ms.
    most = 2 + (time.monotonic() - begin) / (_backed.STALE_S - 0.01)
    assert len(calls) == 4 and min(calls) > 3 * most, calls
    assert all(2 <= count <= most for count in runs.values()), (runs, most)
