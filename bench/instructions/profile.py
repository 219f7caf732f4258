"""What one request of each kind costs: `python bench/instructions/profile.py BINARY`.

A binary of Tidemark is served under callgrind with one thread and gets requests over one
connection: points, cold lists, batches, writes, then the hits of a cached list. Prints Markdown:
instructions, allocations and system calls of one request, what the lean responder (`tidemark bench
floor --lean`) takes for the same body, and the instructions of each layer, from the socket up. The
kernel's own work is not counted.

`--bounds FILE` holds each count against the bound that stands in FILE, and fails above it: the
ratchet of `cargo xtask night`. `--functions N` also prints the N dearest functions of
each kind.

Layers are told apart by source files, so build with CARGO_PROFILE_RELEASE_DEBUG=line-tables-only
and CARGO_PROFILE_RELEASE_STRIP=none; otherwise what is inlined counts where it is inlined. Needs
`valgrind`; where that is missing, `--bounds` says so and checks nothing.
"""

import argparse
import json
import pathlib
import sys

import acts
import counted
from counted import Counted
from served import Served, lacks_valgrind, lean_responder, served

WARM_UP = 30
#: Servers that are counted before one is judged to cost too much.
RUNS = 3
#: Kinds that the lean responder is asked as well, by their paths.
LEAN = {"point": f"{acts.TABLE}/rows/r7", "exact hit": acts.SORTED_25}
#: A kind, another one, and how many times the instructions of that it may take at most.
RATIOS = [("change", "change, no history", 1.1)]
#: What the counts of a kind are called in a file of bounds.
TOTALS = ("instructions", "allocations", "system_calls")


def of_act(server: Served, act: acts.Act, requests: int) -> Counted:
    """The counts of one request of a kind."""
    for _ in range(WARM_UP):
        act()
    return counted.read(server.counted(act, requests)).of_one(requests)


def counts(binary: str, requests: int, with_lean: bool) -> dict[str, Counted]:
    """The counts of one request of each kind, by its name."""
    found = {}
    with served(binary, "on") as server:
        acts.fill(server.call)
        for name, act in acts.each_kind(server.call).items():
            found[name] = of_act(server, act, requests)
        for name, path in LEAN.items() if with_lean else ():
            with lean_responder(binary, path, server) as lean:
                act = acts.get(lean.call, path)
                found[f"{name}, lean responder"] = of_act(lean, act, requests)
    return found


def totals(found: dict[str, Counted]) -> str:
    """A table of all kinds."""
    lines = ["| a request | instructions | to lean | allocations | system calls |"]
    lines.append("|---|---:|---:|---:|---:|")
    for name, one in found.items():
        lean = found.get(f"{name}, lean responder")
        ratio = f"{one.instructions / lean.instructions:.2f}" if lean else "–"
        lines.append(
            f"| {name} | {one.instructions:,.0f} | {ratio} | {one.allocations:.1f} "
            f"| {one.system_calls:.1f} |"
        )
    return "\n".join(lines)


def layers(found: dict[str, Counted]) -> str:
    """A table of instructions by layer."""
    names = [*(name for name, _ in counted.LAYERS), counted.OTHERS]
    lines = ["| instructions in | " + " | ".join(found) + " |"]
    lines.append("|---|" + "---:|" * len(found))
    for layer in names:
        cells = (f"{one.layers[layer]:,.0f}" for one in found.values())
        lines.append(f"| {layer} | " + " | ".join(cells) + " |")
    return "\n".join(lines)


def exceeded(found: dict[str, Counted], bounds: dict[str, dict[str, float]]) -> list[str]:
    """What is above its bound, or has none, and bounds of nothing."""
    faults = [f"{name}: has a bound and is not counted" for name in bounds.keys() - found.keys()]
    for name, one in found.items():
        for what in TOTALS:
            count, bound = getattr(one, what), bounds.get(name, {}).get(what)
            if bound is None:
                faults.append(f"{name}: {what} has no bound")
            elif count > bound:
                faults.append(f"{name}: {count:,.1f} {what}, more than {bound:,}")
    for name, other, most in RATIOS:
        ratio = found[name].instructions / found[other].instructions
        if ratio > most:
            faults.append(f"{name}: {ratio:.2f} times the instructions of {other}, not {most}")
    return faults


def judge(binary: str, requests: int, bounds: dict[str, dict[str, float]]) -> None:
    """Ends the program when a count is above its bound. Threads that work for no request can only
    add to a count, so it is the least of up to `RUNS` servers that is judged."""
    least: dict[str, Counted] = {}
    faults: list[str] = []
    for _ in range(RUNS):
        for name, one in counts(binary, requests, with_lean=False).items():
            known = least.setdefault(name, one)
            for what in TOTALS:
                setattr(known, what, min(getattr(known, what), getattr(one, what)))
        faults = exceeded(least, bounds)
        if not faults:
            break
    print(totals(least))
    sys.exit("\n".join(faults) or None)


def main() -> None:
    """Measures and prints, or judges."""
    summary = __doc__.partition("\n\n")[2]
    form = argparse.RawDescriptionHelpFormatter
    parser = argparse.ArgumentParser(description=summary, formatter_class=form)
    parser.add_argument("binary", help="a binary of Tidemark")
    parser.add_argument("--requests", type=int, default=100, help="of each kind")
    parser.add_argument("--bounds", type=pathlib.Path, metavar="FILE")
    parser.add_argument("--functions", type=int, default=0, metavar="N")
    chosen = parser.parse_args()
    if lacks_valgrind():
        if chosen.bounds is None:
            parser.error("valgrind is not installed")
        print("valgrind is not installed: nothing is counted, and no bound checked")
        return
    if chosen.bounds is not None:
        judge(chosen.binary, chosen.requests, json.loads(chosen.bounds.read_text()))
        return
    found = counts(chosen.binary, chosen.requests, with_lean=True)
    print(totals(found))
    print(f"\n{layers(found)}")
    for name, one in found.items() if chosen.functions else ():
        print(f"\n{name}:")
        for function, instructions in one.functions.most_common(chosen.functions):
            print(f"{instructions:>12,.0f}  {function[:100]}")


if __name__ == "__main__":
    main()
