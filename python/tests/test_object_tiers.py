"""Objects of the user's as tiers: what they must have, and what they may do wrong."""

import asyncio
import itertools
import logging
import pathlib
import re
import sqlite3
import sys
import threading
import time
import weakref
from typing import Any

import pytest

from tidemark_cache import FileBackend, _functions, cache, invalidate_tags

GUIDE = pathlib.Path(__file__).parents[2] / "docs/guides/python-cache.md"


@pytest.fixture(autouse=True)
def no_functions_of_other_tests(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(_functions, "all_of_process", weakref.WeakSet())


class Records:
    """Keeps everything, as a store without lifetimes would."""

    def __init__(self) -> None:
        self.records: dict[str, bytes] = {}
        self.ttls: list[int] = []
        self.reads = 0

    def get(self, key: str) -> bytes | None:
        self.reads += 1
        return self.records.get(key)

    def set(self, key: str, value: bytes, ttl: int) -> None:
        assert type(key) is str and type(value) is bytes and type(ttl) is int
        self.records[key] = value
        self.ttls.append(ttl)

    def delete(self, key: str) -> bool:
        return self.records.pop(key, None) is not None


def counted(backend: Any, **settings: Any) -> tuple[Any, list[Any]]:
    runs: list[Any] = []
    settings = {"namespace": "test", "version": 1, **settings}

    @cache(backend=backend, **settings)
    def function(argument: Any) -> Any:
        runs.append(argument)
        return [argument, len(runs)]

    return function, runs


def examples() -> dict[str, Any]:
    """What the guide shows of tiers of one's own."""
    section = GUIDE.read_text().split("### Tiers of your own")[1].split("\n### ")[0]
    names: dict[str, Any] = {"__name__": "guide"}
    for program in re.findall(r"```python\n(.*?)```", section, re.DOTALL):
        exec(program, names)
    return names


class Bucket:
    """What the guide's example uses of the client of S3."""

    class exceptions:  # noqa: N801
        class NoSuchKey(Exception):
            pass

    def __init__(self) -> None:
        self.objects: dict[tuple[str, str], bytes] = {}

    def get_object(self, *, Bucket: str, Key: str) -> dict[str, Any]:
        import io

        if (Bucket, Key) not in self.objects:
            raise self.exceptions.NoSuchKey(Key)
        return {"Body": io.BytesIO(self.objects[Bucket, Key])}

    def put_object(self, *, Bucket: str, Key: str, Body: bytes) -> None:
        self.objects[Bucket, Key] = Body

    def delete_object(self, *, Bucket: str, Key: str) -> None:
        self.objects.pop((Bucket, Key), None)


@pytest.fixture(params=["records", "sqlite", "bucket"])
def backend(request: pytest.FixtureRequest, tmp_path: pathlib.Path) -> Any:
    if request.param == "records":
        return Records()
    if request.param == "sqlite":
        return examples()["SqliteTier"](str(tmp_path / "cache.sqlite"))
    return examples()["BucketTier"](Bucket(), "answers")


def test_object_shares_values_tags_and_deletions(backend: Any) -> None:
    first, runs = counted(backend, tags=["red"], ttl=600)
    assert first(1) == [1, 1] and first(1) == [1, 1] and runs == [1]
    again, later_runs = counted(backend, tags=["red"], ttl=600)
    assert again(1) == [1, 1] and later_runs == [] and again.cache_info().l2_hits == 1
    assert again.invalidate_cache(1) is True
    third, third_runs = counted(backend, tags=["red"], ttl=600)
    assert third(1) == [1, 1] and third_runs == [1]
    assert invalidate_tags("red") is True
    assert third(1) == [1, 2]
    third.cache_clear()
    assert third(1) == [1, 3]
    kind = type(backend).__name__
    assert third.get_health_status()["tiers"] == {"memory": "healthy", kind: "healthy"}
    assert first.cache_info().l2_failures == third.cache_info().l2_failures == 0


def test_object_stores_no_value_that_an_invalidation_has_overtaken(backend: Any) -> None:
    turns = itertools.count()
    forget: list[Any] = []

    def made() -> Any:
        @cache(backend=backend, namespace="o", version=1, tags=["blue"])
        def function(argument: int) -> int:
            turn = next(turns)
            if forget:
                # As another process would.
                forget.pop()()
            return turn

        return function

    others = made()
    for act in (lambda: others.invalidate_cache(1), others.cache_clear, _forget_blue):
        forget.append(act)
        old = made()(1)
        assert made()(1) == old + 1 and made()(1) == old + 1
        others.cache_clear()


def _forget_blue() -> None:
    invalidate_tags("blue")


def test_object_gives_no_value_after_its_lifetime() -> None:
    backend = Records()
    first, _ = counted(backend, ttl=0.05)
    assert first(1) == [1, 1] and min(backend.ttls) == 1
    time.sleep(0.06)
    again, runs = counted(backend, ttl=0.05)
    assert again(1) == [1, 1] and runs == [1]
    # Nothing is needed for longer, generations included.
    assert max(backend.ttls) == 30 * 86_400


def test_object_behind_a_file(tmp_path: pathlib.Path) -> None:
    near, far = FileBackend(folder=tmp_path / "near", megabytes=8), Records()
    first, _ = counted([near, far], ttl=60)
    assert first(1) == [1, 1] and first.cache_info().l2_failures == 0
    for backend in (near, far):
        again, runs = counted(backend, ttl=60)
        assert again(1) == [1, 1] and runs == []
    assert list(first.get_health_status()["tiers"]) == ["memory", "file", "Records 2"]


def test_file_is_shared_by_functions_with_and_without_an_object_behind_it(
    tmp_path: pathlib.Path,
) -> None:
    near, far = FileBackend(folder=tmp_path / "near", megabytes=8), Records()
    first, _ = counted(near)
    assert first(1) == [1, 1]
    # What a file alone keeps has no checksum of its own, which no other tier may get.
    both, runs = counted([near, far])
    assert both(1) == [1, 1] and runs == [] and far.records == {}
    assert both(2) == [2, 1]
    again, runs = counted(near)
    assert again(2) == [2, 1] and runs == []
    # Where the object is nearer, what the file has is none, and computed again.
    back, runs = counted([far, near])
    assert back(1) == [1, 1] and runs == [1]
    again, runs = counted(far)
    assert again(1) == [1, 1] and runs == []


def test_object_reads_two_records_for_a_hit_and_one_for_each_name() -> None:
    backend = Records()
    counted(backend, tags=["red"])[0](1)
    backend.reads = 0
    again, runs = counted(backend, tags=["red"])
    assert again(1) == [1, 1] and runs == [] and backend.reads == 5


class Broken(Records):
    """Raises in one of its methods, or gives something else than bytes."""

    def __init__(self, method: str, gives: Any) -> None:
        super().__init__()
        self.gives: Any = gives
        setattr(self, method, self._fail)

    def _fail(self, *_: object) -> Any:
        if isinstance(self.gives, BaseException):
            raise self.gives
        return self.gives


@pytest.mark.parametrize("method", ["get", "set", "delete"])
def test_object_that_raises_costs_runs_and_no_error(
    method: str, caplog: pytest.LogCaptureFixture
) -> None:
    backend = Broken(method, OSError("at https://user:secret@host"))
    with caplog.at_level(logging.WARNING, "tidemark_cache"):
        function, runs = counted(backend, circuit_breaker=False)
        assert function(1) == [1, 1] and function(2) == [2, 2]
        is_gone = function.invalidate_cache(1)
    assert runs == [1, 2]
    assert function.cache_info().l2_failures > 0
    # To find the entry takes its tokens, which may have to be made.
    assert is_gone is False
    # The text may hold a secret.
    assert f"Broken.{method}: OSError" in caplog.text and "secret" not in caplog.text


@pytest.mark.parametrize("gives", [7, "text", memoryview(b"text"), b"", b"e" * 47, [b"a"]])
def test_object_that_gives_other_bytes_costs_runs_and_no_error(gives: Any) -> None:
    function, runs = counted(Broken("get", gives), circuit_breaker=False)
    assert function(1) == [1, 1] and function(2) == [2, 2] and runs == [1, 2]


def test_object_that_fails_is_left_alone() -> None:
    backend = Broken("get", OSError())
    function, runs = counted(backend)
    for number in range(20):
        function(number)
    info = function.cache_info()
    assert info.l2_failures == 5 and info.l2_rejected > 10
    lasting = Broken("get", PermissionError())
    function, runs = counted(lasting, version=2)
    for number in range(20):
        function(number)
    assert function.cache_info().l2_rejected == 0
    state = function.get_health_status()["tiers"]["Broken"]
    assert state == "degraded: Broken.get: PermissionError"


def test_object_is_interrupted_like_any_code() -> None:
    for method in ("get", "set"):
        function, runs = counted(Broken(method, KeyboardInterrupt()))
        with pytest.raises(KeyboardInterrupt):
            function(1)
    function, _ = counted(Broken("delete", KeyboardInterrupt()))
    with pytest.raises(KeyboardInterrupt):
        function.invalidate_cache(1)


@pytest.mark.parametrize(
    "says, state",
    [
        (True, "healthy"),
        (None, "healthy"),
        ((True, {"latency": 1}), "healthy"),
        (False, "degraded: Checked.health_check: not healthy"),
        ((False, {}), "degraded: Checked.health_check: not healthy"),
        (OSError("secret"), "degraded: Checked.health_check: OSError"),
    ],
)
def test_object_may_say_how_it_is(says: Any, state: str) -> None:
    class Checked(Records):
        def health_check(self) -> Any:
            if isinstance(says, Exception):
                raise says
            return says

    function, _ = counted(Checked())
    assert function.get_health_status()["tiers"]["Checked"] == state


def test_object_is_used_on_other_threads_by_async_functions() -> None:
    threads: set[int] = set()

    class Noted(Records):
        def get(self, key: str) -> bytes | None:
            threads.add(threading.get_ident())
            return super().get(key)

    @cache(backend=Noted(), namespace="a", version=1)
    async def function(number: int) -> int:
        return number

    async def calls() -> None:
        assert await asyncio.gather(*(function(1) for _ in range(9))) == [1] * 9
        assert await function.ainvalidate_cache(1)

    asyncio.run(calls())
    assert threads and threading.get_ident() not in threads


def test_object_may_use_cached_functions_itself() -> None:
    @cache
    def place(key: str) -> str:
        return key[::-1]

    class Nested(Records):
        def get(self, key: str) -> bytes | None:
            return super().get(place(key))

        def set(self, key: str, value: bytes, ttl: int) -> None:
            super().set(place(key), value, ttl)

    backend = Nested()
    function, runs = counted(backend)
    assert function(1) == [1, 1]
    again, runs = counted(backend)
    assert again(1) == [1, 1] and runs == []


def test_objects_of_many_threads_give_no_value_from_before_an_invalidation() -> None:
    backend = Records()
    source = {"value": 0}

    def made() -> Any:
        @cache(backend=backend, namespace="h", version=1, ttl=60)
        def function() -> int:
            return source["value"]

        return function

    is_over = threading.Event()
    wrongs: list[tuple[int, int]] = []

    def read() -> None:
        while not is_over.is_set():
            # A process of its own has nothing in memory.
            function = made()
            least = published[0]
            value = function()
            if value < least:
                wrongs.append((value, least))

    published = [0]
    readers = [threading.Thread(target=read) for _ in range(4)]
    for reader in readers:
        reader.start()
    writer = made()
    for turn in range(1, 200):
        source["value"] = turn
        if turn % 2:
            writer.cache_clear()
        else:
            writer._backed.deletion((), {})()
        published[0] = turn
    is_over.set()
    for reader in readers:
        reader.join()
    assert not wrongs


def test_object_without_the_methods_is_refused() -> None:
    class Half:
        get = delete = Records.get

    class Later(Records):
        async def get(self, key: str) -> bytes | None:  # type: ignore[override]
            return None

    for wrong in (Half(), object(), Records, {}):
        with pytest.raises(TypeError, match="the methods get, set, delete, or a list"):
            counted(wrong)
    with pytest.raises(TypeError, match="methods of Later must not be async"):
        counted(Later())


def test_interpreter_ends_while_an_object_is_in_use() -> None:
    import subprocess

    program = """
import threading, time
from tidemark_cache import cache
class Slow(dict):
    def set(self, key, value, ttl):
        time.sleep(0.05)
        self[key] = value
    delete = lambda self, key: self.pop(key, None)
@cache(backend=Slow(), namespace="x", version=1, write_behind=True)
def function(number):
    return number
threads = [threading.Thread(target=function, args=(number,)) for number in range(8)]
for thread in threads:
    thread.start()
for thread in threads:
    thread.join()
"""
    for _ in range(5):
        command = [sys.executable, "-c", program]
        done = subprocess.run(command, capture_output=True, text=True, timeout=60)
        assert (done.returncode, done.stderr) == (0, "")


def test_sqlite_of_the_guide_is_shared_by_threads(tmp_path: pathlib.Path) -> None:
    tier = examples()["SqliteTier"](str(tmp_path / "a.sqlite"))
    function, _ = counted(tier, ttl=60)
    threads = [threading.Thread(target=function, args=(number % 3,)) for number in range(12)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert function.cache_info().l2_failures == 0
    assert isinstance(sqlite3.connect(tmp_path / "a.sqlite"), sqlite3.Connection)
