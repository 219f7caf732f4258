"""Threads that use one cache in every way at once, with keys and instances that call it themselves.

``python stress.py SEED SECONDS``: exits with 0 if every answer was right. Meant for an interpreter
without the lock, and for ThreadSanitizer (``run.py``).
"""

import asyncio
import faulthandler
import gc
import random
import sys
import threading
import time
import traceback
from typing import Any

from tidemark_cache import cache

THREADS = 6
#: Later than this it hangs: the places of all threads are printed, and it ends.
HANGS_S = 120


@cache(maxsize=40, ttl=0.02, stale_ttl=0.05, refresh_ahead=0.2)
def plain(number: int) -> list[Any]:
    return [number, {"number": number}]


class Key:
    """Calls the cache where it is hashed, compared and ends."""

    def __init__(self, number: int) -> None:
        self.number = number

    def __hash__(self) -> int:
        plain(self.number)
        return self.number % 3

    def __eq__(self, other: object) -> bool:
        plain(self.number)
        return isinstance(other, Key) and self.number == other.number

    def __del__(self) -> None:
        # None at the end of the interpreter.
        if plain is not None:
            plain(self.number % 7)


@cache(maxsize=16)
def of_key(key: Key) -> list[int]:
    return [key.number]


@cache(maxsize=30, ttl=0.01, copy="bytes")
def as_bytes(number: int) -> dict[str, list[int]]:
    return {"number": [number] * 5}


@cache(maxsize=20, ttl=0.01)
async def later(number: int) -> list[int]:
    await asyncio.sleep(0)
    return [number]


@cache(maxsize=20)
async def at_once(number: int) -> list[int]:
    return [number]


@cache(maxsize=20, ttl=0.02)
def failing(number: int) -> int:
    if number % 5 == 0:
        raise ValueError(number)
    return number


class Shop:
    @cache(maxsize=8, copy="share")
    def itself(self, number: int) -> "Shop":
        return self


class Slim:
    """Has no dict: the function holds the answers."""

    __slots__ = ("__weakref__",)

    @cache(maxsize=8)
    def twice(self, number: int) -> list[int]:
        return [number, number]


shops = [Shop() for _ in range(4)]
slims = [Slim() for _ in range(4)]


async def many_at_once(chance: random.Random) -> None:
    for _ in range(5):
        numbers = [chance.randrange(30) for _ in range(8)]
        for function in later, at_once:
            answers = await asyncio.gather(*map(function, numbers))
            assert answers == [[number] for number in numbers]


def disturb(chance: random.Random, number: int) -> None:
    """Sometimes: empties a cache, collects, runs a loop, replaces an instance or a function."""
    match chance.randrange(200):
        case 0:
            plain.cache_clear()
        case 1:
            of_key.cache_clear()
        case 2:
            gc.collect()
        case 3:
            asyncio.run(many_at_once(chance))
        case 4:
            plain.invalidate_cache(number)
        case 5:
            plain.cache_info()
        case 6:
            shops[number % 4] = Shop()
            slims[number % 4] = Slim()
        case 7:

            @cache
            def local(number: int) -> list[int]:
                return [number]

            assert local(number) == local(number) == [number]


def use(seed: int, end_s: float) -> None:
    chance = random.Random(seed)
    while time.monotonic() < end_s:
        number = chance.randrange(90)
        assert plain(number) == [number, {"number": number}]
        assert of_key(Key(number % 30)) == [number % 30]
        assert as_bytes(number) == {"number": [number] * 5}
        shop = shops[number % 4]
        assert shop.itself(number % 12) is shop
        assert slims[number % 4].twice(number % 12) == [number % 12] * 2
        try:
            assert failing(number) == number and number % 5
        except ValueError:
            assert number % 5 == 0
        disturb(chance, number)


def main() -> int:
    seed, seconds = int(sys.argv[1]), float(sys.argv[2])
    faulthandler.dump_traceback_later(seconds + HANGS_S, exit=True)
    failures: list[BaseException] = []

    def work(number: int) -> None:
        try:
            use(seed * 100 + number, time.monotonic() + seconds)
        except BaseException as error:
            traceback.print_exc()
            failures.append(error)

    threads = [threading.Thread(target=work, args=(number,)) for number in range(THREADS)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    is_locked = getattr(sys, "_is_gil_enabled", lambda: True)()
    print("with" if is_locked else "without", "the lock:", plain.cache_info(), of_key.cache_info())
    return 1 if failures else 0


if __name__ == "__main__":
    sys.exit(main())
