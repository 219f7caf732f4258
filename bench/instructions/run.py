"""Instructions that requests take in two servers: `python bench/instructions/run.py BEFORE AFTER`.

Two binaries of Tidemark are served in turn under callgrind, one thread each, and get the same
requests over one connection, with the list cache off and on. Every instruction that the server
executes for them is counted. The figures hardly depend on the machine, and not at all on its other
work; time spent waiting for the disk or a lock counts as nothing. Prints Markdown: the medians,
their ratio, and A/A, the ratio of the first binary's odd runs to its even ones.

Needs `valgrind` (and `callgrind_control`, which comes with it). Five minutes for four runs.
"""

import argparse
import contextlib
import ctypes
import http.client
import json
import os
import pathlib
import re
import shutil
import statistics
import struct
import subprocess
import sys
import tempfile
import urllib.parse
from collections.abc import Callable, Iterator

KEY = "standard_" + "k" * 40
ROWS = 200
WARM_UP = 30
TABLE = "/tablesdb/d/tables/t"

#: prctl(2), and the one request of it that is refused here: to read the auxiliary vector.
#: `valgrind` unmaps the kernel's vDSO and removes it from the vector in /proc, but not from this
#: answer; a library that follows it to the vDSO ends the process by a segmentation fault.
PRCTL, PR_GET_AUXV = 157, 0x41555856
PR_SET_SECCOMP, PR_SET_NO_NEW_PRIVS = 22, 38

Call = Callable[..., None]


def refuse_vector() -> None:
    """Run in the child before `valgrind`: a filter of seccomp (x86-64) that answers EINVAL."""

    def step(code: int, if_true: int, if_false: int, value: int) -> bytes:
        return struct.pack("HBBI", code, if_true, if_false, value)

    steps = [
        step(0x20, 0, 0, 0),  # the number of the call
        step(0x15, 0, 3, PRCTL),
        step(0x20, 0, 0, 16),  # its first argument
        step(0x15, 0, 1, PR_GET_AUXV),
        step(0x06, 0, 0, 0x0005_0000 | 22),
        step(0x06, 0, 0, 0x7FFF_0000),
    ]
    program = ctypes.create_string_buffer(b"".join(steps))

    class Filter(ctypes.Structure):
        _fields_ = (("length", ctypes.c_ushort), ("steps", ctypes.c_void_p))

    whole = Filter(len(steps), ctypes.addressof(program))
    libc = ctypes.CDLL(None)
    libc.prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0)
    libc.prctl(PR_SET_SECCOMP, 2, ctypes.byref(whole), 0, 0)


@contextlib.contextmanager
def served(binary: str, cache: str, folder: pathlib.Path) -> Iterator[tuple[int, int]]:
    """The process and the port of a server on an empty data directory."""
    command = ["valgrind", "--tool=callgrind", f"--callgrind-out-file={folder / 'counts'}"]
    command += [binary, "serve", "--data", str(folder / "data"), "--listen", "127.0.0.1:0"]
    command += ["--threads", "1", "--list-cache", cache]
    variables = {"TIDEMARK_PROJECT_ID": "p", "TIDEMARK_API_KEY": KEY}
    with open(folder / "log", "wb") as log:
        server = subprocess.Popen(
            command,
            stdout=subprocess.PIPE,
            stderr=log,
            env={**os.environ, **variables},
            text=True,
            preexec_fn=refuse_vector,
        )
    try:
        assert server.stdout is not None
        named = (re.search(r"http://127\.0\.0\.1:(\d+)", line) for line in server.stdout)
        port = next((int(found.group(1)) for found in named if found), None)
        if port is None:
            sys.exit(f"{binary} does not start:\n{(folder / 'log').read_text()[-2_000:]}")
        yield server.pid, port
    finally:
        server.terminate()
        server.wait()


def caller(port: int) -> Call:
    """What sends one request, and ends the run when it fails."""
    connection = http.client.HTTPConnection("127.0.0.1", port)
    headers = {
        "x-appwrite-project": "p",
        "x-appwrite-key": KEY,
        "content-type": "application/json",
    }

    def call(method: str, path: str, body: object = None) -> None:
        text = None if body is None else json.dumps(body)
        connection.request(method, "/v1" + path, text, headers)
        answer = connection.getresponse()
        content = answer.read()
        if answer.status >= 300:
            sys.exit(f"{method} {path}: {answer.status} {content[:300]!r}")

    return call


def fill(call: Call) -> None:
    """One table with an index of each kind, and its rows."""
    call("POST", "/tablesdb", {"databaseId": "d", "name": "d"})
    columns = [
        {"key": "n", "type": "integer", "required": False},
        {"key": "s", "type": "string", "size": 64, "required": False},
    ]
    indexes = [
        {"key": "i", "type": "key", "attributes": ["n"]},
        {"key": "u", "type": "unique", "attributes": ["s"]},
    ]
    table = {"tableId": "t", "name": "t", "columns": columns, "indexes": indexes}
    call("POST", "/tablesdb/d/tables", table)
    for number in range(ROWS):
        insert(call, number)


def insert(call: Call, number: int) -> None:
    """A row of two columns."""
    data = {"n": number, "s": f"text {number}"}
    call("POST", f"{TABLE}/rows", {"rowId": f"r{number}", "data": data})


def listing(*queries: dict[str, object]) -> str:
    """The path of a list."""
    texts = [urllib.parse.quote(json.dumps(query)) for query in queries]
    parts = [f"queries[{place}]={text}" for place, text in enumerate(texts)]
    return f"{TABLE}/rows?" + "&".join(parts)


def acts(call: Call) -> dict[str, Callable[[], None]]:
    """What is counted, by its name."""
    numbers = iter(range(1_000, 1_000_000))
    sorted_25 = listing(
        {"method": "greaterThanEqual", "attribute": "n", "values": [50]},
        {"method": "orderAsc", "attribute": "n"},
        {"method": "limit", "values": [25]},
    )
    by_key = listing({"method": "equal", "attribute": "s", "values": ["text 7"]})
    return {
        "row by its id": lambda: call("GET", f"{TABLE}/rows/r7"),
        "25 rows by an index": lambda: call("GET", sorted_25),
        "25 rows, no query": lambda: call("GET", listing()),
        "row by a unique key": lambda: call("GET", by_key),
        "insert": lambda: insert(call, next(numbers)),
        "change": lambda: call("PATCH", f"{TABLE}/rows/r5", {"data": {"n": next(numbers)}}),
    }


def counts(binary: str, cache: str, requests: int) -> dict[str, float]:
    """Instructions of one request of each act, in a new server."""
    folder = pathlib.Path(tempfile.mkdtemp(prefix="instructions-"))
    try:
        with served(binary, cache, folder) as (pid, port):
            call = caller(port)
            fill(call)
            found = {}
            for name, act in acts(call).items():
                for _ in range(WARM_UP):
                    act()
                control(pid, "--zero")
                for _ in range(requests):
                    act()
                control(pid, "--dump")
                found[name] = newest(folder) / requests
        return found
    finally:
        shutil.rmtree(folder)


def control(pid: int, what: str) -> None:
    """Has the counters of a server set to zero or written."""
    subprocess.run(["callgrind_control", what, str(pid)], check=True, capture_output=True)


def newest(folder: pathlib.Path) -> int:
    """What was written last."""
    dumps = folder.glob("counts.*")
    last = max(dumps, key=lambda dump: int(dump.suffix[1:]))
    found = re.search(r"^(?:totals|summary): (\d+)", last.read_text(), re.MULTILINE)
    assert found is not None, last
    return int(found.group(1))


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
    missing = [tool for tool in ("valgrind", "callgrind_control") if not shutil.which(tool)]
    if missing or chosen.runs < 2:
        parser.error("valgrind is not installed" if missing else "--runs is 2 or more")
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
