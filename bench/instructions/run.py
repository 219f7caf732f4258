"""Instructions that requests take in two servers: `python bench/instructions/run.py BEFORE AFTER`.

Two binaries of Tidemark are served in turn under callgrind, one thread each, and get the same
requests over one connection, with the list cache off and on. Every instruction that the server
executes for them is counted. The figures hardly depend on the machine, and not at all on its other
work; time spent waiting for the disk or a lock counts as nothing. Prints Markdown: the medians,
their ratio, and A/A, the ratio of the first binary's odd runs to its even ones.

Needs `valgrind` (and `callgrind_control`, which comes with it). Five minutes for four runs.
"""

import argparse
import statistics

import acts
import counted
from served import lacks_valgrind, served

WARM_UP = 30


def counts(binary: str, cache: str, requests: int) -> dict[str, float]:
    """Instructions of one request of each act, in a new server."""
    with served(binary, cache) as server:
        acts.fill(server.call)
        found = {}
        for name, act in acts.both_caches(server.call).items():
            for _ in range(WARM_UP):
                act()
            dump = server.counted(act, requests)
            found[name] = counted.read(dump).instructions / requests
    return found


def main() -> None:
    """Measures and prints."""
    summary = __doc__.partition("\n\n")[2]
    form = argparse.RawDescriptionHelpFormatter
    parser = argparse.ArgumentParser(description=summary, formatter_class=form)
    parser.add_argument("before", help="a binary of Tidemark")
    parser.add_argument("after", help="another one")
    parser.add_argument("--runs", type=int, default=4, help="servers of each; 2 or more")
    parser.add_argument("--requests", type=int, default=200, help="of each act in a run")
    chosen = parser.parse_args()
    if lacks_valgrind() or chosen.runs < 2:
        parser.error("valgrind is not installed" if lacks_valgrind() else "--runs is 2 or more")
    print("| | cache | before | after | ratio | A/A |")
    print("|---|---|---:|---:|---:|---:|")
    for cache in ("off", "on"):
        runs: tuple[list[dict[str, float]], list[dict[str, float]]] = ([], [])
        for number in range(chosen.runs):
            both = list(zip((chosen.before, chosen.after), runs, strict=True))
            for binary, kept in both if number % 2 == 0 else reversed(both):
                kept.append(counts(binary, cache, chosen.requests))
        for name in runs[0][0]:
            before, after = ([run[name] for run in kept] for kept in runs)
            middle, other = statistics.median(before), statistics.median(after)
            same = statistics.median(before[::2]) / statistics.median(before[1::2])
            print(
                f"| {name} | {cache} | {middle:,.0f} | {other:,.0f} | {other / middle:.3f} "
                f"| {same:.3f} |",
                flush=True,
            )


if __name__ == "__main__":
    main()
