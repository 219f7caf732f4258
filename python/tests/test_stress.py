"""Forks, ends of the interpreter, Ctrl-C and collections at the worst moments, again and again.

The long sizes are those of `cargo xtask night`.
"""

import gc
import multiprocessing
import os
import random
import signal
import subprocess
import sys
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest

from tidemark_cache import cache

IS_NIGHT = os.environ.get("TIDEMARK_LANE") == "night"
REPEATS = 200 if IS_NIGHT else 12


def run(program: str, *arguments: str, timeout_s: float = 60) -> "subprocess.CompletedProcess[str]":
    command = [sys.executable, "-W", "ignore", "-c", program, *arguments]
    return subprocess.run(command, capture_output=True, text=True, timeout=timeout_s)


FORKS = """
import os, random, signal, sys, threading, time
from tidemark_cache import cache
repeats, seed = int(sys.argv[1]), int(sys.argv[2])
@cache(maxsize=50, ttl=0.01, stale_ttl=1, refresh_ahead=0.1)
def value(number):
    time.sleep(random.random() * 0.001)
    return [number]
@cache(maxsize=20)
def opaque(key): return key.number
class Key:
    def __init__(self, number): self.number = number
    def __hash__(self): return self.number % 3
    def __eq__(self, other): return value(self.number) and self.number == other.number
is_over = False
def work(seed):
    chance = random.Random(seed)
    while not is_over:
        number = chance.randrange(80)
        assert value(number) == [number] and opaque(Key(number)) == number
threads = [threading.Thread(target=work, args=(n,), daemon=True) for n in range(4)]
[thread.start() for thread in threads]
chance = random.Random(seed)
for _ in range(repeats):
    time.sleep(chance.random() * 0.01)
    child = os.fork()
    if child == 0:
        signal.alarm(20)
        whole = all(value(n) == [n] and opaque(Key(n)) == n for n in range(80))
        later = [threading.Thread(target=value, args=(n,)) for n in range(5)]
        [thread.start() for thread in later]
        [thread.join() for thread in later]
        os._exit(0 if whole else 1)
    status = os.waitpid(child, 0)[1]
    assert status == 0, status
is_over = True
[thread.join() for thread in threads]
"""


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")
def test_children_of_forks_at_random_moments_answer_and_print_nothing() -> None:
    done = run(FORKS, str(REPEATS), "1", timeout_s=300)
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")


EXITS = """
import asyncio, random, sys, threading, time
from tidemark_cache import cache
chance = random.Random(int(sys.argv[1]))
@cache(ttl=60, refresh_ahead=0.0)
def read(number):
    if started: time.sleep(chance.random() * 0.01)
    return [number]
@cache(ttl=60, refresh_ahead=0.0)
async def aread(number):
    if started: await asyncio.sleep(5)
    return [number]
class Noisy:
    # Held here: the names of a module may be gone before the last of its objects.
    def __del__(self, read=read): read(1)
@cache(copy="share")
def noisy(number): return Noisy()
started = []
[(read(n), noisy(n)) for n in range(40)]
async def main():
    await aread(1)
    started.append(1)
    await aread(1)
asyncio.run(main())
def work():
    while True: read(chance.randrange(40))
threading.Thread(target=work, daemon=True).start()
[read(n) for n in range(40)]
time.sleep(chance.random() * 0.02)
"""


def test_exits_with_refreshes_under_way_are_silent() -> None:
    with ThreadPoolExecutor(2) as pool:
        for done in pool.map(lambda seed: run(EXITS, str(seed)), range(REPEATS)):
            assert (done.returncode, done.stdout, done.stderr) == (0, "", "")


CTRL_C = """
import random, signal, sys, threading, time
from tidemark_cache import cache
chance = random.Random(int(sys.argv[2]))
@cache(flight_wait=600)
def slow(number):
    release.wait(60)
    return number
for number in range(int(sys.argv[1])):
    release = threading.Event()
    leader = threading.Thread(target=slow, args=(number,))
    leader.start()
    while not slow.cache_info().misses > number: time.sleep(0.0005)
    pause = chance.random() * 0.02
    try:
        threading.Timer(pause, lambda: signal.raise_signal(signal.SIGINT)).start()
        slow(number)
        raise SystemExit("the wait ended without Ctrl-C")
    except KeyboardInterrupt:
        pass
    release.set()
    leader.join()
    assert slow(number) == number
"""


def test_ctrl_c_ends_each_wait_and_prints_nothing() -> None:
    done = run(CTRL_C, str(REPEATS), "1", timeout_s=300)
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")


def child_asks(number: int) -> Any:
    return asked_by_children(number)


@cache
def asked_by_children(number: int) -> list[int]:
    return [number, os.getpid()]


@pytest.mark.parametrize("method", [*multiprocessing.get_all_start_methods(), "celery"])
def test_processes_begun_each_way_have_caches_that_work(method: str) -> None:
    asked_by_children(1)
    context: Any
    if method == "celery":
        # Its workers are by default forked before there is work, by this package.
        context = pytest.importorskip("billiard").get_context("fork")
    else:
        context = multiprocessing.get_context(method)
    with context.Pool(2) as pool:
        answers = pool.map(child_asks, [1, 2, 3] * 5)
    assert [answer[0] for answer in answers] == [1, 2, 3] * 5
    if method not in ("fork", "celery"):
        assert all(answer[1] != os.getpid() for answer in answers)


PRELOAD = """
import os, signal, threading
from tidemark_cache import cache
@cache(ttl=60, refresh_ahead=0.0)
def read(number): return [number]
# As a server does that loads the application first and forks its workers later.
[read(n) for n in range(20)]
[read(n) for n in range(20)]
children = []
for _ in range(4):
    child = os.fork()
    if child == 0:
        signal.alarm(20)
        [read(n) for n in range(20)]
        refreshed = threading.Event()
        os._exit(0 if all(read(n) == [n] for n in range(40)) else 1)
    children.append(child)
print([os.waitpid(child, 0)[1] for child in children])
"""


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")
def test_workers_forked_after_loading_answer() -> None:
    done = run(PRELOAD)
    assert (done.stdout, done.stderr) == ("[0, 0, 0, 0]\n", "")


def test_collections_at_every_allocation_end_no_value_in_use() -> None:
    alive: set[int] = set()

    class Watched:
        def __init__(self, number: int) -> None:
            self.number = number
            self.me = self  # Only a collection ends it.
            alive.add(id(self))

        def __del__(self) -> None:
            alive.discard(id(self))
            if chance.random() < 0.2:
                plain(self.number % 10)

    class Key:
        def __init__(self, number: int) -> None:
            self.number = number

        def __hash__(self) -> int:
            return self.number % 4

        def __eq__(self, other: object) -> bool:
            if chance.random() < 0.1:
                shared.invalidate_cache(self)
            return isinstance(other, Key) and other.number == self.number

    @cache(maxsize=6, ttl=0.01)
    def plain(number: int) -> list[list[int]]:
        return [[number]]

    @cache(maxsize=5, copy="share")
    def shared(key: Key) -> Watched:
        return Watched(key.number)

    chance = random.Random(1)
    failures: list[str] = []
    end = time.monotonic() + (60 if IS_NIGHT else 4)

    def work(seed: int) -> None:
        mine = random.Random(seed)
        while time.monotonic() < end and not failures:
            number = mine.randrange(12)
            value = shared(Key(number))
            if id(value) not in alive or value.number != number:
                failures.append(f"a value of {number} ended while it was in use")
            copied = plain(number)
            copied[0].append(1)
            if plain(number) != [[number]]:
                failures.append(f"{number} was changed for others")

    before = gc.get_threshold()
    gc.set_threshold(1)
    try:
        threads = [threading.Thread(target=work, args=(seed,)) for seed in range(4)]
        [thread.start() for thread in threads]
        [thread.join(120) for thread in threads]
    finally:
        gc.set_threshold(*before)
    assert not failures and not any(thread.is_alive() for thread in threads)
    assert signal.getsignal(signal.SIGINT) is signal.default_int_handler


def test_random_cancellation_leaves_one_run_for_each_key_and_hangs_nobody() -> None:
    import asyncio

    running: dict[int, int] = {}

    @cache(maxsize=4)
    async def slow(number: int) -> list[int]:
        running[number] = running.get(number, 0) + 1
        assert running[number] == 1, "a second run beside the first"
        try:
            await asyncio.sleep(0.002)
            return [number]
        finally:
            running[number] -= 1

    async def main(seed: int) -> None:
        chance = random.Random(seed)

        async def ask() -> None:
            number = chance.randrange(8)
            assert await slow(number) == [number]

        for _ in range(100 if IS_NIGHT else 20):
            tasks = [asyncio.create_task(ask()) for _ in range(20)]
            await asyncio.sleep(chance.random() * 0.003)
            for task in chance.sample(tasks, 8):
                task.cancel()
            done = await asyncio.wait_for(asyncio.gather(*tasks, return_exceptions=True), 30)
            wrong = [one for one in done if isinstance(one, Exception)]
            assert not wrong, wrong

    for seed in range(10 if IS_NIGHT else 3):
        asyncio.run(main(seed))


class Interrupting(dict[Any, Any]):
    """Calls something in the middle of a change, as the end of an object may."""

    def __init__(self, call: Any) -> None:
        super().__init__()
        self.call = call

    def get(self, *arguments: Any) -> Any:
        found = super().get(*arguments)
        self.call()
        return found


def within(seconds: float, work: Any) -> Any:
    """What the work returns; fails if it hangs."""
    executor = ThreadPoolExecutor(1)
    try:
        return executor.submit(work).result(seconds)
    finally:
        executor.shutdown(wait=False, cancel_futures=True)


def test_refresh_that_is_asked_for_while_another_is_begun_is_left_out() -> None:
    from tidemark_cache import _refresh

    pool = _refresh._Pool()
    inner: list[bool] = []
    done = threading.Event()
    pool.pending = Interrupting(lambda: inner.append(pool.submit(len, print)))
    assert within(20, lambda: pool.submit(abs, done.set))
    assert inner and not any(inner)
    assert done.wait(20)
    pool.pending = {}
    assert pool.submit(len, print)
    pool.stop()


def test_calls_whose_arguments_end_with_them_are_remembered() -> None:
    from tidemark_cache import _recent

    recent = _recent.RecentCalls(0.0)
    ended: list[bytes] = []

    class Argument:
        def __init__(self, name: bytes) -> None:
            self.name = name

        def __del__(self) -> None:
            if self.name not in ended:
                ended.append(self.name)
                recent.end(b"from " + self.name, Argument(self.name))  # type: ignore[arg-type]

    def work() -> None:
        for number in range(20):
            name = b"%d" % number
            recent.begin(name, Argument(name))  # type: ignore[arg-type]
            recent.end(name, Argument(name))  # type: ignore[arg-type]

    within(20, work)
    assert len(ended) >= 17
