"""What a hit costs beside `functools.lru_cache`: `python bench/python/hits.py [--json FILE]`.

Each pair is measured in turns, five times, by the processor time of this thread; the figure is
the median of the five ratios. The pair "the same twice" measures one thing as two: what it differs
from 1 is what the machine adds. cachekit and cachetools are measured if they are installed.
"""

import argparse
import asyncio
import copy
import functools
import importlib.util
import json
import pickle
import platform
import statistics
import sysconfig
import time
from collections.abc import Callable
from typing import Any

from tidemark_cache import cache

RUNS = 5
BATCHES = 15

#: About 10 KB, nested as an answer of an API is.
PAYLOAD = {
    f"user-{number}": {
        "id": number,
        "tags": ["new", "paid"],
        "address": {"city": "Bern", "zip": 3000 + number, "point": [46.9, 7.4]},
    }
    for number in range(58)
}
ALIASED = {"all": list(PAYLOAD.values()), "first": PAYLOAD["user-0"]}

Timed = Callable[[int], int]


def loop(call: str, **names: Any) -> tuple[Timed, int]:
    """Nanoseconds of processor time for so many calls, and how many make a batch."""
    text = f"def run(count):\n for _ in range(count): {call}\n"
    exec(text, names)
    run = names["run"]

    def timed(count: int) -> int:
        start = time.thread_time_ns()
        run(count)
        return time.thread_time_ns() - start

    timed(100)
    return timed, 20_000 if timed(100) < 1_000_000 else 200


def awaited(function: Any) -> tuple[Timed, int]:
    async def run(count: int) -> None:
        for _ in range(count):
            await function(1)

    def timed(count: int) -> int:
        start = time.thread_time_ns()
        asyncio.run(run(count))
        return time.thread_time_ns() - start

    timed(100)
    return timed, 20_000


def misses(make: Callable[[], Any]) -> tuple[Timed, int]:
    def timed(count: int) -> int:
        function = make()
        start = time.thread_time_ns()
        for number in range(count):
            function(number)
        return time.thread_time_ns() - start

    return timed, 20_000


def one(value: Any) -> Any:
    return value


class Methods:
    @functools.lru_cache
    def theirs(self, value: Any) -> Any:
        return value

    @cache
    def ours(self, value: Any) -> Any:
        return value


async def trivial(value: Any) -> Any:
    return value


def pairs() -> list[tuple[str, str, float | None, tuple[Timed, int], tuple[Timed, int]]]:
    """(what, beside what, the target of issue 26, ours, theirs)."""
    ours, lru = cache(one), functools.lru_cache(one)
    typed, lasting = functools.lru_cache(typed=True)(one), cache(ttl=3600)(one)
    tree, aliased = cache(lambda: PAYLOAD), cache(lambda: ALIASED)
    methods = Methods()
    whole, alias_bytes = pickle.dumps(PAYLOAD, 5), pickle.dumps(ALIASED, 5)
    hit, theirs = loop("f(1)", f=ours), loop("f(1)", f=lru)
    return [
        ("the same twice", "itself", None, loop("f(1)", f=lru), loop("f(1)", f=lru)),
        ("int hit", "lru_cache", 1.15, hit, theirs),
        ("int hit", "lru_cache(typed=True)", 0.7, hit, loop("f(1)", f=typed)),
        ("int hit with a lifetime", "lru_cache", 1.15, loop("f(1)", f=lasting), theirs),
        ("keyword hit", "lru_cache", 0.6, loop("f(value=1)", f=ours), loop("f(value=1)", f=lru)),
        ("method hit", "lru_cache", 1.0, loop("o.ours(1)", o=methods),
         loop("o.theirs(1)", o=methods)),
        ("async hit", "a trivial coroutine", 1.0, awaited(cache(trivial)), awaited(trivial)),
        ("10 KB isolated", "pickle.loads", 0.4, loop("f()", f=tree),
         loop("f(b)", f=pickle.loads, b=whole)),
        ("10 KB with aliases", "pickle.loads", 0.5, loop("f()", f=aliased),
         loop("f(b)", f=pickle.loads, b=alias_bytes)),
        ("10 KB isolated", "copy.deepcopy", None, loop("f()", f=tree),
         loop("f(b)", f=copy.deepcopy, b=PAYLOAD)),
        ("sync miss", "lru_cache", 2.5, misses(lambda: cache(maxsize=50_000)(lambda v: v)),
         misses(lambda: functools.lru_cache(maxsize=50_000)(lambda v: v))),
        *peers(hit),
    ]


def peers(hit: tuple[Timed, int]) -> list[Any]:
    found: list[Any] = []
    if importlib.util.find_spec("cachetools"):
        import cachetools

        other = cachetools.cached(cachetools.TTLCache(100, 3600))(one)
        found.append(("int hit", "cachetools", None, hit, loop("f(1)", f=other)))
    if importlib.util.find_spec("cachekit"):
        import cachekit

        other = cachekit.cache.local(ttl=3600)(one)
        found.append(("int hit", "cachekit local", None, hit, loop("f(1)", f=other)))
    return found


def measured(ours: tuple[Timed, int], theirs: tuple[Timed, int]) -> dict[str, Any]:
    count = min(ours[1], theirs[1])
    runs = []
    for _ in range(RUNS):
        turns = [(ours[0](count) / count, theirs[0](count) / count) for _ in range(BATCHES)]
        runs.append([statistics.median(turn) for turn in zip(*turns, strict=True)])
    ratios = sorted(run[0] / run[1] for run in runs)
    return {
        "ratio": statistics.median(ratios),
        "ratios": ratios,
        "ours_ns": statistics.median(run[0] for run in runs),
        "theirs_ns": statistics.median(run[1] for run in runs),
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--json", help="also write the figures to this file")
    arguments = parser.parse_args()
    optimised = "--enable-optimizations" in (sysconfig.get_config_var("CONFIG_ARGS") or "")
    interpreter = f"{platform.python_implementation()} {platform.python_version()}"
    print(f"{interpreter}, {'with' if optimised else 'not known to be built with'} PGO\n")
    print("| what | beside | ratio | lowest–highest | target | ours ns | theirs ns |")
    print("|---|---|---:|---:|---:|---:|---:|")
    rows = []
    for what, beside, target, ours, theirs in pairs():
        row = {"what": what, "beside": beside, "target": target, **measured(ours, theirs)}
        rows.append(row)
        spread = f"{row['ratios'][0]:.2f}–{row['ratios'][-1]:.2f}"
        print(f"| {what} | {beside} | {row['ratio']:.2f} | {spread} | {target or ''} "
              f"| {row['ours_ns']:.0f} | {row['theirs_ns']:.0f} |")
    if arguments.json:
        with open(arguments.json, "w") as file:
            json.dump({"interpreter": interpreter, "optimised": optimised, "rows": rows}, file)


if __name__ == "__main__":
    main()
