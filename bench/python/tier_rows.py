"""Rows of the tiers below memory: hits that memory has not, and the bytes that tiers keep."""

import asyncio
import atexit
import contextlib
import mmap
import pathlib
import shutil
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from typing import Any

from tidemark_cache import FileBackend, RedisBackend, _codec, _native, cache
from timing import Row, Side, counted, loop, percentile

#: Two calls in turns, of which memory has room for one at most: each is answered by the tier.
TURNS = "f(1); f(2)"
#: As bytes, 10 KB that LZ4 makes smaller.
CONTENT = b"".join(b'{"id": %d, "tags": ["new", "paid"], "zip": 3000}' % n for n in range(210))
#: Writes of each process.
WRITES = 300
#: Async hits that run at once.
AT_ONCE = 50
#: What each frame has before a payload that is not compressed.
HEADER_BYTES = 12
#: What the raw connection reads at once.
PIECE = 65_536


def tiered(backend: Any, body: Callable[[int], Any], name: str, **more: Any) -> Any:
    function = cache(backend=backend, maxsize=1, namespace=name, version=1, **more)(body)
    function(1)
    function(2)
    return function


def hits(function: Any) -> Side:
    return counted(loop(TURNS, f=function), function, l2_hits=2)


def payload_of(function: Any, value: Any, folder: str) -> bytes:
    """The bytes of a value as the file in this folder has them, without the header of the frame."""
    backed = function._backed
    frame: bytes = backed._opened().frame(value, backed._codec)
    [path] = pathlib.Path(folder).glob("*.tier")
    with path.open("rb") as file, mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as content:
        assert content.find(frame) >= 0, "the file has other bytes"
    payload = frame[HEADER_BYTES:]
    assert _native.decoded(payload, backed._codec) == value, "the frame is not plain"
    return payload


def files(payload: Any, theirs: Callable[[str], Any] | None) -> list[Row]:
    """`theirs` makes a cache of diskcache in a folder."""
    folder = tempfile.mkdtemp()
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    backend = FileBackend(folder=f"{folder}/ours", listen=False)
    small = tiered(backend, lambda number: number, "small")
    # Memory would have kept one of two answers that are asked for in turns.
    large = tiered(backend, lambda number: payload, "large", max_bytes=1)
    codec = _codec.Codec(lambda number: payload)
    in_file = payload_of(large, payload, f"{folder}/ours")
    hit, hit_large = hits(small), hits(large)
    rows = [
        Row("file: two int hits", "the same twice", None, hit, hits(small)),
        Row("file: two 10 KB hits", "the same twice", None, hit_large, hits(large)),
        # Neither LZ4 nor a checksum: a frame in a file has none.
        Row("file: two 10 KB hits", "decoding the bytes in the file twice", 1.15, hit_large,
            loop("f(b, c); f(b, c)", f=_native.decoded, b=in_file, c=codec)),
    ]
    if theirs is not None:
        disk = theirs(f"{folder}/theirs")
        memoized = disk.memoize()(lambda number: number)
        memoized(1)
        memoized(2)
        rows.append(Row("file: two int hits", "diskcache", 0.35, hit, loop(TURNS, f=memoized)))
        kept = tiered(backend, lambda number: CONTENT, "content")
        disk.set("a", CONTENT), disk.set("b", CONTENT)
        sets = counted(loop("f(v, 1); f(v, 2)", f=kept.cache_set, v=CONTENT), kept, l2_hits=0)
        theirs_gets = loop("f('a'); f('b')", f=disk.get)
        rows += [
            Row("file: two gets, 10 KB", "diskcache", 0.3, gets(kept), theirs_gets),
            Row("file: two hits of 10 KB of bytes", "two gets of diskcache", None,
                hits(kept), theirs_gets),
            Row("file: two sets, 10 KB", "the same twice", None, sets, sets),
            Row("file: two sets, 10 KB", "diskcache", 0.25, sets,
                loop("f('a', v); f('b', v)", f=disk.set, v=CONTENT)),
        ]
    with contextlib.suppress(ImportError):
        import ormsgpack

        packed, frame = ormsgpack.packb(payload), _native.dumps(payload, codec)
        rows += [
            Row("10 KB to bytes", "ormsgpack", 1.5, loop("f(v, c)", f=_native.dumps, v=payload,
                c=codec), loop("f(v)", f=ormsgpack.packb, v=payload)),
            Row("10 KB from bytes", "ormsgpack", 1.15, loop("f(b, c)", f=_native.loads, b=frame,
                c=codec), loop("f(b)", f=ormsgpack.unpackb, b=packed)),
        ]
    return rows


def gets(function: Any) -> Side:
    """What a miss in memory asks of the file, without the function around it."""
    backed = function._backed
    keys = [_native.CallKey.of(function, (number,), {}) for number in (1, 2)]
    first, second = [key.digest(backed._of_calls) for key in keys]
    read = backed._new_reader().answer
    assert all(len(read(one, backed._names, True)) == 5 for one in (first, second)), "no hits"
    return loop("f(a, n, True); f(b, n, True)", f=read, a=first, b=second, n=backed._names)


def writers(engine: str, count: int) -> Side:
    """The 99th percentile of a write by one of so many processes."""

    def timed(_: int) -> float:
        folder = tempfile.mkdtemp()
        program = pathlib.Path(__file__).with_name("tier_processes.py")
        command = [sys.executable, str(program), engine, folder]
        pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "text": True}
        started: list[Any] = []
        for number in range(count):
            started.append(subprocess.Popen([*command, str(number), str(WRITES)], **pipes))
            if number == 0:
                # It makes the store: SQLite cannot change to its log beside others.
                assert started[0].stdout.readline() == "ready\n"
        for process in started[1:]:
            assert process.stdout.readline() == "ready\n"
        for process in started:
            process.stdin.write("go\n")
            process.stdin.flush()
        spent = [int(word) for one in started for word in one.communicate()[0].split()]
        shutil.rmtree(folder)
        return percentile(spent, 0.99)

    return Side(timed, 1)


def processes() -> list[Row]:
    rows = []
    for count, target in [(1, None), (4, None), (16, 0.1)]:
        what = f"file: set, 10 KB, p99 of {count}"
        rows.append(Row(what, "SQLite", target, writers("ours", count), writers("sqlite", count)))
    what = "file: set, 10 KB, p99 of 16"
    # What of it is the kernel's lock on the file, which each write takes.
    own = Row(what, "a file for each process", None, writers("ours", 16), writers("apart", 16))
    return [*rows, own, Row(what, "the same twice", None, writers("ours", 16), writers("ours", 16))]


def waited(side: Side) -> Side:
    """By the clock: the processor's time leaves out the server's."""
    run = side.timed

    def timed(count: int) -> float:
        start = time.perf_counter_ns()
        run(count)
        return time.perf_counter_ns() - start

    return Side(timed, 1_000)


def connected(path: str) -> socket.socket:
    """A connection to a server that may still be starting."""
    end = time.monotonic() + 30
    while True:
        client = socket.socket(socket.AF_UNIX)
        try:
            client.connect(path)
            return client
        except OSError:
            client.close()
            if time.monotonic() > end:
                raise
            time.sleep(0.01)


def servers() -> list[Row]:
    if shutil.which("redis-server") is None:
        print("redis-server is not here: no rows of Redis")
        return []
    folder = tempfile.mkdtemp()
    path = f"{folder}/socket"
    command = ["redis-server", "--port", "0", "--unixsocket", path, "--save", ""]
    server = subprocess.Popen(command, stdout=subprocess.DEVNULL, cwd=folder)
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    atexit.register(server.kill)
    client = connected(path)
    function = tiered(RedisBackend(f"redis+unix://{path}", listen=False), lambda n: n, "small")
    codec = _codec.Codec(lambda number: number)
    frame = _native.dumps(1, codec)

    def asked(*parts: bytes) -> bytes:
        texts = [b"$%d\r\n%s\r\n" % (len(part), part) for part in parts]
        client.sendall(b"*%d\r\n" % len(parts) + b"".join(texts))
        return client.recv(PIECE)

    keys = asked(b"KEYS", b"tidemark:*").split(b"\r\n")[2::2]
    # The tier has a header of its own before it.
    assert any(asked(b"GET", key).endswith(frame + b"\r\n") for key in keys), "other bytes"
    asked(b"SET", b"k", frame)

    def raw() -> Any:
        client.sendall(b"*2\r\n$3\r\nGET\r\n$1\r\nk\r\n")
        answer = client.recv(PIECE)
        return _native.loads(answer[answer.index(b"\n") + 1 : -2], codec)

    hit = counted(waited(loop(TURNS, f=function)), function, l2_hits=2)
    rows = [
        Row("Redis: two int hits", "the same twice", None, hit, hit),
        Row("Redis: two int hits", "a raw socket and decoding", 1.3, hit,
            waited(loop("f(); f()", f=raw))),
    ]
    with contextlib.suppress(ImportError):
        from redis.asyncio import Redis

        rows += asynchronous(path, lambda: Redis(unix_socket_path=path))
    return rows


def asynchronous(path: str, client: Callable[[], Any]) -> list[Row]:
    """Hits of an async function, one after another and many at once."""
    backend = RedisBackend(f"redis+unix://{path}", listen=False)

    @cache(backend=backend, maxsize=1, namespace="async", version=1)
    async def function(number: int) -> int:
        return number

    async def ours(count: int) -> None:
        for _ in range(count):
            await function(1)
            await function(2)

    async def theirs(count: int) -> None:
        async with client() as connection:
            await connection.get("k")
            for _ in range(count):
                await connection.get("k")
                await connection.get("k")

    # Memory has the last answer of a turn: the next one asks for others.
    turns = [range(1, AT_ONCE + 1), range(AT_ONCE + 1, 2 * AT_ONCE + 1)]

    async def fill() -> None:
        for number in range(2 * AT_ONCE + 1):
            await function(number)

    asyncio.run(fill())

    async def ours_at_once(count: int) -> None:
        await function(0)
        for step in range(count):
            await asyncio.gather(*map(function, turns[step % 2]))

    async def theirs_at_once(count: int) -> None:
        async with client() as connection:
            await connection.get("k")
            for _ in range(count):
                await asyncio.gather(*(connection.get("k") for _ in range(AT_ONCE)))

    def side(run: Callable[[int], Any], calls: int = 1_000) -> Side:
        timed = waited(Side(lambda count: asyncio.run(run(count)) or 0.0)).timed
        return Side(timed, calls)

    two = counted(side(ours), function, l2_hits=2)
    at_once = counted(side(ours_at_once, 50), function, l2_hits=AT_ONCE, once=1)
    many = f"Redis: {AT_ONCE} async hits at once"
    return [
        Row("Redis: two async hits", "the same twice", None, two, two),
        Row("Redis: two async hits", "two GET of redis.asyncio", 0.7, two, side(theirs)),
        Row(many, "the same twice", None, at_once, at_once),
        Row(many, "as many GET of redis.asyncio", None, at_once, side(theirs_at_once, 50)),
    ]
