"""The rows of the bench of the Python cache; `run.py` installs what they need and starts this."""

import argparse
import asyncio
import copy
import dataclasses
import datetime
import functools
import importlib.metadata
import importlib.util
import json
import os
import pathlib
import pickle
import platform
import sys
import sysconfig
import threading
import time
from collections.abc import Callable
from typing import Any

import tier_rows
import timing
from tidemark_cache import cache
from timing import Row, Side, awaited, loop, misses, process

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

CPU = "import time; start = time.process_time_ns(); {}; print(time.process_time_ns() - start)"
RESIDENT = "{}; print(open('/proc/self/statm').read().split()[1])"
PER_ENTRY = """
import gc, os
{}
keys = [number + 1000 for number in range(200_000)]
f(keys[0])
gc.collect()
page = os.sysconf('SC_PAGE_SIZE')
def resident(): return int(open('/proc/self/statm').read().split()[1]) * page
before = resident()
for key in keys[:100_000]: f(key)
gc.collect()
print((resident() - before) / 100_000)
"""
OURS_OF_ENTRIES = "from tidemark_cache import cache; f = cache(maxsize=200_000)(lambda v: None)"
LRU_OF_ENTRIES = "import functools; f = functools.lru_cache(maxsize=200_000)(lambda v: None)"


def one(value: Any) -> Any:
    return value


class Methods:
    @functools.lru_cache
    def theirs(self, value: Any) -> Any:
        return value

    @cache
    def ours(self, value: Any) -> Any:
        return value


@dataclasses.dataclass
class Record:
    number: int
    name: str
    share: float
    is_new: bool
    place: str


@dataclasses.dataclass(frozen=True)
class Frozen:
    number: int
    name: str


async def trivial(value: Any) -> Any:
    return value


async def waiting(value: Any) -> Any:
    await asyncio.sleep(0)
    return value


def has(package: str) -> bool:
    return importlib.util.find_spec(package) is not None


def floors() -> list[Row]:
    lru = functools.lru_cache(one)
    hit = loop("f(1)", f=cache(one))
    return [
        Row("the same twice", "itself", None, loop("f(1)", f=lru), loop("f(1)", f=lru)),
        Row("int hit", "an empty loop step", None, hit, loop("pass")),
        Row("int hit", "abs(1)", None, hit, loop("f(1)", f=abs)),
        Row("int hit", "a Python function", None, hit, loop("f(1)", f=one)),
    ]


def hits() -> list[Row]:
    ours, lru = cache(one), functools.lru_cache(one)
    typed, lasting = functools.lru_cache(typed=True)(one), cache(ttl=3600)(one)
    shared, frozen = cache(copy="share")(lambda: PAYLOAD), cache(lambda: Frozen(1, "a"))
    methods, record = Methods(), Record(1, "a", 0.5, True, "Bern")
    records = cache(lambda: record)
    hit, theirs = loop("f(1)", f=ours), loop("f(1)", f=lru)
    nothing = loop("f()", f=functools.lru_cache(lambda: 1))
    return [
        Row("int hit", "lru_cache", 1.15, hit, theirs),
        Row("int hit", "lru_cache(typed=True)", 0.7, hit, loop("f(1)", f=typed)),
        Row("int hit with a lifetime", "lru_cache", 1.15, loop("f(1)", f=lasting), theirs),
        Row("keyword hit", "lru_cache", 0.6, loop("f(value=1)", f=ours),
            loop("f(value=1)", f=lru)),
        Row("method hit", "lru_cache", 1.0, loop("o.ours(1)", o=methods),
            loop("o.theirs(1)", o=methods)),
        Row("async hit", "a trivial coroutine", 1.0, awaited(cache(trivial)), awaited(trivial)),
        Row("10 KB, shared", "lru_cache", 1.15, loop("f()", f=shared), nothing),
        Row("frozen data class", "lru_cache", 1.15, loop("f()", f=frozen), nothing),
        Row("data class, isolated", "copy.copy", 0.3, loop("f()", f=records),
            loop("f(r)", f=copy.copy, r=record)),
    ]


def copies() -> list[Row]:
    tree, aliased = cache(lambda: PAYLOAD), cache(lambda: ALIASED)
    whole, alias_bytes = pickle.dumps(PAYLOAD, 5), pickle.dumps(ALIASED, 5)
    isolated = loop("f()", f=tree)

    @cache
    async def answer(_: int) -> Any:
        return PAYLOAD

    rows = [
        Row("10 KB, isolated", "pickle.loads", 0.4, isolated,
            loop("f(b)", f=pickle.loads, b=whole)),
        Row("10 KB with aliases", "pickle.loads", 0.5, loop("f()", f=aliased),
            loop("f(b)", f=pickle.loads, b=alias_bytes)),
        Row("10 KB, isolated", "copy.deepcopy", None, isolated,
            loop("f(b)", f=copy.deepcopy, b=PAYLOAD)),
        Row("10 KB, async", "the sync hit", 1.1, awaited(answer), isolated),
        # Four fifths of its calls in a second.
        Row("10 KB, 10 threads", "one thread", 1.25, timing.together(tree, 10),
            timing.together(tree, 1)),
    ]
    if has("pandas"):
        import pandas

        count = range(10_000)
        frame = pandas.DataFrame({
            "a": count, "b": count, "share": [n / 7 for n in count],
            "is_new": [n % 2 == 0 for n in count], "name": [f"row {n}" for n in count],
            "at": pandas.to_datetime([datetime.datetime(2026, 1, 1)] * 10_000),
        })
        rows.append(Row("frame of 10,000 rows", "copy(deep=False)", 1.5,
                        loop("f()", f=cache(lambda: frame)),
                        loop("f.copy(deep=False)", f=frame)))
    return rows


def others() -> list[Row]:
    lru = functools.lru_cache(one)
    rows = [
        Row("sync miss", "lru_cache", 2.5, misses(lambda: cache(maxsize=50_000)(lambda v: v)),
            misses(lambda: functools.lru_cache(maxsize=50_000)(lambda v: v))),
        Row("async miss", "making and awaiting a task", 1.5,
            awaited(None, new=lambda: cache(maxsize=50_000)(trivial)),
            awaited(trivial, is_task=True)),
        # As most bodies do.
        Row("async miss, the body waits", "making and awaiting a task", 1.5,
            awaited(None, new=lambda: cache(maxsize=50_000)(waiting)),
            awaited(waiting, is_task=True)),
        Row("10 threads, one key", "lru_cache", 1.15, timing.threads(cache(one)),
            timing.threads(lru)),
        Row("resident after import", "bare interpreter", 1.3,
            process(RESIDENT.format("import tidemark_cache")), process(RESIDENT.format("pass")),
            "pages"),
        Row("bytes of an entry", "lru_cache", None, process(PER_ENTRY.format(OURS_OF_ENTRIES)),
            process(PER_ENTRY.format(LRU_OF_ENTRIES)), "B"),
    ]
    if has("cachekit"):
        rows.append(Row("import, processor time", "cachekit", 0.1,
                        process(CPU.format("import tidemark_cache")),
                        process(CPU.format("import cachekit"))))
    return rows


def free_threads() -> list[Row]:
    """How calls of two threads hold each other up; nothing where the interpreter has its lock."""
    if getattr(sys, "_is_gil_enabled", lambda: True)():
        return []
    lists = cache(lambda number: [number])
    called: dict[str, list[Any]] = {
        "one function, one key": [cache(one)] * 2,
        "a function for each": [cache(lambda number: number), cache(lambda number: number)],
        "one function, a list": [lists] * 2,
    }
    return [
        Row(f"2 threads, growth of a call: {what}", "abs", None, timing.growth(functions),
            timing.growth([abs] * 2), "%")
        for what, functions in called.items()
    ]


def peer_functions() -> dict[str, Callable[[Any], Any]]:
    """How each peer that is installed decorates a function."""
    found: dict[str, Callable[[Any], Any]] = {}
    if has("cachetools"):
        import cachetools

        found["cachetools"] = lambda f: cachetools.cached(cachetools.TTLCache(1000, 3600))(f)

        def with_lock(function: Any) -> Any:
            store = cachetools.TTLCache(1000, 3600)
            return cachetools.cached(store, lock=threading.RLock())(function)

        found["cachetools, lock"] = with_lock
    if has("cachebox"):
        import cachebox

        found["cachebox"] = lambda f: cachebox.cached(cachebox.TTLCache(1000, 3600))(f)
    if has("moka_py"):
        import moka_py

        found["moka-py"] = lambda f: moka_py.cached(maxsize=1000, ttl=3600)(f)
    if has("theine"):
        import theine

        found["theine"] = lambda f: theine.Memoize(1000, datetime.timedelta(hours=1))(f)
    if has("diskcache"):
        import tempfile

        import diskcache

        found["diskcache"] = lambda f: diskcache.Cache(tempfile.mkdtemp()).memoize()(f)
    if has("cachekit"):
        import cachekit

        found["cachekit, local"] = lambda f: cachekit.cache.local(ttl=3600)(f)
        found["cachekit, backend=None"] = lambda f: cachekit.cache(backend=None, ttl=3600)(f)
    return found


def peers() -> list[Row]:
    def number(value: Any) -> Any:
        return value

    def answer(_: int) -> Any:
        return PAYLOAD

    rows = []
    for name, decorate in peer_functions().items():
        for what, body in ("int hit", number), ("10 KB hit", answer):
            try:
                theirs = loop("f(1)", f=decorate(body))
            except Exception as error:
                print(f"{what} of {name} does not run here: {error!r}")
                continue
            rows.append(Row(what, name, None, loop("f(1)", f=cache(body)), theirs))
    return rows


def tiers() -> list[Row]:
    disk = None
    if has("diskcache"):
        import diskcache

        disk = diskcache.Cache
    return [*tier_rows.files(PAYLOAD, disk), *tier_rows.processes(), *tier_rows.servers()]


def bodies() -> dict[str, int]:
    """Bodies run by 12 threads that miss one key together."""
    decorators = {"tidemark-cache": cache, "lru_cache": functools.lru_cache, **peer_functions()}
    counted = {}
    for name, decorate in decorators.items():
        runs: list[int] = []

        def slow(number: int) -> int:
            runs.append(number)
            time.sleep(0.05)
            return number

        ready = threading.Barrier(12)

        def ask(function: Any, ready: Any = ready) -> None:
            ready.wait()
            function(1)

        try:
            function = decorate(slow)
            asking = [threading.Thread(target=ask, args=(function,)) for _ in range(12)]
            [thread.start() for thread in asking]
            [thread.join() for thread in asking]
        except Exception as error:
            print(f"{name} does not run here: {error!r}")
            continue
        counted[name] = len(runs)
    return counted


def interpreter() -> dict[str, Any]:
    arguments = sysconfig.get_config_var("CONFIG_ARGS") or ""
    is_debian = "--with-wheel-pkg-dir" in arguments and "/usr" in arguments
    versions = {
        name: importlib.metadata.version(name)
        for name in ("tidemark-cache", "cachekit", "cachetools", "cachebox", "moka-py", "theine",
                     "diskcache", "pandas")
        if name in {found.metadata["Name"] for found in importlib.metadata.distributions()}
    }
    return {
        "version": f"{platform.python_implementation()} {platform.python_version()}",
        # Debian optimises by profile in its own build, not by the argument.
        "optimised": is_debian or "--enable-optimizations" in arguments,
        "cores": os.cpu_count(),
        "load": os.getloadavg(),
        "packages": versions,
    }


def written(row: dict[str, Any]) -> str:
    spread = f"{row['ratios'][0]:.2f}–{row['ratios'][-1]:.2f}"
    target = "" if row["target"] is None else f"≤ {row['target']}"
    verdict = {None: "", True: "yes", False: "NO"}[row["met"]]
    return (f"| {row['what']} | {row['beside']} | {row['ratio']:.2f} | {spread} "
            f"| {row['p95_ratio']:.2f} | {target} | {verdict} | {row['ours']:.0f} "
            f"| {row['theirs']:.0f} | {row['unit']} |")


def worse(rows: list[dict[str, Any]], before: list[dict[str, Any]]) -> list[str]:
    """What takes over 5 % more than in an accepted run, and by more than what one thing measured
    twice differs."""
    twice = next(row for row in rows if row["what"] == "the same twice")
    allowed = max(0.05, *(abs(ratio - 1) for ratio in twice["ratios"]))
    known = {(row["what"], row["beside"]): row["ratio"] for row in before}
    found = []
    for row in rows:
        last = known.get((row["what"], row["beside"]))
        if last is not None and row["ratio"] > last * (1 + allowed):
            what = f"{row['what']} beside {row['beside']}"
            found.append(f"{what}: {row['ratio']:.2f}, was {last:.2f}")
    return found


def wanted(part: str | None) -> list[Row]:
    """All rows, or those with this in their name and what the machine adds.

    Raises:
        LookupError: when no row has it.
    """
    rows = [*floors(), *hits(), *copies(), *others(), *free_threads(), *peers(), *tiers()]
    found = [row for row in rows if part is None or part in row.what]
    if not found:
        names = ", ".join(dict.fromkeys(repr(row.what) for row in rows))
        raise LookupError(f"no row has {part!r} in its name; there are {names}")
    return found if part is None else [rows[0], *found]


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--quick", action="store_true")
    parser.add_argument("--out", type=pathlib.Path)
    parser.add_argument("--against", type=pathlib.Path)
    parser.add_argument("--only")
    arguments = parser.parse_args()
    about = interpreter()
    accepted = None
    if arguments.against:
        accepted = json.loads((arguments.against / "run.json").read_text())
        if accepted["interpreter"]["version"] != about["version"]:
            parser.error(f"{arguments.against} is a run of {accepted['interpreter']['version']}")
    try:
        to_measure = wanted(arguments.only)
    except LookupError as error:
        parser.error(f"--only: {error}")
    built = "with" if about["optimised"] else "not known to be built with"
    load = about["load"][0]
    lines = [f"{about['version']}, {built} profile-guided optimisation; load {load:.1f}"]
    if arguments.quick:
        lines.append("A quick run: it shows that the bench works, and its figures show nothing.")
    titles = "what | beside | ratio | lowest–highest | p95 | target | met | ours | theirs | "
    lines += ["", f"| {titles}|",
              "|---|---|---:|---:|---:|---:|---|---:|---:|---|"]
    print("\n".join(lines), flush=True)
    runs, batches = (1, 2) if arguments.quick else (5, 15)
    rows, wrong = [], []
    for row in to_measure:
        try:
            rows.append(timing.measured(row, runs, batches))
        except timing.WrongCounts as error:
            wrong.append(f"{row.what} beside {row.beside} is not measured: {error}")
            continue
        lines.append(written(rows[-1]))
        print(lines[-1], flush=True)
    counted = {} if arguments.only else bodies()
    if counted:
        said = ", ".join(f"{name} {count}" for name, count in counted.items())
        lines += ["", f"Bodies that 12 threads run which miss one key together: {said}."]
        print("\n".join(lines[-2:]))
    if arguments.out:
        arguments.out.mkdir(parents=True, exist_ok=True)
        (arguments.out / "SUMMARY.md").write_text("\n".join(lines) + "\n")
        whole = {"interpreter": about, "rows": rows, "bodies": counted}
        (arguments.out / "run.json").write_text(json.dumps(whole, indent=1))
    found = [] if accepted is None else worse(rows, accepted["rows"])
    found = [f"worse than the accepted run: {line}" for line in found] + wrong
    for line in found:
        print(line, file=sys.stderr)
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
