"""The performance example: new objects written and read, one by one and in batch.

    python examples/thousand.py --endpoint http://127.0.0.1:8280/v1 --project shop --key …

Prints a table of objects per second, the median of the runs, with the 99th percentile of a call.
"""

from __future__ import annotations

import argparse
import statistics
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TypeVar

from tidemark import Client, Model, new_id, query, unique

BATCH = 100
"""Objects of one request."""

T = TypeVar("T")


@dataclass
class Thing(Model, table="things"):
    run: str
    code: str
    text: str
    by_code = unique("code")


class Timed:
    """Seconds of the calls of one step."""

    def __init__(self) -> None:
        self.calls: list[float] = []

    def __call__(self, call: Callable[[], T]) -> T:
        began = time.perf_counter()
        answer = call()
        self.calls.append(time.perf_counter() - began)
        return answer


def slices(things: Sequence[T]) -> list[Sequence[T]]:
    return [things[at : at + BATCH] for at in range(0, len(things), BATCH)]


def fresh(count: int) -> list[Thing]:
    """New objects of about 120 bytes."""
    run = new_id()
    return [Thing(run, f"{run}-{n}", "x" * 48) for n in range(count)]


def check(found: Sequence[Thing | None], wanted: Sequence[Thing]) -> None:
    assert found == wanted, "what is read is what was written"


def run_once(client: Client, count: int) -> dict[str, Timed]:
    """Every step once, over objects of its own."""
    steps: dict[str, Timed] = {}

    def step(name: str) -> Timed:
        return steps.setdefault(name, Timed())

    table = client.table(Thing)
    things, others, submitted = fresh(count), fresh(count), fresh(count)
    for thing in things:
        step("write one by one")(lambda: table.create(thing))
    for some in slices(others):
        step(f"write {BATCH} a request")(lambda: table.create_many(some))

    def submit() -> None:
        for future in [table.submit.create(thing) for thing in submitted]:
            future.result()

    step("write submitted")(submit)
    all_of_run = [query.equal("run", things[0].run), query.order_asc("$sequence")]
    page = step("read all in one query")(lambda: table.page(*all_of_run, query.limit(count)))
    check(page.rows, things)
    for some in slices(things):
        codes = [thing.code for thing in some]
        found = step(f"read {BATCH} a request")(lambda: Thing.by_code.many(client, codes))
        check(found, some)
    for thing in things:
        check([step("read by key")(lambda: Thing.by_code(client, thing.code))], [thing])
    for thing in things:
        check([step("read by id")(lambda: table.get(thing.id))], [thing])
    return steps


def main() -> None:
    options = argparse.ArgumentParser(description=__doc__)
    options.add_argument("--endpoint", default="http://127.0.0.1:8280/v1")
    options.add_argument("--project", required=True)
    options.add_argument("--key", required=True)
    options.add_argument("--objects", type=int, default=1000)
    options.add_argument("--warm-ups", type=int, default=3)
    options.add_argument("--runs", type=int, default=10)
    asked = options.parse_args()
    runs: list[dict[str, Timed]] = []
    with Client(
        asked.endpoint, project=asked.project, key=asked.key, database="performance"
    ) as client:
        client.create_database(exist_ok=True)
        client.create_table(Thing, exist_ok=True)
        for number in range(asked.warm_ups + asked.runs):
            steps = run_once(client, asked.objects)
            if number >= asked.warm_ups:
                runs.append(steps)
    print(f"{'':24}{'objects/s':>12}{'p99 ms':>10}")
    for name in runs[0]:
        rates = [asked.objects / sum(steps[name].calls) for steps in runs]
        calls = sorted(call for steps in runs for call in steps[name].calls)
        p99_ms = 1000 * calls[(len(calls) * 99 - 1) // 100]
        print(f"{name:24}{statistics.median(rates):>12,.0f}{p99_ms:>10.2f}")


if __name__ == "__main__":
    main()
