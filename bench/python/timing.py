"""How a row is timed: in pairs, in turns, by the processor time of the thread."""

import asyncio
import dataclasses
import math
import os
import statistics
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Sequence
from typing import Any

#: Calls of a thread in a row, some 200 microseconds: shorter than a thread's turn of a core.
SLICE = 2_000
#: So often slices are made again, if no thread had a core for itself in any of them.
TRIES = 20

#: Nanoseconds for so many calls.
Timed = Callable[[int], float]


@dataclasses.dataclass
class Side:
    """One thing that is measured, and how many calls make a batch."""

    timed: Timed
    calls: int = 20_000


@dataclasses.dataclass
class Row:
    """A pair; `target` is the greatest ratio that the requirement allows."""

    what: str
    beside: str
    target: float | None
    ours: Side
    theirs: Side
    unit: str = "ns"


class WrongCounts(Exception):
    """A batch did something else than its row says."""


#: What can answer a call, or keep a tier from it.
COUNTERS = ("l1_hits", "l2_hits", "misses", "l2_failures", "l2_rejected")


def counted(side: Side, function: Any, l2_hits: int, once: int = 0) -> Side:
    """As `side`, of which each step has so many hits of the tiers by the counters of `function`,
    and no call that memory or the body answers. So many more come `once` in a batch."""

    def timed(count: int) -> float:
        before = function.cache_info()
        spent = side.timed(count)
        after = function.cache_info()
        gains = {name: getattr(after, name) - getattr(before, name) for name in COUNTERS}
        wanted = dict.fromkeys(COUNTERS, 0) | {"l2_hits": l2_hits * count + once}
        if gains != wanted:
            raise WrongCounts(f"a batch counts {gains}, not {wanted}")
        return spent

    return Side(timed, side.calls)


def loop(call: str, **names: Any) -> Side:
    text = f"def run(count):\n for _ in range(count): {call}\n"
    exec(text, names)
    run = names["run"]

    def timed(count: int) -> float:
        start = time.thread_time_ns()
        run(count)
        return time.thread_time_ns() - start

    timed(100)
    return Side(timed, 20_000 if timed(100) < 1_000_000 else 200)


def awaited(function: Any, *, is_task: bool = False, new: Any = None) -> Side:
    async def run(count: int) -> None:
        called = new() if new else function
        for number in range(count):
            if is_task:
                await asyncio.create_task(called(number))
            else:
                await called(number if new else 1)

    def timed(count: int) -> float:
        start = time.thread_time_ns()
        asyncio.run(run(count))
        return time.thread_time_ns() - start

    timed(100)
    return Side(timed, 20_000 if timed(100) < 1_000_000 else 1_000)


def misses(make: Callable[[], Any]) -> Side:
    def timed(count: int) -> float:
        function = make()
        start = time.thread_time_ns()
        for number in range(count):
            function(number)
        return time.thread_time_ns() - start

    timed(100)
    return Side(timed, 20_000 if timed(100) < 1_000_000 else 500)


def threads(function: Any, count_of_threads: int = 10) -> Side:
    """Wall time of one call in one thread, while as many call the same."""
    return each_in_a_thread([function] * count_of_threads)


def together(function: Any, count_of_threads: int) -> Side:
    """Wall time of all calls that threads make together, by the number of calls."""

    def timed(count: int) -> float:
        ready = threading.Barrier(count_of_threads + 1)

        def work() -> None:
            ready.wait()
            for _ in range(count // count_of_threads):
                function()

        running = [threading.Thread(target=work) for _ in range(count_of_threads)]
        [thread.start() for thread in running]
        ready.wait()
        start = time.perf_counter_ns()
        [thread.join() for thread in running]
        return time.perf_counter_ns() - start

    return Side(timed, 5_000)


def growth(functions: Sequence[Any]) -> Side:
    """A call while each function is called in a thread, in percent of one by itself."""

    def timed(count: int) -> float:
        return 100 * side_by_side(functions, count) / side_by_side(functions[:1], count) * count

    return Side(timed, 50_000)


def side_by_side(functions: Sequence[Any], count: int) -> float:
    """Time of one call, while each function is called in a thread of its own: of the slices of
    calls in which each thread had a core for itself, at the same time as the others."""
    for _ in range(TRIES):
        fair = [spans for spans in slices(functions, count) if is_fair(spans)]
        if fair:
            lasted = [span.end - span.start for spans in fair for span in spans]
            return statistics.median(lasted) / SLICE
    # Without a core for each thread there is no figure.
    return math.nan


def slices(functions: Sequence[Any], count: int) -> "list[tuple[Span, ...]]":
    """What each slice took in each thread; the threads begin it together."""
    arrived = [0] * len(functions)
    spans: list[list[Span]] = [[] for _ in functions]

    def work(place: int, function: Any) -> None:
        for number in range(1, count // SLICE + 1):
            arrived[place] = number
            while min(arrived) < number:
                pass
            spent, start = time.thread_time_ns(), time.perf_counter_ns()
            for _ in range(SLICE):
                function(1)
            end = time.perf_counter_ns()
            spans[place].append(Span(start, end, time.thread_time_ns() - spent))

    running = [threading.Thread(target=work, args=pair) for pair in enumerate(functions)]
    [thread.start() for thread in running]
    [thread.join() for thread in running]
    return list(zip(*spans, strict=True))


@dataclasses.dataclass
class Span:
    """A slice of one thread, in nanoseconds."""

    start: int
    end: int
    spent: int


def is_fair(spans: Sequence[Span]) -> bool:
    """Whether no thread was stopped, and none worked alone for long."""
    together = min(span.end for span in spans) - max(span.start for span in spans)
    whole = max(span.end for span in spans) - min(span.start for span in spans)
    is_whole = all(span.spent >= 0.95 * (span.end - span.start) for span in spans)
    return is_whole and together >= 0.8 * whole


def each_in_a_thread(functions: Sequence[Any]) -> Side:
    """Wall time of one call, while each function is called in a thread of its own."""

    def timed(count: int) -> float:
        ready = threading.Barrier(len(functions) + 1)
        spent: list[int] = []

        def work(function: Any) -> None:
            ready.wait()
            start = time.perf_counter_ns()
            for _ in range(count):
                function(1)
            spent.append(time.perf_counter_ns() - start)

        running = [threading.Thread(target=work, args=(function,)) for function in functions]
        [thread.start() for thread in running]
        ready.wait()
        [thread.join() for thread in running]
        return statistics.median(spent)

    return Side(timed, 10_000)


def process(program: str) -> Side:
    """What a new interpreter prints, once for each call."""

    def timed(count: int) -> float:
        command = [sys.executable, "-c", program]
        environment = {**os.environ, "PYTHONWARNINGS": "ignore"}
        done = subprocess.run(command, capture_output=True, text=True, check=True, env=environment)
        return float(done.stdout.split()[-1]) * count

    return Side(timed, 1)


def percentile(values: Sequence[float], share: float) -> float:
    return sorted(values)[min(len(values) - 1, int(len(values) * share))]


def measured(row: Row, runs: int, batches: int) -> dict[str, Any]:
    count = min(row.ours.calls, row.theirs.calls)
    if row.ours.calls == 1:
        batches = 1
    pairs = []
    for _ in range(runs):
        turns = [
            (row.ours.timed(count) / count, row.theirs.timed(count) / count)
            for _ in range(batches)
        ]
        ours, theirs = zip(*turns, strict=True)
        pairs.append((ours, theirs))
    ratios = sorted(statistics.median(o) / statistics.median(t) for o, t in pairs)
    tails = sorted(percentile(o, 0.95) / percentile(t, 0.95) for o, t in pairs)
    ratio = statistics.median(ratios)
    return {
        "what": row.what,
        "beside": row.beside,
        "target": row.target,
        "met": None if row.target is None else ratio <= row.target,
        "ratio": ratio,
        "ratios": ratios,
        "p95_ratio": statistics.median(tails),
        "ours": statistics.median(statistics.median(o) for o, _ in pairs),
        "theirs": statistics.median(statistics.median(t) for _, t in pairs),
        "unit": row.unit,
    }
