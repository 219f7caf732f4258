"""The file tier: what processes share, what they forget, and what a broken file costs."""

import asyncio
import dataclasses
import logging
import os
import pathlib
import subprocess
import sys
import threading
import time
from typing import Any

import pytest

from tidemark_cache import CacheConfig, FileBackend, _backed, cache

#: What the processes of these tests import.
SHARED = '''
import os, sys, time
from tidemark_cache import FileBackend, cache

runs = []

@cache(backend=FileBackend(folder=os.environ["TIER_FOLDER"], megabytes=8), ttl=600)
def shared(number):
    runs.append(number)
    return [number, os.getpid()]
'''


@pytest.fixture
def backend(tmp_path: pathlib.Path) -> FileBackend:
    return FileBackend(folder=tmp_path / "tier", megabytes=8)


def counted(backend: Any, **settings: Any) -> tuple[Any, list[Any]]:
    """A function in a file, and the arguments its body has run with."""
    runs: list[Any] = []
    settings = {"namespace": "test", "version": 1, **settings}

    @cache(backend=backend, **settings)
    def function(argument: Any) -> Any:
        runs.append(argument)
        return [argument, len(runs)]

    return function, runs


def test_value_outlives_the_memory_of_its_process(backend: FileBackend) -> None:
    first, runs = counted(backend)
    again, later_runs = counted(backend)
    assert first(1) == [1, 1] and first(1) == [1, 1] and runs == [1]
    value = again(1)
    assert value == [1, 1] and later_runs == []
    value.append("mine")
    assert again(1) == [1, 1]
    info = again.cache_info()
    assert (info.hits, info.misses, info.l1_hits, info.l2_hits, info.l2_failures) == (2, 0, 1, 1, 0)
    assert "l2_hits=1" in repr(info)


def test_keys_keep_types_apart_in_the_file(backend: FileBackend) -> None:
    first, _ = counted(backend)
    again, runs = counted(backend)
    arguments = [1, True, 1.0, "1", b"1", (1,), [1], (1, 2), None, 2**70, {"a": 1}]
    answers = [first(argument) for argument in arguments]
    assert [again(argument) for argument in arguments] == answers
    assert runs == []


def test_invalidation_reaches_the_file(backend: FileBackend) -> None:
    first, runs = counted(backend)
    again, later_runs = counted(backend)
    first(1), first(2)
    assert first.invalidate_cache(1) is True
    assert first.invalidate_cache(9) is False
    assert again(1) == [1, 1] and later_runs == [1]
    assert again(2) == [2, 2]
    first.cache_clear()
    other, other_runs = counted(backend)
    other(1), other(2)
    assert other_runs == [1, 2]


def test_other_process_sees_an_invalidation_within_the_bound(
    backend: FileBackend, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(_backed, "STALE_S", 0.05)
    first, _ = counted(backend)
    again, later_runs = counted(backend)
    first(1), again(1)
    first.invalidate_cache(1)
    end = time.monotonic() + 30
    while again(1) == [1, 1] and not later_runs:
        assert time.monotonic() < end
    assert later_runs == [1]


@pytest.mark.parametrize("forget", ["invalidate_cache", "cache_clear"])
def test_run_that_an_invalidation_overtakes_is_not_stored(
    backend: FileBackend, forget: str
) -> None:
    other, _ = counted(backend)
    other(9)
    runs: list[int] = []

    @cache(backend=backend, namespace="test", version=1, key=lambda argument: argument)
    def slow(argument: int) -> int:
        runs.append(argument)
        if len(runs) == 1:
            # As another process would.
            twin.invalidate_cache(1) if forget == "invalidate_cache" else twin.cache_clear()
        return len(runs)

    @cache(backend=backend, namespace="test", version=1, key=lambda argument: argument)
    def twin(argument: int) -> int:
        raise AssertionError("it is in no file")

    twin._backed._identity = twin._backed._of_calls = slow._backed._identity
    twin._backed._names = slow._backed._names
    assert slow(1) == 1
    assert slow(1) == 2 and slow(1) == 2


def test_lifetimes_and_conditions_hold_in_the_file(backend: FileBackend) -> None:
    brief, _ = counted(backend, ttl=0.001)
    brief(1)
    threading.Event().wait(0.01)
    again, runs = counted(backend, ttl=0.001)
    again(1)
    assert runs == [1]
    asked: list[Any] = []
    picky, _ = counted(backend, version=2, when=lambda value: asked.append(value) or value[0] > 1)
    picky(1), picky(2)
    # Each result is judged once, for both tiers.
    assert len(asked) == 2
    again, runs = counted(backend, version=2)
    again(1), again(2)
    assert runs == [1]


def test_refresh_and_set_write_through(backend: FileBackend) -> None:
    first, runs = counted(backend)
    assert first(1) == [1, 1] and first.cache_refresh(1) == [1, 2]
    again, later_runs = counted(backend)
    assert again(1) == [1, 2]
    again.cache_set("set", 1)
    assert again(1) == "set"
    third, _ = counted(backend)
    assert third(1) == "set" and later_runs == []
    with pytest.raises(TypeError, match="cache_touch"):
        counted(backend, ttl=5)[0].cache_touch(1)


def test_async_functions_share_the_file(backend: FileBackend) -> None:
    def made() -> tuple[Any, list[int]]:
        runs: list[int] = []

        @cache(backend=backend, namespace="async", version=1)
        async def function(number: int) -> list[int]:
            runs.append(number)
            await asyncio.sleep(0)
            return [number, len(runs)]

        return function, runs

    first, runs = made()
    again, later_runs = made()

    async def calls() -> None:
        answers = await asyncio.gather(*(first(1) for _ in range(20)))
        assert answers == [[1, 1]] * 20 and runs == [1]
        assert await again(1) == [1, 1] and await again(1) == [1, 1]
        assert await again.cache_refresh(1) == [1, 1] and later_runs == [1]
        assert await first.ainvalidate_cache(1)

    asyncio.run(calls())
    third, third_runs = made()
    asyncio.run(third(1))
    assert third_runs == [1]


def test_function_that_could_be_another_is_refused_while_decorating() -> None:
    def local() -> None: ...

    main = type(local)(local.__code__, {"__name__": "__main__"}, "main")
    main.__qualname__ = "main"
    main.__module__ = "__main__"
    for function in (local, lambda: None, main):
        with pytest.raises(TypeError, match="give namespace and version, or key"):
            cache(backend="file")(function)
        with pytest.raises(TypeError, match="give namespace and version, or key"):
            cache(backend="file", namespace="n")(function)
        cache(backend="file", key=lambda: 1)(function)
        cache(backend="file", namespace="n", version=1)(function)


def test_method_with_a_backend_is_refused() -> None:
    with pytest.raises((TypeError, RuntimeError)) as refused:

        class Shop:
            @cache(backend="file", namespace="n", version=1)
            def price(self) -> int:
                return 1

    error = refused.value.__cause__ or refused.value
    assert "price is a method" in str(error)


def test_argument_and_result_without_bytes_are_named(backend: FileBackend) -> None:
    function, runs = counted(backend)
    with pytest.raises(TypeError, match="object, which has no canonical encoding"):
        function(object())
    assert runs == []

    @cache(backend=backend, namespace="test", version=3)
    def opaque(depth: int) -> Any:
        value: Any = threading.Lock() if depth else (number for number in range(3))
        return {"rows": [1, {"lock": value}]}

    with pytest.raises(TypeError, match=r"result\['rows'\]\[1\]\['lock'\] is a lock"):
        opaque(1)


@pytest.mark.parametrize("fault", ["file", "others", "missing"])
def test_broken_place_costs_runs_and_a_warning(
    tmp_path: pathlib.Path, fault: str, caplog: pytest.LogCaptureFixture
) -> None:
    place = tmp_path / "place"
    if fault == "file":
        place.write_text("no folder")
    elif fault == "others":
        place.mkdir(mode=0o777)
        place.chmod(0o777)
    folder = pathlib.Path("/proc/nowhere") if fault == "missing" else place
    function, runs = counted(FileBackend(folder=folder))
    with caplog.at_level(logging.WARNING, "tidemark_cache"):
        assert function(1) == [1, 1] and function(1) == [1, 1] and function(2) == [2, 2]
        function.invalidate_cache(1)
        function.cache_clear()
    assert runs == [1, 2]
    assert len(caplog.records) == 1 and "tier of" in caplog.text
    status = function.get_health_status()
    assert status["status"] == "degraded" and str(folder) in status["tiers"]["file"]
    assert function.cache_info().l2_failures >= 4


def test_truncated_file_is_a_miss(backend: FileBackend, tmp_path: pathlib.Path) -> None:
    function, _ = counted(backend)
    function(1)
    os.truncate(tmp_path / "tier" / "python-1.tier", 10)
    again, runs = counted(backend)
    assert again(1) == [1, 1] and runs == [1]
    assert again.cache_info().l2_failures == 1


def start(folder: pathlib.Path, program: str) -> "subprocess.Popen[str]":
    (folder / "shared_functions.py").write_text(SHARED)
    environment = {**os.environ, "TIER_FOLDER": str(folder / "tier"), "PYTHONPATH": str(folder)}
    program = "from shared_functions import *\n" + program
    command = [sys.executable, "-c", program]
    return subprocess.Popen(command, env=environment, stdout=subprocess.PIPE, text=True)


def test_processes_share_values_one_after_another(tmp_path: pathlib.Path) -> None:
    program = "print(shared(1), shared(2), len(runs))"
    said = [start(tmp_path, program).communicate()[0].split() for _ in range(3)]
    assert said[0][-1] == "2" and said[1][-1] == said[2][-1] == "0"
    assert said[0][:-1] == said[1][:-1] == said[2][:-1]


def test_process_that_has_preloaded_forks_children_that_share(tmp_path: pathlib.Path) -> None:
    program = """
shared(0)
children = []
for child in range(4):
    pid = os.fork()
    if not pid:
        for turn in range(300):
            shared((child, turn % 30))
            shared.invalidate_cache((child, turn % 7))
        found = shared(0)
        shared.invalidate_cache(0)
        os._exit(0 if found[1] == os.getppid() or found[0] == 0 else 1)
    children.append(pid)
for turn in range(300):
    shared(("parent", turn))
print([os.waitpid(pid, 0)[1] for pid in children], shared.cache_info().l2_failures)
"""
    process = start(tmp_path, program)
    said, _ = process.communicate()
    assert process.returncode == 0 and said.startswith("[0, 0, 0, 0]"), said


def test_backend_in_a_config_and_under_a_preset(backend: FileBackend) -> None:
    config = CacheConfig(backend=backend, ttl=60, namespace="c", version=1)
    for decorate in (cache(config=config), cache.production(config=config)):

        @decorate
        def function(number: int) -> int:
            return number

        assert function(1) == 1
    assert CacheConfig(backend="file").backend == FileBackend()
    for wrong in ({"folder": 3}, {"megabytes": True}, {"megabytes": "8"}):
        with pytest.raises(TypeError):
            FileBackend(**wrong)  # type: ignore[arg-type]
    for size in (0, 1 << 21):
        with pytest.raises(ValueError, match="megabytes must be from 1"):
            FileBackend(megabytes=size)


def tool(*words: str) -> tuple[int, str]:
    command = [sys.executable, "-m", "tidemark_cache", *words]
    done = subprocess.run(command, capture_output=True, text=True)
    assert "Traceback" not in done.stderr, done.stderr
    return done.returncode, done.stdout + done.stderr


def test_tool_inspects_verifies_and_clears(backend: FileBackend, tmp_path: pathlib.Path) -> None:
    folder = str(tmp_path / "tier")
    for command in ("inspect", "verify", "clear"):
        code, said = tool(command, "--folder", folder)
        assert code == 1 and "there is no cache file" in said
    assert not (tmp_path / "tier").exists()
    # A thread that listens would put a new file in the place of the damaged one.
    function, _ = counted(dataclasses.replace(backend, listen=False))
    for number in range(20):
        function(number)
    # Two entries more: the tokens of the function and of its namespace.
    code, said = tool("inspect", "--folder", folder)
    assert code == 0 and "entries: 22\n" in said and "damaged: 0\n" in said
    file = tmp_path / "tier" / "python-1.tier"
    content = file.read_bytes()
    assert tool("verify", "--folder", folder)[0] == 0
    at = content.rindex(b"\xd1\x12\x01\x00")
    with open(file, "r+b") as damaged:
        damaged.seek(at)
        damaged.write(b"\x00\x00")
    code, said = tool("verify", "--folder", folder)
    assert code == 1 and "damaged: 1\n" in said
    assert tool("clear", "--folder", folder)[0] == 0
    assert "entries: 0\n" in tool("inspect", "--folder", folder)[1]
    file.write_bytes(b"garbage")
    code, said = tool("inspect", "--folder", folder)
    assert code == 1 and "no cache file of this start of the host" in said
    assert file.read_bytes() == b"garbage"
    assert tool("explode")[0] == 2


def test_large_answer_goes_into_memory_when_it_is_asked_for_again(backend: FileBackend) -> None:
    runs: list[int] = []

    def made() -> Any:
        @cache(backend=backend, namespace="large", version=1)
        def function(number: int) -> list[int]:
            runs.append(number)
            return list(range(2_000))

        return function

    first, again = made(), made()
    assert first(1) == again(1) == list(range(2_000))
    assert (again.cache_info().l1_hits, again.cache_contains(1)) == (0, False)
    for _ in range(3):
        value = again(1)
        assert value == list(range(2_000))
        value.append(1)
    assert (again.cache_info().l1_hits, again.cache_info().l2_hits) == (2, 2)
    # What memory has lost so soon it would lose again.
    again._forget_in_memory()
    assert again(1) == again(1) == list(range(2_000))
    assert (again.cache_info().l1_hits, again.cache_info().l2_hits) == (2, 4)
    # Threads that wait for an answer that goes to one of them alone ask for it again.
    first(2)
    start = threading.Barrier(8)
    answers: list[Any] = []

    def ask() -> None:
        start.wait()
        answers.append(again(2))

    threads = [threading.Thread(target=ask) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert answers == [list(range(2_000))] * 8
    assert len({id(answer) for answer in answers}) == 8 and runs == [1, 2]


@pytest.mark.parametrize("folder, kind, words", [
    ("", ValueError, "at least one character"),
    ("a\0b", ValueError, "none of code 0"),
    (b"a", TypeError, "folder must be a path, not bytes"),
    (os.scandir, TypeError, "folder must be a path, not builtin"),
], ids=repr)  # fmt: skip
def test_folder_that_can_be_none_is_refused_at_once(folder: Any, kind: Any, words: str) -> None:
    with pytest.raises(kind, match=words):
        FileBackend(folder=folder)


def test_folder_of_bytes_is_refused_at_once() -> None:
    class Folder:
        def __fspath__(self) -> bytes:
            return b"a"

    with pytest.raises(TypeError, match="folder must be a path of str, not of bytes"):
        FileBackend(folder=Folder())  # type: ignore[arg-type]
