"""How often the cache for Python answers, beside LRU and moka, on traces of programs.

`python bench/python/hit_ratios.py TRACE...`, by the interpreter of an environment that `run.py` has
made. A trace is a file with a key on each line, or a `.csv` file with the key in its second column.
Two published ones come with the sources of libcachesim on PyPI, in `src/libCacheSim/data`::

    pip download --no-deps --no-binary :all: libcachesim==0.3.5

`cloudPhysicsIO.txt` (blocks that a virtual machine reads and writes) and `twitter_cluster52.csv` (a
cache of Twitter's). Beside them stand the drawn traces of `crates/cache/tests/hit_ratio.rs`.

The rule: at least LRU's ratio, and at least moka's less one point. Exits with 1 where it is missed.
"""

import argparse
import functools
import importlib.util
import itertools
import pathlib
import random
import sys
from collections.abc import Callable, Iterator
from typing import Any

from tidemark_cache import cache

#: Entries, as shares of the keys of a trace.
SHARES = (0.001, 0.01, 0.1)
#: What a drawn trace has of both.
DRAWN_REQUESTS, DRAWN_ENTRIES = 100_000, 1_000
MOKA_POINTS = 0.01


def read(path: pathlib.Path, requests: int) -> list[str]:
    column = 1 if path.suffix == ".csv" else 0
    with path.open() as lines:
        used = (line for line in lines if not line.startswith("#"))
        keys = (line.strip().split(",")[column].strip() for line in used)
        return list(itertools.islice(keys, requests))


def drawn() -> Iterator[tuple[str, list[int]]]:
    """Shapes that caches meet."""
    chance, times = random.Random(7), range(DRAWN_REQUESTS)

    def zipf(keys: float) -> int:
        return int(keys ** chance.random())

    yield "zipf", [zipf(100_000) for _ in times]
    yield "scans", [zipf(20_000) if at % 4 else 1_000_000 + at for at in times]
    yield "moving", [at // 10_000 * 3_000 + zipf(10_000) for at in times]
    yield (
        "looping",
        [10_000 + at // 2 % 2_000 if at % 2 else chance.randrange(500) for at in times],
    )


def ratio(decorate: Callable[[Any], Any], trace: list[Any]) -> float:
    runs = 0

    def body(key: Any) -> None:
        nonlocal runs
        runs += 1

    function = decorate(body)
    for key in trace:
        function(key)
    return 1 - runs / len(trace)


def measured(name: str, trace: list[Any], entries: int) -> bool:
    """Whether the rule is kept; prints a row."""
    found = {
        "ours": ratio(cache(maxsize=entries), trace),
        "LRU": ratio(functools.lru_cache(maxsize=entries), trace),
    }
    if importlib.util.find_spec("moka_py"):
        import moka_py

        found["moka"] = ratio(moka_py.cached(maxsize=entries), trace)
    least = max(found["LRU"], found.get("moka", 0) - MOKA_POINTS)
    is_met = found["ours"] >= least
    shown = " | ".join(f"{value:.3f}" for value in found.values())
    print(f"| {name} | {len(trace):,} | {entries:,} | {shown} | {'yes' if is_met else 'NO'} |")
    return is_met


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("traces", nargs="*", type=pathlib.Path)
    parser.add_argument("--requests", type=int, default=1_000_000, help="of each file, at most")
    arguments = parser.parse_args()
    moka = " moka |" if importlib.util.find_spec("moka_py") else ""
    print(f"| trace | requests | entries | ours | LRU |{moka} met |")
    print("|---|---:|---:|---:|---:|" + ("---:|" if moka else "") + "---|")
    met = [measured(name, trace, DRAWN_ENTRIES) for name, trace in drawn()]
    for path in arguments.traces:
        trace = read(path, arguments.requests)
        keys = len(set(trace))
        met += [measured(path.stem, trace, max(1, int(keys * share))) for share in SHARES]
    return 0 if all(met) else 1


if __name__ == "__main__":
    sys.exit(main())
